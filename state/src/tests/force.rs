//! Tests of removal by force (spec H.6 81, 83, 87; E.8#9, #21; I24, I27) and of the teardown budget.
//!
//! No agent acts unless a test makes it.

use crate::documents::keys::{BagDoc, ForcedDoc, Kind, ScopeDoc};
use crate::lifecycle::unit::Destroyed;
use crate::lifecycle::{application, cleanup, machine, model, unit};
use crate::operations::force::{self, Force, ForceTimer, GRACE_MS};
use crate::operations::instance;
use crate::restore::reconciliation::{Reconciliation, Session, agree};
use crate::tests::*;
use crate::unit::snapshot::Change;
use crate::unit::writes::BagWrites;

const NOW: i64 = 1_000_000;

fn wait(now_ms: i64) -> Force {
    Force { no_wait: false, now_ms }
}

const AT_ONCE: Force = Force { no_wait: true, now_ms: NOW };

/// Runs the janitor at one time, batch after batch, until nothing is left to do; returns the number of batches.
fn sweep(world: &mut World, now_ms: i64) -> usize {
    let mut bites = 0;
    loop {
        let due: Vec<Uuid> = read_all::<ForcedDoc>(world.reader(), &MODEL.all(Kind::Forced))
            .iter()
            .filter_map(|(key, _)| last_id(key))
            .collect();
        let mut more = false;
        for id in due {
            more |= world
                .run(|draft, _| force::force_batch(draft, MODEL, id, now_ms))
                .expect("force is never refused");
            bites += 1;
        }
        if !more {
            return bites;
        }
        assert!(bites < 10_000, "force ends");
    }
}

fn forced(world: &World) -> usize {
    read_all::<ForcedDoc>(world.reader(), &MODEL.all(Kind::Forced)).len()
}

fn started(world: &mut World, name: &str) -> Agent {
    let mut agent = Agent::attach(world, name);
    agent.start(world);
    agent
}

/// web/0 and db/0, related and both in scope; web/0 is also in its peer relation.
fn qr(world: &mut World) -> (Uuid, Agent, Agent) {
    world.deploy("web", "web", 1);
    world.deploy("db", "db", 1);
    let id = world.integrate("web", "db").expect("they fit");
    let (mut web, mut db) = (started(world, "web/0"), started(world, "db/0"));
    let ring = read(world.reader(), &MODEL.relation_key("web:ring")).expect("a peer relation");
    web.enter(world, ring);
    web.enter(world, id);
    db.enter(world, id);
    (id, web, db)
}

fn members(world: &World, relation: Uuid) -> Vec<String> {
    let all = read_all::<ScopeDoc>(world.reader(), &MODEL.scopes(relation));
    all.into_iter().map(|(_, entry)| entry.unit.to_string()).collect()
}

fn force_unit(world: &mut World, id: Uuid, force: Force) -> Destroyed {
    world.run(|draft, _| force::unit(draft, MODEL, id, force)).expect("it may be forced")
}

#[test]
fn scenario_87_a_unit_without_agent_leaves_its_scopes_by_force_and_is_removed() {
    let mut world = World::new();
    let (id, web, db) = qr(&mut world);
    assert_eq!(force_unit(&mut world, web.unit, wait(NOW)), Destroyed::Dying);
    sweep(&mut world, NOW + GRACE_MS - 1);
    assert_eq!(world.life(web.unit), Some(Life::Dying), "its agent has its time");
    assert_eq!(members(&world, id).len(), 2);
    sweep(&mut world, NOW + GRACE_MS);
    assert_eq!(world.life(web.unit), Some(Life::Dead));
    assert_eq!(members(&world, id), ["db/0"], "the relation goes on");
    assert_eq!(world.life(id), Some(Life::Alive));
    // its machine agent may still recall it during the grace period
    sweep(&mut world, NOW + 2 * GRACE_MS - 1);
    assert_eq!(world.life(web.unit), Some(Life::Dead));
    sweep(&mut world, NOW + 2 * GRACE_MS);
    assert!(world.gone(web.unit));
    assert_eq!((forced(&world), world.life(db.unit)), (0, Some(Life::Alive)));
}

