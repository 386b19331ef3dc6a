//! Fixtures that several tests of the agent share: the session of a hook, the frames of its calls, and the file of a run.

#![allow(dead_code, unused_imports, reason = "each test program uses its part")]

#[path = "../../../tests/support/src/hook_context.rs"]
mod hook_context;

use agent::hook_session::{CallsFile, ControllerRequest, HookSession};
use hook_client::{CallHeader, HEADER_BYTES, REQUEST_BYTES_MAX, ReplyFrame, encode_request, frame_length};
pub use hook_context::context;
use state::terms::operation::Operation;
use state::unit::hook_context::HookContext;
use std::fs;
use std::path::Path;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

/// The id of the context of the sessions and of the frames.
pub const CONTEXT_ID: &str = "web/0-install-0123456789abcdef0123456789abcdef";

/// The folder in which the calls are made.
pub const CWD: &str = "/charm";

/// The session of the hook whose run has this folder, for a unit that is not the leader.
pub fn session(context: HookContext, run: &Path) -> HookSession<'static> {
    session_of(context, run, &|| false)
}

/// The same, with an answer to the question whether the unit leads.
pub fn session_of(
    context: HookContext,
    run: &Path,
    is_leader: &'static dyn Fn() -> bool,
) -> HookSession<'static> {
    let digest = host::digest::sha256(CONTEXT_ID.as_bytes());
    HookSession::new(context, digest, CallsFile::open(run), &|_| {}, is_leader)
}

/// The frame of a call in [`CWD`]. Calls of the same number are the same call.
pub fn frame(number: u32, tool: &str, args: &[&str]) -> Vec<u8> {
    frame_in(CWD, number, tool, args)
}

/// The frame of a call in this folder.
pub fn frame_in(cwd: &str, number: u32, tool: &str, args: &[&str]) -> Vec<u8> {
    let mut frame = vec![0; REQUEST_BYTES_MAX];
    let call = CallHeader {
        call_id: u128::from(number).to_be_bytes(),
        context_id: CONTEXT_ID.as_bytes(),
        cwd: cwd.as_bytes(),
        tool: tool.as_bytes(),
    };
    let length = encode_request(&mut frame, &call, args.iter().map(|arg| arg.as_bytes())).unwrap();
    frame.truncate(length);
    frame
}

/// What a reply frame prints: the exit code, stdout and stderr.
pub fn printed(frame: &[u8]) -> (u8, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    match ReplyFrame::decode(frame).unwrap() {
        ReplyFrame::Done { code, stdout, stderr } => (code, text(stdout), text(stderr)),
        ReplyFrame::NeedStdin => panic!("stdin was sent, or is not read"),
    }
}

/// What the answer of a session prints, which needs nothing of the controller.
pub fn answered(answer: Result<Vec<u8>, ControllerRequest>) -> (u8, String, String) {
    printed(&answer.expect("the controller is not asked"))
}

/// What a call that succeeds prints.
pub fn ok(stdout: &str) -> (u8, String, String) {
    (0, stdout.to_owned(), String::new())
}

/// What the next reply frame prints.
pub async fn read_reply(stream: &mut UnixStream) -> (u8, String, String) {
    let mut reply = vec![0; HEADER_BYTES];
    stream.read_exact(&mut reply).await.unwrap();
    let header: [u8; HEADER_BYTES] = reply[..].try_into().unwrap();
    reply.resize(frame_length(&header).unwrap(), 0);
    stream.read_exact(&mut reply[HEADER_BYTES..]).await.unwrap();
    printed(&reply)
}

/// Writes the file of a run with this folder and this context id, as an agent of the boot `boot` does.
pub fn write_run_file(
    run: &Path,
    operation: &Operation,
    boot: &str,
    context_id: &str,
    context: &HookContext,
) {
    fs::create_dir_all(run).unwrap();
    let file = serde_json::json!({
        "operation": operation, "reason": "charm-installed", "position": null, "boot": boot,
        "handler": "dispatch", "context_digest": host::digest::sha256(context_id.as_bytes()),
        "context": context,
    });
    fs::write(run.join("context.yaml"), file.to_string()).unwrap();
}
