//! Tests of destroy-model (spec/clients.md 3.2): Dying immediately, emptied in batches, removed when it is empty.

use crate::documents::draft::Transaction;
use crate::documents::prelude::{ArchiveUse, ForcedRemovalDoc, GLOBAL, Kind, ModelDoc, TombstoneDoc};
use crate::lifecycle::creation::Creation;
use crate::lifecycle::machine::MachineRequest;
use crate::lifecycle::{archive, cleanup, machine, model, unit};
use crate::terms::force::Force;
use crate::tests::*;
use crate::transitions::destruction;
use crate::transitions::force;

const NOW: i64 = 1_000_000;

fn destroy(world: &mut World, force: Force, now_ms: i64) {
    world.run(|draft, _| destruction::destroy(draft, MODEL, force, now_ms)).expect("the removal is accepted");
}

/// Runs the janitor until nothing is left to do; returns the number of batches.
fn run_all_batches(world: &mut World) -> usize {
    let mut batches = 1;
    while world.run(|draft, _| destruction::destroy_batch(draft, MODEL)).expect("it is never refused") {
        batches += 1;
        assert!(batches < 10_000, "it ends");
    }
    batches
}

/// Makes all machines that can be removed Dead, and releases their instances.
fn release(world: &mut World) {
    for (key, _) in read_all::<Life>(world.reader(), &MODEL.prefix(Kind::MachineLife)) {
        let id = last_id(&key).expect("an id");
        world.run(|draft, _| machine::set_dead(draft, MODEL, id)).expect("no unit is on it");
        world.run(|draft, _| machine::remove(draft, MODEL, id)).expect("it is dead");
    }
}

fn started(world: &mut World, name: &str) -> Agent {
    let mut agent = Agent::attach(world, name);
    agent.start(world);
    agent
}

/// web/0 and db/0, related and both in scope, and a machine without units.
fn full() -> (World, Agent, Agent) {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    world.deploy("db", "db", 1);
    world.deploy("plain", "plain", 0);
    world.run(|draft, ids| machine::add(draft, MODEL, ids(), 1).map(drop)).expect("the model is alive");
    let id = world.integrate("web", "db").expect("the endpoints are compatible");
    let (mut web, mut db) = (started(&mut world, "web/0"), started(&mut world, "db/0"));
    web.enter(&mut world, id);
    db.enter(&mut world, id);
    (world, web, db)
}

fn lives(world: &World, kind: Kind) -> Vec<Life> {
    let all = read_all::<Life>(world.reader(), &MODEL.prefix(kind));
    all.into_iter().map(|(_, life)| life).collect()
}

#[test]
fn a_model_that_is_being_destroyed_refuses_new_entities_with_a_reason() {
    let (mut world, ..) = full();
    destroy(&mut world, Force::No, NOW);
    // no batch has run yet: everything in the model is still Alive
    assert_eq!(lives(&world, Kind::ApplicationLife), [Life::Alive; 3]);
    let request = Deploy { application: Some("late".into()), sha256: "plain".into(), ..Deploy::default() };
    let web: Uuid = read(world.reader(), &MODEL.application_name("web")).expect("the application exists");
    let on: UnitDoc = read(world.reader(), &MODEL.unit(world.unit("web/0"))).expect("the unit exists");
    let on: crate::documents::prelude::MachineDoc =
        read(world.reader(), &MODEL.machine(on.machine)).expect("too");
    let answers = [
        world.run(|draft, ids| {
            application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids }).map(drop)
        }),
        world.run(|draft, ids| unit::add(draft, MODEL, web, None, 1, ids).map(drop)),
        world.run(|draft, ids| unit::add(draft, MODEL, web, Some(&on.name), 1, ids).map(drop)),
        world.run(|draft, ids| machine::add(draft, MODEL, ids(), 1).map(drop)),
        world.run(|draft, ids| {
            machine::add_requested(draft, MODEL, ids(), MachineRequest::manual(), 1).map(drop)
        }),
        world.integrate("plain", "db").map(drop),
    ];
    for answer in answers {
        let expected = ModelRefusal::BeingRemoved { name: "dev".to_owned() };
        assert_eq!(refused(answer), reason(expected));
    }
}

