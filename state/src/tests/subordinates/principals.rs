//! Subordinates and their principals: creation, containers and removal.

use crate::documents::blockers::{EntityId, blockers};
use crate::lifecycle::unit::Destroyed;
use crate::lifecycle::{application, constraints, machine, unit};
use crate::terms::cause::{Duty, Entity, RelationName};
use crate::terms::constraints::Constraints;
use crate::terms::owner::Owner;
use crate::tests::subordinates::fixture::{
    destroy, document, head, related_subordinate, shown, started, subordinate_refused,
};
use crate::tests::*;

#[test]
fn scenario_118_a_principal_that_enters_creates_its_subordinate() {
    let mut world = World::new();
    let web = world.deploy("web", "web", 1);
    let several = Deploy { sha256: "logging".into(), units: 3, ..Deploy::default() };
    let deployed = world.run(|draft, ids| application::deploy(draft, MODEL, &several, created(ids)));
    let expected = ApplicationRefusal::SubordinateUnits { application: "logging".to_owned() };
    assert_eq!(deployed.err().map(|refusal| *refusal.reason), Some(expected.into()));
    let app = world.deploy("logging", "logging", 1);
    assert!(read_all::<()>(world.reader(), &MODEL.units_of(app)).is_empty(), "a deploy brings no units");
    let id = world.integrate("web", "logging").expect("the endpoints are compatible");
    let mut agent = started(&mut world, "web/0");
    assert!(head(&world, agent.unit, id).implicit && head(&world, agent.unit, id).creates_subordinate);
    agent.enter(&mut world, id);
    let unit = world.unit("logging/0");
    let (doc, principal) = (document(&world, unit), document(&world, agent.unit));
    assert_eq!((doc.principal, doc.machine), (Some(agent.unit), principal.machine));
    assert_eq!(shown(&world, unit).unit.principal, Some(UnitName::new("web", 0)));
    assert_eq!(shown(&world, agent.unit).unit.subordinates, [UnitName::new("logging", 0)].into());
    let number = world.number(id);
    assert!(shown(&world, agent.unit).relations[&number].members.is_empty(), "it is not in scope yet");
    // a second entry, and another unit: one subordinate each
    agent.enter(&mut world, id);
    world.run(|draft, ids| unit::add(draft, MODEL, web, Some("0"), 1, ids)).expect("it is alive");
    let mut second = started(&mut world, "web/1");
    second.enter(&mut world, id);
    assert_eq!(document(&world, world.unit("logging/1")).principal, Some(second.unit));
    assert_eq!(read_all::<()>(world.reader(), &MODEL.units_of(app)).len(), 2);
    let answer = world.run(|draft, ids| unit::add(draft, MODEL, app, None, 1, ids));
    assert_eq!(refused(answer).0, Code::Forbidden, "there is no other way");
}

#[test]
fn a_subordinate_has_no_constraints_and_its_principal_has_those_of_its_deployment() {
    let mut world = World::new();
    let constraints: Constraints = "mem=2G".parse().expect("valid");
    let deploy = |world: &mut World, charm: &str| {
        let request = Deploy { sha256: charm.into(), constraints: constraints.clone(), ..Deploy::default() };
        world.run(|draft, ids| application::deploy(draft, MODEL, &request, created(ids)))
    };
    let refusal = || {
        RefusalReason::from(ApplicationRefusal::SubordinateConstraints { application: "logging".to_owned() })
    };
    let refused = deploy(&mut world, "logging").expect_err("it has no machines of its own");
    assert_eq!(*refused.reason, refusal());
    assert_eq!(read(world.reader(), &MODEL.application_name("logging")), None, "nothing is deployed");
    let web = deploy(&mut world, "web").expect("it deploys").application;
    assert_eq!(read(world.reader(), &MODEL.constraints(web)).as_ref(), Some(&constraints));
    world.deploy("logging", "logging", 0);
    let set = world.run(|draft, _| constraints::set(draft, MODEL, Some("logging"), &constraints));
    assert_eq!(set.map_err(|refusal| *refusal.reason), Err(refusal()));
}

