//! Units: numbers, removal without an agent, and leadership.

use crate::lifecycle::application;
use crate::lifecycle::unit::Destroyed;
use crate::lifecycle::{machine, unit};
use crate::operations::leadership;
use crate::tests::lifecycle::fixture::{destroy_unit, machine_of};
use crate::tests::*;

#[test]
fn scenarios_165_and_166_a_unit_whose_agent_never_attached_is_removed_immediately() {
    let mut world = World::new();
    world.deploy("web", "web", 2);
    let (first, second) = (world.unit("web/0"), world.unit("web/1"));
    assert_eq!(destroy_unit(&mut world, first), Destroyed::Removed);
    assert!(world.gone(first));
    assert_eq!(destroy_unit(&mut world, first), Destroyed::Removed, "a second time changes nothing");
    let revision = world.documents.revision;
    let answer = world.run(|draft, _| unit::destroy(draft, MODEL, Uuid(1)));
    assert_eq!(refused(answer).0, Code::NotFound);
    assert_eq!(world.documents.revision, revision);
    Agent::attach(&mut world, "web/1");
    assert_eq!(destroy_unit(&mut world, second), Destroyed::Dying);
    assert_eq!(world.life(second), Some(Life::Dying));
}

#[test]
fn a_late_attach_is_refused_with_the_tombstone() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let id = world.unit("web/0");
    destroy_unit(&mut world, id);
    let answer = world.run(|draft, _| session::attach(draft, MODEL, id, attach(1, 0), GENERATION));
    assert_eq!(refused(answer), (Code::Removed, "unit web/0 was removed".into()));
    let answer = world.run(|draft, _| session::attach(draft, MODEL, Uuid(3), attach(1, 0), GENERATION));
    assert_eq!(refused(answer).0, Code::NotFound, "not found is no evidence");
}

#[test]
fn scenario_168_a_unit_with_subordinates_cannot_be_dead() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    world.deploy("logging", "logging", 0);
    let id = world.integrate("web", "logging").expect("they fit");
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    agent.enter(&mut world, id);
    let (principal, subordinate) = (world.unit("web/0"), world.unit("logging/0"));
    destroy_unit(&mut world, principal);
    assert_eq!(world.life(subordinate), Some(Life::Dying), "I23: a principal's death is its subordinates'");
    let committed = agent.done(&mut world, Operation::SetDead);
    assert_eq!(committed.refusal.as_deref(), Some("unit web/0 cannot be dead: it has subordinates"));
    assert_eq!(world.life(principal), Some(Life::Dying));
}

#[test]
fn a_dying_unit_never_deployed_is_removed_without_an_agent() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    assert_eq!(refused(world.run(|draft, _| unit::remove(draft, MODEL, unit))).0, Code::Busy);
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("it may go");
    assert!(!machine::has_attached_unit(world.reader(), MODEL, machine_of(&world, unit)));
    let view = view::machine(world.reader(), MODEL, machine_of(&world, unit)).expect("it is there");
    assert_eq!(view.units[&unit].life, Life::Dying);
    world.run(|draft, _| unit::remove(draft, MODEL, unit)).expect("no operation has started");
    assert!(world.gone(unit) && world.gone(app));
}

#[test]
fn leadership_is_granted_renewed_transferred_and_released() {
    let mut world = World::new();
    world.deploy("web", "web", 2);
    let mut agents = [Agent::attach(&mut world, "web/0"), Agent::attach(&mut world, "web/1")];
    let [first, second] = [agents[0].unit, agents[1].unit];
    let claim = |world: &mut World, unit, over| {
        let granted = world.run(|draft, _| leadership::claim(draft, MODEL, unit, over)).expect("a unit");
        let application = read(world.reader(), &MODEL.unit(unit)).expect("it is there").application;
        let leader = read(world.reader(), &MODEL.leader(application)).expect("there is one");
        assert!(granted.is_none_or(|term| term.generation == leader.generation && leader.holder == unit));
        (granted.is_some(), leader.holder_name.number, leader.generation)
    };
    assert_eq!(claim(&mut world, first, false), (true, 0, 1), "never led before");
    assert_eq!(claim(&mut world, first, false), (true, 0, 1), "a renewal is no new generation");
    assert_eq!(claim(&mut world, second, false), (false, 0, 1));
    assert_eq!(claim(&mut world, second, true), (true, 1, 2));
    agents[1].start(&mut world);
    destroy_unit(&mut world, second);
    agents[1].done(&mut world, Operation::SetDead);
    assert_eq!(claim(&mut world, first, false), (true, 0, 3), "released by the dead");
    world
        .run(|draft, _| {
            leadership::release(draft, MODEL, first);
            Ok(())
        })
        .expect("no refusal");
    assert_eq!(claim(&mut world, first, false), (true, 0, 4));
    let answer = world.run(|draft, _| leadership::claim(draft, MODEL, second, true));
    assert_eq!(refused(answer), (Code::NotAlive, "unit web/1 is dead".into()));
}
