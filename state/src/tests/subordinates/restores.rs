//! Subordinates after a restore: resyncs create, replace and remove them.

use crate::documents::effective_life;
use crate::lifecycle::unit;
use crate::terms::refusal::record::RecordRefusal;
use crate::tests::subordinates::fixture::{
    destroy, document, head, related_subordinate, started, subordinate_refused,
};
use crate::tests::*;

/// The store is restored from a backup before the entry: the principal resyncs and gets a subordinate.
#[test]
fn an_entry_of_a_resync_creates_a_subordinate_within_the_transaction_bounds() {
    let mut world = World::new();
    world.deploy("shop", "shop", 1);
    let mut shop = started(&mut world, "shop/0");
    let mut ids = Vec::new();
    for n in 0..12 {
        let name = format!("log{n}");
        world.deploy(&name, "logging", 0);
        ids.push(world.integrate("shop:logs", &name).expect("the endpoints are compatible"));
    }
    let mut older = world.copy();
    ids.iter().for_each(|id| drop(shop.enter(&mut world, *id)));
    let again = Agent::attach(&mut older, "shop/0");
    let mut resync = shop.record(Operation::Resync, Outcome::Ok);
    resync.resync_local = Some(Box::new(Local { outbox: Vec::new(), ..shop.local.clone() }));
    assert_eq!(again.send(&mut older, &resync), Ok(CommitOutcome::default()));
    for n in 0..12 {
        let unit = older.unit(&format!("log{n}/0"));
        assert_eq!(effective_life::unit_life(&mut older.reader(), MODEL, unit), Some(Life::Alive));
    }
}

// 1. web/0's subordinate is Dying with its relation, and the two applications are related again. 2. The store is backed
// up. 3. The subordinate is removed, and web/0 enters, which creates another. 4. The store is restored from the backup,
// and web/0 resyncs that it is in scope, where the first subordinate is still Dying: no second one can be created.
// (sim 66064694)
#[test]
fn a_resync_that_cannot_create_its_subordinate_yet_leaves_the_relation_and_enters_it_later() {
    let mut world = World::new();
    let (before, mut web, mut logging) = related_subordinate(&mut world);
    destroy(&mut world, before);
    web.leave(&mut world, before);
    logging.leave(&mut world, before);
    let id = world.integrate("web", "logging").expect("the endpoints are compatible");
    let mut older = world.copy();
    let ends = |world: &mut World| {
        world.run(|draft, _| unit::set_dead(draft, MODEL, logging.unit)).expect("it is in no scope");
        world.run(|draft, _| unit::remove(draft, MODEL, logging.unit, 60)).expect("it is Dead");
    };
    ends(&mut world);
    assert_eq!(web.enter(&mut world, id), CommitOutcome::default());

    web.epoch = Agent::attach(&mut older, "web/0").epoch;
    let mut resync = web.record(Operation::Resync, Outcome::Ok);
    resync.resync_local = Some(Box::new(Local { outbox: Vec::new(), ..web.local.clone() }));
    let committed = web.commit(&mut older, resync);
    assert_eq!(committed.dropped.len(), 1, "{committed:?}");
    assert!(head(&older, web.unit, id).suspended, "it is to leave");
    assert!(!head(&older, logging.unit, id).suspended, "to the other it is as it is");

    web.leave(&mut older, id);
    assert!(!head(&older, web.unit, id).suspended, "it may come in again");
    let earlier = UnitRefusal::SubordinateNotRemoved { unit: web0(), life: Life::Dying };
    let refusal = web.enter(&mut older, id).refusal;
    assert_eq!(refusal, Some(subordinate_refused("logging:host web:juju-info", earlier)));
    ends(&mut older);
    assert_eq!(web.enter(&mut older, id), CommitOutcome::default());
    assert_eq!(document(&older, older.unit("logging/1")).principal, Some(web.unit));
}

