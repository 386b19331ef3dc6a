//! Forced removal of units: the agent is fenced, the unit leaves its scopes, and it is removed in bounded batches. Also: a
//! bag whose relation was removed by force is recovered from a restored store.

use crate::agents::reconciliation::{Reconciliation, reconcile};
use crate::documents::attachment::{Attachment, attachment};
use crate::documents::blockers::{EntityId, blockers, suspended_relation_blockers};
use crate::documents::prelude::{BagDoc, ForcedRemovalDoc};
use crate::lifecycle::unit::Destroyed;
use crate::lifecycle::{application, cleanup, machine, unit};
use crate::machine::plan::shows_unfinished_agent;
use crate::terms::cause::{Actor, Duty, Entity};
use crate::terms::force::{Force, ForcePhase, ForcedBy};
use crate::tests::force::fixture::{NOW, force_unit, forced, members, related_units, started, sweep};
use crate::tests::*;
use crate::transitions::force;
use crate::transitions::force_timer::{GRACE_MS, TimerTime};
use crate::unit::snapshot::Change;
use crate::unit::writes::BagWrites;

#[test]
fn scenario_87_a_unit_without_agent_leaves_its_scopes_by_force_and_is_removed() {
    let mut world = World::new();
    let (id, web, db) = related_units(&mut world);
    assert_eq!(force_unit(&mut world, web.unit, Force::AfterWait, NOW), Destroyed::Dying);
    sweep(&mut world, NOW + GRACE_MS - 1);
    assert_eq!(world.life(web.unit), Some(Life::Dying), "the force timer has not expired");
    assert_eq!(members(&world, id).len(), 2);
    sweep(&mut world, NOW + GRACE_MS);
    assert_eq!(world.life(web.unit), Some(Life::Dead));
    assert_eq!(members(&world, id), ["db/0"], "only the forced unit has left the scope");
    assert_eq!(world.life(id), Some(Life::Alive));
    // its machine agent may still recall it during the grace period
    sweep(&mut world, NOW + 2 * GRACE_MS - 1);
    assert_eq!(world.life(web.unit), Some(Life::Dead));
    sweep(&mut world, NOW + 2 * GRACE_MS);
    assert!(world.is_removed(web.unit));
    assert_eq!((forced(&world), world.life(db.unit)), (0, Some(Life::Alive)));
}

/// The time was computed for the grace period of the unit, before another controller has set it Dead.
#[test]
fn a_time_that_belongs_to_another_timer_ends_no_grace_period() {
    let mut world = World::new();
    let (_, web, _) = related_units(&mut world);
    force_unit(&mut world, web.unit, Force::AfterWait, NOW);
    sweep(&mut world, NOW + GRACE_MS);
    let batch = |world: &mut World, timer_started_ms: i64, now_ms: i64| {
        let at = TimerTime { timer_started_ms, now_ms };
        let ran = world.run(|draft, _| force::timed_force_batch(draft, MODEL, web.unit, at));
        ran.expect("force is never refused")
    };
    assert!(batch(&mut world, NOW, NOW + 100 * GRACE_MS), "the caller computes the time again");
    assert_eq!(world.life(web.unit), Some(Life::Dead));
    batch(&mut world, NOW + GRACE_MS, NOW + 2 * GRACE_MS);
    assert!(world.is_removed(web.unit));
}