#[test]
fn scenarios_81_and_83_an_agent_that_returns_is_fenced_and_writes_nothing() {
    let mut world = World::new();
    let (_, mut web, _) = qr(&mut world);
    let failed = Outcome::Failed { reason: "exit status 1".into(), retry: None };
    let record = web.record(Operation::Hook(Hook::UpdateStatus), failed);
    web.commit(&mut world, record);
    force_unit(&mut world, web.unit, wait(NOW));
    let on = read(world.reader(), &MODEL.unit(web.unit)).expect("it is there").machine;
    assert!(machine::has_attached_unit(world.reader(), MODEL, on), "an agent is to end it");
    // the agent is fenced first: the first batch that is due does only that
    world.run(|draft, _| force::force_batch(draft, MODEL, web.unit, NOW + GRACE_MS)).expect("it is due");
    assert!(!machine::has_attached_unit(world.reader(), MODEL, on), "no agent is waited for");
    assert_eq!(world.life(web.unit), Some(Life::Dying));
    let late = web.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok);
    assert_eq!(web.send(&mut world, &late).expect_err("it is fenced").code, Code::Fenced);
    for epoch in [0, web.epoch, web.epoch + 9] {
        let answer = world.run(|draft, _| session::attach(draft, MODEL, web.unit, Uuid(77), held(epoch)));
        assert_eq!(answer.expect_err("nobody speaks for it any more").code, Code::Fenced, "held {epoch}");
    }
    sweep(&mut world, NOW + GRACE_MS);
    let shown = view::full_view(world.reader(), MODEL, web.unit).expect("its record is there").shown();
    assert_eq!(shown.unit.life, Life::Dead, "an agent that sees this runs no hooks and ends");
    sweep(&mut world, NOW + 2 * GRACE_MS);
    let answer = world.run(|draft, _| session::attach(draft, MODEL, web.unit, Uuid(77), held(web.epoch)));
    assert_eq!(answer.expect_err("a tombstone").code, Code::Removed);
}

/// What the agent of a remaining unit could run hooks for: members, relations, bags.
fn news(world: &World, unit: Uuid) -> Vec<Change> {
    let of_relations = |change: &&Change| {
        matches!(change, Change::Member { .. } | Change::Relation { .. } | Change::Bag { .. })
    };
    world.sent[&unit].iter().filter(of_relations).cloned().collect()
}

#[test]
fn i24_survivors_see_what_a_graceful_removal_shows() {
    let mut graceful = World::new();
    let (_, mut web, db) = qr(&mut graceful);
    let app: Uuid = read(graceful.reader(), &MODEL.application_name("web")).expect("it is there");
    graceful.run(|draft, _| application::destroy(draft, MODEL, app)).expect("it may go");
    assert!(!news(&graceful, db.unit).is_empty(), "who is going has departed");
    let mut by_force = graceful.copy();
    let mut shown = Vec::new();
    let numbers: Vec<_> =
        web.local.relations.iter().filter(|(_, r)| !r.local_endpoint.peer).map(|(n, _)| *n).collect();
    for number in numbers {
        web.broken(&mut graceful, number);
        shown.extend(news(&graceful, db.unit));
    }
    web.done(&mut graceful, Operation::Hook(Hook::Stop));
    web.done(&mut graceful, Operation::Hook(Hook::Remove));
    web.done(&mut graceful, Operation::SetDead);
    shown.extend(news(&graceful, db.unit));
    graceful.run(|draft, _| unit::remove(draft, MODEL, web.unit)).expect("it is dead");
    shown.extend(news(&graceful, db.unit));

    let mut seen = Vec::new();
    force_unit(&mut by_force, web.unit, AT_ONCE);
    seen.extend(news(&by_force, db.unit));
    while !by_force.gone(web.unit) {
        by_force.run(|draft, _| force::force_batch(draft, MODEL, web.unit, NOW)).expect("it is due");
        seen.extend(news(&by_force, db.unit));
    }
    assert_eq!(seen, shown);
}

