//! leader-set (spec/hook-tools.md 2.2): the controller has the change before the tool returns, and an agent that
//! re-attaches to the hook neither repeats the change nor loses it.

mod support;

use agent::hook_session::{CallsFile, ControllerRequest, HookSession};
use std::path::Path;
use support::{answered as printed, context, frame, ok};

fn session(run: &Path, leads: &'static dyn Fn() -> bool) -> HookSession<'static> {
    support::session_of(context(), run, leads)
}

#[test]
fn a_change_is_requested_once_and_survives_the_agent() {
    let run = tempfile::tempdir().unwrap();
    let mut first = session(run.path(), &|| true);
    let set = frame(1, "leader-set", &["a=1"]);
    let requested = first.answer(&set, None).expect_err("the controller is asked");
    let change = [("a".to_owned(), "1".to_owned())].into();
    assert_eq!(requested, ControllerRequest::LeaderSettings { call: 1, change });
    first.insert_leader_write_response(Ok(()));
    assert_eq!(printed(first.answer(&set, None)), ok(""));
    assert_eq!(printed(first.answer(&set, None)), ok(""), "the same call again");
    assert_eq!(printed(first.answer(&frame(2, "leader-get", &["a"]), None)), ok("1\n"));

    // the unit has lost leadership meanwhile
    let mut second = session(run.path(), &|| false);
    assert!(second.recover(&CallsFile::read(run.path()).expect("whole lines")));
    assert_eq!(printed(second.answer(&set, None)), ok(""), "the same call");
    assert_eq!(printed(second.answer(&frame(3, "leader-get", &["a"]), None)), ok("1\n"));
    let refused = printed(second.answer(&frame(4, "leader-set", &["a=2"]), None));
    let text = "ERROR cannot write leadership settings: cannot write settings: not the leader\n";
    assert_eq!(refused, (1, String::new(), text.to_owned()));
}

#[test]
fn a_refused_change_fails_that_call_only() {
    let run = tempfile::tempdir().unwrap();
    let mut first = session(run.path(), &|| true);
    let set = frame(1, "leader-set", &["a=1"]);
    first.answer(&set, None).expect_err("the controller is asked");
    first.insert_leader_write_response(Err("the controller did not answer for 30 s".to_owned()));
    let text = "ERROR cannot write leadership settings: cannot write settings: the controller did not answer for 30 s\n";
    assert_eq!(printed(first.answer(&set, None)), (1, String::new(), text.to_owned()));

    let mut second = session(run.path(), &|| true);
    assert!(second.recover(&CallsFile::read(run.path()).expect("whole lines")), "the hook is the same");
    assert_eq!(printed(second.answer(&frame(2, "leader-get", &["a"]), None)), ok(""));
    let again = second
        .answer(&frame(3, "leader-set", &["a=1"]), None)
        .expect_err("the call is sent to the controller");
    assert!(matches!(again, ControllerRequest::LeaderSettings { call: 3, .. }), "{again:?}");
}

#[test]
fn a_file_that_cannot_be_opened_is_named_by_its_absolute_path() {
    let run = tempfile::tempdir().unwrap();
    let mut session = session(run.path(), &|| true);
    for (number, path, shown) in [
        (1, "missing.yaml", "/charm/missing.yaml"),
        (2, "./a/../missing.yaml", "/charm/missing.yaml"),
        (3, "/no/such", "/no/such"),
    ] {
        let set = frame(number, "relation-set", &["-r", "1", "--file", path]);
        let text = format!("ERROR open {shown}: no such file or directory\n");
        assert_eq!(printed(session.answer(&set, None)), (1, String::new(), text));
    }
}
