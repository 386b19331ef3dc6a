//! Units: additions in batches, numbers, removal without an agent, and leadership.

use crate::documents::draft::WRITES_MAX;
use crate::lifecycle::application;
use crate::lifecycle::creation::Creation;
use crate::lifecycle::leadership;
use crate::lifecycle::unit::Destroyed;
use crate::lifecycle::{machine, unit};
use crate::tests::lifecycle::fixture::{destroy_unit, machine_of};
use crate::tests::*;
use crate::views::machine_view;

fn add_batch(
    world: &mut World,
    application: Uuid,
    count: u32,
    to: Option<&str>,
) -> Result<Vec<UnitName>, Refusal> {
    let added = world.run(|draft, ids| {
        unit::add_batch(draft, MODEL, application, count, to, Creation { now_ms: 9, ids })
    })?;
    Ok(added.into_iter().map(|(_, name)| name).collect())
}

#[test]
fn adding_units_in_batches_stores_the_same_documents_as_adding_them_singly() {
    for (existing, count) in [(0, 1), (1, 2), (1, 9), (0, 10), (3, 20)] {
        for to in [None, Some("0")] {
            let mut batches = World::new();
            let app = batches.deploy("web", "web", existing);
            batches.run(|draft, ids| machine::add(draft, MODEL, ids(), 1)).expect("the model is alive");
            let mut singles = batches.copy();
            let mut added = Vec::new();
            while added.len() < count {
                let (remaining, to) = ((count - added.len()) as u32, to.filter(|_| added.is_empty()));
                let batch = add_batch(&mut batches, app, remaining, to).expect("the machine has room");
                added.extend(batch);
            }
            for (number, in_batch) in added.iter().enumerate() {
                let to = to.filter(|_| number == 0);
                let single = singles.run(|draft, ids| unit::add(draft, MODEL, app, to, 9, ids));
                assert_eq!(single.expect("the machine has room").1, *in_batch);
            }
            let values = |world: &World| -> BTreeMap<String, String> {
                let documents = world.documents.map.iter();
                documents.map(|(key, (_, value))| (key.clone(), value.clone())).collect()
            };
            assert_eq!(values(&batches), values(&singles), "{count} units to {to:?}");
        }
    }
}

#[test]
fn each_batch_of_units_but_the_last_fills_a_transaction() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 0);
    let batch = unit::ADDED_PER_TRANSACTION as usize;
    let (mut remaining, mut sizes) = (2 * batch + 1, Vec::new());
    while remaining > 0 {
        let added = add_batch(&mut world, app, remaining as u32, None).expect("it is alive");
        sizes.push(added.len());
        remaining -= added.len();
    }
    assert_eq!(sizes, [batch, batch, 1]);
}

#[test]
fn a_batch_of_units_fits_beside_what_its_transaction_writes_already() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    for earlier_writes in 0..=WRITES_MAX {
        let mut draft = Draft::new(world.reader());
        (0..earlier_writes).for_each(|n| draft.put(&MODEL.sequence(&format!("{n}")), &1));
        let mut next = 1_000;
        let mut ids = || {
            next += 1;
            Uuid(next)
        };
        let creation = Creation { now_ms: 9, ids: &mut ids };
        let added =
            unit::add_batch(&mut draft, MODEL, app, 1_000, None, creation).expect("the model is alive");
        let writes = draft.finish().expect("it is bounded").writes.len();
        assert_eq!(writes, earlier_writes + if added.is_empty() { 0 } else { 3 + 10 * added.len() });
        assert!(writes + 13 > WRITES_MAX, "{earlier_writes}: another unit fits");
    }
}

#[test]
fn a_batch_of_units_is_refused_as_a_whole() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    for _ in 2..machine::UNITS_MAX {
        world.run(|draft, ids| unit::add(draft, MODEL, app, Some("0"), 1, ids)).expect("there is room");
    }
    let added = add_batch(&mut world, app, 3, Some("0")).expect("there is room for one");
    let machines: Vec<Uuid> =
        added.iter().map(|name| machine_of(&world, world.unit(&name.to_string()))).collect();
    assert_eq!(machines[0], machine_of(&world, world.unit("web/0")));
    assert!(machines[1] != machines[0] && machines[2] != machines[0], "the others get new machines");
    let before = world.documents.map.clone();
    let refusal = refused(add_batch(&mut world, app, 3, Some("0")));
    let full = MachineRefusal::Full { machine: "0".to_owned(), max: machine::UNITS_MAX };
    assert_eq!(refusal, reason(full));
    assert_eq!(world.documents.map, before);
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("the removal is accepted");
    let before = world.documents.map.clone();
    assert_eq!(refused(add_batch(&mut world, app, 3, None)).0, Code::NotAlive);
    assert_eq!(world.documents.map, before);
}