#[test]
fn agents_remove_their_units_and_the_model_is_removed_last() {
    let (mut world, mut web, mut db) = full();
    destroy(&mut world, Force::No, NOW);
    run_all_batches(&mut world);
    assert_eq!(lives(&world, Kind::ApplicationLife), [Life::Dying; 2], "plain had nothing and is gone");
    assert_eq!(lives(&world, Kind::MachineLife), [Life::Dying; 3]);
    assert_eq!(world.life(web.unit), Some(Life::Dying));
    web.finish(&mut world);
    assert_eq!(run_all_batches(&mut world), 1, "it waits for db/0");
    assert!(read::<ModelDoc>(world.reader(), &MODEL.model()).is_some());
    db.finish(&mut world);
    assert_eq!(lives(&world, Kind::ApplicationLife), []);
    run_all_batches(&mut world);
    assert!(read::<ModelDoc>(world.reader(), &MODEL.model()).is_some(), "its machines are not released yet");
    release(&mut world);
    run_all_batches(&mut world);
    assert!(read::<ModelDoc>(world.reader(), &MODEL.model()).is_none());
    let again = world.run(|draft, _| destruction::destroy(draft, MODEL, Force::No, NOW));
    assert_eq!(refused(again).0, Code::NotFound);
}

#[test]
fn a_removed_model_frees_its_name_and_leaves_only_a_tombstone() {
    let (mut world, mut web, mut db) = full();
    destroy(&mut world, Force::No, NOW);
    run_all_batches(&mut world);
    web.finish(&mut world);
    db.finish(&mut world);
    release(&mut world);
    run_all_batches(&mut world);
    let other = Uuid(8);
    world.run(|draft, _| model::create(draft, other, "dev", 2)).expect("its name is free");
    assert!(world.documents.map.keys().any(|key| key.starts_with(&format!("{}/", MODEL.0))), "leftovers");
    while world.run(|draft, _| Ok(cleanup::clean_batch(draft, GLOBAL, MODEL.0))).expect("it is never refused")
    {
    }
    let uses: Vec<ArchiveUse> =
        world.documents.map.keys().filter_map(|key| ArchiveUse::of_key(key)).collect();
    assert!(!uses.is_empty());
    world
        .run(|draft, _| {
            archive::delete_ended_uses(draft, &uses);
            Ok(())
        })
        .expect("it is never refused");
    let of_it = |key: &&String| key.contains(&MODEL.0.to_string());
    let left: Vec<&String> = world.documents.map.keys().filter(of_it).collect();
    assert_eq!(left, [GLOBAL.tombstone(MODEL.0).text()]);
    let tombstone: TombstoneDoc = read(world.reader(), &GLOBAL.tombstone(MODEL.0)).expect("it stays");
    assert_eq!((tombstone.kind.as_str(), tombstone.name.as_str()), ("model", "dev"));
    assert!(read::<ModelDoc>(world.reader(), &Model(other).model()).is_some(), "another is not touched");
}

#[test]
fn an_empty_model_is_removed_by_batches_alone() {
    let mut world = World::new();
    destroy(&mut world, Force::No, NOW);
    run_all_batches(&mut world);
    assert!(read::<ModelDoc>(world.reader(), &MODEL.model()).is_none());
    assert_eq!(read::<Uuid>(world.reader(), &GLOBAL.model_name("dev")), None);
}

