//! The causes that `why` names for forced removals, and the same causes in dry runs.

use crate::fixture::{causes, idle_agent};
use crate::support::*;
use api::{DryRunRemoval, Force, GetWhy, Handle, RemovalTarget, RemoveApplication, RemoveUnit, Report};
use controller::janitor::Janitor;
use controller::presence::{LATE_AFTER_MS, LOST_AFTER_MS};
use state::documents::draft::read;
use state::terms::activity::Activity;
use state::terms::cause::{Duty, Entity};
use state::terms::failure_reason::FailureReason;
use state::terms::force::{ForcePhase, ForcedBy};
use state::terms::hook_name::HookName;
use state::terms::names::UnitName;
use state::terms::operation::{Hook, Operation};
use state::unit::record::{Outcome, Record};

#[tokio::test]
async fn a_forced_unit_shows_when_force_starts_and_is_removed_without_its_agent() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.attach_agent("web/0").await;
    let unit = fixture.unit("web/0").await;
    fixture
        .admin
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "web/0".parse().expect("a unit"),
            force: Force::AfterWait,
        })
        .await
        .expect("the removal is accepted");
    let forced = async |entity: &str| {
        let why =
            fixture.admin.handle(GetWhy { entity: crate::support::entity(entity) }).await.expect("it exists");
        why.causes.into_iter().find_map(|cause| match cause.duty {
            Duty::ForceRemoval { by: ForcedBy::Operator, phase } => Some(phase),
            _ => None,
        })
    };
    assert_eq!(forced("web/0").await, Some(ForcePhase::Waiting { left_ms: 60_000 }));
    let model_why = fixture.admin.handle(GetWhy { entity: entity("model") }).await.expect("it exists");
    assert_eq!(model_why.entity, Entity::Model("dev".to_owned()));
    assert_eq!(model_why.causes[0].entity, Entity::Unit(UnitName::new("web", 0)));
    let mut janitor = Janitor::default();
    let mut sweep = async || while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {};
    // the wait starts at the janitor's first visit
    sweep().await;
    fixture.advance(60_000);
    sweep().await;
    assert!(forced("web/0").await.is_some(), "its machine agent has a minute more");
    sweep().await;
    fixture.advance(60_000);
    sweep().await;
    let model = fixture.model;
    let there = fixture.controller.read(move |reader| read(reader, &model.unit(unit)).is_some()).await;
    assert!(!there, "no agent did anything");
}

/// A silent agent blocks a removal: the dry run lists it as `why` does. A forced removal does not wait for it.
#[tokio::test]
async fn a_dry_run_lists_silent_agents_with_the_causes_of_why() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    idle_agent(&fixture, "web/0").await;
    for removed in
        [RemovalTarget::Unit("web/0".parse().expect("a unit")), RemovalTarget::Application("web".to_owned())]
    {
        let blocked = async |force| {
            let response =
                fixture.admin.handle(DryRunRemoval { removed: vec![removed.clone()], force }).await;
            response.expect("the removal is accepted").blockers
        };
        for silent_ms in [LATE_AFTER_MS + 1, LOST_AFTER_MS] {
            fixture.advance(silent_ms);
            let mut why = causes(&fixture, "web/0").await;
            why.retain(|one| one.entity == Entity::Unit(UnitName::new("web", 0)));
            assert_eq!((why.len(), blocked(Force::No).await), (1, why));
        }
        for force in [Force::AfterWait, Force::AtOnce] {
            let listed = blocked(force).await;
            let duties: Vec<&Duty> = listed.iter().map(|one| &one.duty).collect();
            assert_eq!(duties, [&Duty::Terminate { relations: vec![] }], "{force:?}");
        }
    }
}

/// 1. A hook fails. 2. It is retried and hangs. 3. Its application is removed: the failure is not what that waits for.
#[tokio::test]
async fn the_hook_that_a_dying_unit_runs_is_named_for_its_application_and_its_model() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let mut agent = idle_agent(&fixture, "web/0").await;
    let reason = FailureReason::exit(1);
    let failed = Record {
        outcome: Outcome::Failed { reason, retry: None },
        ..agent.record(Operation::Hook(Hook::UpdateStatus))
    };
    agent.commit(failed).await;
    let application = "web".to_owned();
    let removal = RemoveApplication { destroy_storage: false, application, force: Force::No };
    fixture.admin.handle(removal).await.expect("the removal is accepted");
    for entity in ["web", "model"] {
        let all = causes(&fixture, entity).await;
        assert!(all.iter().any(|cause| matches!(cause.duty, Duty::Terminate { .. })), "{entity}: {all:?}");
    }
    let (reports, executing) = (Vec::new(), Some(Activity::hook(HookName::ConfigChanged)));
    let report = Report { epoch: agent.epoch, run: 9, reports, executing, executing_for_ms: 5 };
    agent.api.handle(report).await.expect("the session is current");
    for entity in ["web/0", "web", "model"] {
        let all = causes(&fixture, entity).await;
        let finishes = all.iter().filter(|cause| matches!(cause.duty, Duty::Finish { run: 9, .. }));
        assert_eq!(finishes.count(), 1, "{entity}: {all:?}");
        assert!(!all.iter().any(|cause| matches!(cause.duty, Duty::Terminate { .. })), "{entity}: {all:?}");
    }
}
