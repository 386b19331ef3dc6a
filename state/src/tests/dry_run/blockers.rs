//! The blockers that a dry run names, and what force does about them.

use crate::documents::blockers::EntityId;
use crate::lifecycle::application;
use crate::terms::cause::{Actor, Cause, Duty, Entity, RelationName};
use crate::terms::force::Force;
use crate::tests::dry_run::fixture::{
    ALL_PRESENT, dry_run_alone, dry_run_together, dry_run_within, hooks, names, related_units,
};
use crate::tests::*;
use crate::transitions::dry_run::{self, AgentReports, DryRun, Removal};
use crate::transitions::force;

#[test]
fn a_dry_run_names_what_would_block_the_removal() {
    let mut world = World::new();
    let (_, mut shop, _) = related_units(&mut world);
    let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    let operation = Operation::Hook(Hook::UpdateStatus);
    let last_error = FailureReason::exit(1).of_operation(&operation);
    let record = shop.record(operation, failed);
    shop.commit(&mut world, record);
    let app: Uuid = read(world.reader(), &MODEL.application_name("shop")).expect("the application exists");
    let result = dry_run_alone(&world, EntityId::Application(app));
    assert!(
        hooks(&result).iter().all(|hook| !hook.starts_with("shop/0")),
        "it is in error: {:?}",
        result.hooks
    );
    assert_eq!(result.blockers[0].entity, Entity::Unit(UnitName::new("shop", 0)));
    assert_eq!(result.blockers[0].last_error, Some(last_error));
    let unknown = dry_run_together(world.reader(), MODEL, &[EntityId::Unit(Uuid(404))], Force::No);
    assert_eq!(unknown.expect_err("nobody").code(), Code::NotFound);
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("the removal is accepted");
    assert!(
        !dry_run_alone(&world, EntityId::Application(app)).blockers.is_empty(),
        "a second dry run has blockers too"
    );
}

#[test]
fn a_dry_run_with_force_includes_what_the_controller_does_for_failed_units() {
    let mut world = World::new();
    let (_, mut shop, mut db) = related_units(&mut world);
    let failed = || Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    let record = shop.record(Operation::Hook(Hook::UpdateStatus), failed());
    shop.commit(&mut world, record);
    let before = world.documents.map.clone();
    let machine = read(world.reader(), &MODEL.unit(shop.unit)).expect("the unit exists").machine;
    let answer = dry_run_together(world.reader(), MODEL, &[EntityId::Machine(machine)], Force::No);
    let alive = MachineRefusal::UnitsAlive { machine: "0".to_owned(), units: vec![UnitName::new("shop", 0)] };
    assert_eq!(refused(answer), reason(alive));
    for force in [Force::AfterWait, Force::AtOnce] {
        for entity in [EntityId::Machine(machine), EntityId::Unit(shop.unit)] {
            let result = dry_run_together(world.reader(), MODEL, &[entity], force)
                .expect("the forced removal is accepted");
            assert_eq!(names(&result.removed_eventually), ["machine 0", "unit shop/0"], "{entity:?}");
            let of_shop = Entity::Unit(UnitName::new("shop", 0));
            assert!(result.blockers.iter().any(|one| one.entity == of_shop), "{:?}", result.blockers);
            assert!(hooks(&result).iter().any(|hook| hook.starts_with("db/0 server-relation-departed")));
            assert_eq!(result.skipped_hooks, [], "shop/0 is in error");
        }
    }
    assert_eq!(world.life(db.unit), Some(Life::Alive));
    assert_eq!(world.documents.map, before);

    // what another request has forced is not part of this prediction
    let asked = Force::AfterWait;
    let record = db.record(Operation::Hook(Hook::UpdateStatus), failed());
    db.commit(&mut world, record);
    world
        .run(|draft, _| force::destroy_unit(draft, MODEL, db.unit, asked, 1))
        .expect("the forced removal is accepted");
    let result = dry_run_together(world.reader(), MODEL, &[EntityId::Unit(shop.unit)], asked)
        .expect("the removal is accepted");
    assert_eq!(
        (names(&result.removed_eventually), result.truncated),
        (vec!["machine 0".to_owned(), "unit shop/0".to_owned()], false)
    );
    let removal = Removal { entities: &[EntityId::Unit(shop.unit)], force: asked, now_ms: 1 };
    assert!(
        dry_run_within(world.reader(), MODEL, removal, 0).expect("the removal is accepted").truncated,
        "the action ends early with this reason"
    );
}

