//! Refusals name their blockers, each with the command that helps.

use crate::fixture::{cause_of, causes, now, unit};
use crate::support::*;
use api::error::ErrorCode;
use api::{
    AddUnits, Deploy, DestroyModel, DryRunRemoval, Force, Handle, Integrate, RelationChoice,
    RemoveApplication, RemoveMachine, RemoveRelation,
};
use state::lifecycle::machine::UNITS_MAX;
use state::terms::cause::{Actor, Cause, Duty, Entity, RelationName, Remedy};
use state::terms::failure_reason::FailureReason;
use state::terms::operation::{Hook, Operation};
use state::terms::refusal::application::ApplicationRefusal;
use state::terms::refusal::machine::MachineRefusal;
use state::terms::refusal::relation::RelationRefusal;
use state::unit::record::{Outcome, Record};
use std::collections::BTreeMap;

#[tokio::test]
async fn a_refusal_because_of_a_pending_removal_names_its_blockers() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let relation = fixture.integrate().await;
    let (mut web, _db) = (fixture.attach_agent("web/0").await, fixture.attach_agent("db/0").await);
    web.enter(relation, "db", "db").await;
    fixture
        .admin
        .handle(RemoveRelation { relation: RelationChoice::Number(relation.0), force: Force::No })
        .await
        .expect("the removal is accepted");
    let ends = api::Ends { a: "web".to_owned(), b: "db".to_owned() };
    let refused = fixture.admin.handle(Integrate(ends)).await.expect_err("it is still being removed");
    assert_eq!(refused.code, ErrorCode::AlreadyExists);
    assert_eq!(
        refused.message,
        message(RelationRefusal::PredecessorExists { ends: "db:server web:db".parse().expect("the ends") })
    );
    let relations =
        vec![RelationName { number: relation.0, ends: "db:server web:db".parse().expect("the ends") }];
    let leave = Cause::of_unit_agent(&unit("web/0"), Duty::LeaveScopes { relations: relations.clone() });
    assert_eq!(refused.blockers, [leave.since(now(&fixture))]);
    fixture
        .admin
        .handle(RemoveApplication { destroy_storage: false, application: "web".to_owned(), force: Force::No })
        .await
        .expect("the removal is accepted");
    let removed_ms = now(&fixture);
    fixture.advance(125_000);
    let deploy = Deploy {
        application: None,
        sha256: "web".to_owned(),
        units: 1,
        to: None,
        config: BTreeMap::new(),
        ..Deploy::default()
    };
    let refused = fixture.admin.handle(deploy).await.expect_err("it is still being removed");
    assert_eq!(refused.message, message(ApplicationRefusal::PredecessorExists { name: "web".to_owned() }));
    let terminate = Cause::of_unit_agent(&unit("web/0"), Duty::Terminate { relations });
    assert_eq!(refused.blockers, [terminate.since(removed_ms)]);
}

#[tokio::test]
async fn a_refused_removal_has_at_most_21_blockers_each_with_its_remedy() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let remove = async |name: &str| {
        fixture
            .admin
            .handle(RemoveMachine { machine: name.to_owned(), force: Force::No, keep_instance: false })
            .await
            .expect_err("it is in use")
    };
    let by_hand = |unit| Cause::new(Entity::Unit(unit), Duty::Remove, Actor::Operator);
    let first = remove("0").await;
    let alive = MachineRefusal::UnitsAlive { machine: "0".to_owned(), units: vec![unit("web/0")] };
    assert_eq!(first.message, message(alive));
    assert_eq!(first.blockers, [by_hand(unit("web/0"))]);
    for _ in 1..UNITS_MAX {
        let add = AddUnits {
            attach_storage: Vec::new(),
            application: "web".to_owned(),
            units: 1,
            to: Some("0".to_owned()),
        };
        fixture.admin.handle(add).await.expect("there is room");
    }
    let refused = remove("0").await;
    assert_eq!(refused.blockers.len(), 21, "one more than the text lists");
    let is_remedied = |blocker: &Cause| blocker.remedy() == Remedy::Remove(blocker.entity.clone());
    assert!(refused.blockers.iter().all(is_remedied), "{refused:?}");
}

#[tokio::test]
async fn each_of_several_blockers_has_its_own_remedy_and_time() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    let mut web = fixture.attach_agent("web/0").await;
    let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    web.commit(Record { outcome: failed, ..web.record(Operation::Hook(Hook::Install)) }).await;
    fixture.attach_agent("web/1").await;
    fixture
        .admin
        .handle(RemoveApplication { destroy_storage: false, application: "web".to_owned(), force: Force::No })
        .await
        .expect("the removal is accepted");
    let removed_ms = now(&fixture);
    fixture.advance(5_000);
    let deploy = Deploy {
        application: None,
        sha256: "web".to_owned(),
        units: 1,
        to: None,
        config: BTreeMap::new(),
        ..Deploy::default()
    };
    let refused = fixture.admin.handle(deploy).await.expect_err("it is still being removed");
    let of_second = cause_of(&refused.blockers, &Entity::Unit(unit("web/1")));
    assert_eq!(of_second.since_ms, removed_ms);
    assert_eq!(of_second.remedy(), Remedy::Explain(Entity::Unit(unit("web/1"))));
    let of_first = cause_of(&refused.blockers, &Entity::Unit(unit("web/0")));
    let last_error = Some(FailureReason::exit(1).of_operation(&Operation::Hook(Hook::Install)));
    assert_eq!(of_first.last_error, last_error);
    assert_eq!(of_first.remedy(), Remedy::ResolveUnit { unit: unit("web/0") });
    assert_eq!(refused.hint, None);

    let removed = vec![api::RemovalTarget::Application("web".to_owned())];
    let response =
        fixture.admin.handle(DryRunRemoval { removed, force: Force::No }).await.expect("it exists");
    assert_eq!(cause_of(&response.blockers, &Entity::Unit(unit("web/0"))).last_error, last_error);
    assert!(response.blockers.iter().all(|one| one.since_ms.is_some()), "{response:?}");
}

#[tokio::test]
async fn the_remedy_for_a_destroyed_model_is_a_complete_command() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.attach_agent("web/0").await;
    fixture.admin.handle(DestroyModel { force: Force::No }).await.expect("the removal is accepted");
    let listed = causes(&fixture, "model").await;
    let destroy = Remedy::DestroyByForce { model: "dev".to_owned(), forced: Force::No };
    assert_eq!(cause_of(&listed, &Entity::Model("dev".to_owned())).remedy(), destroy, "{listed:?}");
}
