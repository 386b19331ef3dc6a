//! The writes of a record: bags, ports, and what is dropped or refused.

use crate::documents::prelude::BagDoc;
use crate::lifecycle::leadership;
use crate::lifecycle::unit;
use crate::terms::leader_settings::LeaderSettingsView;
use crate::terms::owner::Owner;
use crate::tests::commits::fixture::{change, hook};
use crate::tests::relations::pair;
use crate::tests::*;
use crate::transitions::leader_settings::{self, LeaderWrite};
use crate::unit::hook_context::{BagWrites, LEADER_SETTINGS_BYTES_MAX, PortWrites};
use crate::unit::snapshot::Change;

#[test]
fn only_the_leader_writes_the_applications_bag() {
    let mut world = World::new();
    let (id, mut web, db) = pair(&mut world);
    let number = world.number(id);
    world.run(|draft, _| leadership::claim(draft, MODEL, web.unit, false)).expect("nobody leads");
    let mut record = hook(&web);
    record.writes.bags.insert(number, BagWrites { application: change("b", "2"), ..BagWrites::default() });
    assert_eq!(web.commit(&mut world, record), CommitOutcome::default());
    let app = read(world.reader(), &MODEL.application_name("web")).expect("the application exists");
    let bag: BagDoc = read(world.reader(), &MODEL.bag(id, app)).expect("its bag");
    assert_eq!(
        (bag.counter, bag.values["b"].as_str(), bag.owner),
        (1, "2", Owner::Application("web".to_owned()))
    );
    assert_eq!(world.sent[&db.unit].len(), 1, "one bag is one change: {:?}", world.sent[&db.unit]);
}

fn leader_write(generation: u64, call: u32, key: &str, value: &str) -> LeaderWrite {
    LeaderWrite { generation, run: 1, call, change: change(key, value) }
}

/// Writes as web/0, and returns the version of the leader settings.
fn write_settings(world: &mut World, agent: &Agent, write: &LeaderWrite) -> Result<u64, Refusal> {
    let written = world.run(|draft, _| leader_settings::write(draft, agent.session(), write))?;
    Ok(written.version)
}

#[test]
fn only_the_leader_of_this_generation_writes_leader_settings() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 2);
    let (web, other) = (Agent::attach(&mut world, "web/0"), Agent::attach(&mut world, "web/1"));
    let write = leader_write(1, 1, "a", "1");
    assert_eq!(refused(write_settings(&mut world, &web, &write)), reason(WriteRefusal::LeaderOnly));
    world.run(|draft, _| leadership::claim(draft, MODEL, web.unit, false)).expect("nobody leads");
    assert_eq!(refused(write_settings(&mut world, &other, &write)), reason(WriteRefusal::LeaderOnly));
    assert_eq!(write_settings(&mut world, &web, &write), Ok(1));
    world.run(|draft, _| leadership::claim(draft, MODEL, other.unit, true)).expect("it takes over");
    world.run(|draft, _| leadership::claim(draft, MODEL, web.unit, true)).expect("it takes over again");
    assert_eq!(
        refused(write_settings(&mut world, &web, &leader_write(1, 2, "a", "2"))),
        reason(WriteRefusal::LeaderOnly)
    );
    assert_eq!(write_settings(&mut world, &web, &leader_write(3, 1, "a", "3")), Ok(2));
    let stored = read(world.reader(), &MODEL.leader_settings(app)).expect("it was written");
    assert_eq!(stored.values, change("a", "3"));
    let fenced = Agent { epoch: web.epoch - 1, ..web };
    let refusal = write_settings(&mut world, &fenced, &leader_write(3, 2, "a", "4")).expect_err("fenced");
    assert_eq!(refusal.code(), Code::Fenced);
}

/// A folder that was lost or copied continues from its last record, so that its runs and calls have known numbers.
#[test]
fn a_write_of_leader_settings_in_a_new_session_is_applied_although_its_run_is_not_new() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let web = Agent::attach(&mut world, "web/0");
    world.run(|draft, _| leadership::claim(draft, MODEL, web.unit, false)).expect("nobody leads");
    assert_eq!(write_settings(&mut world, &web, &leader_write(1, 7, "a", "1")), Ok(1));
    let copy = Agent::attach(&mut world, "web/0");
    assert_eq!(write_settings(&mut world, &copy, &leader_write(1, 5, "a", "2")), Ok(2), "a lower call");
    assert_eq!(write_settings(&mut world, &copy, &leader_write(1, 5, "a", "2")), Ok(2), "it is applied");
}

