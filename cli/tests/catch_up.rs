//! `status` lets the agents catch up with the caller's last write (spec/clients.md 2.3), against a controller that
//! shows one status after the other.

mod common;

use api::{Status, StatusInfo};
use clap::Parser;
use cli::arguments::Arguments;
use cli::commands::Verb;
use cli::commands::{config, status};
use cli::last_write::LastWrites;
use cli::output::Output;
use cli::session::CommandSession;
use common::fake::{FakeController, FakeClient};
use common::{info, sample};
use serde_json::Value;
use state::terms::names::UnitName;
use std::time::{Duration, Instant};

/// The sample, with what its unit ledger/0 says and does; its subordinate does nothing.
fn shown(workload: StatusInfo, agent: StatusInfo) -> Status {
    let mut status = sample();
    for application in status.applications.values_mut() {
        application.units.values_mut().for_each(|unit| unit.agent = info("idle", ""));
    }
    let ledger = status.applications.get_mut("ledger").expect("of the sample");
    let unit = ledger.units.get_mut(&UnitName::new("ledger", 0)).expect("of the sample");
    (unit.workload, unit.agent) = (workload, agent);
    status
}

fn busy(message: &str) -> Status {
    shown(info("active", message), info("executing", "running config-changed hook"))
}

fn idle(message: &str) -> Status {
    shown(info("active", message), info("idle", ""))
}

fn session_with(statuses: Vec<Status>) -> CommandSession<FakeClient> {
    let api = FakeClient::new(FakeController { statuses: statuses.into(), ..FakeController::default() }, "dev");
    let (output, writes) = (Output::memory(), LastWrites::memory());
    CommandSession { api, model: "dev".to_owned(), output, writes, charm_cache: "unused".into() }
}

async fn run_command(words: &[&str], session: &CommandSession<FakeClient>) {
    match Arguments::try_parse_from(["juju"].iter().chain(words)).expect("understood").verb {
        Verb::Config(args) => config::run(&args, session).await.expect("taken"),
        Verb::Status(args) => status::run(&args, session).await.expect("shown"),
        verb => panic!("{verb:?} is not tried here"),
    }
}

/// The workload's message of ledger/0 in what was printed last.
async fn seen(session: &CommandSession<FakeClient>, words: &[&str]) -> String {
    let before = session.output.printed().0.len();
    run_command(words, session).await;
    let document: Value = serde_json::from_str(&session.output.printed().0[before..]).expect("JSON");
    let unit = &document["applications"]["ledger"]["units"]["ledger/0"];
    unit["workload-status"]["message"].as_str().expect("it has one").to_owned()
}

const STATUS: &[&str] = &["status", "--format", "json"];

#[tokio::test(flavor = "current_thread")]
async fn after_a_write_the_state_before_it_is_not_shown() {
    let session = session_with(vec![busy("old"), busy("old"), idle("new")]);
    run_command(&["config", "ledger", "port=81"], &session).await;
    assert_eq!(seen(&session, STATUS).await, "new");
}

#[tokio::test(flavor = "current_thread")]
async fn a_write_is_waited_for_until_it_was_caught_up_with_once() {
    let session = session_with(vec![idle("done"), busy("something else"), idle("later")]);
    run_command(&["config", "ledger", "port=81"], &session).await;
    assert_eq!(seen(&session, STATUS).await, "done");
    assert_eq!(seen(&session, STATUS).await, "something else", "nothing of the caller's is under way");
}

#[tokio::test(flavor = "current_thread")]
async fn who_wrote_nothing_or_says_no_settle_is_answered_at_once() {
    let session = session_with(vec![busy("now"), idle("later")]);
    assert_eq!(seen(&session, STATUS).await, "now");
    let session = session_with(vec![busy("now"), idle("later")]);
    run_command(&["config", "ledger", "port=81"], &session).await;
    assert_eq!(seen(&session, &["status", "--format", "json", "--no-settle"]).await, "now");
}

#[tokio::test(flavor = "current_thread")]
async fn waiting_is_bounded_and_goes_on_in_the_next_status() {
    let session = session_with(vec![busy("slow")]);
    run_command(&["config", "ledger", "port=81"], &session).await;
    let began = Instant::now();
    assert_eq!(seen(&session, STATUS).await, "slow");
    let took = began.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_secs(4)).contains(&took), "{took:?}");
    *session.api.statuses.lock().expect("no holder panics") = vec![busy("slow"), idle("done")];
    assert_eq!(seen(&session, STATUS).await, "done");
}

#[tokio::test(flavor = "current_thread")]
async fn a_unit_that_failed_is_shown_at_once() {
    let mut failed = shown(info("error", "hook failed: \"config-changed\""), info("idle", ""));
    let auditor = failed.applications.get_mut("auditor").expect("of the sample");
    auditor.units.values_mut().for_each(|unit| unit.agent = info("executing", "running install hook"));
    let session = session_with(vec![failed, idle("later")]);
    run_command(&["config", "ledger", "port=81"], &session).await;
    assert_eq!(seen(&session, STATUS).await, "hook failed: \"config-changed\"");
}
