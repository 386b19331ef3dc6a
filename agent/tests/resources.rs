//! resource-get (spec/hook-tools.md 2.5): the agent provides the file before the tool returns, and an agent that
//! re-attaches to the hook repeats neither the request nor the answer.

mod support;

use agent::hook_session::{CallsFile, ControllerRequest, HookSession};
use hook_client::{CallHeader, encode_request};
use state::unit::hook_context::{HookContext, HookResource};
use std::collections::BTreeMap;
use std::path::Path;

const CONTEXT_ID: &str = "web/0-install-0";

fn session(run: &Path) -> HookSession<'static> {
    let digest = host::digest::sha256(CONTEXT_ID.as_bytes());
    let resource = HookResource { filename: "app.zip".to_owned(), sha256: Some("abc".to_owned()) };
    let resources = BTreeMap::from([("app".to_owned(), resource)]);
    let context = HookContext { resources, ..support::context() };
    HookSession::new(context, digest, CallsFile::open(run), &|_| {}, &|| false)
}

fn frame(number: u8) -> Vec<u8> {
    let mut frame = vec![0; 1000];
    let call = CallHeader {
        call_id: [number; 16],
        context_id: CONTEXT_ID.as_bytes(),
        cwd: b"/work/charm",
        tool: b"resource-get",
    };
    let length = encode_request(&mut frame, &call, [&b"app"[..]].into_iter()).unwrap();
    frame.truncate(length);
    frame
}

fn printed(answer: Result<Vec<u8>, ControllerRequest>) -> (u8, String, String) {
    support::printed(&answer.expect("the file is there"))
}

#[test]
fn the_answer_survives_the_agent_and_the_next_call_asks_again() {
    let run = tempfile::tempdir().unwrap();
    let path = || "/u/resources/app/app.zip".to_owned();
    let text = "ERROR could not download resource: no answer\n";
    let mut first = session(run.path());
    let asked = first.answer(&frame(1), None).expect_err("the file is needed");
    assert!(matches!(&asked, ControllerRequest::Resource(need) if need.sha256 == "abc"), "{asked:?}");
    first.note_resource(Err("no answer".to_owned()));
    assert_eq!(printed(first.answer(&frame(1), None)), (1, String::new(), text.to_owned()));
    first.answer(&frame(2), None).expect_err("it is another call");
    first.note_resource(Ok(path()));
    assert_eq!(printed(first.answer(&frame(2), None)), (0, path(), String::new()));

    let mut second = session(run.path());
    assert!(second.replay(&CallsFile::read(run.path()).expect("whole lines")), "the hook is the same");
    assert_eq!(printed(second.answer(&frame(1), None)), (1, String::new(), text.to_owned()));
    assert_eq!(printed(second.answer(&frame(2), None)), (0, path(), String::new()));
    second.answer(&frame(3), None).expect_err("the file may have changed");
}
