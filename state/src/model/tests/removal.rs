//! Removals foretold (issue 4, dry runs). What is foretold is what then happens: expected hooks are those of spec
//! A.7, H.6 and H.7.

use super::super::application;
use super::super::blockers::Entity;
use super::super::removal::{Forecast, forecast};
use super::*;
use crate::unit::operation::Version;

fn foretold(world: &World, entity: Entity) -> Forecast {
    forecast(world.reader(), MODEL, &[entity]).expect("it may go")
}

fn hooks(forecast: &Forecast) -> Vec<String> {
    forecast.hooks.iter().map(|(unit, hook)| format!("{unit} {hook}")).collect()
}

/// web/0 and db/0 in a relation, each told of the other.
fn qr(world: &mut World) -> (Uuid, Agent, Agent) {
    world.deploy("shop", "web", 1);
    world.deploy("db", "db", 1);
    let id = world.integrate("shop", "db").expect("they fit");
    let number = world.number(id);
    let (mut shop, mut db) = (Agent::attach(world, "shop/0"), Agent::attach(world, "db/0"));
    for agent in [&mut shop, &mut db] {
        agent.start(world);
        agent.enter(world, id);
        let created = agent.relation_hook(number, RelationEvent::Created);
        agent.done(world, created);
    }
    let version = Version { incarnation: 1, counter: 1 };
    for (agent, other) in [(&mut shop, "db/0"), (&mut db, "shop/0")] {
        let unit: UnitName = other.parse().expect("a name");
        for event in [
            RelationEvent::Joined { unit: unit.clone(), version },
            RelationEvent::Changed { unit: unit.clone(), version },
        ] {
            let hook = agent.relation_hook(number, event);
            agent.done(world, hook);
        }
    }
    (id, shop, db)
}

#[test]
fn scenario_86_is_foretold_and_nothing_is_changed() {
    let mut world = World::new();
    let (id, shop, _) = qr(&mut world);
    let number = world.number(id);
    let before = world.documents.map.clone();
    let told = foretold(&world, Entity::Unit(shop.unit));
    assert_eq!((told.at_once.clone(), told.dying.clone()), (vec![], vec!["unit shop/0".to_owned()]));
    let own: Vec<String> = hooks(&told).into_iter().filter(|hook| hook.starts_with("shop/0")).collect();
    assert_eq!(
        own,
        [
            format!("shop/0 db-relation-departed db:{number} db/0 departing=shop/0"),
            format!("shop/0 db-relation-broken db:{number}"),
            "shop/0 stop".to_owned(),
            "shop/0 remove".to_owned(),
        ]
    );
    let departed = format!("db/0 server-relation-departed server:{number} shop/0 departing=shop/0");
    assert!(hooks(&told).contains(&departed), "{:?}", told.hooks);
    assert_eq!(told.gone, ["unit shop/0"]);
    assert_eq!(told.blocked, []);
    assert_eq!(world.documents.map, before);
}

#[test]
fn a_relation_that_ends_breaks_on_both_sides() {
    let mut world = World::new();
    let (id, _, _) = qr(&mut world);
    let number = world.number(id);
    let told = foretold(&world, Entity::Relation(id));
    for (unit, endpoint) in [("shop/0", "db"), ("db/0", "server")] {
        let broken = format!("{unit} {endpoint}-relation-broken {endpoint}:{number}");
        assert!(hooks(&told).contains(&broken), "{:?}", told.hooks);
    }
    assert_eq!(told.gone.len(), 1, "{:?}", told.gone);
    assert_eq!(told.blocked, []);
}

#[test]
fn what_no_agent_has_begun_goes_at_once() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    let told = foretold(&world, Entity::Unit(unit));
    assert_eq!((told.at_once, told.hooks), (vec!["unit web/0".to_owned()], vec![]));
}

#[test]
fn what_would_hold_a_removal_up_is_named() {
    let mut world = World::new();
    let (_, mut shop, _) = qr(&mut world);
    let failed = Outcome::Failed { reason: "exit status 1".into(), retry: None };
    let record = shop.record(Operation::Hook(Hook::UpdateStatus), failed);
    shop.commit(&mut world, record);
    let app: Uuid = read(world.reader(), &MODEL.application_name("shop")).expect("it is there");
    let told = foretold(&world, Entity::Application(app));
    assert!(hooks(&told).iter().all(|hook| !hook.starts_with("shop/0")), "it is in error: {:?}", told.hooks);
    assert_eq!(told.blocked[0].entity, "unit shop/0");
    assert_eq!(told.blocked[0].last_error.as_deref(), Some("hook update-status: exit status 1"));
    let unknown = forecast(world.reader(), MODEL, &[Entity::Unit(Uuid(404))]);
    assert_eq!(unknown.expect_err("nobody").code, Code::NotFound);
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("it may go");
    assert!(!foretold(&world, Entity::Application(app)).blocked.is_empty(), "asked again, the same");
}