#[test]
fn a_write_of_leader_settings_is_applied_once_and_never_after_a_later_one() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 2);
    let (web, other) = (Agent::attach(&mut world, "web/0"), Agent::attach(&mut world, "web/1"));
    world.run(|draft, _| leadership::claim(draft, MODEL, web.unit, false)).expect("nobody leads");
    let (first, second) = (leader_write(1, 1, "a", "1"), leader_write(1, 2, "a", "2"));
    assert_eq!(write_settings(&mut world, &web, &first), Ok(1));
    assert_eq!(write_settings(&mut world, &web, &first), Ok(1), "a repetition");
    assert_eq!(write_settings(&mut world, &web, &second), Ok(2));
    let shown = LeaderSettingsView { version: 2, values: change("a", "2") };
    assert_eq!(world.sent[&other.unit], [Change::LeaderSettings(shown)], "other units see them");
    assert_eq!(write_settings(&mut world, &web, &second), Ok(2), "a repetition");
    let of_copy = [first, leader_write(1, 2, "a", "3")];
    for write in of_copy {
        assert_eq!(refused(write_settings(&mut world, &web, &write)), reason(WriteRefusal::Overtaken));
    }
    let stored = read(world.reader(), &MODEL.leader_settings(app)).expect("it was written");
    assert_eq!(stored.values, change("a", "2"));
    assert_eq!(write_settings(&mut world, &web, &leader_write(1, 3, "a", "")), Ok(3));
    assert_eq!(write_settings(&mut world, &web, &leader_write(1, 4, "a", "")), Ok(3), "nothing changes");
    let large = leader_write(1, 5, "a", &"x".repeat(LEADER_SETTINGS_BYTES_MAX));
    let refusal = write_settings(&mut world, &web, &large).expect_err("it is too large");
    assert_eq!(refusal.code(), Code::Invalid);
}

#[test]
fn a_write_without_effect_increments_no_counter_and_sends_no_change() {
    let mut world = World::new();
    let (id, mut web, db) = pair(&mut world);
    let number = world.number(id);
    let counter = |world: &World| {
        let bag: BagDoc = read(world.reader(), &MODEL.bag(id, web.unit)).expect("its bag");
        bag.counter
    };
    let before = counter(&world);
    let mut agent = web.clone();
    for expected in [before + 1, before + 1] {
        let mut record = hook(&agent);
        record.writes.bags.insert(number, BagWrites { unit: change("a", "1"), ..BagWrites::default() });
        agent.commit(&mut world, record);
        assert_eq!(counter(&world), expected);
    }
    assert_eq!(world.sent[&db.unit], vec![], "I7");
    web = agent;
    let _ = web;
}

#[test]
fn writes_to_a_removed_relation_are_dropped_with_a_reason() {
    let mut world = World::new();
    let (id, web, db) = pair(&mut world);
    let number = world.number(id);
    world.run(|draft, _| relation::destroy(draft, MODEL, id)).expect("the removal is accepted");
    for unit in [web.unit, db.unit] {
        world
            .run(|draft, _| {
                relation::leave_scope(draft, MODEL, unit, id);
                Ok(())
            })
            .expect("no refusal");
    }
    let mut record = hook(&web);
    let writes = BagWrites { unit: change("a", "1"), application: change("b", "2") };
    record.writes.bags.insert(number, writes);
    let committed = web.send(&mut world, &record).expect("in order");
    assert_eq!(committed.refusal, None, "what belongs to nothing is never refused");
    assert_eq!(committed.dropped, [DroppedWrite::SettingsOfRemovedRelation { relation: number }]);
    assert_eq!(web.send(&mut world, &record), Ok(committed), "the same answer");
}

#[test]
fn a_unit_that_is_not_in_the_scope_writes_no_settings_there() {
    let mut world = World::new();
    let (id, web, _) = pair(&mut world);
    let number = world.number(id);
    world
        .run(|draft, _| {
            relation::leave_scope(draft, MODEL, web.unit, id);
            Ok(())
        })
        .expect("no refusal");
    let mut record = hook(&web);
    record.writes.bags.insert(number, BagWrites { unit: change("a", "1"), ..BagWrites::default() });
    let committed = web.send(&mut world, &record).expect("in order");
    assert_eq!(committed.refusal, None);
    assert_eq!(committed.dropped, [DroppedWrite::SettingsOutOfScope { relation: number }]);
}

#[test]
fn a_port_at_an_endpoint_that_the_charm_lacks_is_refused() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut web = Agent::attach(&mut world, "web/0");
    let endpoints = ["db".to_owned()].into();
    let charm = CharmRef {
        sha256: "x".into(),
        url: "local:x-0".into(),
        revision: 0,
        endpoints,
        resources: String::new(),
    };
    web.done(&mut world, Operation::InstallCharm(charm));
    for (endpoint, refusal) in [
        ("db", None),
        ("juju-info", None),
        ("*", None),
        (
            "nowhere",
            Some(WriteRefusal::UnknownEndpoint { unit: web0(), endpoint: "nowhere".to_owned() }.into()),
        ),
    ] {
        let mut record = hook(&web);
        let open = BTreeMap::from([(endpoint.to_owned(), ["80/tcp".parse().expect("a range")].into())]);
        record.writes.ports = PortWrites { open, ..PortWrites::default() };
        assert_eq!(web.commit(&mut world, record).refusal, refusal, "{endpoint}");
    }
    let open = read(world.reader(), &MODEL.ports(web.unit)).expect("some are open");
    assert_eq!(open.keys().collect::<Vec<_>>(), ["*", "db", "juju-info"]);
}

