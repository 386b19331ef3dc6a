//! Forced applications, relations and machines: what they force below them.

use crate::documents::prelude::{GLOBAL, TokenHolder};
use crate::documents::token;
use crate::lifecycle::machine::MachineRequest;
use crate::lifecycle::unit::Destroyed;
use crate::lifecycle::{machine, unit};
use crate::terms::force::Force;
use crate::terms::provider_kind::ProviderKind;
use crate::tests::force::fixture::{NOW, forced, members, related_units, started, sweep};
use crate::tests::*;
use crate::transitions::force;
use crate::transitions::force_timer::GRACE_MS;
use crate::transitions::{destruction, instance};

#[test]
fn i27_an_application_without_agents_is_removed_in_bounded_batches() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 0);
    // more units than one batch forces; the agents of some have attached
    for _ in 0..23 {
        world.run(|draft, ids| unit::add(draft, MODEL, app, None, 1, ids)).expect("it is alive");
    }
    world.deploy("db", "db", 1);
    let id = world.integrate("web", "db").expect("the endpoints are compatible");
    let mut db = started(&mut world, "db/0");
    db.enter(&mut world, id);
    for number in 0..3 {
        let mut agent = started(&mut world, &format!("web/{number}"));
        agent.enter(&mut world, id);
    }
    let destroyed =
        world.run(|draft, _| force::destroy_application(draft, MODEL, app, Force::AfterWait, NOW));
    assert_eq!(destroyed.expect("the forced removal is accepted"), Destroyed::Dying);
    sweep(&mut world, NOW + GRACE_MS);
    sweep(&mut world, NOW + 2 * GRACE_MS);
    sweep(&mut world, NOW + 2 * GRACE_MS);
    assert!(world.is_removed(app) && world.is_removed(id));
    assert_eq!((world.life(db.unit), forced(&world)), (Some(Life::Alive), 0));
}

#[test]
fn the_members_of_a_forced_relation_are_removed_from_its_scope() {
    let mut world = World::new();
    let (id, web, db) = related_units(&mut world);
    world
        .run(|draft, _| force::destroy_relation(draft, MODEL, id, Force::AfterWait, NOW))
        .expect("the forced removal is accepted");
    sweep(&mut world, NOW + GRACE_MS - 1);
    assert_eq!(members(&world, id).len(), 2);
    sweep(&mut world, NOW + GRACE_MS);
    assert!(world.is_removed(id));
    assert_eq!((world.life(web.unit), world.life(db.unit)), (Some(Life::Alive), Some(Life::Alive)));
    assert_eq!(forced(&world), 0);
    // its agents were present: what they report about it changes nothing
    let mut web = web;
    let number = *web.local.relations.iter().find(|(_, known)| known.uuid == id).expect("it knows it").0;
    assert_eq!(web.broken(&mut world, number), CommitOutcome::default());
}

#[test]
fn the_units_of_a_forced_machine_are_forced_too() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let first = started(&mut world, "web/0");
    let on = read(world.reader(), &MODEL.unit(first.unit)).expect("the unit exists").machine;
    world.run(|draft, ids| unit::add(draft, MODEL, app, Some("0"), 1, ids)).expect("there is room");
    let second = world.unit("web/1");
    world
        .run(|draft, _| force::destroy_machine(draft, MODEL, on, Force::AtOnce, NOW))
        .expect("the forced removal is accepted");
    assert_eq!(world.life(second), Some(Life::Dying), "derived at once");
    sweep(&mut world, NOW);
    assert!(world.is_removed(first.unit) && world.is_removed(second));
    sweep(&mut world, NOW);
    assert_eq!(world.life(on), Some(Life::Dead), "its provider releases it");
    world.run(|draft, _| machine::remove(draft, MODEL, on)).expect("it is dead");
    sweep(&mut world, NOW);
    assert_eq!((forced(&world), world.life(app)), (0, Some(Life::Alive)));
}

#[test]
fn a_manually_provisioned_machine_that_never_returns_is_removed_by_force() {
    let mut world = World::new();
    let mut remove_added = |(force, now_ms): (Force, i64)| {
        let id = world.run(|draft, ids| {
            let id = ids();
            machine::add_requested(draft, MODEL, id, MachineRequest::manual(), 1).map(|_| id)
        });
        let id = id.expect("the model is alive");
        world
            .run(|draft, _| force::destroy_machine(draft, MODEL, id, force, now_ms))
            .expect("the forced removal is accepted");
        let mut removed = Vec::new();
        for at in [NOW, NOW + GRACE_MS, NOW + 2 * GRACE_MS] {
            sweep(&mut world, at);
            removed.push(world.is_removed(id));
        }
        removed
    };
    assert_eq!(
        remove_added((Force::AtOnce, NOW)),
        [false, true, true],
        "its agent, if it runs, has a minute to uninstall itself"
    );
    assert_eq!(remove_added((Force::AfterWait, NOW)), [false, false, true]);
}

