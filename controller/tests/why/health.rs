//! The health of unit agents that machine agents observe, as `why` and `status` show it.

use crate::fixture::{MemoryFixture, causes, idle_agent, pending};
use crate::support::*;
use api::error::{ApiError, ErrorCode};
use api::{
    Attach, Claim, ConfigChange, ConfigureModel, EntityChoice, GetStatus, GetWhy, Handle, ReportPresence,
    ReportUnitHealth, SetMachineToken, Stream, Watch, WatchMachine, WatchUnit,
};
use controller::AuthenticatedCaller;
use controller::environment::Environment;
use controller::store::Store;
use state::documents::prelude::TokenHolder;
use state::terms::activity::Activity;
use state::terms::cause::{Actor, Cause, Duty, Remedy};
use state::terms::health::{Fault, Limit, LockHolder, LockHolders, ProcessEnd, UnitAgentExit, UnitHealth};
use state::terms::hook_name::HookName;
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::{Hook, Operation};
use state::terms::status::{AgentStatus, InstanceStatus, MachineAgentStatus};
use state::terms::status_message::StatusMessage;
use std::collections::BTreeMap;
use test_support::memory_store::MemoryStore;

async fn machine_agent(
    fixture: &MemoryFixture,
    machine: Uuid,
) -> AuthenticatedCaller<MemoryStore, FakeEnvironment> {
    let token = format!("{:064x}", machine.0);
    let set = SetMachineToken { machine, token: token.clone() };
    fixture.admin.handle(set).await.expect("the token is stored");
    fixture.controller.authenticate(&token).await.expect("the token is valid")
}

fn ended(fault: Option<Fault>, count: u32) -> UnitHealth {
    let exit = UnitAgentExit {
        end: ProcessEnd::Code(1),
        fault,
        last_error: Some("ERROR it\u{1b}ends".to_owned()),
        since_ms: 5,
        at_ms: 9,
        count,
    };
    UnitHealth { exit: Some(exit), ..UnitHealth::default() }
}

async fn report(agent: &AuthenticatedCaller<MemoryStore, FakeEnvironment>, unit: Uuid, health: UnitHealth) {
    let units = BTreeMap::from([(unit, health)]);
    agent.handle(ReportUnitHealth { units }).await.expect("the report is accepted");
}

async fn agent_status(fixture: &MemoryFixture) -> (AgentStatus, StatusMessage) {
    let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
    let agent = status.applications["web"].units.values().next().expect("one unit").agent.clone();
    (agent.current, agent.message)
}

#[tokio::test]
async fn a_unit_agent_that_never_attaches_is_explained_by_its_end_and_not_as_imminent() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let created_ms = fixture.controller.environment.wall_ms();
    let unit = fixture.unit("web/0").await;
    let agent = machine_agent(&fixture, fixture.machine_of_unit(unit).await).await;
    let mut watch = agent.watch(WatchMachine).await.expect("the stream opens");
    watch.next().await.expect("the view");
    report(&agent, unit, ended(None, 8)).await;

    let why = causes(&fixture, "web/0").await;
    assert!(!why.iter().any(|cause| matches!(cause.duty, Duty::Attach { .. })), "{why:?}");
    let Duty::RestartUnitAgent { exit, .. } = &why[0].duty else { panic!("{why:?}") };
    assert_eq!((exit.count, &why[0].actor), (8, &Actor::MachineAgent("0".to_owned())));
    assert_eq!(
        (why[0].since_ms, why[0].last_error.clone()),
        (Some(created_ms), Some(["ERROR", "it", "ends"].join(" ").into())),
        "the time that the machine reports is before the unit was created"
    );
    let (current, message) = agent_status(&fixture).await;
    assert_eq!(current, AgentStatus::Failed);
    assert!(matches!(message, StatusMessage::AgentEnded { count: 8, .. }), "{message:?}");

    for limit in [Limit::Descriptors, Limit::Ports, Limit::Memory, Limit::Processes] {
        let fault = Fault::Limit(limit);
        report(&agent, unit, ended(Some(fault), 9)).await;
        let why = causes(&fixture, "web/0").await;
        let machine = Some("0".to_owned());
        assert_eq!(why[0].duty, Duty::ClearFault { fault, machine: machine.clone() }, "{why:?}");
        let unit = UnitName::new("web", 0);
        let remedy = Remedy::ClearFault { fault, unit: unit.clone(), machine };
        assert_eq!((&why[0].actor, why[0].remedy()), (&Actor::Operator, remedy));
        assert_eq!(agent_status(&fixture).await.1, StatusMessage::Fault { fault, unit });
    }
}