#[test]
fn i27_an_application_without_agents_is_removed_in_bounded_batches() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 0);
    // more units than one batch forces; the agents of some have attached
    for _ in 0..23 {
        world.run(|draft, ids| unit::add(draft, MODEL, app, None, 1, ids)).expect("it is alive");
    }
    world.deploy("db", "db", 1);
    let id = world.integrate("web", "db").expect("they fit");
    let mut db = started(&mut world, "db/0");
    db.enter(&mut world, id);
    for number in 0..3 {
        let mut agent = started(&mut world, &format!("web/{number}"));
        agent.enter(&mut world, id);
    }
    let destroyed = world.run(|draft, _| force::application(draft, MODEL, app, wait(NOW)));
    assert_eq!(destroyed.expect("it may be forced"), Destroyed::Dying);
    sweep(&mut world, NOW + GRACE_MS);
    sweep(&mut world, NOW + 2 * GRACE_MS);
    sweep(&mut world, NOW + 2 * GRACE_MS);
    assert!(world.gone(app) && world.gone(id));
    assert_eq!((world.life(db.unit), forced(&world)), (Some(Life::Alive), 0));
}

#[test]
fn a_unit_whose_many_relations_are_removed_with_it_leaves_them_in_bounded_batches() {
    let mut world = World::new();
    let web = world.deploy("web", "web", 1);
    let mut others = Vec::new();
    let mut agent = started(&mut world, "web/0");
    for number in 0..12 {
        let name = format!("db{}", ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"][number]);
        let other = world.deploy(&name, "db", 0);
        let id = world.integrate("web", &name).expect("they fit");
        agent.enter(&mut world, id);
        others.push(other);
    }
    for id in others.iter().copied().chain([web]) {
        world.run(|draft, _| application::destroy(draft, MODEL, id)).expect("it may go");
    }
    force_unit(&mut world, agent.unit, AT_ONCE);
    // the bounds of every transaction are asserted when it is committed
    let bites = sweep(&mut world, NOW);
    assert!(bites > 12 / 3, "not in one: {bites}");
    assert!(world.gone(agent.unit) && world.gone(web));
    assert!(others.iter().all(|id| world.gone(*id)), "each went with its last relation");
}

#[test]
fn a_forced_principal_is_removed_after_its_subordinates() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    world.deploy("logging", "logging", 0);
    let id = world.integrate("web", "logging").expect("they fit");
    let mut web = started(&mut world, "web/0");
    web.enter(&mut world, id);
    let mut logging = started(&mut world, "logging/0");
    logging.enter(&mut world, id);
    let answer = world.run(|draft, _| force::unit(draft, MODEL, logging.unit, AT_ONCE));
    assert_eq!(refused(answer).0, Code::Forbidden, "scenario 123 holds by force too");
    force_unit(&mut world, web.unit, wait(NOW));
    sweep(&mut world, NOW + GRACE_MS);
    assert_eq!((world.life(logging.unit), world.life(web.unit)), (Some(Life::Dead), Some(Life::Dying)));
    sweep(&mut world, NOW + 2 * GRACE_MS);
    assert!(world.gone(logging.unit));
    sweep(&mut world, NOW + 3 * GRACE_MS);
    assert!(world.gone(web.unit));
    assert_eq!(forced(&world), 0);
}

#[test]
fn the_members_of_a_forced_relation_are_removed_from_its_scope() {
    let mut world = World::new();
    let (id, web, db) = qr(&mut world);
    world.run(|draft, _| force::relation(draft, MODEL, id, wait(NOW))).expect("it may be forced");
    sweep(&mut world, NOW + GRACE_MS - 1);
    assert_eq!(members(&world, id).len(), 2);
    sweep(&mut world, NOW + GRACE_MS);
    assert!(world.gone(id));
    assert_eq!((world.life(web.unit), world.life(db.unit)), (Some(Life::Alive), Some(Life::Alive)));
    assert_eq!(forced(&world), 0);
    // its agents were present: what they report about it changes nothing
    let mut web = web;
    let number = *web.local.relations.iter().find(|(_, known)| known.uuid == id).expect("it knows it").0;
    assert_eq!(web.broken(&mut world, number), CommitOutcome::default());
}

#[test]
fn the_units_of_a_forced_machine_are_forced_too() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let first = started(&mut world, "web/0");
    let on = read(world.reader(), &MODEL.unit(first.unit)).expect("it is there").machine;
    world.run(|draft, ids| unit::add(draft, MODEL, app, Some("0"), 1, ids)).expect("there is room");
    let second = world.unit("web/1");
    world.run(|draft, _| force::machine(draft, MODEL, on, AT_ONCE)).expect("it may be forced");
    assert_eq!(world.life(second), Some(Life::Dying), "derived at once");
    sweep(&mut world, NOW);
    assert!(world.gone(first.unit) && world.gone(second));
    sweep(&mut world, NOW);
    assert_eq!(world.life(on), Some(Life::Dead), "its provider releases it");
    world.run(|draft, _| machine::remove(draft, MODEL, on)).expect("it is dead");
    sweep(&mut world, NOW);
    assert_eq!((forced(&world), world.life(app)), (0, Some(Life::Alive)));
}

