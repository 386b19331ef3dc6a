//! Tests with random sequences of valid and invalid calls.
//!
//! [`crate::tests::World`] checks every transaction: the invariants, lives that only move forward, and deltas that add
//! up to the full view.

use crate::documents::prelude::{Kind, SessionDoc, last_number};
use crate::lifecycle::creation::Creation;
use crate::lifecycle::{action, leadership};
use crate::lifecycle::{application, application_settings, cleanup, machine, scope, unit};
use crate::terms::force::Force;
use crate::terms::status::ActionStatus;
use crate::tests::*;
use crate::transitions::{force, force_timer};
use crate::unit::hook_context::{BagWrites, PortWrites};

/// xorshift64*; the seeds are fixed, so that a failure can be reproduced.
struct Random(u64);

impl Random {
    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % sides as u64) as usize
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| all[self.below(all.len())])
    }
}

fn ids(world: &World, kind: Kind) -> Vec<Uuid> {
    read_all::<serde_json::Value>(world.reader(), &MODEL.prefix(kind))
        .iter()
        .filter_map(|(key, _)| last_id(key))
        .collect()
}

/// One random call of an agent or a user; returns whether it was accepted. Refusals are expected.
fn step(world: &mut World, random: &mut Random, agents: &mut BTreeMap<Uuid, Agent>) -> bool {
    let Some(id) = random.pick(&ids(world, Kind::Unit)).filter(|_| random.below(3) == 0) else {
        return call(world, random).is_ok();
    };
    if read(world.reader(), &MODEL.session(id)).is_some_and(|session: SessionDoc| session.nonce == Uuid(0)) {
        return false; // fenced by force: it has no agent any more
    }
    if let Some(mut agent) = agents.remove(&id).filter(|_| random.below(8) > 0) {
        let acted = act(world, random, &mut agent);
        agents.insert(id, agent);
        return acted;
    }
    let doc = read(world.reader(), &MODEL.unit(id)).expect("the unit exists");
    let mut agent = Agent::attach(world, &doc.name.to_string());
    if agent.local.charm.is_none() {
        agent.start(world);
    }
    agents.insert(id, agent).is_none()
}