#[tokio::test]
async fn the_exit_of_a_unit_agent_is_shown_until_its_next_request_and_a_fault_until_the_next_watch() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let unit = fixture.unit("web/0").await;
    let web = idle_agent(&fixture, "web/0").await;
    let machine = fixture.machine_of_unit(unit).await;
    let agent = machine_agent(&fixture, machine).await;
    agent.watch(WatchMachine).await.expect("the stream opens");
    fixture.advance(1);
    report(&agent, unit, ended(None, 2)).await;
    assert_eq!(agent_status(&fixture).await.0, AgentStatus::Failed);
    fixture.advance(1);
    web.api
        .handle(Claim { epoch: web.epoch, release: true, view: None })
        .await
        .expect("the claim is released");
    assert_eq!(agent_status(&fixture).await.0, AgentStatus::Idle);
    assert_eq!(causes(&fixture, "web/0").await, []);

    // A full disk does not end the agent: it is shown until another report arrives, or the watch starts again.
    let full = UnitHealth { fault: Some(Fault::Limit(Limit::DiskSpace)), ..UnitHealth::default() };
    report(&agent, unit, full).await;
    fixture.advance(1);
    web.api
        .handle(Claim { epoch: web.epoch, release: true, view: None })
        .await
        .expect("the claim is released");
    assert!(matches!(causes(&fixture, "web/0").await[0].duty, Duty::ClearFault { .. }));
    let why = fixture.admin.handle(GetWhy { entity: EntityChoice::Model }).await.expect("the model is there");
    assert!(matches!(&why.causes[..], [cause] if matches!(cause.duty, Duty::ClearFault { .. })), "{why:?}");
    agent.watch(WatchMachine).await.expect("the stream opens");
    assert_eq!(causes(&fixture, "web/0").await, []);

    let set_aside =
        UnitHealth { set_aside: vec!["journal.yaml.corrupt-1".to_owned()], ..UnitHealth::default() };
    report(&agent, unit, set_aside).await;
    assert!(matches!(causes(&fixture, "web/0").await[0].duty, Duty::InspectSetAside { .. }));
    let (files, unit) = (vec!["journal.yaml.corrupt-1".to_owned()], UnitName::new("web", 0));
    let message = StatusMessage::FilesSetAside { files, unit };
    assert_eq!(agent_status(&fixture).await, (AgentStatus::Idle, message));
}

#[tokio::test]
async fn a_machine_agent_reports_about_its_own_units_only() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let (web, db) = (fixture.unit("web/0").await, fixture.unit("db/0").await);
    let machine = fixture.machine_of_unit(db).await;
    assert_ne!(machine, fixture.machine_of_unit(web).await);
    let agent = machine_agent(&fixture, machine).await;
    report(&agent, web, ended(None, 8)).await;
    report(&agent, Uuid(77), ended(None, 8)).await;
    assert_eq!(agent_status(&fixture).await.0, AgentStatus::Allocating);
}

/// 1. The controller and the machines are stopped and started again. 2. Until the agent of the unit attaches, nothing shows
/// that the boot of the machine is another one, and that start is due. 3. From its attach on, that is shown.
#[tokio::test]
async fn a_unit_is_not_idle_before_its_agent_reports_and_has_run_start_in_a_new_boot() {
    let mut fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let unit = fixture.unit("web/0").await;
    let machine = fixture.machine_of_unit(unit).await;
    let web = idle_agent(&fixture, "web/0").await;
    machine_agent(&fixture, machine).await.handle(ReportPresence::default()).await.expect("it runs");
    let machine_status = async |fixture: &MemoryFixture| {
        let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
        let machine = &status.machines["0"];
        (machine.agent.current, machine.instance.current)
    };
    assert_eq!(agent_status(&fixture).await, (AgentStatus::Idle, StatusMessage::Empty));
    let running = (MachineAgentStatus::Started, InstanceStatus::Running);
    assert_eq!(machine_status(&fixture).await, running);

    fixture.restart();
    let expected = (AgentStatus::Allocating, StatusMessage::AgentNotReported);
    assert_eq!(agent_status(&fixture).await, expected);
    assert_eq!(machine_status(&fixture).await, (MachineAgentStatus::Pending, InstanceStatus::Pending));
    let found = causes(&fixture, "web/0").await;
    let duties: Vec<&Duty> = found.iter().map(|cause| &cause.duty).collect();
    assert!(matches!(&duties[..], [Duty::RunMachineAgent { .. }, Duty::StartUnitAgent { .. }]), "{duties:?}");
    assert!(matches!(&causes(&fixture, "model").await[..], [_]), "the machine's cause stands for its units");

    let unit_agent = fixture.controller.caller(TokenHolder::Unit { model: fixture.model, unit });
    let attach = Attach {
        nonce: Uuid(2),
        epoch: web.epoch,
        store_generation: Some(fixture.controller.store.store_generation()),
        teardown_started: false,
        boot: "next".to_owned(),
    };
    unit_agent.handle(attach).await.expect("it attaches");
    assert_eq!(agent_status(&fixture).await.0, AgentStatus::Executing);
    let (activity, _) = pending(&fixture, "web/0").await;
    assert_eq!(activity, Activity::hook(HookName::Start));
}