#[test]
fn a_manually_provisioned_machine_that_never_returns_is_removed_by_force() {
    let mut world = World::new();
    let mut bring = |wait: Force| {
        let id = world.run(|draft, ids| {
            let id = ids();
            machine::add_manual(draft, MODEL, id, 1).map(|_| id)
        });
        let id = id.expect("it is a person's");
        world.run(|draft, _| force::machine(draft, MODEL, id, wait)).expect("it may be forced");
        let mut gone = Vec::new();
        for at in [NOW, NOW + GRACE_MS, NOW + 2 * GRACE_MS] {
            sweep(&mut world, at);
            gone.push(world.gone(id));
        }
        gone
    };
    assert_eq!(
        bring(AT_ONCE),
        [false, true, true],
        "its agent, if it lives, has a minute to take itself away"
    );
    assert_eq!(bring(wait(NOW)), [false, false, true]);
}

#[test]
fn a_kept_instance_whose_agent_never_returns_is_handed_over_by_force() {
    let mut world = World::new();
    let id = world
        .run(|draft, ids| {
            let id = ids();
            machine::add(draft, MODEL, id, 1).map(|_| id)
        })
        .expect("the model is alive");
    world.run(|draft, _| instance::reserve_nonce(draft, MODEL, id, "local", Uuid(5))).expect("it is alive");
    world
        .run(|draft, _| instance::record_started(draft, MODEL, id, "local-0", "127.0.0.1"))
        .expect("it was meant");
    world.run(|draft, _| machine::keep_instance(draft, MODEL, id)).expect("it has one");
    world.run(|draft, _| force::machine(draft, MODEL, id, AT_ONCE)).expect("it may be forced");
    let left = |world: &World| read(world.reader(), &MODEL.machine(id)).map(|machine| machine.left);
    sweep(&mut world, NOW);
    assert_eq!((world.life(id), left(&world)), (Some(Life::Dead), Some(false)), "its agent has its time");
    sweep(&mut world, NOW + GRACE_MS);
    assert_eq!((left(&world), forced(&world)), (Some(true), 0));
}

#[test]
fn a_later_no_wait_advances_force_and_repeated_force_never_delays_it() {
    let mut world = World::new();
    let (_, web, _) = qr(&mut world);
    let due = |world: &World| {
        read(world.reader(), &MODEL.forced(web.unit)).map(|doc: ForcedDoc| (doc.due_ms, doc.no_wait))
    };
    force_unit(&mut world, web.unit, wait(NOW));
    assert_eq!(due(&world), Some((NOW + GRACE_MS, false)));
    force_unit(&mut world, web.unit, wait(NOW + 30_000));
    assert_eq!(due(&world), Some((NOW + GRACE_MS, false)));
    force_unit(&mut world, web.unit, Force { no_wait: true, now_ms: NOW + 31_000 });
    assert_eq!(due(&world), Some((NOW + 31_000, true)));
    sweep(&mut world, NOW + 31_000);
    assert!(world.gone(web.unit));
}

