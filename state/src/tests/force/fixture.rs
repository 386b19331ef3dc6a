//! The fixture of the tests of force: the janitor, and units that are forced.

use crate::documents::prelude::{ForcedRemovalDoc, Kind, ScopeDoc};
use crate::lifecycle::unit::Destroyed;
use crate::terms::force::Force;
use crate::tests::*;
use crate::transitions::force;

pub const NOW: i64 = 1_000_000;

/// Runs the janitor at one time, batch after batch, until nothing is left to do; returns the number of batches.
pub fn sweep(world: &mut World, now_ms: i64) -> usize {
    let mut batches = 0;
    loop {
        let due: Vec<Uuid> = read_all::<ForcedRemovalDoc>(world.reader(), &MODEL.prefix(Kind::ForcedRemoval))
            .iter()
            .filter_map(|(key, _)| last_id(key))
            .collect();
        let mut more = false;
        for id in due {
            more |= world
                .run(|draft, _| force::force_batch(draft, MODEL, id, now_ms))
                .expect("force is never refused");
            batches += 1;
        }
        if !more {
            return batches;
        }
        assert!(batches < 10_000, "force ends");
    }
}

pub fn forced(world: &World) -> usize {
    read_all::<ForcedRemovalDoc>(world.reader(), &MODEL.prefix(Kind::ForcedRemoval)).len()
}

pub fn started(world: &mut World, name: &str) -> Agent {
    let mut agent = Agent::attach(world, name);
    agent.start(world);
    agent
}

/// web/0 and db/0, related and both in scope; web/0 is also in its peer relation.
pub fn related_units(world: &mut World) -> (Uuid, Agent, Agent) {
    world.deploy("web", "web", 1);
    world.deploy("db", "db", 1);
    let id = world.integrate("web", "db").expect("the endpoints are compatible");
    let (mut web, mut db) = (started(world, "web/0"), started(world, "db/0"));
    let ring = read(world.reader(), &MODEL.relation_key(&"web:ring".parse().expect("the ends")))
        .expect("a peer relation");
    web.enter(world, ring);
    web.enter(world, id);
    db.enter(world, id);
    (id, web, db)
}

pub fn members(world: &World, relation: Uuid) -> Vec<String> {
    let all = read_all::<ScopeDoc>(world.reader(), &MODEL.scopes(relation));
    all.into_iter().map(|(_, entry)| entry.unit.to_string()).collect()
}

pub fn force_unit(world: &mut World, id: Uuid, force: Force, now_ms: i64) -> Destroyed {
    world
        .run(|draft, _| force::destroy_unit(draft, MODEL, id, force, now_ms))
        .expect("the forced removal is accepted")
}