/// Design 6: the remaining units of a removal by force observe an ordinary departure. Only the removed units run no
/// more hooks.
#[test]
fn no_wait_skips_the_hooks_of_the_removed_units_only() {
    let mut world = World::new();
    let (id, shop, _) = related_units(&mut world);
    let number = world.number(id);
    let force = Force::AtOnce;
    let result = dry_run_together(world.reader(), MODEL, &[EntityId::Unit(shop.unit)], force)
        .expect("the removal is accepted");
    let related = |result: &DryRun| -> Vec<String> {
        hooks(result)
            .into_iter()
            .filter(|hook| hook.contains("-departed ") || hook.contains("-broken "))
            .collect()
    };
    let departed = format!("db/0 server-relation-departed server:{number} shop/0 departing=shop/0");
    assert_eq!(related(&result).join(", "), departed);
    assert!(!hooks(&result).iter().any(|hook| hook.starts_with("shop/0")), "{:?}", result.hooks);
    assert!(
        result.skipped_hooks.iter().all(|expected| expected.unit.to_string() == "shop/0"),
        "{:?}",
        result.skipped_hooks
    );
    assert_eq!(result.skipped_hooks.last().expect("it would run some").hook, Hook::Remove);
    assert_eq!(names(&result.removed_eventually), ["machine 0", "unit shop/0"]);

    let result = dry_run_together(world.reader(), MODEL, &[EntityId::Relation(id)], force)
        .expect("the removal is accepted");
    let mut all = related(&result);
    all.sort();
    assert_eq!(
        all,
        [
            format!("db/0 server-relation-broken server:{number}"),
            departed,
            format!("shop/0 db-relation-broken db:{number}"),
            format!("shop/0 db-relation-departed db:{number} db/0 departing=db/0"),
        ]
    );
    assert_eq!(result.skipped_hooks, [], "units of both sides stay");
}

/// Spec F.4: a silent agent blocks what waits for it. By force the controller acts in its place, and none of its hooks
/// is predicted.
#[test]
fn a_dry_run_names_silent_agents_as_blockers() {
    let mut world = World::new();
    let (id, shop, db) = related_units(&mut world);
    let [shop_on, db_on] = [shop.unit, db.unit].map(|unit| {
        EntityId::Machine(read(world.reader(), &MODEL.unit(unit)).expect("the unit exists").machine)
    });
    let cause =
        |one: EntityId| Cause::new(Entity::Machine(format!("{one:?}")), Duty::Integrate, Actor::Operator);
    let simulate = |entity, force, silent: &[EntityId]| {
        let silent_agent = |one| silent.contains(&one).then(|| cause(one));
        let reports = AgentReports { silent_agent: &silent_agent, ..ALL_PRESENT };
        dry_run::dry_run(world.reader(), MODEL, Removal { entities: &[entity], force, now_ms: 1 }, &reports)
            .expect("the removal is accepted")
    };
    let [of_shop, of_db] = [shop.unit, db.unit].map(EntityId::Unit);
    let all = [shop_on, of_shop, db_on, of_db];
    let app: Uuid = read(world.reader(), &MODEL.application_name("shop")).expect("the application exists");
    for entity in [of_shop, EntityId::Application(app)] {
        let quiet = simulate(entity, Force::No, &[]);
        let result = simulate(entity, Force::No, &all);
        assert!(
            result.hooks == quiet.hooks && result.removed_eventually == quiet.removed_eventually,
            "{result:?}"
        );
        let expected = match entity {
            EntityId::Application(_) => vec![shop_on, of_shop, of_db],
            _ => vec![shop_on, of_shop],
        };
        let expected: Vec<Cause> = expected.into_iter().map(cause).chain(quiet.blockers).collect();
        assert_eq!(result.blockers, expected, "db/0 leaves only a relation that ends");
    }
    let ends = simulate(EntityId::Relation(id), Force::No, &all).blockers;
    assert!([of_shop, of_db].map(cause).iter().all(|silent| ends[..2].contains(silent)), "{ends:?}");
    assert!(![shop_on, db_on].map(cause).iter().any(|silent| ends.contains(silent)), "{ends:?}");
    for force in [Force::AfterWait, Force::AtOnce] {
        let forced = simulate(of_shop, force, &[of_shop]);
        assert_eq!(forced.blockers.len(), 1, "{:?}", forced.blockers);
        let relations = vec![RelationName {
            number: world.number(id),
            ends: "db:server shop:db".parse().expect("the ends"),
        }];
        let duty = Duty::Terminate { relations };
        assert_eq!(forced.blockers[0], Cause::of_unit_agent(&UnitName::new("shop", 0), duty));
        let runs = |unit: &str| forced.hooks.iter().any(|expected| expected.unit.to_string() == unit);
        assert!(!runs("shop/0") && runs("db/0"), "{:?}", forced.hooks);
        assert_eq!(names(&forced.removed_eventually), ["machine 0", "unit shop/0"]);
    }
}