#[test]
fn scenarios_165_and_166_a_unit_whose_agent_never_attached_is_removed_immediately() {
    let mut world = World::new();
    world.deploy("web", "web", 2);
    let (first, second) = (world.unit("web/0"), world.unit("web/1"));
    assert_eq!(destroy_unit(&mut world, first), Destroyed::Removed);
    assert!(world.is_removed(first));
    assert_eq!(destroy_unit(&mut world, first), Destroyed::Removed, "a second time changes nothing");
    let revision = world.documents.revision;
    let answer = world.run(|draft, _| unit::destroy(draft, MODEL, Uuid(1), 60));
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
    let answer = world.run(|draft, _| session::attach(draft, MODEL, id, attach(1, 0), GENERATION, false));
    assert_eq!(refused(answer), reason(SessionRefusal::UnitRemoved { name: "web/0".to_owned() }));
    let answer =
        world.run(|draft, _| session::attach(draft, MODEL, Uuid(3), attach(1, 0), GENERATION, false));
    assert_eq!(refused(answer).0, Code::NotFound, "not found is no evidence");
}

#[test]
fn scenario_168_a_unit_with_subordinates_cannot_be_dead() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    world.deploy("logging", "logging", 0);
    let id = world.integrate("web", "logging").expect("the endpoints are compatible");
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    agent.enter(&mut world, id);
    let (principal, subordinate) = (world.unit("web/0"), world.unit("logging/0"));
    destroy_unit(&mut world, principal);
    assert_eq!(
        world.life(subordinate),
        Some(Life::Dying),
        "I23: the subordinates of a Dying principal are Dying"
    );
    let committed = agent.done(&mut world, Operation::SetDead);
    assert_eq!(committed.refusal, Some(UnitRefusal::HasSubordinates { unit: web0() }.into()));
    assert_eq!(world.life(principal), Some(Life::Dying));
}

#[test]
fn a_dying_unit_never_deployed_is_removed_without_an_agent() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    assert_eq!(refused(world.run(|draft, _| unit::remove(draft, MODEL, unit, 60))).0, Code::Busy);
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("the removal is accepted");
    assert!(!machine::needs_unit_agent(world.reader(), MODEL, machine_of(&world, unit)));
    let view =
        machine_view::view(world.reader(), MODEL, machine_of(&world, unit)).expect("the machine has a view");
    assert_eq!(view.units[&unit].life, Life::Dying);
    world.run(|draft, _| unit::remove(draft, MODEL, unit, 60)).expect("no operation has started");
    assert!(world.is_removed(unit) && world.is_removed(app));
}

#[test]
fn leadership_is_granted_renewed_transferred_and_released() {
    let mut world = World::new();
    world.deploy("web", "web", 2);
    let mut agents = [Agent::attach(&mut world, "web/0"), Agent::attach(&mut world, "web/1")];
    let [first, second] = [agents[0].unit, agents[1].unit];
    let claim = |world: &mut World, unit, may_take_over| {
        let granted =
            world.run(|draft, _| leadership::claim(draft, MODEL, unit, may_take_over)).expect("a unit");
        let application = read(world.reader(), &MODEL.unit(unit)).expect("the unit exists").application;
        let leader = read(world.reader(), &MODEL.leader(application)).expect("there is one");
        assert!(granted.is_none_or(|lease| lease.generation == leader.generation && leader.holder == unit));
        (granted.is_some(), leader.holder_name.number, leader.generation)
    };
    assert_eq!(claim(&mut world, first, false), (true, 0, 1), "never led before");
    assert_eq!(claim(&mut world, first, false), (true, 0, 1), "a renewal is no new generation");
    assert_eq!(claim(&mut world, second, false), (false, 0, 1));
    assert_eq!(claim(&mut world, second, true), (true, 1, 2));
    agents[1].start(&mut world);
    destroy_unit(&mut world, second);
    agents[1].done(&mut world, Operation::SetDead);
    assert_eq!(claim(&mut world, first, false), (true, 0, 3), "the lease of a Dead unit is released");
    world
        .run(|draft, _| {
            leadership::release(draft, MODEL, first);
            Ok(())
        })
        .expect("no refusal");
    assert_eq!(claim(&mut world, first, false), (true, 0, 4));
    let answer = world.run(|draft, _| leadership::claim(draft, MODEL, second, true));
    assert_eq!(refused(answer), reason(UnitRefusal::Dead { unit: UnitName::new("web", 1) }));
}
