//! Tests of views: what a unit observes, and that it is sent nothing more.
//!
//! That deltas add up to the full view is checked by `World::run` after every transaction of the tests of this crate,
//! except while `World::make` builds a large model.

use crate::documents::existence;
use crate::documents::prelude::{BagDoc, ResolvedDoc, StatusDoc};
use crate::lifecycle::creation::Creation;
use crate::lifecycle::leadership;
use crate::lifecycle::{application, application_settings, machine, unit};
use crate::terms::assignment::Existence;
use crate::terms::owner::Owner;
use crate::terms::start_reason::StartReason;
use crate::terms::status::WorkloadStatus;
use crate::terms::status_message::StatusMessage;
use crate::tests::lifecycle::fixture::machine_of;
use crate::tests::relations::pair;
use crate::tests::*;
use crate::unit::hook_context::BagWrites;
use crate::unit::hook_context_builder::{self, ContextInput};
use crate::unit::local::Run;
use crate::unit::relation_view::{BagRequest, BagView};
use crate::unit::snapshot::{Change, Snapshot};
use crate::views::requested_bag;
use crate::views::view;
use std::collections::BTreeSet;

fn write(world: &mut World, agent: &mut Agent, number: RelationNumber, value: &str) {
    let mut record = agent.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok);
    let unit = BTreeMap::from([("key".to_owned(), value.to_owned())]);
    record.writes.bags.insert(number, BagWrites { unit, ..BagWrites::default() });
    agent.commit(world, record);
}

#[test]
fn one_settings_write_sends_one_change_to_each_observing_unit() {
    let mut world = World::new();
    let (id, mut web, db) = pair(&mut world);
    let app = read(world.reader(), &MODEL.application_name("web")).expect("the application exists");
    world.run(|draft, ids| unit::add(draft, MODEL, app, None, 1, ids)).expect("alive");
    world.deploy("plain", "plain", 1);
    let number = world.number(id);
    write(&mut world, &mut web, number, "1");
    let bag: BagDoc = read(world.reader(), &MODEL.bag(id, web.unit)).expect("its bag");
    let change = Change::Bag {
        relation: number,
        owner: Owner::Unit("web/0".parse().expect("a name")),
        bag: Some(BagView::with_values(bag.counter, bag.values)),
    };
    let expected = vec![change];
    assert_eq!(world.sent[&db.unit], expected);
    assert_eq!(world.sent[&web.unit], expected);
    assert_eq!(
        world.sent[&world.unit("web/1")],
        [],
        "another unit of the same application sees none of its bags"
    );
    assert_eq!(world.sent[&world.unit("plain/0")], [], "an unrelated unit sees nothing");
}

/// Each commit wakes each stream, so a stream is expensive only if it reads documents: a commit that concerns other
/// machines must not make it compute its view.
#[test]
fn a_commit_about_other_machines_computes_no_view_again() {
    let mut world = World::new();
    let (_, web, db) = pair(&mut world);
    world.deploy("plain", "plain", 1);
    let plain = world.unit("plain/0");
    let machines = [web.unit, db.unit, plain].map(|unit| machine_of(&world, unit));
    let added = world.run(|draft, ids| {
        let id = ids();
        machine::add(draft, MODEL, id, 1).map(|_| id)
    });
    let added = added.expect("the model is alive");
    assert_eq!(world.computed, BTreeSet::new());
    world.run(|draft, _| machine::destroy(draft, MODEL, added)).expect("it has no units");
    assert_eq!(world.computed.intersection(&machines.into()).count(), 0);
}

/// Adding, running and removing units of one application: in a large model, most commits concern one application only.
#[test]
fn a_commit_about_units_of_an_unrelated_application_computes_no_view_again() {
    let mut world = World::new();
    let (_, web, db) = pair(&mut world);
    world.deploy("plain", "plain", 2);
    let related = BTreeSet::from([web.unit, db.unit]);
    let plain = ["plain/0", "plain/1"].map(|name| world.unit(name));
    let status = |status| StatusDoc { status, ..StatusDoc::default() };
    let set = |world: &mut World, unit, value: &StatusDoc| {
        let set = world.run(|draft, _| {
            draft.put(&MODEL.unit_status(unit), value);
            Ok::<_, Refusal>(())
        });
        set.expect("statuses have no conditions");
    };
    set(&mut world, plain[0], &status(WorkloadStatus::Active));
    assert_eq!(world.computed, plain.into());
    let app = read(world.reader(), &MODEL.application_name("plain")).expect("the application exists");
    world.run(|draft, ids| unit::add(draft, MODEL, app, None, 1, ids)).expect("alive");
    assert!(world.computed.is_disjoint(&related), "a unit was added");
    let mut agent = Agent::attach(&mut world, "plain/0");
    agent.start(&mut world);
    world.run(|draft, _| unit::destroy(draft, MODEL, agent.unit, 60)).expect("it exists");
    assert!(world.computed.is_disjoint(&related), "a unit is Dying");
    world.run(|draft, _| unit::destroy(draft, MODEL, plain[1], 60)).expect("it exists");
    assert!(world.computed.is_disjoint(&related), "a unit was removed");
    set(&mut world, web.unit, &status(WorkloadStatus::Blocked));
    assert_eq!(world.computed, related, "a related unit is shown");
}

