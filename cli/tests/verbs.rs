//! Tests of commands whose arguments are Juju's and whose way is Pintle's, against a fake controller.

mod samples;

use clap::Parser;
use cli::command_error::CommandError;
use cli::commands::{Arguments, Verb, scale_application};
use samples::fake::FakeController;
use samples::session::FakeSession;

/// Runs the command line `words`.
async fn run_command(words: &[&str], session: &FakeSession) -> Result<(), CommandError> {
    let parsed = Arguments::try_parse_from(["juju"].iter().chain(words)).expect("a valid command line");
    match parsed.verb {
        Verb::ScaleApplication(args) => scale_application::run(&args, session).await,
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
