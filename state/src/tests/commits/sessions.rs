//! The agent that may write: epochs, nonces, and the first agent after a restore.

use crate::tests::commits::fixture::{hook, report};
use crate::tests::*;

#[test]
fn an_older_epoch_is_fenced_and_a_repeated_attach_is_not_a_new_one() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let old = Agent::attach(&mut world, "web/0");
    let attached = |world: &mut World, nonce| {
        world
            .run(|draft, _| session::attach(draft, MODEL, old.unit, attach(nonce, 0), GENERATION, false))
            .expect("the unit exists")
            .epoch
    };
    assert_eq!(attached(&mut world, 1), old.epoch + 1);
    assert_eq!(attached(&mut world, 1), old.epoch + 1, "the reply was lost");
    assert_eq!(attached(&mut world, 5), old.epoch + 2);
    let late = world.run(|draft, _| session::attach(draft, MODEL, old.unit, attach(1, 0), GENERATION, false));
    assert_eq!(refused(late).0, Code::Fenced, "a late copy of a first attach is no newcomer");
    let copy = world
        .run(|draft, _| session::attach(draft, MODEL, old.unit, attach(77, old.epoch), GENERATION, false));
    assert_eq!(refused(copy).0, Code::Fenced, "a copy of a folder that went on");
    let restored =
        world.run(|draft, _| session::attach(draft, MODEL, old.unit, attach(78, 40), GENERATION, false));
    assert_eq!(restored.expect("the store is older than the folder").epoch, 41);
    let old = Agent { epoch: 41, ..old };
    assert_eq!(attached(&mut world, 2), old.epoch + 1);
    let record = hook(&old);
    assert_eq!(refused(old.send(&mut world, &record)).0, Code::Fenced);
    assert_eq!(refused(report(&mut world, &old, 1, &[])).0, Code::Fenced);
    let ahead = Agent { epoch: old.epoch + 3, ..old.clone() };
    let answer = refused(ahead.send(&mut world, &record)).0;
    assert!(matches!(answer, Code::Gap { .. }), "granted before the store was restored, no copy: {answer:?}");
}

/// 1. An agent attaches, and a backup is made. 2. The store is restored from it. 3. The agent sends a record before it
///    notices that: its epoch is the newest of the restored store, too. (sim 1795793608953: a secret hook ran twice)
#[test]
fn a_session_of_the_former_store_generation_must_attach_again() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let record = hook(&agent);
    let unaware = Agent { store_generation: RESTORED, ..agent.clone() };
    let answer = refused(unaware.send(&mut world, &record)).0;
    assert!(matches!(answer, Code::Gap { expected: 1 }), "{answer:?}");
    let mut behind = world.copy();
    agent.attach_restored(&mut world);
    agent.send(&mut world, &record).expect("the session is of this generation");
    // the answer to its attach was lost, and it repeats the attach
    let repeated = Attach { nonce: nonce(&behind, agent.unit), ..attach(0, 0) };
    let granted = behind.run(|draft, _| session::attach(draft, MODEL, agent.unit, repeated, RESTORED, false));
    let again = Agent { epoch: granted.expect("the same nonce").epoch, ..unaware };
    again.send(&mut behind, &record).expect("the session is of this generation");
}

fn nonce(world: &World, unit: Uuid) -> Uuid {
    read(world.reader(), &MODEL.session(unit)).expect("it has attached").nonce
}

/// 1. A folder is copied. Its own agent has epoch 2 and continues. The store is restored from a backup at epoch 1.
/// 2. The agent of the copy attaches and is granted epoch 2 as well, or epoch 3.
/// 3. The first agent returns. Its state may be newer than the store, but its records now belong to another history.
#[test]
fn after_a_restore_the_first_folder_that_attaches_continues() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let first = Agent::attach(&mut world, "web/0");
    let (before, restored) = (Some(GENERATION), RESTORED);
    let attach = |world: &mut World, nonce, epoch, store_generation| {
        let attach = Attach {
            nonce: Uuid(nonce),
            epoch,
            store_generation,
            teardown_started: false,
            boot: String::new(),
        };
        world.run(|draft, _| session::attach(draft, MODEL, first.unit, attach, restored, false))
    };
    let copy = attach(&mut world, 20, 1, before).expect("the first that comes");
    assert_eq!(copy.epoch, 2);
    assert_eq!(
        refused(attach(&mut world, 30, 2, before)).0,
        Code::Fenced,
        "as high, of a lost store generation"
    );
    assert_eq!(
        refused(attach(&mut world, 30, 3, before)).0,
        Code::Fenced,
        "higher, of a lost store generation"
    );
    assert_eq!(attach(&mut world, 20, 1, before).expect("its reply was lost"), copy);
    assert_eq!(attach(&mut world, 21, 2, Some(restored)).expect("it starts again").epoch, 3);
    assert_eq!(attach(&mut world, 22, 0, None).expect("its folder was lost").epoch, 4);
    assert_eq!(refused(attach(&mut world, 23, 4, None)).0, Code::Fenced, "an epoch of no history");
}

/// 1. A folder is copied while its attach request is in flight: both folders contain the nonce.
/// 2. One agent attaches and commits a record. 3. The other agent sends the nonce again.
#[test]
fn a_nonce_is_valid_until_its_first_record() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let nonce = read(world.reader(), &MODEL.session(agent.unit)).expect("it attached").nonce;
    let unit = agent.unit;
    let again = |world: &mut World| {
        world.run(|draft, _| session::attach(draft, MODEL, unit, attach(nonce.0, 0), GENERATION, false))
    };
    assert_eq!(again(&mut world).expect("the reply was lost").epoch, agent.epoch);
    let record = hook(&agent);
    agent.commit(&mut world, record);
    assert_eq!(refused(again(&mut world)).0, Code::Fenced);
}

#[test]
fn an_empty_nonce_is_refused_and_fences_no_agent() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    let mut attach = |nonce| {
        world.run(|draft, _| session::attach(draft, MODEL, unit, attach(nonce, 0), GENERATION, false))
    };
    assert_eq!(attach(0).expect_err("no nonce").code(), Code::Invalid);
    assert_eq!(attach(5).expect("nobody else has").epoch, 1);
    assert_eq!(attach(0).expect_err("no nonce").code(), Code::Invalid);
    assert_eq!(attach(5).expect("the reply was lost").epoch, 1);
}
