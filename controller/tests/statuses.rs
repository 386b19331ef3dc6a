//! The status of units and applications (spec C.4, F.4, F.5; H.14), on the in-memory store.

mod support;

use api::error::ErrorCode;
use api::{
    AddUnits, Claim, Deploy, GetConstraints, GetStatus, GetWhy, Handle, RemoveUnit, ReportPresence,
    ReportStorage, ResolveUnit, SetConstraints, Watch, WatchMachine,
};
use controller::presence::LOST_AFTER_MS;
use controller::{AuthenticatedCaller, Environment};
use state::charm::{Charm, Storage};
use state::documents::draft::{Draft, read};
use state::documents::prelude::{StatusDoc, TokenHolder};
use state::lifecycle::archive;
use state::status::unit::next_act;
use state::terms::cause::{Duty, Entity, Remedy};
use state::terms::failure_reason::FailureReason;
use state::terms::force::Force;
use state::terms::hook_name::HookName;
use state::terms::names::UnitName;
use state::terms::operation::{CharmRef, Hook, Operation};
use state::terms::status::{AgentStatus, WorkloadStatus};
use state::terms::status_message::StatusMessage;
use state::terms::storage::{StorageId, StorageReport};
use state::transitions::force;
use state::unit::hook_context::ReportContent;
use state::unit::record::{Outcome, RunReport};
use state::unit::resolve::Act;
use std::collections::BTreeSet;
use support::*;
use test_support::memory_store::MemoryStore;

type MemoryFixture = Fixture<MemoryStore, FakeEnvironment>;

/// Returns a unit's workload status, its message, and the agent status.
async fn unit_statuses(fixture: &MemoryFixture, unit: &str) -> (WorkloadStatus, StatusMessage, AgentStatus) {
    let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
    let unit = &status.applications["web"].units[&unit.parse().expect("a name")];
    (unit.workload.current, unit.workload.message.clone(), unit.agent.current)
}

async fn application_status(fixture: &MemoryFixture) -> (WorkloadStatus, StatusMessage) {
    let status =
        fixture.admin.handle(GetStatus).await.expect("the model is there").applications["web"].status.clone();
    (status.current, status.message)
}

fn of_charm(text: &str) -> StatusMessage {
    StatusMessage::OfCharm(text.to_owned())
}

fn name(unit: &str) -> UnitName {
    unit.parse().expect("a name")
}

#[tokio::test(flavor = "current_thread")]
async fn constraints_belong_to_an_application_or_to_the_model() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 0).await;
    let set = async |application: Option<&str>, text: &str| {
        let constraints = text.parse().expect("they are valid");
        fixture
            .admin
            .handle(SetConstraints { application: application.map(str::to_owned), constraints })
            .await
    };
    let get = async |application: Option<&str>| {
        let get = GetConstraints { application: application.map(str::to_owned) };
        fixture.admin.handle(get).await.map(|found| found.constraints.to_string())
    };
    set(None, "mem=1G").await.expect("the model exists");
    set(Some("web"), "cores=2 mem=4G").await.expect("it is deployed");
    assert_eq!(get(None).await.as_deref(), Ok("mem=1024M"));
    assert_eq!(get(Some("web")).await.as_deref(), Ok("cores=2 mem=4096M"));
    set(Some("web"), "").await.expect("it is deployed");
    assert_eq!(get(Some("web")).await.as_deref(), Ok(""));
    for refused in [set(Some("none"), "mem=1G").await.err(), get(Some("none")).await.err()] {
        assert_eq!(refused.map(|error| error.code), Some(ErrorCode::NotFound));
    }
}

/// Runs a hook that sets this status.
async fn report(unit: &mut Agent<AuthenticatedCaller<MemoryStore, FakeEnvironment>>, what: ReportContent) {
    let mut record = unit.record(Operation::Hook(Hook::UpdateStatus));
    record.reports = vec![RunReport { number: 0, at_ms: 1, what }];
    unit.commit(record).await;
}

fn status(status: WorkloadStatus, message: &str) -> ReportContent {
    ReportContent::UnitStatus { status, message: message.to_owned() }
}

