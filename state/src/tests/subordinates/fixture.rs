//! The fixture of the tests of subordinates: a principal with its subordinate, and what units are shown.

use crate::lifecycle::unit::Destroyed;
use crate::tests::*;
use crate::unit::relation_view::RelationHead;

pub fn started(world: &mut World, name: &str) -> Agent {
    let mut agent = Agent::attach(world, name);
    agent.start(world);
    agent
}

/// web/0 with its subordinate logging/0, related by `juju-info`.
pub fn related_subordinate(world: &mut World) -> (Uuid, Agent, Agent) {
    world.deploy("web", "web", 1);
    world.deploy("logging", "logging", 0);
    let id = world.integrate("web", "logging").expect("the endpoints are compatible");
    let mut web = started(world, "web/0");
    assert_eq!(web.enter(world, id), CommitOutcome::default());
    let mut logging = started(world, "logging/0");
    assert_eq!(logging.enter(world, id), CommitOutcome::default());
    (id, web, logging)
}

/// The refusal to enter a scope because the subordinate of web/0 is refused.
pub fn subordinate_refused(ends: &str, reason: impl Into<RefusalReason>) -> RefusalReason {
    let reason = Box::new(reason.into());
    ScopeRefusal::SubordinateRefused { unit: web0(), ends: ends.parse().expect("the ends"), reason }.into()
}

pub fn destroy(world: &mut World, id: Uuid) -> Destroyed {
    world.run(|draft, _| relation::destroy(draft, MODEL, id)).expect("the removal is accepted")
}

pub fn shown(world: &World, unit: Uuid) -> Snapshot {
    let view = view::full_view(world.reader(), MODEL, unit).expect("there is a view");
    Snapshot::from_full(view.delta).expect("complete")
}

pub fn head(world: &World, unit: Uuid, relation: Uuid) -> RelationHead {
    let number = world.number(relation);
    shown(world, unit).relations[&number].head.clone()
}

pub fn document(world: &World, id: Uuid) -> UnitDoc {
    read(world.reader(), &MODEL.unit(id)).expect("the unit exists")
}
