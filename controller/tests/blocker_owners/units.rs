//! Units name whom they wait for: the unit agent, an operator, or the machine agent.

use crate::fixture::{cause_of, causes, machine_agent, now, unit};
use crate::support::*;
use api::{Claim, Force, Handle, RemoveApplication, RemoveUnit, ReportPresence};
use state::documents::prelude::TokenHolder;
use state::terms::activity::Activity;
use state::terms::cause::{Actor, Cause, Duty, Entity, Remedy, Retry};
use state::terms::failure_reason::FailureReason;
use state::terms::hook_name::HookName;
use state::terms::operation::{CharmRef, Hook, Operation};
use state::unit::record::{Outcome, Record};
use std::collections::BTreeSet;

#[tokio::test]
async fn the_cause_for_an_agent_that_does_not_start_names_its_log() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("db", 1).await;
    let created_ms = now(&fixture);
    let machine = fixture.machine_of_unit(fixture.unit("db/0").await).await;
    machine_agent(&fixture, machine)
        .await
        .handle(ReportPresence::default())
        .await
        .expect("the report is accepted");
    fixture.advance(4_000);
    for entity in ["db/0", "db", "model"] {
        let listed = causes(&fixture, entity).await;
        let waits = cause_of(&listed, &Entity::Unit(unit("db/0")));
        assert_eq!((&waits.actor, waits.since_ms), (&Actor::UnitAgent(unit("db/0")), created_ms));
        assert_eq!(waits.duty, Duty::Attach { machine: "0".to_owned() });
    }
}

#[tokio::test]
async fn a_frozen_agent_is_late_before_it_is_lost_with_the_time_of_its_last_heartbeat() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = machine_agent(&fixture, fixture.machine_of_unit(fixture.unit("web/0").await).await).await;
    let web = fixture.attach_agent("web/0").await;
    let claim = Claim { epoch: web.epoch, release: false, view: None };
    web.api.handle(claim).await.expect("the agent is attached");
    let heard_ms = now(&fixture);
    // a unit agent claims every 15 s
    fixture.advance(20_000);
    machine.handle(ReportPresence::default()).await.expect("the machine's agent is well");
    let late = |causes: Vec<Cause>| {
        causes.into_iter().find(|cause| matches!(cause.duty, Duty::Respond { lost: false, .. }))
    };
    assert_eq!(late(causes(&fixture, "web/0").await), None);
    fixture.advance(1);
    for entity in ["web/0", "model"] {
        let listed = late(causes(&fixture, entity).await).expect("it is late");
        assert_eq!(listed.since_ms, heard_ms);
        let restart = Remedy::KillUnitAgent { unit: unit("web/0"), machine: "0".to_owned(), removable: true };
        assert_eq!(listed.remedy(), restart);
    }
}

#[tokio::test]
async fn a_model_names_units_in_error_without_any_removal() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let mut web = fixture.attach_agent("web/0").await;
    let charm = CharmRef {
        url: "local:web-0".to_owned(),
        sha256: "web".to_owned(),
        revision: 0,
        endpoints: BTreeSet::from(["db".to_owned()]),
        resources: String::new(),
    };
    web.commit(web.record(Operation::InstallCharm(charm))).await;
    let record = web.record(Operation::Hook(Hook::Install));
    let outcome = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    web.commit(Record { outcome, ..record }).await;
    let listed = causes(&fixture, "model").await;
    let waits = cause_of(&listed, &Entity::Unit(unit("web/0")));
    let activity = Activity::hook(HookName::Install);
    assert_eq!(waits.duty, Duty::Recover { activity, failures: 1, retry: Retry::Exhausted });
    assert_eq!(waits.remedy(), Remedy::ResolveUnit { unit: unit("web/0") });
}

#[tokio::test]
async fn a_dying_unit_waits_since_its_removal_and_enters_no_relation() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let (number, _) = fixture.integrate().await;
    fixture.attach_agent("web/0").await;
    fixture.advance(3_600_000);
    fixture
        .admin
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "web/0".parse().expect("a unit"),
            force: Force::No,
        })
        .await
        .expect("the removal is accepted");
    let removed_ms = now(&fixture);
    fixture.advance(5_000);
    let listed = causes(&fixture, "model").await;
    assert_eq!(cause_of(&listed, &Entity::Unit(unit("web/0"))).since_ms, removed_ms);
    let listed = causes(&fixture, &format!("relation/{number}")).await;
    let entering = listed.iter().filter(|cause| matches!(cause.duty, Duty::EnterScope { .. }));
    let entering: Vec<&Entity> = entering.map(|cause| &cause.entity).collect();
    assert_eq!(entering, [&Entity::Unit(unit("db/0"))], "{listed:?}");

    // the agent of this unit was never started
    fixture
        .admin
        .handle(RemoveApplication { destroy_storage: false, application: "db".to_owned(), force: Force::No })
        .await
        .expect("the removal is accepted");
    let removed_ms = now(&fixture);
    fixture.advance(5_000);
    for entity in ["db/0", "db", "model"] {
        let listed = causes(&fixture, entity).await;
        let never = listed.iter().find(|cause| cause.duty == Duty::RemoveUnstarted).expect("no agent came");
        let db = Entity::Unit(unit("db/0"));
        assert_eq!((&never.entity, never.since_ms), (&db, removed_ms), "{entity}");
    }
}

#[tokio::test]
async fn a_dead_unit_waits_for_its_recall_by_the_machine_agent() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let principal = TokenHolder::Machine { model: fixture.model, machine };
    fixture.token(machine, principal.clone()).await;
    let caller = fixture.controller.caller(principal);
    let mut web = fixture.attach_agent("web/0").await;
    fixture
        .admin
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "web/0".parse().expect("a unit"),
            force: Force::No,
        })
        .await
        .expect("the removal is accepted");
    web.commit(web.record(Operation::SetDead)).await;
    let died_ms = now(&fixture);
    fixture.advance(controller::presence::LOST_AFTER_MS + 1);
    caller.handle(ReportPresence::default()).await.expect("the machine's agent is here");
    let listed = causes(&fixture, "web/0").await;
    let by_machine = Actor::MachineAgent("0".to_owned());
    assert_eq!(listed, [Cause::new(Entity::Unit(unit("web/0")), Duty::Recall, by_machine).since(died_ms)]);
}