#[test]
fn a_teardown_budget_forces_what_was_dying_for_its_length_and_can_be_reset() {
    let mut world = World::new();
    let (_, web, db) = qr(&mut world);
    let set = |world: &mut World, value: &str| {
        let set = BTreeMap::from([("teardown-budget".to_owned(), value.to_owned())]);
        world.run(|draft, _| model::configure(draft, MODEL, &set, &[]))
    };
    assert_eq!(set(&mut world, "soon").expect_err("no duration").code, Code::Invalid);
    assert_eq!(set(&mut world, "10m"), Ok(vec![]));
    let budget = 600_000;
    let look = |world: &mut World, now_ms| {
        for id in [web.unit, db.unit] {
            let look = |draft: &mut Draft| {
                force::start_budget_timer(draft, MODEL, id, budget, now_ms);
                Ok(())
            };
            world.run(|draft, _| look(draft)).expect("no refusal");
        }
    };
    look(&mut world, NOW);
    assert_eq!(forced(&world), 0, "who is alive has no budget");
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit)).expect("it may go");
    look(&mut world, NOW);
    look(&mut world, NOW + 1_000);
    sweep(&mut world, NOW + budget - 1);
    assert_eq!(world.life(web.unit), Some(Life::Dying));
    // reset: nothing is forced; set again: it counts from then
    assert_eq!(set(&mut world, "off"), Ok(vec![]));
    sweep(&mut world, NOW + budget);
    assert_eq!((forced(&world), world.life(web.unit)), (0, Some(Life::Dying)));
    set(&mut world, "10m").expect("a duration");
    look(&mut world, NOW);
    sweep(&mut world, NOW + budget);
    assert_eq!(world.life(web.unit), Some(Life::Dead));
    sweep(&mut world, NOW + budget + GRACE_MS);
    assert!(world.gone(web.unit));
}

/// 1. A unit is Dying on a budget of ten minutes, and they pass.
/// 2. Before the next sweep the budget is raised to an hour, and the wall clock is set forward by ten years.
/// 3. For the janitor the ten minutes have passed, so it passes the wall clock to the batch (sim 452). The hour counts
///    from the raise: it has not passed.
#[test]
fn a_raised_budget_counts_its_whole_length() {
    let mut world = World::new();
    let (_, web, _) = qr(&mut world);
    let mark = |draft: &mut Draft| {
        force::start_budget_timer(draft, MODEL, web.unit, 600_000, NOW);
        Ok(())
    };
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit)).expect("it may go");
    world.run(|draft, _| mark(draft)).expect("no refusal");
    let hour = BTreeMap::from([("teardown-budget".to_owned(), "1h".to_owned())]);
    world.run(|draft, _| model::configure(draft, MODEL, &hour, &[])).expect("a duration");
    let ten_years_on = NOW + 10 * 365 * 24 * 3_600_000;
    let more = world.run(|draft, _| force::force_batch(draft, MODEL, web.unit, ten_years_on));
    assert_eq!((more, world.life(web.unit)), (Ok(true), Some(Life::Dying)));
    sweep(&mut world, NOW + 3_599_999);
    assert_eq!(world.life(web.unit), Some(Life::Dying));
    sweep(&mut world, NOW + 3_600_000);
    assert_eq!(world.life(web.unit), Some(Life::Dead));
}

#[test]
fn force_requested_by_a_person_remains_when_the_budget_is_reset() {
    let mut world = World::new();
    let (_, web, _) = qr(&mut world);
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit)).expect("it may go");
    world
        .run(|draft, _| {
            force::start_budget_timer(draft, MODEL, web.unit, 10, NOW);
            Ok(())
        })
        .expect("no refusal");
    force_unit(&mut world, web.unit, wait(NOW));
    sweep(&mut world, NOW + GRACE_MS);
    assert_eq!(world.life(web.unit), Some(Life::Dead));
}

/// The budget is an hour, and ten seconds of it are left. The wall clock does not matter, although it was set meanwhile.
#[test]
fn force_requested_by_a_person_does_not_delay_the_budget() {
    let mut world = World::new();
    let (_, web, _) = qr(&mut world);
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit)).expect("it may go");
    let waited = |draft: &mut Draft| {
        force::start_budget_timer(draft, MODEL, web.unit, 3_600_000, NOW);
        force::store_timers(
            draft,
            MODEL,
            &[ForceTimer { id: web.unit, timer_started_ms: NOW, waited_ms: 3_590_000 }],
        );
        Ok(())
    };
    world.run(|draft, _| waited(draft)).expect("no refusal");
    for now_ms in [NOW + 3_590_000, NOW + 7_000_000, NOW - 7_000_000] {
        let mut world = world.copy();
        force_unit(&mut world, web.unit, wait(now_ms));
        let forced = read(world.reader(), &MODEL.forced(web.unit)).expect("it is waited for");
        assert_eq!(forced.due_ms, now_ms + 10_000);
        assert_eq!(forced.due_ms - force::timer_started_ms(&forced) - forced.waited_ms, 10_000);
        force_unit(&mut world, web.unit, wait(now_ms - 10_000));
        assert_eq!(read(world.reader(), &MODEL.forced(web.unit)), Some(forced), "asked again");
    }
}

