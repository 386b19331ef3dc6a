//! A machine agent may make requests about units of its machine only (S15).

use crate::documents::existence;
use crate::documents::prelude::GLOBAL;
use crate::terms::assignment::Existence;
use crate::tests::*;
use crate::transitions::assigned_units;

#[test]
fn for_the_agent_of_another_machine_a_unit_does_not_exist() {
    let mut world = World::new();
    world.deploy("web", "web", 2);
    let (own, other) = (world.unit("web/0"), world.unit("web/1"));
    let machine = read(world.reader(), &MODEL.unit(own)).expect("it exists").machine;
    let shown = |world: &World, unit| {
        let mut reader = world.reader();
        assigned_units::existence(&mut reader, MODEL, machine, unit)
    };
    assert_eq!(shown(&world, own), Existence::Known(Life::Alive));
    assert_eq!(shown(&world, other), Existence::Unknown);
    for unit in [other, Uuid(3)] {
        let set = world.run(|draft, _| assigned_units::set_token(draft, MODEL, machine, unit, "t0"));
        assert_eq!(*set.expect_err("it is not assigned").reason, RefusalReason::NotAuthorised);
        let removed = world.run(|draft, _| assigned_units::remove(draft, MODEL, machine, unit, 60));
        assert_eq!(*removed.expect_err("it is not assigned").reason, RefusalReason::NotAuthorised);
    }
    world
        .run(|draft, _| assigned_units::set_token(draft, MODEL, machine, own, "t0"))
        .expect("it is assigned");
    assert_eq!(read(world.reader(), &GLOBAL.token_digest(own)).as_deref(), Some("t0"));
}

#[test]
fn an_assigned_unit_is_removed_once_it_is_dead_and_a_repetition_changes_nothing() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    let machine = read(world.reader(), &MODEL.unit(unit)).expect("it exists").machine;
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    let remove =
        |world: &mut World| world.run(|draft, _| assigned_units::remove(draft, MODEL, machine, unit, 60));
    let not_dead = UnitRefusal::NotDead { unit: "web/0".parse().expect("a name") };
    assert_eq!(*remove(&mut world).expect_err("it is alive").reason, not_dead.into());
    world.run(|draft, _| unit::destroy(draft, MODEL, unit, 60)).expect("the removal is accepted");
    let not_finished = UnitRefusal::AgentNotFinished { unit: "web/0".parse().expect("a name") };
    assert_eq!(*remove(&mut world).expect_err("its agent is to finish").reason, not_finished.into());
    agent.finish(&mut world);
    assert_eq!(remove(&mut world), Ok(()));
    assert_eq!(existence::unit(&mut world.reader(), MODEL, unit), Existence::Tombstone);
    let seen_by = |machine| assigned_units::existence(&mut world.reader(), MODEL, machine, unit);
    assert_eq!((seen_by(machine), seen_by(Uuid(9))), (Existence::Tombstone, Existence::Unknown));
    let elsewhere = world.run(|draft, _| assigned_units::remove(draft, MODEL, Uuid(9), unit, 60));
    assert_eq!(*elsewhere.expect_err("it was not assigned").reason, RefusalReason::NotAuthorised);
    assert_eq!(remove(&mut world), Ok(()));
}