#[tokio::test]
async fn scenario_178_a_new_unit_shows_what_it_waits_for() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let waiting = |message| (WorkloadStatus::Waiting, message, AgentStatus::Allocating);
    assert_eq!(unit_statuses(&fixture, "web/0").await, waiting(StatusMessage::WaitingForMachine));
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let principal = TokenHolder::Machine { model: fixture.model, machine };
    fixture.token(machine, principal.clone()).await;
    let caller = fixture.controller.caller(principal);
    let _watch = caller.watch(WatchMachine).await.expect("the stream opens");
    assert_eq!(unit_statuses(&fixture, "web/0").await, waiting(StatusMessage::InstallingAgent));
    let mut web = fixture.attach_agent("web/0").await;
    assert_eq!(unit_statuses(&fixture, "web/0").await, waiting(StatusMessage::AgentInitialising));
    report(&mut web, status(WorkloadStatus::Waiting, "for the sun")).await;
    assert_eq!(unit_statuses(&fixture, "web/0").await.1, of_charm("for the sun"));
}

/// 1. A machine is removed by force before the agent of web/0 has attached.
/// 2. The controller acts for web/0. That is no agent, so its statuses remain those of a unit without one.
#[tokio::test]
async fn a_unit_that_is_forced_before_its_agent_attached_shows_no_agent() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let (model, unit) = (fixture.model, fixture.unit("web/0").await);
    let machine = fixture.machine_of_unit(unit).await;
    let before = unit_statuses(&fixture, "web/0").await;
    let destroy =
        move |draft: &mut Draft<'_>| force::destroy_machine(draft, model, machine, Force::AtOnce, 1);
    fixture.controller.run(destroy).await.expect("the forced removal is accepted");
    for entity in [machine, unit] {
        let batch = move |draft: &mut Draft<'_>| force::force_batch(draft, model, entity, 1);
        fixture.controller.run(batch).await.expect("it is due");
    }
    assert_eq!(unit_statuses(&fixture, "web/0").await, before);
}

#[tokio::test]
async fn a_unit_that_waits_for_storage_names_it_and_why_shows_the_error_of_the_machine() {
    let fixture = Fixture::in_memory().await;
    let data = Storage { location: Some("/srv/data".to_owned()), ..Storage::default() };
    let charm =
        Charm { name: "store".to_owned(), storage: [("data".to_owned(), data)].into(), ..Charm::default() };
    let register = move |draft: &mut Draft<'_>| {
        archive::register(draft, "store", Some(charm.clone()), 10);
        Ok(())
    };
    fixture.controller.run(register).await.expect("a new archive");
    let (application, sha256) = (Some("web".to_owned()), "store".to_owned());
    let deploy = Deploy { application, sha256, units: 1, ..Deploy::default() };
    fixture.admin.handle(deploy).await.expect("the deployment succeeds");
    let mut web = fixture.attach_agent("web/0").await;
    let (sha256, url) = ("store".to_owned(), "local:store-0".to_owned());
    let install = CharmRef { url, sha256, revision: 0, endpoints: BTreeSet::new(), resources: String::new() };
    web.commit(web.record(Operation::InstallCharm(install))).await;
    let storage: StorageId = "data/0".parse().expect("an id");
    let waiting = StatusMessage::WaitingForStorage { storage: storage.clone() };
    assert_eq!(unit_statuses(&fixture, "web/0").await, (WorkloadStatus::Waiting, waiting, AgentStatus::Idle));
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let principal = TokenHolder::Machine { model: fixture.model, machine };
    fixture.token(machine, principal.clone()).await;
    let caller = fixture.controller.caller(principal);
    let (key, model) = (storage.clone(), fixture.model);
    let doc = fixture.controller.read(move |reader| read(reader, &model.storage(&key))).await;
    let (instance, unit) = (doc.expect("it was created").uuid, fixture.unit("web/0").await);
    let failed = StorageReport::Failed { error: "no loop device is free".to_owned() };
    let failed = ReportStorage { id: storage.clone(), instance, report: failed };
    caller.handle(failed).await.expect("it is on this machine");
    let why = fixture.admin.handle(GetWhy { entity: entity("web/0") }).await.expect("it exists");
    let cause = &why.causes[0];
    assert_eq!(cause.duty, Duty::ProvideStorage { storage: storage.clone() });
    assert_eq!(cause.last_error, Some(FailureReason::Text("no loop device is free".to_owned())));
    assert_eq!(cause.remedy(), Remedy::MendStorage { unit: name("web/0") });
    let report = StorageReport::Provisioned { unit, location: "/srv/data".to_owned() };
    caller.handle(ReportStorage { id: storage, instance, report }).await.expect("it is on this machine");
    let agent = unit_statuses(&fixture, "web/0").await.2;
    assert_eq!(agent, AgentStatus::Executing, "storage-attached is due");
    let key = "data/0".parse().expect("an id");
    let doc = fixture.controller.read(move |reader| read(reader, &model.storage(&key))).await;
    assert_eq!(doc.expect("it exists").error, None, "the error has ended");
}