#[test]
fn a_manually_provisioned_machine_that_never_returns_is_removed_after_a_second_wait() {
    let mut world = World::new();
    let add = |draft: &mut Draft, ids: &mut dyn FnMut() -> Uuid| {
        let id = ids();
        machine::add_manual(draft, MODEL, id, 1).map(|_| id)
    };
    let (lost, at_work) = (world.run(add).expect("it is alive"), world.run(add).expect("it is alive"));
    for id in [lost, at_work] {
        world.run(|draft, _| force::machine(draft, MODEL, id, AT_ONCE)).expect("it may be forced");
    }
    // one agent is fast: it has finished before force begins, and uninstalls itself
    world.run(|draft, _| machine::set_dead(draft, MODEL, at_work)).expect("no unit is on it");
    sweep(&mut world, NOW);
    sweep(&mut world, NOW + GRACE_MS - 1);
    assert_eq!([lost, at_work].map(|id| world.life(id)), [Some(Life::Dead); 2], "both have their time");
    // a repeated request does not delay it
    let again = Force { no_wait: true, now_ms: NOW + GRACE_MS - 1 };
    world.run(|draft, _| force::machine(draft, MODEL, lost, again)).expect("it may be forced");
    sweep(&mut world, NOW + GRACE_MS - 1);
    world.run(|draft, _| machine::remove(draft, MODEL, at_work)).expect("its agent says that it is gone");
    sweep(&mut world, NOW + GRACE_MS);
    assert!(world.gone(lost) && world.gone(at_work));
    assert_eq!(forced(&world), 0);
}

// 1. A relation is removed by force, and its bags with it. 2. A unit that has not observed that yet loses its folder and
// fetches its replica, which has no bag for that relation. 3. The store is restored from an earlier backup: the relation
// exists again, with the only copy of the bag. (sim 54023740)
#[test]
fn a_bag_that_was_lost_with_its_folder_and_its_relation_is_recovered_from_a_restored_store() {
    for unsent in [false, true] {
        let mut world = World::new();
        let (id, mut web, _) = qr(&mut world);
        let number = world.number(id);
        let write = |web: &Agent, key: &str, value: &str| {
            let mut record = web.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok);
            let written = BagWrites { unit: Bag::from([(key.into(), value.into())]), ..BagWrites::default() };
            record.writes.bags.insert(number, written);
            record
        };
        for key in ["before", "gone"] {
            let record = write(&web, key, "1");
            web.commit(&mut world, record);
        }
        let mut older = world.copy();
        world.run(|draft, _| force::relation(draft, MODEL, id, AT_ONCE)).expect("it may be forced");
        sweep(&mut world, NOW);
        assert!(world.gone(id));
        while world.run(|draft, _| Ok(cleanup::clean_batch(draft, MODEL, id))).expect("no refusal") {}

        let mut web = Agent::attach(&mut world, "web/0");
        assert_eq!(web.local.relations[&number].bag, Bag::new(), "gone with its relation");
        for (key, value) in [("since", "1"), ("gone", "")] {
            let record = write(&web, key, value);
            match unsent {
                true => web.local.apply(&Event::Finished(record)),
                false => drop(web.commit(&mut world, record)),
            }
        }
        let attached = older
            .run(|draft, _| session::attach(draft, MODEL, web.unit, Uuid(77), held(web.epoch)))
            .expect("it holds the newest session");
        let stored = attached.replica.expect("it has run hooks");
        let session = Session {
            store_generation: Uuid(2),
            epoch: attached.epoch,
            sequence: stored.sequence,
            digest: &stored.digest,
            replica: Some(&stored.local),
        };
        let Reconciliation::Consistent(events) = agree(&web.local, &session, NOW) else {
            panic!("its own folder")
        };
        events.iter().for_each(|event| web.local.apply(event));
        web.epoch = attached.epoch;
        for record in web.local.outbox.clone() {
            web.send(&mut older, &record).expect("in order");
        }
        let mine = &web.local.relations[&number].bag;
        assert_eq!(mine.keys().collect::<Vec<_>>(), ["before", "private-address", "since"]);
        let published: BagDoc = read(older.reader(), &MODEL.bag(id, web.unit)).expect("it is in scope");
        assert_eq!(published.values, *mine);
    }
}