#[test]
fn scenarios_81_and_83_an_agent_that_returns_is_fenced_and_writes_nothing() {
    let mut world = World::new();
    let (relation, mut web, _) = related_units(&mut world);
    let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    let record = web.record(Operation::Hook(Hook::UpdateStatus), failed);
    web.commit(&mut world, record);
    force_unit(&mut world, web.unit, Force::AfterWait, NOW);
    let on = read(world.reader(), &MODEL.unit(web.unit)).expect("the unit exists").machine;
    assert!(machine::needs_unit_agent(world.reader(), MODEL, on), "its agent must remove it");
    // the agent is fenced first: the first batch that is due does only that
    world.run(|draft, _| force::force_batch(draft, MODEL, web.unit, NOW + GRACE_MS)).expect("it is due");
    assert!(!machine::needs_unit_agent(world.reader(), MODEL, on), "no agent is waited for");
    assert_eq!(world.life(web.unit), Some(Life::Dying));
    let (duty, actor) =
        (Duty::ForceRemoval { by: ForcedBy::Operator, phase: ForcePhase::Acting }, Actor::Janitor);
    let waits = blockers(&mut world.reader(), MODEL, EntityId::Unit(web.unit));
    let waits: Vec<_> = waits.iter().map(|cause| (&cause.duty, &cause.actor)).collect();
    assert_eq!(
        waits,
        [(&duty, &actor)],
        "the janitor acts, so neither the agent nor the failed hook blocks it"
    );
    let leave = suspended_relation_blockers(&mut world.reader(), MODEL, relation);
    let leave: Vec<_> = leave.into_iter().map(|cause| (cause.entity, cause.actor)).collect();
    let db = UnitName::new("db", 0);
    let by_agent = (Entity::Unit(db.clone()), Actor::UnitAgent(db));
    assert_eq!(leave, [(Entity::Unit(web0()), Actor::Janitor), by_agent]);
    let late = web.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok);
    assert_eq!(web.send(&mut world, &late).expect_err("it is fenced").code(), Code::Fenced);
    for epoch in [0, web.epoch, web.epoch + 9] {
        let answer = world
            .run(|draft, _| session::attach(draft, MODEL, web.unit, attach(77, epoch), GENERATION, false));
        assert_eq!(answer.expect_err("a unit that is forced is fenced").code(), Code::Fenced, "held {epoch}");
    }
    sweep(&mut world, NOW + GRACE_MS);
    let shown = view::full_view(world.reader(), MODEL, web.unit).expect("its record is there").shown();
    assert_eq!(shown.unit.life, Life::Dead, "an agent that sees this runs no hooks and ends");
    sweep(&mut world, NOW + 2 * GRACE_MS);
    let answer = world
        .run(|draft, _| session::attach(draft, MODEL, web.unit, attach(77, web.epoch), GENERATION, false));
    assert_eq!(answer.expect_err("a tombstone").code(), Code::Removed);
}

#[test]
fn a_unit_that_is_forced_before_its_agent_attached_starts_no_agent() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    let machine = read(world.reader(), &MODEL.unit(unit)).expect("the unit exists").machine;
    let agent = |world: &World| attachment(&mut world.reader(), MODEL, unit);
    assert_eq!(agent(&world), Attachment::Never);
    world
        .run(|draft, _| force::destroy_machine(draft, MODEL, machine, Force::AtOnce, NOW))
        .expect("the forced removal is accepted");
    for entity in [machine, unit] {
        world.run(|draft, _| force::force_batch(draft, MODEL, entity, NOW)).expect("it is due");
    }
    assert_eq!(agent(&world), Attachment::Fenced { had_attached: false });
    let removed = world.run(|draft, _| unit::remove(draft, MODEL, unit, NOW));
    let reason = *removed.expect_err("force is acting for it").reason;
    assert!(!shows_unfinished_agent(&reason), "{reason:?}");
}

#[test]
fn only_a_unit_whose_agent_has_to_finish_is_refused_so_that_its_agent_starts() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let web = started(&mut world, "web/0");
    let refusal = |world: &mut World| {
        let removed = world.run(|draft, _| unit::remove(draft, MODEL, web.unit, NOW));
        *removed.expect_err("it is not dead").reason
    };
    assert!(!shows_unfinished_agent(&refusal(&mut world)), "the unit is alive");
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit, NOW)).expect("the removal is accepted");
    assert!(shows_unfinished_agent(&refusal(&mut world)));
    assert!(!shows_unfinished_agent(&RefusalReason::NotAuthorised));
}

/// The changes sent to the agent of a unit for which it could run relation hooks: members, relations, bags.
fn relation_changes(world: &World, unit: Uuid) -> Vec<Change> {
    let of_relations = |change: &&Change| {
        matches!(change, Change::Member { .. } | Change::Relation { .. } | Change::Bag { .. })
    };
    world.sent[&unit].iter().filter(of_relations).cloned().collect()
}

