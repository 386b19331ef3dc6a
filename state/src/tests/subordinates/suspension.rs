//! Suspended relations are left, and not entered until they are resumed.

use crate::documents::prelude::ScopeDoc;
use crate::lifecycle::unit::Destroyed;
use crate::tests::subordinates::fixture::{destroy, head, related_subordinate};
use crate::tests::*;

fn suspend(world: &mut World, id: Uuid, message: &str) -> Result<(), Refusal> {
    world.run(|draft, _| relation::suspend(draft, MODEL, id, message, 8))
}

#[test]
fn scenario_102_a_suspended_relation_is_left_and_not_entered_until_it_is_resumed() {
    let mut world = World::new();
    let (id, mut web, mut db) = crate::tests::relations::pair(&mut world);
    let number = world.number(id);
    suspend(&mut world, id, "upgrade of db").expect("the relation can be suspended");
    assert!(head(&world, web.unit, id).suspended && head(&world, db.unit, id).suspended);
    assert!(!world.sent[&web.unit].is_empty());
    assert_eq!(world.life(id), Some(Life::Alive));
    web.broken(&mut world, number);
    db.broken(&mut world, number);
    assert!(!world.is_removed(id), "it is suspended, not removed");
    let (unit, ends) = (web0(), "db:server web:db".parse().expect("the ends"));
    assert_eq!(web.enter(&mut world, id).refusal, Some(ScopeRefusal::Suspended { unit, ends }.into()));
    world.run(|draft, _| relation::resume(draft, MODEL, id)).expect("the relation can be resumed");
    assert!(!head(&world, web.unit, id).suspended);
    assert_eq!(web.enter(&mut world, id), CommitOutcome::default());
    let entry: ScopeDoc = read(world.reader(), &MODEL.scope(id, Uuid(0), web.unit)).expect("in scope");
    assert_eq!(entry.incarnation, 2, "it is a new membership");
    // a request without effect writes nothing, and a removed relation leaves no suspension behind
    world.run(|draft, _| relation::resume(draft, MODEL, id)).expect("it is not suspended");
    suspend(&mut world, id, "again").expect("the relation can be suspended");
    assert_eq!(destroy(&mut world, id), Destroyed::Dying);
    assert_eq!(refused(suspend(&mut world, id, "once more")).0, Code::NotAlive);
    web.broken(&mut world, number);
    assert!(world.is_removed(id) && read(world.reader(), &MODEL.relation_suspended(id)).is_none());
}

#[test]
fn a_peer_relation_is_not_suspended() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let ring = read(world.reader(), &MODEL.relation_key(&"web:ring".parse().expect("the ends")))
        .expect("a peer relation");
    let (ends, request) = ("web:ring".parse().expect("the ends"), SuspensionRequest::Suspend);
    let peer = RelationRefusal::PeerSuspended { ends, request };
    assert_eq!(refused(suspend(&mut world, ring, "")), reason(peer));
}

#[test]
fn a_suspended_container_relation_keeps_its_subordinate() {
    let mut world = World::new();
    let (id, mut web, mut logging) = related_subordinate(&mut world);
    suspend(&mut world, id, "").expect("the relation can be suspended");
    web.leave(&mut world, id);
    logging.leave_by_broken(&mut world, id);
    assert_eq!(world.life(logging.unit), Some(Life::Alive));
    world.run(|draft, _| relation::resume(draft, MODEL, id)).expect("the relation can be resumed");
    assert_eq!(web.enter(&mut world, id), CommitOutcome::default());
    let app = read(world.reader(), &MODEL.application_name("logging")).expect("the application exists");
    assert_eq!(read_all::<()>(world.reader(), &MODEL.units_of(app)).len(), 1, "no second one");
}