#[tokio::test]
async fn scenario_185_an_agent_that_reconnects_has_its_status_again() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let mut web = fixture.attach_agent("web/0").await;
    report(&mut web, status(WorkloadStatus::Active, "serves")).await;
    fixture.advance(LOST_AFTER_MS + 1);
    let lost = (WorkloadStatus::Unknown, StatusMessage::AgentLost { unit: name("web/0") }, AgentStatus::Lost);
    assert_eq!(unit_statuses(&fixture, "web/0").await, lost);
    web.api.handle(Claim { epoch: web.epoch, release: false, view: None }).await.expect("it is back");
    let (workload, message, agent) = unit_statuses(&fixture, "web/0").await;
    assert_eq!((workload, message), (WorkloadStatus::Active, of_charm("serves")));
    assert_ne!(agent, AgentStatus::Lost);
    let remove = RemoveUnit { unit: name("web/0"), force: Force::No, destroy_storage: false };
    fixture.admin.handle(remove).await.expect("it is alive");
    web.commit(web.record(Operation::Hook(Hook::Remove))).await;
    fixture.advance(LOST_AFTER_MS + 1);
    let terminated = (WorkloadStatus::Terminated, StatusMessage::Empty, AgentStatus::Lost);
    assert_eq!(unit_statuses(&fixture, "web/0").await, terminated);
}

#[tokio::test]
async fn scenario_150_the_status_set_by_a_failed_hook_reappears_after_the_error() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let mut web = fixture.attach_agent("web/0").await;
    report(&mut web, status(WorkloadStatus::Active, "serves")).await;
    let mut failed = web.record(Operation::Hook(Hook::UpdateStatus));
    failed.outcome = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    failed.reports = vec![RunReport { number: 1, at_ms: 1, what: status(WorkloadStatus::Blocked, "no key") }];
    web.commit(failed).await;
    let key = fixture.model.unit_status(fixture.unit("web/0").await);
    let stored: StatusDoc =
        fixture.controller.read(move |reader| read(reader, &key)).await.expect("the status is stored");
    assert_eq!((stored.status, stored.message), (WorkloadStatus::Blocked, of_charm("no key")));
    let message = StatusMessage::HookFailed { hook: HookName::UpdateStatus };
    let error = (WorkloadStatus::Error, message, AgentStatus::Idle);
    assert_eq!(unit_statuses(&fixture, "web/0").await, error);
    fixture
        .admin
        .handle(ResolveUnit { unit: "web/0".parse().expect("a unit"), retry: false })
        .await
        .expect("it is in an error");
    let mut skipped = web.record(Operation::Hook(Hook::UpdateStatus));
    skipped.outcome = Outcome::Skipped;
    web.commit(skipped).await;
    let (workload, message, _) = unit_statuses(&fixture, "web/0").await;
    assert_eq!((workload, message), (WorkloadStatus::Blocked, of_charm("no key")));
}