#[test]
fn i24_survivors_see_what_a_graceful_removal_shows() {
    let mut graceful = World::new();
    let (_, mut web, db) = related_units(&mut graceful);
    let app: Uuid = read(graceful.reader(), &MODEL.application_name("web")).expect("the application exists");
    graceful.run(|draft, _| application::destroy(draft, MODEL, app)).expect("the removal is accepted");
    assert!(!relation_changes(&graceful, db.unit).is_empty(), "a unit that is being removed has departed");
    let mut by_force = graceful.copy();
    let mut shown = Vec::new();
    let numbers: Vec<_> =
        web.local.relations.iter().filter(|(_, r)| !r.local_endpoint.peer).map(|(n, _)| *n).collect();
    for number in numbers {
        web.broken(&mut graceful, number);
        shown.extend(relation_changes(&graceful, db.unit));
    }
    web.done(&mut graceful, Operation::Hook(Hook::Stop));
    web.done(&mut graceful, Operation::Hook(Hook::Remove));
    web.done(&mut graceful, Operation::SetDead);
    shown.extend(relation_changes(&graceful, db.unit));
    graceful.run(|draft, _| unit::remove(draft, MODEL, web.unit, 60)).expect("it is dead");
    shown.extend(relation_changes(&graceful, db.unit));

    let mut seen = Vec::new();
    force_unit(&mut by_force, web.unit, Force::AtOnce, NOW);
    seen.extend(relation_changes(&by_force, db.unit));
    while !by_force.is_removed(web.unit) {
        by_force.run(|draft, _| force::force_batch(draft, MODEL, web.unit, NOW)).expect("it is due");
        seen.extend(relation_changes(&by_force, db.unit));
    }
    assert_eq!(seen, shown);
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
        let id = world.integrate("web", &name).expect("the endpoints are compatible");
        agent.enter(&mut world, id);
        others.push(other);
    }
    for id in others.iter().copied().chain([web]) {
        world.run(|draft, _| application::destroy(draft, MODEL, id)).expect("the removal is accepted");
    }
    force_unit(&mut world, agent.unit, Force::AtOnce, NOW);
    // the world asserts the bounds of each transaction that it commits; a batch leaves at most three relations
    let batches = sweep(&mut world, NOW);
    assert!(batches > 12 / 3, "too few batches: {batches}");
    assert!(world.is_removed(agent.unit) && world.is_removed(web));
    assert!(others.iter().all(|id| world.is_removed(*id)), "each went with its last relation");
}

#[test]
fn a_forced_principal_is_removed_after_its_subordinates() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    world.deploy("logging", "logging", 0);
    let id = world.integrate("web", "logging").expect("the endpoints are compatible");
    let mut web = started(&mut world, "web/0");
    web.enter(&mut world, id);
    let mut logging = started(&mut world, "logging/0");
    logging.enter(&mut world, id);
    let answer = world.run(|draft, _| force::destroy_unit(draft, MODEL, logging.unit, Force::AtOnce, NOW));
    assert_eq!(refused(answer).0, Code::Forbidden, "scenario 123 holds by force too");
    force_unit(&mut world, web.unit, Force::AfterWait, NOW);
    sweep(&mut world, NOW + GRACE_MS);
    assert_eq!((world.life(logging.unit), world.life(web.unit)), (Some(Life::Dead), Some(Life::Dying)));
    sweep(&mut world, NOW + 2 * GRACE_MS);
    assert!(world.is_removed(logging.unit));
    sweep(&mut world, NOW + 3 * GRACE_MS);
    assert!(world.is_removed(web.unit));
    assert_eq!(forced(&world), 0);
}

#[test]
fn a_later_no_wait_advances_force_and_repeated_force_never_delays_it() {
    let mut world = World::new();
    let (_, web, _) = related_units(&mut world);
    let due = |world: &World| {
        read(world.reader(), &MODEL.forced_removal(web.unit))
            .map(|doc: ForcedRemovalDoc| (doc.due_ms, doc.no_wait))
    };
    force_unit(&mut world, web.unit, Force::AfterWait, NOW);
    assert_eq!(due(&world), Some((NOW + GRACE_MS, false)));
    force_unit(&mut world, web.unit, Force::AfterWait, NOW + 30_000);
    assert_eq!(due(&world), Some((NOW + GRACE_MS, false)));
    force_unit(&mut world, web.unit, Force::AtOnce, NOW + 31_000);
    assert_eq!(due(&world), Some((NOW + 31_000, true)));
    sweep(&mut world, NOW + 31_000);
    assert!(world.is_removed(web.unit));
}

// 1. A relation is removed by force, and its bags with it. 2. A unit that has not observed that yet loses its folder and
// fetches its replica, which has no bag for that relation. 3. The store is restored from an earlier backup: the relation
// exists again, with the only copy of the bag. (sim 54023740)
#[test]
fn a_bag_that_was_lost_with_its_folder_and_its_relation_is_recovered_from_a_restored_store() {
    for unsent in [false, true] {
        let mut world = World::new();
        let (id, mut web, _) = related_units(&mut world);
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
        world
            .run(|draft, _| force::destroy_relation(draft, MODEL, id, Force::AtOnce, NOW))
            .expect("the forced removal is accepted");
        sweep(&mut world, NOW);
        assert!(world.is_removed(id));
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
            .run(|draft, _| session::attach(draft, MODEL, web.unit, attach(77, web.epoch), GENERATION, false))
            .expect("it holds the newest session");
        let Reconciliation::Continue(events) = reconcile(&web.local, &attached, NOW) else {
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
