//! Blockers: never empty, bounded, and one for each entity.

use crate::documents::blockers::{BLOCKERS_MAX, EntityId, blockers};
use crate::lifecycle::application;
use crate::lifecycle::unit;
use crate::terms::cause::{Actor, Duty, Entity, RelationName};
use crate::tests::lifecycle::fixture::machine_of;
use crate::tests::*;

#[test]
fn scenario_176_blockers_are_never_empty_and_name_the_failure() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    let id = machine_of(&world, unit);
    assert_eq!(
        blockers(&mut world.reader(), MODEL, EntityId::Application(app)),
        vec![],
        "Alive waits for nothing"
    );
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("the removal is accepted");
    let named = |world: &World, entity| {
        let found = blockers(&mut world.reader(), MODEL, entity);
        found.into_iter().map(|b| (b.entity, b.actor, b.last_error)).collect::<Vec<_>>()
    };
    let name = UnitName::new("web", 0);
    let machine = (Entity::Unit(name.clone()), Actor::MachineAgent("0".to_owned()), None);
    assert_eq!(named(&world, EntityId::Application(app)), vec![machine.clone()], "never attached");
    let mut agent = Agent::attach(&mut world, "web/0");
    let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    let record = agent.record(Operation::Hook(Hook::Install), failed);
    agent.commit(&mut world, record);
    let own = |error| (Entity::Unit(name.clone()), Actor::UnitAgent(name.clone()), error);
    let error = Some(FailureReason::exit(1).of_operation(&Operation::Hook(Hook::Install)));
    assert_eq!(named(&world, EntityId::Unit(unit)), vec![own(error.clone())]);
    assert_eq!(named(&world, EntityId::Application(app)), vec![own(error)]);
    let refusal = world.run(|draft, _| unit::remove(draft, MODEL, unit, 60)).expect_err("it is not dead");
    assert_eq!((refusal.code(), refusal.blockers.len()), (Code::Busy, 1));
    agent.done(&mut world, Operation::Hook(Hook::Install));
    agent.done(&mut world, Operation::SetDead);
    assert_eq!(named(&world, EntityId::Unit(unit)), vec![machine]);
    world.run(|draft, _| unit::remove(draft, MODEL, unit, 60)).expect("it is dead");
    assert!(world.is_removed(app));
    let never_started = (Entity::Machine("0".to_owned()), Actor::Provisioner, None);
    assert_eq!(named(&world, EntityId::Machine(id)), vec![never_started]);
}

#[test]
fn a_unit_that_leaves_several_relations_is_one_blocker_and_blockers_are_bounded() {
    let mut world = World::new();
    let web = world.deploy("web", "web", 1);
    world.deploy("db", "db", 1);
    world.deploy("shop", "shop", 1);
    let relations = [
        world.integrate("web", "db").expect("the endpoints are compatible"),
        world.integrate("shop", "db").expect("the endpoints are compatible"),
    ];
    let mut agents = ["web/0", "db/0", "shop/0"].map(|name| Agent::attach(&mut world, name));
    for (agent, of) in agents.iter_mut().zip([&relations[..1], &relations[..], &relations[1..]]) {
        agent.start(&mut world);
        of.iter().for_each(|relation| drop(agent.enter(&mut world, *relation)));
    }
    let db = read(world.reader(), &MODEL.application_name("db")).expect("the application exists");
    world.run(|draft, _| application::destroy(draft, MODEL, db)).expect("the removal is accepted");
    let blockers_of = |world: &World, entity| {
        let all = blockers(&mut world.reader(), MODEL, entity).into_iter();
        all.map(|one| (one.entity, one.duty)).collect::<Vec<_>>()
    };
    let named =
        |id, ends: &str| RelationName { number: world.number(id), ends: ends.parse().expect("the ends") };
    let of_web = named(relations[0], "db:server web:db");
    let of_shop = named(relations[1], "db:server shop:db");
    let both = vec![of_web.clone(), of_shop.clone()];
    let unit = |application: &str| Entity::Unit(UnitName::new(application, 0));
    let of_db = [
        (unit("db"), Duty::Terminate { relations: both }),
        (unit("web"), Duty::LeaveScopes { relations: vec![of_web] }),
        (unit("shop"), Duty::LeaveScopes { relations: vec![of_shop] }),
    ];
    assert_eq!(blockers_of(&world, EntityId::Application(db)), of_db);
    assert_eq!(blockers_of(&world, EntityId::Application(web)), []);

    // a unit of another application that is in two relations of a dying one
    world.upload("cache", db_of_two());
    let cache = world.deploy("cache", "cache", 0);
    let of_cache = ["one", "two"].map(|endpoint| {
        let id =
            world.integrate(&format!("cache:{endpoint}"), "shop:db").expect("the endpoints are compatible");
        agents[2].enter(&mut world, id);
        RelationName {
            number: world.number(id),
            ends: format!("cache:{endpoint} shop:db").parse().expect("the ends"),
        }
    });
    world.run(|draft, _| application::destroy(draft, MODEL, cache)).expect("the removal is accepted");
    assert_eq!(
        blockers_of(&world, EntityId::Application(cache)),
        [(unit("shop"), Duty::LeaveScopes { relations: of_cache.to_vec() })]
    );

    let many = world.deploy("many", "plain", 7);
    for _ in 0..23 {
        world.run(|draft, ids| unit::add(draft, MODEL, many, None, 1, ids)).expect("it is alive");
    }
    world.run(|draft, _| application::destroy(draft, MODEL, many)).expect("the removal is accepted");
    assert_eq!(blockers_of(&world, EntityId::Application(many)).len(), BLOCKERS_MAX + 1);
}

/// A database charm with two endpoints.
fn db_of_two() -> Charm {
    let endpoints = ["one", "two"].map(|name| endpoint(name, Role::Provider, "mysql"));
    Charm { name: "cache".into(), endpoints: endpoints.into(), ..Charm::default() }
}