#[test]
fn an_entry_shows_the_member_with_its_settings_immediately() {
    let mut world = World::new();
    let (id, _web, db) = pair(&mut world);
    let app = read(world.reader(), &MODEL.application_name("web")).expect("the application exists");
    world.run(|draft, ids| unit::add(draft, MODEL, app, None, 1, ids)).expect("alive");
    let mut second = Agent::attach(&mut world, "web/1");
    second.start(&mut world);
    second.enter(&mut world, id);
    let [
        Change::Member { unit: member, incarnation: Some(1), .. },
        Change::Bag { owner: Owner::Unit(owner), bag: Some(bag), .. },
    ] = &world.sent[&db.unit][..]
    else {
        panic!("{:?}", world.sent[&db.unit])
    };
    assert_eq!([member, owner], [&UnitName::new("web", 1); 2]);
    assert_eq!(bag.values.as_ref().expect("the values are inlined")["private-address"], "127.0.0.1");
    assert!(!world.sent[&world.unit("web/0")].iter().any(|change| matches!(change, Change::Member { .. })));
}

#[test]
fn a_new_relation_is_sent_completely_and_a_removed_one_in_one_change() {
    let mut world = World::new();
    let (_, web, mut db) = pair(&mut world);
    world.deploy("shop", "web", 1);
    let id = world.integrate("shop", "db").expect("the endpoints are compatible");
    let number = world.number(id);
    assert!(world.sent[&web.unit].is_empty());
    assert!(
        matches!(&world.sent[&db.unit][0], Change::Relation { relation, head: Some(head) } if *relation == number && head.remote_application == "shop")
    );
    db.enter(&mut world, id);
    let shop = world.unit("shop/0");
    assert!(world.sent[&shop].contains(&Change::Member {
        relation: number,
        unit: "db/0".parse().expect("a name"),
        incarnation: Some(1)
    }));
    world.run(|draft, _| relation::destroy(draft, MODEL, id)).expect("the removal is accepted");
    assert_eq!(world.sent[&shop].len(), 1, "its head is dying: {:?}", world.sent[&shop]);
    db.broken(&mut world, number);
    let removed = Change::Relation { relation: number, head: None };
    assert!(world.sent[&shop].contains(&removed), "{:?}", world.sent[&shop]);
}

#[test]
fn a_unit_receives_its_effective_life_immediately() {
    let mut world = World::new();
    let (id, web, db) = pair(&mut world);
    let app = read(world.reader(), &MODEL.application_name("web")).expect("the application exists");
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("the removal is accepted");
    assert!(
        world.sent[&web.unit]
            .iter()
            .any(|change| matches!(change, Change::Unit(unit) if unit.life == Life::Dying))
    );
    let number = world.number(id);
    let dying = |change: &Change| matches!(change, Change::Relation { relation, head: Some(head) } if *relation == number && head.life == Life::Dying);
    let member =
        Change::Member { relation: number, unit: "web/0".parse().expect("a name"), incarnation: None };
    let [first, second] = &world.sent[&db.unit][..] else { panic!("{:?}", world.sent[&db.unit]) };
    assert!(dying(first) && *second == member, "{:?}", world.sent[&db.unit]);
}

/// Spec E.2, last row: the agent may be frozen, or its hooks may fail for days.
#[test]
fn a_dying_unit_has_departed_for_all_others_before_its_own_agent_leaves() {
    let mut world = World::new();
    let (id, mut web, db) = pair(&mut world);
    let number = world.number(id);
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit, 60)).expect("the removal is accepted");
    let removed =
        Change::Member { relation: number, unit: "web/0".parse().expect("a name"), incarnation: None };
    assert_eq!(world.sent[&db.unit][0], removed);
    let dying = |change: &Change| matches!(change, Change::Status { is_dying: true, .. });
    assert!(dying(&world.sent[&db.unit][1]) && world.sent[&db.unit].len() == 2, "{:?}", world.sent[&db.unit]);
    let seen = view::full_view(world.reader(), MODEL, db.unit).expect("there is a view").shown();
    assert_eq!(seen.members, BTreeMap::new());
    let own = view::full_view(world.reader(), MODEL, web.unit).expect("there is a view").shown();
    assert_eq!(own.members.len(), 1, "it departs from the other itself");
    web.leave(&mut world, id);
    assert_eq!(world.sent[&db.unit], [], "it has departed already");
}