#[tokio::test]
async fn units_that_are_lost_with_their_machine_name_it_and_the_model_lists_it_once() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    for _ in 0..2 {
        let add = AddUnits {
            attach_storage: Vec::new(),
            application: "web".to_owned(),
            units: 1,
            to: Some("0".to_owned()),
        };
        fixture.admin.handle(add).await.expect("there is room");
    }
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let principal = TokenHolder::Machine { model: fixture.model, machine };
    fixture.token(machine, principal.clone()).await;
    let caller = fixture.controller.caller(principal);
    caller.handle(ReportPresence::default()).await.expect("the report is accepted");
    let units = ["web/0", "web/1", "web/2"];
    for unit in units {
        let mut agent = fixture.attach_agent(unit).await;
        report(&mut agent, status(WorkloadStatus::Active, "")).await;
    }
    let machine_lost_ms = Some(fixture.controller.environment.wall_ms());
    fixture.advance(LOST_AFTER_MS + 1);
    let of_machine = StatusMessage::MachineNotCommunicating { machine: "0".to_owned() };
    for unit in units {
        assert_eq!(
            unit_statuses(&fixture, unit).await,
            (WorkloadStatus::Unknown, of_machine.clone(), AgentStatus::Lost)
        );
        let shown =
            fixture.admin.handle(GetStatus).await.expect("the model is there").applications["web"].clone();
        let agent = shown.units[&unit.parse().expect("a name")].agent.clone();
        assert_eq!((&agent.message, agent.since_ms), (&of_machine, machine_lost_ms));
    }
    let held_up = async || {
        let why = fixture.admin.handle(GetWhy { entity: entity("model") }).await.expect("it exists");
        why.causes.into_iter().map(|cause| cause.entity).collect::<BTreeSet<_>>()
    };
    assert_eq!(held_up().await, BTreeSet::from([Entity::Machine("0".to_owned())]));
    // The machine agent reports again, and the unit agents do not.
    caller.handle(ReportPresence::default()).await.expect("the report is accepted");
    assert_eq!(held_up().await, BTreeSet::from(units.map(|unit| Entity::Unit(name(unit)))));
    let lost = StatusMessage::AgentLost { unit: name("web/1") };
    assert_eq!(unit_statuses(&fixture, "web/1").await.1, lost);
}

#[tokio::test]
async fn scenarios_186_and_187_an_application_shows_its_worst_unit_status_unless_its_leader_sets_one() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    let (mut first, mut second) = (fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await);
    report(&mut first, status(WorkloadStatus::Blocked, "no key")).await;
    report(&mut second, status(WorkloadStatus::Active, "")).await;
    assert_eq!(application_status(&fixture).await, (WorkloadStatus::Blocked, of_charm("no key")));
    let claim = Claim { epoch: first.epoch, release: false, view: None };
    assert!(first.api.handle(claim).await.expect("the request succeeds").lease.is_some());
    report(&mut first, status(WorkloadStatus::Maintenance, "")).await;
    report(&mut second, status(WorkloadStatus::Maintenance, "")).await;
    let application =
        |status, message: &str| ReportContent::ApplicationStatus { status, message: message.to_owned() };
    report(&mut first, application(WorkloadStatus::Active, "all well")).await;
    assert_eq!(application_status(&fixture).await, (WorkloadStatus::Active, of_charm("all well")));
    report(&mut second, application(WorkloadStatus::Blocked, "set by a unit that is not the leader")).await;
    assert_eq!(application_status(&fixture).await.0, WorkloadStatus::Active);
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
        resources: String::new(),
    };
    web.commit(web.record(Operation::InstallCharm(charm))).await;
    while let Some(Act::Start(run)) =
        fixture.controller.read(move |reader| next_act(reader, model, id, String::new())).await
    {
        web.commit(web.record(run.operation)).await;
    }
    let agent_status = async || {
        let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
        let agent = status.applications["web"].units[&"web/0".parse().expect("a name")].agent.clone();
        (agent.current, agent.message)
    };
    assert_eq!(agent_status().await, (AgentStatus::Idle, StatusMessage::Empty));
    let mut failed = web.record(Operation::Hook(Hook::UpdateStatus));
    failed.outcome = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    web.commit(failed).await;
    let resolved = ResolveUnit { unit: "web/0".parse().expect("a unit"), retry: false };
    fixture.admin.handle(resolved).await.expect("it is in error");
    let mut skipped = web.record(Operation::Hook(Hook::UpdateStatus));
    skipped.outcome = Outcome::Skipped;
    web.commit(skipped).await;
    let skipped = StatusMessage::HooksSkipped { hooks: [HookName::UpdateStatus].into(), more: 0 };
    assert_eq!(agent_status().await, (AgentStatus::Idle, skipped));
    web.commit(web.record(Operation::Hook(Hook::UpdateStatus))).await;
    assert_eq!(agent_status().await, (AgentStatus::Idle, StatusMessage::Empty));
}