#[test]
fn ports_conflict_between_units_of_one_machine_only() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    for to in [Some("0"), None] {
        world.run(|draft, ids| unit::add(draft, MODEL, app, to, 1, ids)).expect("it is alive");
    }
    let mut agents = ["web/0", "web/1", "web/2"].map(|name| Agent::attach(&mut world, name));
    let mut open = |world: &mut World, at: usize, range: &str, open: bool| {
        let mut record = hook(&agents[at]);
        let ports = BTreeMap::from([("*".to_owned(), [range.parse().expect("a range")].into())]);
        record.writes.ports = match open {
            true => PortWrites { open: ports, ..PortWrites::default() },
            false => PortWrites { close: ports, ..PortWrites::default() },
        };
        let refusal = agents[at].commit(world, record).refusal;
        if refusal.is_some() {
            agents[at].done(world, Operation::Hook(Hook::UpdateStatus));
        }
        refusal
    };
    assert_eq!(open(&mut world, 0, "80-90/tcp", true), None);
    assert_eq!(open(&mut world, 0, "80-90/tcp", true), None, "a unit does not conflict with itself");
    let [range, other_range] = ["85/tcp", "80-90/tcp"].map(|range| range.parse().expect("a range"));
    let conflict =
        WriteRefusal::PortConflict { unit: UnitName::new("web", 1), range, other: web0(), other_range };
    assert_eq!(open(&mut world, 1, "85/tcp", true), Some(conflict.into()));
    assert_eq!(open(&mut world, 1, "85/udp", true), None, "another protocol");
    assert_eq!(open(&mut world, 2, "85/tcp", true), None, "another machine");
    assert_eq!(open(&mut world, 0, "80-90/tcp", false), None);
    assert_eq!(open(&mut world, 1, "85/tcp", true), None, "it was closed");
    let first = world.unit("web/0");
    assert_eq!(read(world.reader(), &MODEL.ports(first)), None);
}

/// A unit that lost and regained the leadership overwrites nothing that the leader in between wrote (design 13).
#[test]
fn a_leaders_write_is_applied_in_its_own_generation_only() {
    let mut world = World::new();
    let (id, web, _db) = pair(&mut world);
    let number = world.number(id);
    let claim = |world: &mut World| {
        let claimed = world.run(|draft, _| leadership::claim(draft, MODEL, web.unit, false));
        claimed.expect("it may lead").expect("nobody else leads")
    };
    let first = claim(&mut world);
    world
        .run(|draft, _| {
            leadership::release(draft, MODEL, web.unit);
            Ok(())
        })
        .expect("no refusal");
    let second = claim(&mut world);
    let mut record = hook(&web);
    let writes = BagWrites { application: change("k", "old"), ..BagWrites::default() };
    record.writes.bags.insert(number, writes);
    record.leader_generation = Some(first.generation);
    let not_all_the_time = WriteRefusal::NotLeader { unit: web0(), leader: Some(web0()) };
    let refusal = web.clone().commit(&mut world.copy(), record.clone()).refusal;
    assert_eq!(refusal, Some(not_all_the_time.into()));
    record.leader_generation = Some(second.generation);
    assert_eq!(web.clone().commit(&mut world, record).refusal, None);
}

/// 1. An action requests a reboot and opens ports. 2. The controller refuses the ports: nothing of the action takes effect.
#[test]
fn a_reboot_of_commands_whose_changes_are_refused_does_not_happen() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut web = Agent::attach(&mut world, "web/0");
    web.start(&mut world);
    for refusal in [None, Some(RefusalReason::from(ModelRefusal::NameTooLong { length: 2, max: 1 }))] {
        let mut record = web.record(Operation::Action { id: 1, name: "backup".into() }, Outcome::Ok);
        let ranges = ["80/tcp".parse().expect("a range")].into();
        record.writes.ports.open = BTreeMap::from([("*".to_owned(), ranges)]);
        record.reboot = Some("boot".to_owned());
        let (sequence, is_refused) = (record.sequence, refusal.is_some());
        let mut local = web.local.clone();
        local.apply(&Event::Finished(record));
        local.apply(&Event::Acknowledged { sequence, revision: 0, refusal, retry: None });
        assert_eq!(local.reboot.is_none(), is_refused);
    }
}
