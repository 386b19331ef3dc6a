//! Tests of commands whose arguments are Juju's and whose way is Pintle's, against a fake controller.

mod samples;

use clap::Parser;
use cli::command_error::CommandError;
use cli::commands::{Arguments, Verb, scale_application, why};
use samples::fake::FakeController;
use samples::session::FakeSession;
use serde_json::{Value, json};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Runs the command line `words`.
async fn run_command(words: &[&str], session: &FakeSession) -> Result<(), CommandError> {
    let parsed = Arguments::try_parse_from(["juju"].iter().chain(words)).expect("a valid command line");
    match parsed.verb {
        Verb::ScaleApplication(args) => scale_application::run(&args, session).await,
        Verb::Why(args) => why::run(&args, session).await,
        verb => panic!("{verb:?} is not tested here"),
    }
}

#[tokio::test(flavor = "current_thread")]
async fn scale_application_adds_or_removes_what_differs() {
    for (scale, request) in
        [("3", Some("add ledger units=2 to=None")), ("1", None), ("0", Some("remove ledger/0 force=No"))]
    {
        let session = FakeSession::new(FakeController::default());
        run_command(&["scale-application", "ledger", scale, "--no-prompt"], &session)
            .await
            .expect("it is done");
        let writes = session.api.requests().into_iter().filter(|request| request != "status");
        assert_eq!(writes.collect::<Vec<_>>(), request.map(str::to_owned).into_iter().collect::<Vec<_>>());
    }
}

/// What a command line prints when the program is called by this name.
fn printed(name: &str, words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_pintle")).arg0(name).args(words).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn both_versions_are_labelled_and_juju_prints_its_own_alone() {
    for words in [["version"], ["--version"]] {
        let bare = printed("/usr/bin/juju", &words);
        assert!(bare.starts_with(api::JUJU_VERSION) && bare.lines().count() == 1, "{bare}");
        let labelled = printed("pintle", &words);
        let rows: Vec<Vec<&str>> = labelled.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows, [vec!["pintle", env!("CARGO_PKG_VERSION")], vec!["juju", bare.trim()]]);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn why_without_an_entity_explains_the_model() {
    let session = FakeSession::new(FakeController::default());
    run_command(&["why", "--format", "json"], &session).await.expect("it is explained");
    let why: Value = serde_json::from_str(&session.printed().0).expect("JSON");
    assert_eq!(why["entity"], json!({ "model": "dev" }));
}
