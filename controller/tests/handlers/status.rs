//! The status of running hooks and actions, and of silent agents.

use crate::support::*;
use api::error::ErrorCode;
use api::{
    Claim, EnqueueAction, GetAction, GetStatus, GetWhy, Handle, Report, ResolveUnit, Stream, UnitWatchEvent,
    Watch, WatchUnit,
};
use controller::Environment;
use controller::presence::LOST_AFTER_MS;
use state::terms::activity::Activity;
use state::terms::cause::{Duty, Remedy};
use state::terms::failure_reason::FailureReason;
use state::terms::hook_name::HookName;
use state::terms::operation::{CharmRef, Hook, Operation};
use state::terms::status::{ActionStatus, WorkloadStatus};
use state::terms::status_message::StatusMessage;
use state::unit::record::Outcome;
use std::collections::BTreeSet;

#[tokio::test]
async fn a_unit_shows_that_its_stop_hook_runs() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let executing = Some(Activity::hook(HookName::Stop));
    let report = Report { epoch: web.epoch, run: 1, reports: Vec::new(), executing, executing_for_ms: 100 };
    web.api.handle(report).await.expect("the request is accepted");
    let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
    let unit = status.applications["web"].units.values().next().expect("one unit").clone();
    assert_eq!(
        (unit.workload.current, unit.workload.message.clone()),
        (WorkloadStatus::Maintenance, StatusMessage::StoppingCharm)
    );
}

#[tokio::test]
async fn a_unit_is_idle_only_without_pending_work_and_lost_after_a_silent_minute() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let status = async || {
        let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
        let unit = status.applications["web"].units.values().next().expect("one unit").clone();
        (unit.workload.current.to_string(), unit.agent.current.to_string(), unit.agent.message.clone())
    };
    let waiting = |agent: &str| ("waiting".to_owned(), agent.to_owned(), StatusMessage::Empty);
    assert_eq!(status().await, waiting("allocating"));
    let mut web = fixture.attach_agent("web/0").await;
    let charm = CharmRef {
        sha256: "web".to_owned(),
        url: "local:web-0".to_owned(),
        revision: 0,
        endpoints: BTreeSet::from(["db".to_owned()]),
        resources: String::new(),
    };
    let record = web.record(Operation::InstallCharm(charm));
    web.commit(record).await;
    let (_, agent, message) = status().await;
    assert_eq!(
        (agent.as_str(), message),
        ("executing", StatusMessage::Executing(Activity::hook(HookName::Install))),
        "install is pending"
    );
    let mut record = web.record(Operation::Hook(Hook::Install));
    record.outcome = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    web.commit(record).await;
    let unit = fixture.admin.handle(GetStatus).await.expect("it exists").applications["web"].clone();
    assert_eq!(unit.status.current, WorkloadStatus::Error, "an application shows its worst unit");
    assert_eq!(unit.status.message, StatusMessage::HookFailed { hook: HookName::Install });
    let (workload, agent, _) = status().await;
    assert_eq!((workload.as_str(), agent.as_str()), ("error", "idle"), "an agent's error is the workload's");
    let why = fixture.admin.handle(GetWhy { entity: entity("web/0") }).await.expect("it exists");
    assert!(why.causes.iter().any(|cause| matches!(cause.remedy(), Remedy::ResolveUnit { .. })), "{why:?}");
    fixture
        .admin
        .handle(ResolveUnit { unit: "web/0".parse().expect("a unit"), retry: true })
        .await
        .expect("it is in error");
    let (workload, agent, _) = status().await;
    assert_eq!(
        (workload.as_str(), agent.as_str()),
        ("error", "executing"),
        "the hook is to run again: not idle"
    );

    fixture.advance(4_000);
    let report = Report {
        epoch: web.epoch,
        run: 9,
        reports: Vec::new(),
        executing: Some(Activity::hook(HookName::Install)),
        executing_for_ms: 4_000,
    };
    web.api.handle(report).await.expect("the request is accepted");
    assert_eq!(status().await.1, "executing", "a retry runs");
    let units = fixture.admin.handle(GetStatus).await.expect("it exists").applications["web"].units.clone();
    let hook_started_ms = fixture.controller.environment.wall_ms() - 4_000;
    assert_eq!(
        units[&"web/0".parse().expect("a unit")].agent.since_ms,
        Some(hook_started_ms),
        "since the hook began"
    );
    fixture.advance(LOST_AFTER_MS);
    assert_ne!(status().await.1, "lost");
    fixture.advance(1);
    let (workload, agent, _) = status().await;
    assert_eq!(
        (workload.as_str(), agent.as_str()),
        ("error", "lost"),
        "an error that an operator must resolve remains (scenario 185)"
    );
    assert!(
        fixture
            .admin
            .handle(GetWhy { entity: entity("web/0") })
            .await
            .expect("it exists")
            .causes
            .iter()
            .any(|cause| matches!(cause.duty, Duty::Respond { lost: true, .. }))
    );
}

#[tokio::test]
async fn a_stopped_agent_is_lost_although_its_stream_stays_open() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: None }).await.expect("the stream opens");
    next_delta(&mut watch).await;
    let agent = async || {
        let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
        let unit = status.applications["web"].units.values().next().expect("one unit").clone();
        unit.agent.current.to_string()
    };
    // the connection accepts what is sent until its buffers are full
    let minute = async |watch: &mut <controller::AuthenticatedCaller<
        test_support::memory_store::MemoryStore,
        FakeEnvironment,
    > as Watch<WatchUnit>>::Stream| {
        for _ in 0..=LOST_AFTER_MS / api::HEARTBEAT_MS {
            fixture.advance(api::HEARTBEAT_MS);
            assert!(matches!(watch.next().await, Ok(UnitWatchEvent::Heartbeat(_))));
        }
    };
    minute(&mut watch).await;
    assert_eq!(agent().await, "lost");
    web.api
        .handle(Claim { epoch: web.epoch, release: false, view: None })
        .await
        .expect("the agent continues");
    assert_ne!(agent().await, "lost");
}

#[tokio::test]
async fn an_action_is_running_once_its_unit_reports_it() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let run = |action: &str| EnqueueAction {
        unit: "web/0".parse().expect("a unit"),
        action: action.into(),
        params: Default::default(),
        operation: None,
    };
    let unknown = fixture.admin.handle(run("restore")).await.expect_err("there is no such action");
    assert_eq!(unknown.code, ErrorCode::UnknownAction);
    let id = fixture.admin.handle(run("backup")).await.expect("the action is enqueued").answer.id;
    assert_eq!(
        fixture.admin.handle(GetAction { id }).await.expect("it exists").status,
        ActionStatus::Pending
    );
    let report = Report {
        epoch: 1,
        run: 4,
        reports: Vec::new(),
        executing: Some(Activity::Action { id, name: "backup".into() }),
        executing_for_ms: 0,
    };
    web.api.handle(report).await.expect("the request is accepted");
    let action = fixture.admin.handle(GetAction { id }).await.expect("it exists");
    assert_eq!((action.status, action.started_ms.is_some()), (ActionStatus::Running, true));
}