#[test]
fn a_dying_principal_is_a_blocker_beside_its_subordinate_until_it_waits_only_for_that() {
    let mut world = World::new();
    let (id, mut web, _logging) = related_subordinate(&mut world);
    let app = read(world.reader(), &MODEL.application_name("web")).expect("the application exists");
    let on = document(&world, web.unit).machine;
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("the removal is accepted");
    world.run(|draft, _| machine::destroy(draft, MODEL, on)).expect("what is on it goes");
    let blockers_of = |world: &World, entity| {
        let all = blockers(&mut world.reader(), MODEL, entity).into_iter();
        all.map(|one| (one.entity, one.duty, one.last_error.is_some())).collect::<Vec<_>>()
    };
    let line = |unit: &str, relations: &[RelationName], failed| {
        (
            Entity::Unit(unit.parse().expect("a name")),
            Duty::Terminate { relations: relations.to_vec() },
            failed,
        )
    };
    let ends = "logging:host web:juju-info".parse().expect("the ends");
    let leave = &[RelationName { number: world.number(id), ends }];
    let subordinate = line("logging/0", leave, false);
    let all = [EntityId::Unit(web.unit), EntityId::Application(app), EntityId::Machine(on)];
    for entity in all {
        assert_eq!(blockers_of(&world, entity)[..2], [subordinate.clone(), line("web/0", leave, false)]);
    }
    web.leave(&mut world, id);
    let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    let record = web.record(Operation::Hook(Hook::Stop), failed);
    web.commit(&mut world, record);
    for entity in all {
        assert_eq!(blockers_of(&world, entity)[..2], [subordinate.clone(), line("web/0", &[], true)]);
    }
    web.done(&mut world, Operation::Hook(Hook::Stop));
    assert_eq!(
        blockers_of(&world, all[0]),
        [subordinate.clone(), line("web/0", &[], false)],
        "remove is left"
    );
    web.done(&mut world, Operation::Hook(Hook::Remove));
    assert_eq!(blockers_of(&world, all[0]), [subordinate], "it waits for that one alone");
}

#[test]
fn scenario_119_containers_are_separate() {
    let mut world = World::new();
    world.deploy("shop", "shop", 2);
    world.deploy("logging", "logging", 0);
    let id = world.integrate("shop:logs", "logging:logs").expect("the endpoints are compatible");
    let number = world.number(id);
    let mut shops = ["shop/0", "shop/1"].map(|name| started(&mut world, name));
    shops.iter_mut().for_each(|shop| drop(shop.enter(&mut world, id)));
    let mut logs = ["logging/0", "logging/1"].map(|name| started(&mut world, name));
    logs.iter_mut().for_each(|log| drop(log.enter(&mut world, id)));
    for n in 0..2 {
        for (agent, own, other) in [(&shops[n], "shop", "logging"), (&logs[n], "logging", "shop")] {
            let view = shown(&world, agent.unit).relations.remove(&number).expect("it is shown");
            let beside = UnitName::new(other, n as u32);
            assert_eq!(view.members.keys().collect::<Vec<_>>(), [&beside]);
            let bags: Vec<Owner> = view.bags.into_iter().map(|(owner, _)| owner).collect();
            let mut expected = vec![Owner::Unit(UnitName::new(own, n as u32)), Owner::Unit(beside)];
            expected.extend([own, other].map(|name| Owner::Application(name.to_owned())));
            expected.sort();
            assert_eq!(bags, expected, "I31");
        }
    }
    // what shop/1 writes and does sends no change to the container of shop/0
    let mut record = shops[1].record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok);
    let change = BTreeMap::from([("key".to_owned(), "value".to_owned())]);
    record
        .writes
        .bags
        .insert(number, crate::unit::hook_context::BagWrites { unit: change, application: BTreeMap::new() });
    shops[1].commit(&mut world, record);
    assert!(world.sent[&shops[0].unit].is_empty() && world.sent[&logs[0].unit].is_empty());
    assert_eq!(world.sent[&logs[1].unit].len(), 1);
    // its settings can still be fetched after it has left, but by no other unit
    let leaver = UnitName::new("shop", 1);
    destroy(&mut world, id);
    shops[1].broken(&mut world, number);
    let view = shown(&world, logs[1].unit).relations.remove(&number).expect("it is shown");
    assert!(view.members.is_empty() && view.bag(&Owner::Unit(leaver.clone())).is_some());
    let view = shown(&world, logs[0].unit).relations.remove(&number).expect("it is shown");
    assert!(view.bag(&Owner::Unit(leaver)).is_none());
}

