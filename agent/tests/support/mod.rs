//! Fixtures that several tests of the agent share.

#[path = "../../../tests/support/src/hook_context.rs"]
mod hook_context;

use hook_client::ReplyFrame;
pub use hook_context::context;

/// What a reply frame prints: the exit code, stdout and stderr.
pub fn printed(frame: &[u8]) -> (u8, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    match ReplyFrame::decode(frame).unwrap() {
        ReplyFrame::Done { code, stdout, stderr } => (code, text(stdout), text(stderr)),
        ReplyFrame::NeedStdin => panic!("stdin was sent, or is not read"),
    }
}