#[test]
fn a_kept_instance_whose_agent_never_returns_is_handed_over_by_force() {
    let mut world = World::new();
    let id = world
        .run(|draft, ids| {
            let id = ids();
            machine::add(draft, MODEL, id, 1).map(|_| id)
        })
        .expect("the model is alive");
    world
        .run(|draft, _| instance::reserve_nonce(draft, MODEL, id, ProviderKind::Local, Uuid(5)))
        .expect("it is alive");
    world
        .run(|draft, _| instance::record_started(draft, MODEL, id, "local-0", "127.0.0.1"))
        .expect("its nonce was reserved");
    let principal = TokenHolder::Machine { model: MODEL, machine: id };
    let set = |draft: &mut Draft<'_>| token::set(draft, id, &principal, "t0");
    world.run(|draft, _| set(draft)).expect("it exists");
    world.run(|draft, _| machine::keep_instance(draft, MODEL, id)).expect("it has one");
    world
        .run(|draft, _| force::destroy_machine(draft, MODEL, id, Force::AtOnce, NOW))
        .expect("the forced removal is accepted");
    let left =
        |world: &World| read(world.reader(), &MODEL.machine(id)).map(|machine| machine.agent_uninstalled);
    sweep(&mut world, NOW);
    assert_eq!((world.life(id), left(&world)), (Some(Life::Dead), Some(false)), "its agent has its time");
    sweep(&mut world, NOW + GRACE_MS);
    assert_eq!((left(&world), forced(&world)), (Some(true), 0));
    world.run(|draft, _| machine::remove(draft, MODEL, id)).expect("it is Dead");
    // the model is removed, and the tombstones in it; the token is the evidence for the agent, should it come back
    world.run(|draft, _| destruction::destroy(draft, MODEL, Force::No, NOW)).expect("it is alive");
    while world.run(|draft, _| destruction::destroy_batch(draft, MODEL)).expect("it is empty") {}
    let holder = |world: &World| read(world.reader(), &GLOBAL.token("t0"));
    assert_eq!(holder(&world), Some(TokenHolder::RemovedMachine { model: MODEL, machine: id }));
    let end = |draft: &mut Draft<'_>| {
        token::delete_retired(draft, &[id]);
        Ok(())
    };
    world.run(|draft, _| end(draft)).expect("its agent has confirmed the removal");
    assert_eq!((holder(&world), read(world.reader(), &GLOBAL.retired_token_digest(id))), (None, None));
    world.run(|draft, _| end(draft)).expect("a repeated request is accepted");
}

#[test]
fn a_manually_provisioned_machine_that_never_returns_is_removed_after_a_second_wait() {
    let mut world = World::new();
    let add = |draft: &mut Draft, ids: &mut dyn FnMut() -> Uuid| {
        let id = ids();
        machine::add_requested(draft, MODEL, id, MachineRequest::manual(), 1).map(|_| id)
    };
    let (lost, at_work) = (world.run(add).expect("it is alive"), world.run(add).expect("it is alive"));
    for id in [lost, at_work] {
        world
            .run(|draft, _| force::destroy_machine(draft, MODEL, id, Force::AtOnce, NOW))
            .expect("the forced removal is accepted");
    }
    // one agent is fast: it has finished before force begins, and uninstalls itself
    world.run(|draft, _| machine::set_dead(draft, MODEL, at_work)).expect("no unit is on it");
    sweep(&mut world, NOW);
    sweep(&mut world, NOW + GRACE_MS - 1);
    assert_eq!([lost, at_work].map(|id| world.life(id)), [Some(Life::Dead); 2], "both have their time");
    // a repeated request does not delay it
    let again_ms = NOW + GRACE_MS - 1;
    world
        .run(|draft, _| force::destroy_machine(draft, MODEL, lost, Force::AtOnce, again_ms))
        .expect("the forced removal is accepted");
    sweep(&mut world, NOW + GRACE_MS - 1);
    world
        .run(|draft, _| machine::remove(draft, MODEL, at_work))
        .expect("its agent reports that it is uninstalled");
    sweep(&mut world, NOW + GRACE_MS);
    assert!(world.is_removed(lost) && world.is_removed(at_work));
    assert_eq!(forced(&world), 0);
}