#[test]
fn scenario_120_a_principal_is_dead_only_after_its_subordinate_is_removed() {
    let mut world = World::new();
    let (id, mut web, mut logging) = related_subordinate(&mut world);
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit, 60)).expect("the removal is accepted");
    assert_eq!(world.life(logging.unit), Some(Life::Dying), "I23, at the same revision");
    assert!(!world.sent[&logging.unit].is_empty(), "a delta is sent to the subordinate");
    web.leave(&mut world, id);
    let refusal = UnitRefusal::HasSubordinates { unit: web0() };
    assert_eq!(web.done(&mut world, Operation::SetDead).refusal, Some(refusal.into()));
    logging.finish(&mut world);
    assert!(world.is_removed(logging.unit));
    let mut again = Agent::attach(&mut world, "web/0");
    assert_eq!(again.done(&mut world, Operation::SetDead), CommitOutcome::default());
}

#[test]
fn a_subordinate_is_dying_if_anything_above_it_is() {
    let beginning = || {
        let mut world = World::new();
        let (_, web, logging) = related_subordinate(&mut world);
        (world, web, logging)
    };
    let name = |world: &World, name| read(world.reader(), &MODEL.application_name(name)).expect("there");
    for application in ["web", "logging"] {
        let (mut world, _, logging) = beginning();
        let id = name(&world, application);
        world.run(|draft, _| application::destroy(draft, MODEL, id)).expect("the removal is accepted");
        assert_eq!(world.life(logging.unit), Some(Life::Dying), "{application}");
    }
    let (mut world, web, logging) = beginning();
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit, 60)).expect("the removal is accepted");
    let machine = document(&world, web.unit).machine;
    world.run(|draft, _| machine::destroy(draft, MODEL, machine)).expect("nobody there is alive");
    assert_eq!(world.life(logging.unit), Some(Life::Dying));
}

#[test]
fn scenario_121_the_subordinate_is_dying_once_the_last_container_relation_is_removed() {
    let mut world = World::new();
    let (id, mut web, mut logging) = related_subordinate(&mut world);
    assert_eq!(destroy(&mut world, id), Destroyed::Dying);
    assert_eq!(world.life(logging.unit), Some(Life::Dying));
    assert_eq!(world.life(web.unit), Some(Life::Alive));
    assert_eq!(shown(&world, web.unit).unit.departing_subordinates, [UnitName::new("logging", 0)].into());
    web.leave(&mut world, id);
    logging.finish(&mut world);
    assert!(world.is_removed(id) && world.is_removed(logging.unit));
    assert_eq!(world.life(web.unit), Some(Life::Alive));
}

#[test]
fn scenario_122_a_subordinate_remains_alive_while_one_relation_exists() {
    let mut world = World::new();
    world.deploy("shop", "shop", 1);
    world.deploy("logging", "logging", 0);
    let [info, logs] = ["host", "logs"].map(|end| {
        let shop = if end == "host" { "shop:juju-info" } else { "shop:logs" };
        world.integrate(shop, &format!("logging:{end}")).expect("the endpoints are compatible")
    });
    let mut shop = started(&mut world, "shop/0");
    shop.enter(&mut world, info);
    shop.enter(&mut world, logs);
    let app = read(world.reader(), &MODEL.application_name("logging")).expect("the application exists");
    assert_eq!(read_all::<()>(world.reader(), &MODEL.units_of(app)).len(), 1, "one of an application");
    let logging = world.unit("logging/0");
    assert_eq!(destroy(&mut world, info), Destroyed::Dying);
    assert_eq!(world.life(logging), Some(Life::Alive));
    // the other way round: a relation that was added later continues the subordinate link
    shop.leave(&mut world, info);
    let again = world.integrate("shop:juju-info", "logging:host").expect("at once");
    assert_eq!(destroy(&mut world, logs), Destroyed::Dying);
    assert_eq!(world.life(logging), Some(Life::Alive));
    assert_eq!(destroy(&mut world, again), Destroyed::Removed);
    assert_eq!(world.life(logging), Some(Life::Dying));
}

#[test]
fn scenario_123_a_subordinate_is_not_removed_by_itself() {
    let mut world = World::new();
    let (_, _, logging) = related_subordinate(&mut world);
    let answer = world.run(|draft, _| unit::destroy(draft, MODEL, logging.unit, 60));
    assert_eq!(refused(answer), reason(UnitRefusal::Subordinate { unit: UnitName::new("logging", 0) }));
}