#[test]
fn config_charm_leader_and_resolved_are_one_change_each() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    world.deploy("db", "db", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let (unit, other) = (agent.unit, world.unit("db/0"));
    let set = BTreeMap::from([("port".to_owned(), "81".to_owned())]);
    world.run(|draft, _| application_settings::configure(draft, MODEL, app, &set, &[])).expect("it fits");
    assert_eq!(world.sent[&unit], [Change::Config(BTreeMap::from([("port".to_owned(), 81.into())]))]);
    assert_eq!(world.sent[&other], []);
    world
        .run(|draft, _| {
            application_settings::set_trust(draft, MODEL, app, true);
            Ok(())
        })
        .expect("it exists");
    assert_eq!(world.sent[&unit], [Change::Trust(true)]);
    assert_eq!(world.sent[&other], []);
    world.run(|draft, _| leadership::claim(draft, MODEL, unit, false)).expect("nobody leads");
    assert!(matches!(&world.sent[&unit][..], [Change::Leader(Some(grant))] if grant.generation == 1));
    let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    let record = agent.record(Operation::Hook(Hook::Install), failed);
    agent.commit(&mut world, record);
    world.run(|draft, _| unit::resolved(draft, MODEL, unit, false)).expect("it is in error");
    assert_eq!(world.sent[&unit], [Change::Resolved(Some(ResolvedDoc { episode: 1, retry: false }))]);
    assert_eq!(world.sent[&other], []);
    let request = application::Refresh {
        application: "web".into(),
        sha256: "web".into(),
        forced: true,
        ..Default::default()
    };
    world
        .run(|draft, ids| application::refresh(draft, MODEL, &request, Creation { now_ms: 5, ids }))
        .expect("the same charm");
    assert!(matches!(&world.sent[&unit][..], [Change::Charm(view)] if view.charm.forced));
}

#[test]
fn a_removed_unit_receives_its_tombstone() {
    let mut world = World::new();
    world.deploy("web", "web", 2);
    let (first, second) = (world.unit("web/0"), world.unit("web/1"));
    world.run(|draft, _| unit::destroy(draft, MODEL, first, 60)).expect("the removal is accepted");
    assert_eq!(world.sent[&first], [Change::Removed]);
    let removed = Change::Status { unit: "web/0".parse().expect("a name"), status: None, is_dying: false };
    assert_eq!(world.sent[&second], [removed]);
    assert_eq!(view::full_view(world.reader(), MODEL, first), None);
    assert_eq!(existence::unit(&mut world.reader(), MODEL, first), Existence::Tombstone);
    assert_eq!(existence::unit(&mut world.reader(), MODEL, second), Existence::Known(Life::Alive));
    assert_eq!(existence::unit(&mut world.reader(), MODEL, Uuid(1)), Existence::Unknown);
}

#[test]
fn a_peer_observes_the_other_units_and_never_itself() {
    let mut world = World::new();
    world.deploy("web", "web", 2);
    let ring = read(world.reader(), &MODEL.relation_key(&"web:ring".parse().expect("the ends")))
        .expect("a peer relation");
    let number = world.number(ring);
    for name in ["web/0", "web/1"] {
        let mut agent = Agent::attach(&mut world, name);
        agent.start(&mut world);
        agent.enter(&mut world, ring);
    }
    for (unit, other) in [("web/0", "web/1"), ("web/1", "web/0")] {
        let full = view::full_view(world.reader(), MODEL, world.unit(unit)).expect("there is a view");
        let snapshot = Snapshot::from_full(full.delta).expect("complete");
        let members: Vec<String> =
            snapshot.relations[&number].members.keys().map(UnitName::to_string).collect();
        assert_eq!(members, [other]);
        assert_eq!(snapshot.relations[&number].bags.len(), 3, "its own, the other's, the application's");
    }
}

#[test]
fn the_units_of_a_dying_machine_are_dying() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    let machine = read(world.reader(), &MODEL.unit(unit)).expect("the unit exists").machine;
    assert_eq!(world.life(unit), Some(Life::Alive));
    world
        .run(|draft, _| {
            draft.put(&MODEL.machine_life(machine), &Life::Dying);
            Ok(())
        })
        .expect("written directly, as a forced removal does");
    assert_eq!(world.life(unit), Some(Life::Dying));
    let sent = &world.sent[&unit];
    let [Change::Unit(view), Change::Status { is_dying: true, .. }] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(view.life, Life::Dying);
}

