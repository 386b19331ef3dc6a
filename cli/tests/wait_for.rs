//! Tests of `wait-for` against a fake controller: what ends the wait, and with which exit code.

mod samples;

use clap::Parser;
use cli::command_error::CommandError;
use cli::commands::{Arguments, Verb, wait_for};
use samples::fake::FakeController;
use samples::sample;
use samples::session::FakeSession;

async fn run_command(words: &[&str], session: &FakeSession) -> Result<(), CommandError> {
    match Arguments::try_parse_from(["juju", "wait-for"].iter().chain(words)).expect("a command line").verb {
        Verb::WaitFor(args) => wait_for::run(&args, session).await,
        verb => panic!("{verb:?} is not tested here"),
    }
}

async fn code(words: &[&str]) -> Result<(), u8> {
    let session = FakeSession::new(FakeController::default());
    run_command(words, &session).await.map_err(|error| error.code)
}

#[tokio::test(flavor = "current_thread")]
async fn a_query_that_holds_ends_the_wait_and_one_that_never_does_times_out() {
    for words in [
        &["application", "ledger"][..],
        &["unit", "ledger/0"],
        &["machine", "0"],
        &["model", "dev"],
        &["application", "ledger", "--query", "len(units)==1 && forEach(units, u => u.leader==true)"],
    ] {
        assert_eq!(code(words).await, Ok(()), "{words:?}");
    }
    assert_eq!(
        code(&["application", "ledger", "--query", "len(units)==2", "--timeout", "10ms"]).await,
        Err(1)
    );
    assert_eq!(code(&["application", "missing", "--timeout", "10ms"]).await, Err(1));
}

#[tokio::test(flavor = "current_thread")]
async fn a_query_that_cannot_be_evaluated_is_a_usage_error() {
    for query in ["status==", "colour==1"] {
        assert_eq!(code(&["application", "ledger", "--query", query]).await, Err(2), "{query}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn the_removal_of_the_entity_ends_the_wait() {
    let removed = || {
        let (before, mut after) = (sample(), sample());
        after.applications.clear();
        FakeSession::new(FakeController { statuses: vec![before, after].into(), ..FakeController::default() })
    };
    let dead = ["application", "ledger", "--query", "life=='dead'"];
    assert_eq!(run_command(&dead, &removed()).await, Ok(()));
    let two = ["application", "ledger", "--query", "len(units)==2"];
    assert_eq!(run_command(&two, &removed()).await.map_err(|error| error.code), Err(1));
}