/// Attaches the agent of a unit again, in a boot of its machine.
async fn attach_in(fixture: &MemoryFixture, unit: Uuid, epoch: u64, boot: &str) {
    try_attach_in(fixture, unit, epoch, boot).await.expect("it is the newest session");
}

async fn try_attach_in(fixture: &MemoryFixture, unit: Uuid, epoch: u64, boot: &str) -> Result<u64, ApiError> {
    let attach = Attach {
        nonce: Uuid(u128::from(epoch) + 70),
        epoch,
        store_generation: Some(fixture.controller.store.store_generation()),
        teardown_started: false,
        boot: boot.to_owned(),
    };
    let agent = fixture.controller.caller(TokenHolder::Unit { model: fixture.model, unit });
    agent.handle(attach).await.map(|attached| attached.answer.epoch)
}

/// A hook has started a process that took the lock of its machine, and has ended.
#[tokio::test]
async fn a_foreign_process_that_holds_the_hook_lock_is_named_to_the_units_that_wait_for_it() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let unit = fixture.unit("web/0").await;
    let agent = machine_agent(&fixture, fixture.machine_of_unit(unit).await).await;
    let web = idle_agent(&fixture, "web/0").await;
    let holder = LockHolder { pid: 7, program: "/usr/bin/flock".to_owned() };
    let held = LockHolders { machine: Some(holder.clone()), unit: None };
    report(&agent, unit, UnitHealth { lock_holders: held, ..UnitHealth::default() }).await;
    assert_eq!(agent_status(&fixture).await.0, AgentStatus::Idle, "nothing waits for it");
    attach_in(&fixture, unit, web.epoch, "the next, in which start is due").await;
    let waits = causes(&fixture, "web/0").await;
    let names_it = |cause: &Cause| {
        let is_meant = matches!(&cause.duty, Duty::EndLockHolder { holder: found, .. } if *found == holder);
        is_meant && cause.actor == Actor::Operator && cause.remedy() == Remedy::EndProcess { pid: 7 }
    };
    assert!(waits.iter().any(names_it), "{waits:?}");
    let set = BTreeMap::from([("parallel".to_owned(), "true".to_owned())]);
    fixture
        .admin
        .handle(ConfigureModel { change: ConfigChange { set, reset: Vec::new() } })
        .await
        .expect("it is set");
    let waits = causes(&fixture, "web/0").await;
    assert!(!waits.iter().any(names_it), "hooks wait for the lock of the unit: {waits:?}");
}

/// A container reboots by itself: the agent of its machine reports before those of its units attach again.
#[tokio::test]
async fn a_unit_is_not_idle_before_its_agent_attaches_in_the_boot_that_its_machine_has_reported() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let unit = fixture.unit("web/0").await;
    let machine = machine_agent(&fixture, fixture.machine_of_unit(unit).await).await;
    let mut web = idle_agent(&fixture, "web/0").await;
    let started = Operation::Hook(Hook::Start { boot: "first".to_owned() });
    web.commit(web.record(started)).await;
    let report_boot = async |boot: &str| {
        let report = ReportPresence { boot: boot.to_owned(), ..ReportPresence::default() };
        machine.handle(report).await.expect("it runs");
    };
    report_boot("first").await;
    attach_in(&fixture, unit, web.epoch, "first").await;
    assert_eq!(agent_status(&fixture).await.0, AgentStatus::Idle);
    fixture.controller.environment.advance(1_000);
    report_boot("second").await;
    let expected = (AgentStatus::Allocating, StatusMessage::AgentNotReported);
    assert_eq!(agent_status(&fixture).await, expected);
    // the usual order: the stream of the former agent is still open when the new one attaches
    fixture.controller.environment.advance(1_000);
    let epoch = web.epoch + 1;
    let former = fixture.controller.caller(TokenHolder::Unit { model: fixture.model, unit });
    let stream = former.watch(WatchUnit { epoch, from: None }).await.expect("it is the newest session");
    let refused = try_attach_in(&fixture, unit, epoch, "second").await;
    assert_eq!(refused.map_err(|error| error.code), Err(ErrorCode::Blocked));
    assert_eq!(agent_status(&fixture).await, expected, "a refused attach is no report");
    drop(stream);
    machine
        .handle(ReportPresence { boot: "x".repeat(256), ..ReportPresence::default() })
        .await
        .expect_err("no boot id is as long");
}