#[test]
fn force_does_the_pending_work_of_agents() {
    let (mut world, ..) = full();
    destroy(&mut world, Force::No, NOW);
    run_all_batches(&mut world);
    let forced =
        |world: &World| read_all::<ForcedRemovalDoc>(world.reader(), &MODEL.prefix(Kind::ForcedRemoval));
    assert_eq!(forced(&world), [], "nobody asked for force");
    destroy(&mut world, Force::AfterWait, NOW);
    run_all_batches(&mut world);
    // web and db, and the three machines, which propagate force to their units
    let due: Vec<i64> = forced(&world).into_iter().map(|(_, doc)| doc.due_ms).collect();
    assert_eq!(due, [NOW + 60_000; 5]);
    destroy(&mut world, Force::AtOnce, NOW + 1);
    run_all_batches(&mut world);
    assert!(forced(&world).iter().all(|(_, doc)| doc.no_wait));
    // a weaker request does not undo a stronger one
    let before = world.documents.map.clone();
    destroy(&mut world, Force::No, NOW);
    destroy(&mut world, Force::AfterWait, NOW + 2);
    assert_eq!(world.documents.map, before);
    for round in 0.. {
        assert!(round < 100, "force ends");
        let mut more = false;
        for (key, _) in forced(&world) {
            let id = last_id(&key).expect("an id");
            more |= world.run(|draft, _| force::force_batch(draft, MODEL, id, NOW + 2)).expect("it is due");
        }
        if !more {
            break;
        }
    }
    assert_eq!(lives(&world, Kind::ApplicationLife), []);
    assert_eq!(lives(&world, Kind::UnitLife), []);
    assert_eq!(lives(&world, Kind::MachineLife), [Life::Dead; 3]);
    release(&mut world);
    run_all_batches(&mut world);
    assert!(read::<ModelDoc>(world.reader(), &MODEL.model()).is_none());
}

/// A model of `count` applications and as many machines, all empty.
fn wide(count: u32) -> World {
    let mut world = World::new();
    for number in 0..count {
        world.deploy(&format!("plain-{}", char::from(b'a' + number as u8)), "plain", 0);
        world.run(|draft, ids| machine::add(draft, MODEL, ids(), 1).map(drop)).expect("it is alive");
    }
    world
}

/// The numbers of reads and writes of a transition on these documents.
fn cost(documents: &Documents, transition: impl FnOnce(&mut Draft) -> Result<(), Refusal>) -> (usize, usize) {
    let mut draft = Draft::new(documents);
    transition(&mut draft).expect("it is not refused");
    let Transaction { keys, exist, none, pages, writes } = draft.finish().expect("transactions are bounded");
    (
        keys.len() + exist.len() + none.len() + pages.iter().map(|page| page.keys.len() + 1).sum::<usize>(),
        writes.len(),
    )
}

#[test]
fn a_batch_costs_the_same_regardless_of_the_size_of_the_model() {
    let (mut few, mut many) = (wide(2), wide(26));
    let asked = |world: &World| {
        cost(&world.documents, |draft| destruction::destroy(draft, MODEL, Force::AtOnce, NOW))
    };
    assert_eq!(asked(&few), asked(&many));
    assert_eq!(asked(&few).1, 2, "its life, and that it is on its way");
    for world in [&mut few, &mut many] {
        destroy(world, Force::AtOnce, NOW);
    }
    let batch_cost = |world: &World| {
        cost(&world.documents, |draft| destruction::destroy_batch(draft, MODEL).map(|more| assert!(more)))
    };
    assert_eq!(batch_cost(&few), batch_cost(&many));
    // one batch for each of 26 applications and one that finds none; 20 machines, 6, and one that finds none
    assert_eq!(run_all_batches(&mut many), 26 + 1 + 2 + 1);
    assert_eq!(lives(&many, Kind::MachineLife), [Life::Dying; 26]);
    // forced after they became Dying: the most that a batch of machines reads
    let mut late = wide(26);
    destroy(&mut late, Force::No, NOW);
    run_all_batches(&mut late);
    destroy(&mut late, Force::AtOnce, NOW);
    run_all_batches(&mut late);
    assert_eq!(read_all::<ForcedRemovalDoc>(late.reader(), &MODEL.prefix(Kind::ForcedRemoval)).len(), 26);
}
