//! resource-get (spec/hook-tools.md 2.5): the agent provides the file before the tool returns, and an agent that
//! re-attaches to the hook repeats neither the request nor the answer.

mod support;

use agent::hook_session::{CallsFile, ControllerRequest, HookSession};
use state::unit::hook_context::{HookContext, HookResource};
use std::collections::BTreeMap;
use std::path::Path;
use support::{answered as printed, ok};

fn session(run: &Path) -> HookSession<'static> {
    let resource = HookResource { filename: "app.zip".to_owned(), sha256: Some("abc".to_owned()) };
    let resources = BTreeMap::from([("app".to_owned(), resource)]);
    support::session(HookContext { resources, ..support::context() }, run)
}

fn frame(number: u32) -> Vec<u8> {
    support::frame(number, "resource-get", &["app"])
}

#[test]
fn the_answer_survives_the_agent_and_the_next_call_asks_again() {
    let run = tempfile::tempdir().unwrap();
    let path = || "/u/resources/app/app.zip".to_owned();
    let text = "ERROR could not download resource: no answer\n";
    let mut first = session(run.path());
    let asked = first.answer(&frame(1), None).expect_err("the file is needed");
    assert!(matches!(&asked, ControllerRequest::Resource(need) if need.sha256 == "abc"), "{asked:?}");
    first.insert_resource_response(Err("no answer".to_owned()));
    assert_eq!(printed(first.answer(&frame(1), None)), (1, String::new(), text.to_owned()));
    first.answer(&frame(2), None).expect_err("it is another call");
    first.insert_resource_response(Ok(path()));
    assert_eq!(printed(first.answer(&frame(2), None)), ok(&path()));

    let mut second = session(run.path());
    assert!(second.recover(&CallsFile::read(run.path()).expect("whole lines")), "the hook is the same");
    assert_eq!(printed(second.answer(&frame(1), None)), (1, String::new(), text.to_owned()));
    assert_eq!(printed(second.answer(&frame(2), None)), ok(&path()));
    second.answer(&frame(3), None).expect_err("the file may have changed");
}
