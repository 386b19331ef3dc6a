//! The status of units and applications (spec C.4, F.4, F.5; H.14), on the in-memory store.

mod support;

use api::{AddUnits, Claim, GetStatus, GetWhy, Handle, ReportPresence, ResolvedRequest, Watch, WatchMachine};
use controller::presence::LOST_AFTER_MS;
use controller::{Environment, Session, status as controller_status};
use state::documents::draft::read;
use state::documents::keys::{StatusDoc, TokenHolder};
use state::terms::status::AgentStatus;
use state::unit::hook::ReportContent;
use state::unit::operation::{CharmRef, Hook, Operation};
use state::unit::record::{Outcome, RunReport};
use state::unit::resolve::Act;
use std::collections::BTreeSet;
use support::*;
use test_support::memory_store::MemoryStore;

type MemoryFixture = Fixture<MemoryStore, FakeEnvironment>;

/// Returns a unit's workload status, its message, and the agent status.
async fn unit_statuses(fixture: &MemoryFixture, unit: &str) -> (String, String, String) {
    let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
    let unit = &status.applications["web"].units[&unit.parse().expect("a name")];
    (unit.workload.current.to_string(), unit.workload.message.clone(), unit.agent.current.to_string())
}

async fn application_status(fixture: &MemoryFixture) -> (String, String) {
    let status =
        fixture.admin.handle(GetStatus).await.expect("the model is there").applications["web"].status.clone();
    (status.current.to_string(), status.message)
}

fn expected(workload: &str, message: &str, agent: &str) -> (String, String, String) {
    (workload.to_owned(), message.to_owned(), agent.to_owned())
}

/// Runs a hook that sets this status.
async fn report(unit: &mut Agent<Session<MemoryStore, FakeEnvironment>>, what: ReportContent) {
    let mut record = unit.record(Operation::Hook(Hook::UpdateStatus));
    record.reports = vec![RunReport { call: 0, at_ms: 1, what }];
    unit.commit(record).await;
}

fn status(status: &str, message: &str) -> ReportContent {
    ReportContent::UnitStatus { status: status.parse().expect("a status"), message: message.to_owned() }
}

#[tokio::test]
async fn scenario_178_a_new_unit_shows_what_it_waits_for() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    assert_eq!(
        unit_statuses(&fixture, "web/0").await,
        expected("waiting", "waiting for machine", "allocating")
    );
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let principal = TokenHolder::Machine { model: fixture.model, machine };
    fixture.token(machine, principal.clone()).await;
    let session = fixture.controller.session_for(principal);
    let _watch = session.watch(WatchMachine).await.expect("the stream opens");
    assert_eq!(unit_statuses(&fixture, "web/0").await, expected("waiting", "installing agent", "allocating"));
    let mut web = fixture.attach_agent("web/0").await;
    assert_eq!(
        unit_statuses(&fixture, "web/0").await,
        expected("waiting", "agent initialising", "allocating")
    );
    report(&mut web, status("waiting", "for the sun")).await;
    assert_eq!(unit_statuses(&fixture, "web/0").await.1, "for the sun");
}

#[tokio::test]
async fn scenario_185_an_agent_that_reconnects_has_its_status_again() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let mut web = fixture.attach_agent("web/0").await;
    report(&mut web, status("active", "serves")).await;
    fixture.advance(LOST_AFTER_MS + 1);
    let lost = expected("unknown", "agent lost, see: pintle why web/0", "lost");
    assert_eq!(unit_statuses(&fixture, "web/0").await, lost);
    web.api.handle(Claim { epoch: web.epoch, release: false }).await.expect("it is back");
    let (workload, message, agent) = unit_statuses(&fixture, "web/0").await;
    assert_eq!((workload.as_str(), message.as_str()), ("active", "serves"));
    assert_ne!(agent, "lost");
    web.commit(web.record(Operation::Hook(Hook::Remove))).await;
    fixture.advance(LOST_AFTER_MS + 1);
    assert_eq!(unit_statuses(&fixture, "web/0").await, expected("terminated", "", "lost"));
}

#[tokio::test]
async fn scenario_150_the_status_set_by_a_failed_hook_reappears_after_the_error() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let mut web = fixture.attach_agent("web/0").await;
    report(&mut web, status("active", "serves")).await;
    let mut failed = web.record(Operation::Hook(Hook::UpdateStatus));
    failed.outcome = Outcome::Failed { reason: "exit status 1".to_owned(), retry: None };
    failed.reports = vec![RunReport { call: 1, at_ms: 1, what: status("blocked", "no key") }];
    web.commit(failed).await;
    let key = fixture.model.unit_status(fixture.unit("web/0").await);
    let stored: StatusDoc =
        fixture.controller.read(move |reader| read(reader, &key)).await.expect("the status is stored");
    assert_eq!((stored.status.as_str(), stored.message.as_str()), ("blocked", "no key"));
    assert_eq!(
        unit_statuses(&fixture, "web/0").await,
        expected("error", "hook failed: \"update-status\"", "idle")
    );
    fixture
        .admin
        .handle(ResolvedRequest { unit: "web/0".to_owned(), retry: false })
        .await
        .expect("it is in an error");
    let mut skipped = web.record(Operation::Hook(Hook::UpdateStatus));
    skipped.outcome = Outcome::Skipped;
    web.commit(skipped).await;
    let (workload, message, _) = unit_statuses(&fixture, "web/0").await;
    assert_eq!((workload.as_str(), message.as_str()), ("blocked", "no key"));
}