// 1. web/0 is destroyed, and its agent runs stop. 2. The store is restored from a backup before that: web/0 is Alive, and
// its subordinate, which had finished, exists again. 3. The agent of web/0 starts nothing and waits for the subordinate,
// which waits for its principal to be Dying. (sim 6002145, 6005423)
#[test]
fn a_unit_that_had_run_stop_is_removed_although_the_restored_store_has_it_alive() {
    let mut world = World::new();
    let (id, mut web, logging) = related_subordinate(&mut world);
    let (older, unsent) = (world.copy(), web.clone());
    let peers = read(world.reader(), &MODEL.relation_key(&"web:ring".parse().expect("the ends")))
        .expect("a peer relation");
    web.enter(&mut world, peers);
    let ring = world.number(peers);
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit, 60)).expect("the removal is accepted");
    web.leave(&mut world, id);
    web.done(&mut world, Operation::Hook(Hook::Stop));

    let lives = |world: &World| {
        let life = |unit| effective_life::unit_life(&mut world.reader(), MODEL, unit);
        (life(web.unit), life(logging.unit))
    };
    let ending = (Some(Life::Dying), Some(Life::Dying));
    let mut behind = older.copy();
    let mut again = web.clone();
    again.attach_restored(&mut behind);
    assert_eq!(lives(&behind), ending, "its folder has run stop");
    let committed = again.send(&mut behind, &again.resync()).expect("its own session, in order");
    let (unit, ends) = (web0(), "web:ring".parse().expect("the ends"));
    let refusal = ScopeRefusal::UnitNotAlive { unit, ends, life: Life::Dying }.into();
    assert_eq!(
        committed.dropped,
        [DroppedWrite::Entry { relation: ring, refusal }],
        "it enters nothing any more (I21)"
    );

    let mut behind = older.copy();
    let mut again = Agent { epoch: web.epoch, ..unsent };
    again.leave(&mut behind, id);
    let stop = again.record(Operation::Hook(Hook::Stop), Outcome::Ok);
    let (unit, sequence) = (web0(), stop.sequence);
    let refusal = refused(again.send(&mut behind, &stop));
    assert_eq!(
        refusal,
        reason(RecordRefusal::UnitAlive { unit, sequence }),
        "it has not noticed the restore"
    );
    assert_eq!(lives(&behind), (Some(Life::Alive), Some(Life::Alive)));
    let mut noticed = web.clone();
    noticed.attach_restored(&mut behind);
    (again.epoch, again.store_generation) = (noticed.epoch, noticed.store_generation);
    assert_eq!(again.commit(&mut behind, stop), CommitOutcome::default());
    assert_eq!(lives(&behind), ending, "the records were not yet sent");
}

// 1. The relation is removed, and the subordinate has run stop. 2. The store is restored from an earlier backup. 3. The
// subordinate is removed, and only its principal can create another. (sim 67001406)
#[test]
fn a_subordinate_that_had_run_stop_before_a_restore_is_replaced() {
    let mut world = World::new();
    let (id, mut web, mut logging) = related_subordinate(&mut world);
    let (mut older, mut before) = (world.copy(), web.clone());
    destroy(&mut world, id);
    web.leave(&mut world, id);
    logging.leave(&mut world, id);
    logging.done(&mut world, Operation::Hook(Hook::Stop));

    logging.attach_restored(&mut older);
    let resync = logging.resync();
    logging.commit(&mut older, resync);
    assert!(head(&older, web.unit, id).suspended, "the principal is to leave");
    // it resyncs too: the other subordinate is still Dying
    before.epoch = Agent::attach(&mut older, "web/0").epoch;
    let mut resync = before.record(Operation::Resync, Outcome::Ok);
    resync.resync_local = Some(Box::new(Local { outbox: Vec::new(), ..before.local.clone() }));
    before.commit(&mut older, resync);
    assert!(head(&older, web.unit, id).suspended, "as before");
    before.leave(&mut older, id);
    assert!(!head(&older, web.unit, id).suspended, "it may come in again");
    older.run(|draft, _| unit::set_dead(draft, MODEL, logging.unit)).expect("it is in no scope");
    older.run(|draft, _| unit::remove(draft, MODEL, logging.unit, 60)).expect("it is Dead");
    assert_eq!(before.enter(&mut older, id), CommitOutcome::default());
    assert_eq!(document(&older, older.unit("logging/1")).principal, Some(web.unit));
}
