//! Tests of `wait-for` and `wait` against a fake controller: what ends the wait, and with which exit code.

mod samples;

use api::Status;
use clap::Parser;
use cli::command_error::CommandError;
use cli::commands::{Arguments, Verb, wait, wait_for};
use samples::fake::FakeController;
use samples::session::FakeSession;
use samples::{info, sample};
use state::terms::life::Life;
use state::terms::names::UnitName;

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
        &["unit", "ledger/0", "--query", r#"workload-message=="ready""#],
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
async fn a_query_that_cannot_be_evaluated_fails_as_in_juju() {
    for query in ["status==", "colour==1"] {
        assert_eq!(code(&["application", "ledger", "--query", query]).await, Err(1), "{query}");
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

/// The sample, in which the agent of each unit is idle, with these statuses of ledger/0.
fn status(workload: &str, agent: &str) -> Status {
    let mut status = sample();
    for unit in status.applications.values_mut().flat_map(|app| app.units.values_mut()) {
        unit.agent = info("idle", "");
    }
    let ledger = status.applications.get_mut("ledger").expect("of the sample");
    let unit = ledger.units.get_mut(&UnitName::new("ledger", 0)).expect("of the sample");
    (unit.workload, unit.agent) = (info(workload, ""), info(agent, ""));
    status
}

async fn wait_settled(statuses: Vec<Status>) -> Result<(), u8> {
    let session = FakeSession::new(FakeController { statuses: statuses.into(), ..FakeController::default() });
    let words = ["juju", "wait", "--settled", "--timeout", "5s"];
    let settled = match Arguments::try_parse_from(words).expect("a command line").verb {
        Verb::Wait(args) => wait::run(&args, &session).await,
        verb => panic!("{verb:?} is not tested here"),
    };
    settled.map_err(|error| error.code)
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_model_is_settled_when_no_unit_has_anything_to_do() {
    assert_eq!(wait_settled(vec![status("active", "idle")]).await, Ok(()));
    for busy in ["executing", "allocating", "lost", "rebooting", "failed"] {
        assert_eq!(wait_settled(vec![status("active", busy)]).await, Err(1), "{busy}");
        let later = vec![status("active", busy), status("active", "idle")];
        assert_eq!(wait_settled(later).await, Ok(()), "{busy}");
    }
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn what_is_being_removed_is_not_settled_and_a_unit_in_error_ends_the_wait() {
    let mut dying = status("active", "idle");
    dying.applications.get_mut("ledger").expect("of the sample").life = Life::Dying;
    assert_eq!(wait_settled(vec![dying]).await, Err(1));
    let before = tokio::time::Instant::now();
    assert_eq!(wait_settled(vec![status("error", "idle")]).await, Err(1));
    assert!(before.elapsed() < std::time::Duration::from_secs(5), "it does not wait for a person");
}
