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
use cli::session::Session;
use common::fake::{Fake, Scoped};
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

fn session(statuses: Vec<Status>) -> Session<Scoped> {
    let api = Scoped::new(Fake { statuses: statuses.into(), ..Fake::default() }, "dev");
    let (output, writes) = (Output::memory(), LastWrites::memory());
    Session { api, model: "dev".to_owned(), output, writes, charm_cache: "unused".into() }
}

async fn does(words: &[&str], at: &Session<Scoped>) {
    match Arguments::try_parse_from(["juju"].iter().chain(words)).expect("understood").verb {
        Verb::Config(args) => config::run(&args, at).await.expect("taken"),
        Verb::Status(args) => status::run(&args, at).await.expect("shown"),
        verb => panic!("{verb:?} is not tried here"),
    }
}

/// The workload's message of ledger/0 in what was printed last.
async fn seen(at: &Session<Scoped>, words: &[&str]) -> String {
    let before = at.output.said().0.len();
    does(words, at).await;
    let document: Value = serde_json::from_str(&at.output.said().0[before..]).expect("JSON");
    let unit = &document["applications"]["ledger"]["units"]["ledger/0"];
    unit["workload-status"]["message"].as_str().expect("it has one").to_owned()
}

const STATUS: &[&str] = &["status", "--format", "json"];

#[tokio::test(flavor = "current_thread")]
async fn after_a_write_the_state_before_it_is_not_shown() {
    let at = session(vec![busy("old"), busy("old"), idle("new")]);
    does(&["config", "ledger", "port=81"], &at).await;
    assert_eq!(seen(&at, STATUS).await, "new");
}

#[tokio::test(flavor = "current_thread")]
async fn a_write_is_waited_for_until_it_was_caught_up_with_once() {
    let at = session(vec![idle("done"), busy("something else"), idle("later")]);
    does(&["config", "ledger", "port=81"], &at).await;
    assert_eq!(seen(&at, STATUS).await, "done");
    assert_eq!(seen(&at, STATUS).await, "something else", "nothing of the caller's is under way");
}

#[tokio::test(flavor = "current_thread")]
async fn who_wrote_nothing_or_says_no_settle_is_answered_at_once() {
    let at = session(vec![busy("now"), idle("later")]);
    assert_eq!(seen(&at, STATUS).await, "now");
    let at = session(vec![busy("now"), idle("later")]);
    does(&["config", "ledger", "port=81"], &at).await;
    assert_eq!(seen(&at, &["status", "--format", "json", "--no-settle"]).await, "now");
}

#[tokio::test(flavor = "current_thread")]
async fn waiting_is_bounded_and_goes_on_in_the_next_status() {
    let at = session(vec![busy("slow")]);
    does(&["config", "ledger", "port=81"], &at).await;
    let began = Instant::now();
    assert_eq!(seen(&at, STATUS).await, "slow");
    let took = began.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_secs(4)).contains(&took), "{took:?}");
    *at.api.statuses.lock().expect("no holder panics") = vec![busy("slow"), idle("done")];
    assert_eq!(seen(&at, STATUS).await, "done");
}

#[tokio::test(flavor = "current_thread")]
async fn a_unit_that_failed_is_shown_at_once() {
    let mut failed = shown(info("error", "hook failed: \"config-changed\""), info("idle", ""));
    let auditor = failed.applications.get_mut("auditor").expect("of the sample");
    auditor.units.values_mut().for_each(|unit| unit.agent = info("executing", "running install hook"));
    let at = session(vec![failed, idle("later")]);
    does(&["config", "ledger", "port=81"], &at).await;
    assert_eq!(seen(&at, STATUS).await, "hook failed: \"config-changed\"");
}