#[tokio::test]
async fn units_that_are_lost_with_their_machine_name_it_and_the_model_lists_it_once() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    for _ in 0..2 {
        let add = AddUnits { application: "web".to_owned(), units: 1, to: Some("0".to_owned()) };
        fixture.admin.handle(add).await.expect("there is room");
    }
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let principal = TokenHolder::Machine { model: fixture.model, machine };
    fixture.token(machine, principal.clone()).await;
    let session = fixture.controller.session_for(principal);
    session.handle(ReportPresence).await.expect("the report is accepted");
    let units = ["web/0", "web/1", "web/2"];
    for unit in units {
        let mut agent = fixture.attach_agent(unit).await;
        report(&mut agent, status("active", "")).await;
    }
    let machine_lost_ms = Some(fixture.controller.environment.wall_ms());
    fixture.advance(LOST_AFTER_MS + 1);
    let of_machine = "machine 0: agent is not communicating with the controller";
    for unit in units {
        assert_eq!(unit_statuses(&fixture, unit).await, expected("unknown", of_machine, "lost"));
        let shown =
            fixture.admin.handle(GetStatus).await.expect("the model is there").applications["web"].clone();
        let agent = shown.units[&unit.parse().expect("a name")].agent.clone();
        assert_eq!((agent.message.as_str(), agent.since_ms), (of_machine, machine_lost_ms));
    }
    let held_up = async || {
        let why = fixture.admin.handle(GetWhy { entity: entity("model") }).await.expect("it exists");
        why.causes.into_iter().map(|cause| cause.entity.to_string()).collect::<BTreeSet<_>>()
    };
    assert_eq!(held_up().await, BTreeSet::from(["machine 0".to_owned()]));
    // the machine's agent reports again, and the unit agents do not
    session.handle(ReportPresence).await.expect("the report is accepted");
    assert_eq!(held_up().await, BTreeSet::from(units.map(|unit| format!("unit {unit}"))));
    assert_eq!(unit_statuses(&fixture, "web/1").await.1, "agent lost, see: pintle why web/1");
}

#[tokio::test]
async fn scenarios_186_and_187_an_application_shows_its_worst_unit_status_unless_its_leader_sets_one() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    let (mut first, mut second) = (fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await);
    report(&mut first, status("blocked", "no key")).await;
    report(&mut second, status("active", "")).await;
    assert_eq!(application_status(&fixture).await, ("blocked".to_owned(), "no key".to_owned()));
    let claim = Claim { epoch: first.epoch, release: false };
    assert!(first.api.handle(claim).await.expect("the request succeeds").is_some());
    report(&mut first, status("maintenance", "")).await;
    report(&mut second, status("maintenance", "")).await;
    let application = |status: &str, message: &str| ReportContent::ApplicationStatus {
        status: status.parse().expect("a status"),
        message: message.to_owned(),
    };
    report(&mut first, application("active", "all well")).await;
    assert_eq!(application_status(&fixture).await, ("active".to_owned(), "all well".to_owned()));
    report(&mut second, application("blocked", "set by a unit that is not the leader")).await;
    assert_eq!(application_status(&fixture).await.0, "active");
}

#[tokio::test]
async fn scenario_50_an_idle_unit_shows_the_hooks_that_were_skipped() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let (id, model) = (fixture.unit("web/0").await, fixture.model);
    let mut web = fixture.attach_agent("web/0").await;
    let charm = CharmRef {
        url: "local:web-0".to_owned(),
        sha256: "web".to_owned(),
        revision: 0,
        endpoints: BTreeSet::from(["db".to_owned()]),
    };
    web.commit(web.record(Operation::InstallCharm(charm))).await;
    while let Some(Act::Start(run)) =
        fixture.controller.read(move |reader| controller_status::next_act(reader, model, id)).await
    {
        web.commit(web.record(run.operation)).await;
    }
    let agent_status = async || {
        let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
        let agent = status.applications["web"].units[&"web/0".parse().expect("a name")].agent.clone();
        (agent.current, agent.message)
    };
    assert_eq!(agent_status().await, (AgentStatus::Idle, String::new()));
    let mut failed = web.record(Operation::Hook(Hook::UpdateStatus));
    failed.outcome = Outcome::Failed { reason: "exit status 1".to_owned(), retry: None };
    web.commit(failed).await;
    let resolved = ResolvedRequest { unit: "web/0".to_owned(), retry: false };
    fixture.admin.handle(resolved).await.expect("it is in error");
    let mut skipped = web.record(Operation::Hook(Hook::UpdateStatus));
    skipped.outcome = Outcome::Skipped;
    web.commit(skipped).await;
    assert_eq!(agent_status().await, (AgentStatus::Idle, "update-status skipped".to_owned()));
    web.commit(web.record(Operation::Hook(Hook::UpdateStatus))).await;
    assert_eq!(agent_status().await, (AgentStatus::Idle, String::new()));
}
