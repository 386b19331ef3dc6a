//! `status` waits until the agents have applied the caller's last write (spec/clients.md 2.3). The fake controller
//! returns a sequence of statuses.

mod samples;

use api::text::status_message;
use api::{Status, StatusInfo};
use clap::Parser;
use cli::commands::Arguments;
use cli::commands::Verb;
use cli::commands::{config, status};
use samples::fake::FakeController;
use samples::session::FakeSession;
use samples::{executing, info, info_of, sample};
use serde_json::Value;
use state::terms::activity::Activity;
use state::terms::hook_name::HookName;
use state::terms::names::UnitName;
use state::terms::status::{AgentStatus, WorkloadStatus};
use state::terms::status_message::StatusMessage;
use std::time::{Duration, Instant};

/// The sample with these statuses of ledger/0 and an idle subordinate.
fn shown(workload: StatusInfo<WorkloadStatus>, agent: StatusInfo<AgentStatus>) -> Status {
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
    shown(info("active", message), executing(HookName::ConfigChanged))
}

fn idle(message: &str) -> Status {
    shown(info("active", message), info("idle", ""))
}

fn session_with(statuses: Vec<Status>) -> FakeSession {
    FakeSession::new(FakeController { statuses: statuses.into(), ..FakeController::default() })
}

async fn run_command(words: &[&str], session: &FakeSession) {
    match Arguments::try_parse_from(["juju"].iter().chain(words)).expect("a valid command line").verb {
        Verb::Config(args) => config::run(&args, session).await.expect("taken"),
        Verb::Status(args) => status::run(&args, session).await.expect("shown"),
        verb => panic!("{verb:?} is not tested here"),
    }
}

/// Runs a status command and returns the workload message of ledger/0 in its output.
async fn shown_message(session: &FakeSession, words: &[&str]) -> String {
    let before = session.printed().0.len();
    run_command(words, session).await;
    let document: Value = serde_json::from_str(&session.printed().0[before..]).expect("JSON");
    let unit = &document["applications"]["ledger"]["units"]["ledger/0"];
    unit["workload-status"]["message"].as_str().expect("it has one").to_owned()
}

const STATUS: &[&str] = &["status", "--format", "json"];

#[tokio::test(flavor = "current_thread")]
async fn the_status_before_a_write_is_not_shown_after_it() {
    let session = session_with(vec![busy("old"), busy("old"), idle("new")]);
    run_command(&["config", "ledger", "port=81"], &session).await;
    assert_eq!(shown_message(&session, STATUS).await, "new");
}

#[tokio::test(flavor = "current_thread")]
async fn a_unit_that_waits_for_the_hook_lock_has_work_to_do() {
    let hook = || Activity::hook(HookName::ConfigChanged);
    let holder = UnitName::new("auditor", 0);
    let message =
        StatusMessage::WaitingForHookLock { group: None, activity: hook(), running: hook(), holder };
    let waiting = shown(info("active", "old"), info_of("allocating", message));
    let session = session_with(vec![waiting.clone(), waiting, idle("new")]);
    run_command(&["config", "ledger", "port=81"], &session).await;
    assert_eq!(shown_message(&session, STATUS).await, "new");
}

#[tokio::test(flavor = "current_thread")]
async fn status_waits_for_a_write_until_it_was_applied_once() {
    let session = session_with(vec![idle("done"), busy("something else"), idle("later")]);
    run_command(&["config", "ledger", "port=81"], &session).await;
    assert_eq!(shown_message(&session, STATUS).await, "done");
    assert_eq!(
        shown_message(&session, STATUS).await,
        "something else",
        "nothing of the caller's is under way"
    );
}

#[tokio::test(flavor = "current_thread")]
async fn without_a_write_or_with_no_settle_status_does_not_wait() {
    let session = session_with(vec![busy("now"), idle("later")]);
    assert_eq!(shown_message(&session, STATUS).await, "now");
    let session = session_with(vec![busy("now"), idle("later")]);
    run_command(&["config", "ledger", "port=81"], &session).await;
    assert_eq!(shown_message(&session, &["status", "--format", "json", "--no-settle"]).await, "now");
}

#[tokio::test(flavor = "current_thread")]
async fn waiting_is_bounded_and_continues_in_the_next_status() {
    let session = session_with(vec![busy("slow")]);
    run_command(&["config", "ledger", "port=81"], &session).await;
    let began = Instant::now();
    assert_eq!(shown_message(&session, STATUS).await, "slow");
    let took = began.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_secs(4)).contains(&took), "{took:?}");
    *session.api.statuses.lock().expect("no holder panics") = vec![busy("slow"), idle("done")];
    assert_eq!(shown_message(&session, STATUS).await, "done");
}

#[tokio::test(flavor = "current_thread")]
async fn status_does_not_wait_for_a_failed_unit() {
    let mut failed = shown(
        info_of("error", StatusMessage::HookFailed { hook: HookName::ConfigChanged }),
        info("idle", ""),
    );
    let auditor = failed.applications.get_mut("auditor").expect("of the sample");
    auditor.units.values_mut().for_each(|unit| unit.agent = executing(HookName::Install));
    let session = session_with(vec![failed, idle("later")]);
    run_command(&["config", "ledger", "port=81"], &session).await;
    let failed = status_message::describe(&StatusMessage::HookFailed { hook: HookName::ConfigChanged });
    assert_eq!(shown_message(&session, STATUS).await, failed);
}