/// One random transition that needs no agent.
fn call(world: &mut World, random: &mut Random) -> Result<(), Refusal> {
    let none = || Refusal::not_found(EntityKind::Unit, "to do it to");
    let pick =
        |world: &World, random: &mut Random, kind: Kind| random.pick(&ids(world, kind)).ok_or_else(none);
    let names = ["web", "db", "shop", "store", "logging"];
    match random.below(26) {
        0 => {
            let at = random.below(5);
            let mut request = application::Deploy {
                application: Some(names[at].into()),
                sha256: ["web", "db", "shop", "db", "logging"][at].into(),
                ..application::Deploy::default()
            };
            request.units = random.below(3) as u32;
            world
                .run(|draft, ids| application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids }))?;
        }
        1 | 2 => {
            let (left, right) = (names[random.below(5)], names[random.below(5)]);
            let end = ["", ":logs"][random.below(2)];
            let left = if left == "shop" { format!("{left}{end}") } else { left.to_owned() };
            world.integrate(&left, right)?;
        }
        3 => {
            let (id, to) = (pick(world, random, Kind::Application)?, random.below(8).to_string());
            let to = (random.below(2) == 0).then_some(to.as_str());
            world.run(|draft, ids| unit::add(draft, MODEL, id, to, 1, ids))?;
        }
        4 if random.below(4) == 0 => {
            let id = pick(world, random, Kind::Application)?;
            world.run(|draft, _| application::destroy(draft, MODEL, id))?;
        }
        5 => {
            let id = pick(world, random, Kind::Relation)?;
            world.run(|draft, _| relation::destroy(draft, MODEL, id))?;
        }
        6 => {
            let id = pick(world, random, Kind::Unit)?;
            world.run(|draft, _| unit::destroy(draft, MODEL, id, 60))?;
        }
        7 => {
            let id = pick(world, random, Kind::Unit)?;
            world.run(|draft, _| unit::remove(draft, MODEL, id, 60))?;
        }
        8 => {
            let id = pick(world, random, Kind::Machine)?;
            world.run(|draft, _| machine::destroy(draft, MODEL, id))?;
        }
        9 => {
            let id = pick(world, random, Kind::Machine)?;
            world.run(|draft, _| machine::set_dead(draft, MODEL, id))?;
        }
        10 => {
            let id = pick(world, random, Kind::Machine)?;
            world.run(|draft, _| machine::remove(draft, MODEL, id))?;
        }
        11 => {
            let (id, over) = (pick(world, random, Kind::Unit)?, random.below(2) == 0);
            world.run(|draft, _| leadership::claim(draft, MODEL, id, over))?;
        }
        12 => {
            let id = pick(world, random, Kind::Unit)?;
            world.run(|draft, _| unit::set_dead(draft, MODEL, id))?;
        }
        13 => {
            let set = BTreeMap::from([("port".to_owned(), random.below(3).to_string())]);
            let id = pick(world, random, Kind::Application)?;
            world.run(|draft, _| application_settings::configure(draft, MODEL, id, &set, &[]))?;
        }
        14 => {
            let (id, given) = (pick(world, random, Kind::Unit)?, serde_json::Map::new());
            world.run(|draft, _| action::enqueue(draft, MODEL, id, "backup", &given, 1))?;
        }
        15 => {
            let id = pick(world, random, Kind::Cleanup)?;
            world.run(|draft, _| Ok(cleanup::clean_batch(draft, MODEL, id)))?;
        }
        16 | 17 => {
            let (unit, id) = (pick(world, random, Kind::Unit)?, pick(world, random, Kind::Relation)?);
            world.run(|draft, ids| {
                scope::enter(draft, MODEL, unit, id, &Bag::new(), Creation { now_ms: 1, ids })
            })?;
        }
        18 => {
            let id = pick(world, random, Kind::Relation)?;
            world.run(|draft, _| relation::suspend(draft, MODEL, id, "later", 1))?;
        }
        19 => {
            let id = pick(world, random, Kind::Relation)?;
            world.run(|draft, _| relation::resume(draft, MODEL, id))?;
        }
        22 if random.below(4) == 0 => force(world, random)?,
        23.. => {
            let id = pick(world, random, Kind::ForcedRemoval)?;
            let now_ms = 1 + random.below(3) as i64 * force_timer::GRACE_MS;
            world.run(|draft, _| force::force_batch(draft, MODEL, id, now_ms))?;
        }
        _ => {
            let (unit, id) = (pick(world, random, Kind::Unit)?, pick(world, random, Kind::Relation)?);
            world.run(|draft, _| {
                relation::leave_scope(draft, MODEL, unit, id);
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// A random entity is removed by force, or its grace period ends.
fn force(world: &mut World, random: &mut Random) -> Result<(), Refusal> {
    let kind = [Kind::Unit, Kind::Application, Kind::Relation, Kind::Machine, Kind::Unit][random.below(5)];
    let id =
        random.pick(&ids(world, kind)).ok_or_else(|| Refusal::not_found(EntityKind::Unit, "to force"))?;
    let force = [Force::AtOnce, Force::AfterWait][random.below(2)];
    world.run(|draft, _| match kind {
        Kind::Application if random.below(4) > 0 => Ok(()),
        Kind::Application => force::destroy_application(draft, MODEL, id, force, 1).map(drop),
        Kind::Relation => force::destroy_relation(draft, MODEL, id, force, 1).map(drop),
        Kind::Machine => force::destroy_machine(draft, MODEL, id, force, 1),
        _ if random.below(3) == 0 => {
            force_timer::start_budget_timer(draft, MODEL, id, 1, 1);
            Ok(())
        }
        _ => force::destroy_unit(draft, MODEL, id, force, 1).map(drop),
    })
}

/// One record of one unit's agent, at a valid or an invalid time.
fn act(world: &mut World, random: &mut Random, agent: &mut Agent) -> bool {
    let known: Vec<RelationNumber> = agent.local.relations.keys().copied().collect();
    let unit = read(world.reader(), &MODEL.unit(agent.unit)).expect("the unit exists");
    let failing = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    match random.below(8) {
        0 | 1 => {
            let index = read_all::<()>(world.reader(), &MODEL.relations_of(unit.application));
            let all: Vec<Uuid> = index.iter().filter_map(|(key, ())| last_id(key)).collect();
            random.pick(&all).is_some_and(|id| agent.enter(world, id).dropped.is_empty())
        }
        2 => random.pick(&known).is_some_and(|number| {
            // A peer relation never breaks.
            let peer = agent.local.relations[&number].local_endpoint.peer;
            !peer && agent.broken(world, number).dropped.is_empty()
        }),
        3 | 4 => random.pick(&known).is_some_and(|number| {
            let outcome = if random.below(5) == 0 { failing } else { Outcome::Ok };
            let mut record = agent.record(Operation::Hook(Hook::UpdateStatus), outcome);
            let change = BTreeMap::from([("key".to_owned(), random.below(3).to_string())]);
            let application = if random.below(3) == 0 { change.clone() } else { BTreeMap::new() };
            record.writes.bags.insert(number, BagWrites { unit: change, application });
            agent.commit(world, record).refusal.is_none()
        }),
        5 => {
            let mut record = agent.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok);
            let range = format!("{}/tcp", random.below(3)).parse().expect("a range");
            let ports = BTreeMap::from([("*".to_owned(), [range].into())]);
            record.writes.ports = match random.below(2) {
                0 => PortWrites { open: ports, ..PortWrites::default() },
                _ => PortWrites { close: ports, ..PortWrites::default() },
            };
            agent.commit(world, record).refusal.is_none()
        }
        6 => {
            let next =
                read_all::<ActionStatus>(world.reader(), &MODEL.actions_of(agent.unit)).first().cloned();
            let id = next.and_then(|(key, _)| last_number(&key));
            id.is_some_and(|id| {
                agent.done(world, Operation::Action { id, name: "backup".into() }).refusal.is_none()
            })
        }
        _ => agent.done(world, Operation::SetDead).refusal.is_none(),
    }
}

#[test]
fn no_random_sequence_violates_an_invariant() {
    let (mut taken, mut subordinates) = (0, 0);
    for seed in 1..=5 {
        let (mut world, mut random, mut agents) = (World::new(), Random(seed * 0x9E37_79B9), BTreeMap::new());
        if seed % 2 == 0 {
            world.deploy("shop", "shop", 2);
            world.deploy("logging", "logging", 0);
            world.integrate("shop:logs", "logging").expect("the endpoints are compatible");
        }
        for _ in 0..250 {
            taken += usize::from(step(&mut world, &mut random, &mut agents));
        }
        let next = read(world.reader(), &MODEL.sequence("unit/logging"));
        subordinates += next.unwrap_or_default();
    }
    assert!(taken > 400 && subordinates > 0, "the game is played: {taken}, {subordinates}");
}

/// A transaction is drafted, others commit meanwhile, then it is committed, as in an engine with concurrent writers.
/// Only the recorded reads make it safe.
#[test]
fn the_reads_of_a_transition_are_a_sufficient_precondition() {
    let (mut conflicts, mut both) = (0, 0);
    for seed in 1..=6 {
        let (mut world, mut random) = (World::new(), Random(seed * 0x85EB_CA6B));
        for _ in 0..60 {
            let base = world.documents.clone();
            let meanwhile = (0..4).filter(|_| call(&mut world, &mut random).is_ok()).count();
            world.stale = Some(base);
            match call(&mut world, &mut random) {
                Ok(()) => both += usize::from(meanwhile > 0),
                Err(refusal) => conflicts += usize::from(refusal == stale()),
            }
            world.stale = None;
        }
    }
    assert!(conflicts > 5 && both > 50, "{conflicts} conflicts, {both} pairs");
}