#[test]
fn scenario_124_a_subordinate_application_is_removed_after_its_units() {
    let mut world = World::new();
    let (id, mut web, mut logging) = related_subordinate(&mut world);
    let app = read(world.reader(), &MODEL.application_name("logging")).expect("the application exists");
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("the removal is accepted");
    assert_eq!((world.life(id), world.life(logging.unit)), (Some(Life::Dying), Some(Life::Dying)));
    assert_eq!(world.life(web.unit), Some(Life::Alive));
    web.leave(&mut world, id);
    logging.finish(&mut world);
    assert!(world.is_removed(app) && world.is_removed(id));
}

#[test]
fn scenario_125_a_new_relation_does_not_revive_a_dying_subordinate() {
    let mut world = World::new();
    let (old, mut web, mut logging) = related_subordinate(&mut world);
    destroy(&mut world, old);
    web.leave(&mut world, old);
    logging.leave_by_broken(&mut world, old);
    assert!(world.is_removed(old));
    let new = world.integrate("web", "logging").expect("the old relation is gone");
    assert_eq!(world.life(logging.unit), Some(Life::Dying), "I17");
    let committed = web.enter(&mut world, new);
    let earlier = UnitRefusal::SubordinateNotRemoved { unit: web0(), life: Life::Dying };
    let refusal = subordinate_refused("logging:host web:juju-info", earlier);
    assert_eq!(committed.refusal, Some(refusal));
    assert!(read(world.reader(), &MODEL.scope_of(web.unit, new)).is_none());
    logging.finish(&mut world);
    assert!(shown(&world, web.unit).unit.departing_subordinates.is_empty());
    assert_eq!(web.enter(&mut world, new), CommitOutcome::default());
    assert_eq!(world.life(world.unit("logging/1")), Some(Life::Alive));
}

#[test]
fn a_subordinate_has_ordinary_relations_too() {
    let mut world = World::new();
    let (_, web, mut logging) = related_subordinate(&mut world);
    world.deploy("db", "db", 1);
    let id = world.integrate("logging", "db").expect("the endpoints are compatible");
    let mut db = started(&mut world, "db/0");
    db.enter(&mut world, id);
    logging.enter(&mut world, id);
    let number = world.number(id);
    let view = shown(&world, db.unit).relations.remove(&number).expect("it is shown");
    assert_eq!(view.members.keys().collect::<Vec<_>>(), [&UnitName::new("logging", 0)]);
    // an ordinary relation keeps no subordinate Alive
    assert!(shown(&world, web.unit).relations.keys().all(|other| *other != number));
    let info =
        read(world.reader(), &MODEL.relation_key(&"logging:host web:juju-info".parse().expect("the ends")))
            .expect("there");
    destroy(&mut world, info);
    assert_eq!(world.life(logging.unit), Some(Life::Dying));
}

#[test]
fn a_subordinate_that_never_started_is_removed_with_its_relation() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    world.deploy("logging", "logging", 0);
    let id = world.integrate("web", "logging").expect("the endpoints are compatible");
    started(&mut world, "web/0").enter(&mut world, id);
    let unit = world.unit("logging/0");
    destroy(&mut world, id);
    world.run(|draft, _| unit::remove(draft, MODEL, unit, 60)).expect("no agent has spoken for it");
    assert!(world.is_removed(unit));
}

#[test]
fn a_subordinate_does_not_belong_to_relations_of_other_principals() {
    let mut world = World::new();
    let (_, _, logging) = related_subordinate(&mut world);
    world.deploy("shop", "shop", 1);
    let other = world.integrate("shop:logs", "logging").expect("the endpoints are compatible");
    let mut shop = started(&mut world, "shop/0");
    shop.enter(&mut world, other);
    let number = world.number(other);
    assert!(!shown(&world, logging.unit).relations.contains_key(&number));
    let mut strange = logging.clone();
    let (unit, ends) = (UnitName::new("logging", 0), "logging:logs shop:logs".parse().expect("the ends"));
    let refusal = strange.enter(&mut world, other).refusal;
    assert_eq!(refusal, Some(ScopeRefusal::NotMember { unit, ends }.into()));
    assert!(shown(&world, world.unit("logging/1")).relations.contains_key(&number));
}