/// The units whose bags are omitted from a view with this bound of inline settings.
fn omitted(world: &World, unit: Uuid, bound: usize) -> Vec<String> {
    let full = view::full_view_within(world.reader(), MODEL, unit, bound).expect("there is a view");
    let bags = full.delta.changes.into_iter().filter_map(|change| match change {
        Change::Bag { owner: Owner::Unit(unit), bag: Some(bag), .. } => {
            assert!(bag.counter > 0, "the version is always included");
            bag.values.is_none().then(|| unit.to_string())
        }
        _ => None,
    });
    bags.collect::<BTreeSet<_>>().into_iter().collect()
}

#[test]
fn if_settings_exceed_the_bound_the_smallest_are_inlined() {
    let mut world = World::new();
    let (id, mut web, db) = pair(&mut world);
    let number = world.number(id);
    write(&mut world, &mut web, number, &"x".repeat(600));
    assert_eq!(omitted(&world, db.unit, 2_000), [""; 0]);
    assert_eq!(omitted(&world, db.unit, 600), ["web/0"]);
    assert_eq!(omitted(&world, db.unit, 0), ["db/0", "web/0"]);
}

#[test]
fn a_bag_can_be_fetched_by_units_that_observe_it_and_by_those_of_its_application() {
    let mut world = World::new();
    let (id, mut web, db) = pair(&mut world);
    world.deploy("plain", "plain", 1);
    let app = read(world.reader(), &MODEL.application_name("web")).expect("the application exists");
    world.run(|draft, ids| unit::add(draft, MODEL, app, None, 1, ids)).expect("alive");
    let number = world.number(id);
    write(&mut world, &mut web, number, "secret");
    let asked = |owner| BagRequest { relation: id, owner, position: Position::default() };
    let of_web = asked(Owner::Unit("web/0".parse().expect("a name")));
    let counter = read(world.reader(), &MODEL.bag(id, web.unit)).expect("its bag").counter;
    for (reader, sees) in [("db/0", true), ("web/0", true), ("web/1", true), ("plain/0", false)]
        .map(|(n, s)| (world.unit(n), s))
    {
        let bag = requested_bag::bag(world.reader(), MODEL, reader, &of_web);
        let read = bag.map(|bag| (bag.counter, bag.values.expect("whole")["key"].clone()));
        assert_eq!(read, sees.then(|| (counter, "secret".to_owned())));
    }
    let nobody = asked(Owner::Unit("web/9".parse().expect("a name")));
    assert_eq!(requested_bag::bag(world.reader(), MODEL, db.unit, &nobody), None);
}

#[test]
fn the_bag_of_a_removed_unit_can_be_fetched_until_its_relation_is_removed() {
    let mut world = World::new();
    let (id, mut web, db) = pair(&mut world);
    let owner = Owner::Unit("web/0".parse().expect("a name"));
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit, 60)).expect("alive");
    web.finish(&mut world);
    assert!(world.is_removed(web.unit));
    let asked = BagRequest { relation: id, owner, position: Position::default() };
    let bag = requested_bag::bag(world.reader(), MODEL, db.unit, &asked).expect("it stays (I14)");
    assert_eq!(bag.values.expect("whole")["private-address"], "127.0.0.1");
}

#[test]
fn a_unit_sees_that_its_machine_is_full_regardless_of_which_units_fill_it() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let plain = world.deploy("plain", "plain", 0);
    let first = world.unit("web/0");
    let doc: UnitDoc = read(world.reader(), &MODEL.unit(first)).expect("it was deployed");
    let machine = read(world.reader(), &MODEL.machine(doc.machine)).expect("it has one").name;
    for _ in 1..crate::lifecycle::machine::UNITS_MAX {
        world
            .run(|draft, ids| unit::add(draft, MODEL, plain, Some(&machine), 1, ids))
            .expect("there is room");
    }
    let change = world.sent[&first].iter().find_map(|change| match change {
        crate::unit::snapshot::Change::Unit(view) => Some(view.machine_full),
        _ => None,
    });
    assert_eq!(change, Some(true));
}

#[test]
fn a_hook_reads_the_text_of_a_status_message_that_no_charm_has_set() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let web = Agent::attach(&mut world, "web/0");
    let view = view::full_view(world.reader(), MODEL, web.unit).expect("there is a view");
    let view = Snapshot::from_full(view.delta).expect("a full view is complete");
    let run = Run::new(1, Operation::Hook(Hook::Install), StartReason::CharmInstalled);
    let message_text = |message: &StatusMessage| format!("the text of {message:?}");
    let input = ContextInput {
        declared: &super::web(),
        id_suffix: "",
        is_leader: false,
        device: None,
        commands: None,
        message_text,
    };
    let context = hook_context_builder::build(&web.local, &view, &run, &input).expect("a hook has a context");
    assert_eq!(context.statuses.unit.message, message_text(&StatusMessage::WaitingForMachine));
}
