//! The teardown budget: what it forces, and how a person's request differs.

use crate::lifecycle::{model, unit};
use crate::terms::force::Force;
use crate::tests::force::fixture::{NOW, force_unit, forced, related_units, sweep};
use crate::tests::subordinates::fixture::related_subordinate;
use crate::tests::*;
use crate::transitions::force;
use crate::transitions::force_timer::{self, ForceTimer, GRACE_MS};
use crate::transitions::requested_removal;

#[test]
fn a_removal_needs_the_janitor_now_if_it_does_not_wait_or_a_budget_starts() {
    let mut world = World::new();
    let needs = |world: &World, force| requested_removal::needs_janitor(world.reader(), MODEL, force);
    for (force, expected) in [(Force::No, false), (Force::AfterWait, false), (Force::AtOnce, true)] {
        assert_eq!(needs(&world, force), expected, "{force:?}");
    }
    let set = BTreeMap::from([("teardown-budget".to_owned(), "10m".to_owned())]);
    world.run(|draft, _| model::configure(draft, MODEL, &set, &[])).expect("a duration");
    assert!(needs(&world, Force::No));
}

#[test]
fn a_teardown_budget_forces_what_was_dying_for_its_length_and_can_be_reset() {
    let mut world = World::new();
    let (_, web, db) = related_units(&mut world);
    let set = |world: &mut World, value: &str| {
        let set = BTreeMap::from([("teardown-budget".to_owned(), value.to_owned())]);
        world.run(|draft, _| model::configure(draft, MODEL, &set, &[]))
    };
    assert_eq!(set(&mut world, "soon").expect_err("no duration").code(), Code::Invalid);
    assert_eq!(set(&mut world, "10m"), Ok(vec![]));
    let budget = 600_000;
    let start_budget_timers = |world: &mut World, now_ms| {
        for id in [web.unit, db.unit] {
            let start_budget_timer = |draft: &mut Draft| {
                force_timer::start_budget_timer(draft, MODEL, id, budget, now_ms);
                Ok(())
            };
            world.run(|draft, _| start_budget_timer(draft)).expect("no refusal");
        }
    };
    start_budget_timers(&mut world, NOW);
    assert_eq!(forced(&world), 0, "a unit that is Alive has no force timer");
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit, 60)).expect("the removal is accepted");
    start_budget_timers(&mut world, NOW);
    start_budget_timers(&mut world, NOW + 1_000);
    sweep(&mut world, NOW + budget - 1);
    assert_eq!(world.life(web.unit), Some(Life::Dying));
    // reset: nothing is forced; set again: it counts from then
    assert_eq!(set(&mut world, "off"), Ok(vec![]));
    sweep(&mut world, NOW + budget);
    assert_eq!((forced(&world), world.life(web.unit)), (0, Some(Life::Dying)));
    set(&mut world, "10m").expect("a duration");
    start_budget_timers(&mut world, NOW);
    sweep(&mut world, NOW + budget);
    assert_eq!(world.life(web.unit), Some(Life::Dead));
    sweep(&mut world, NOW + budget + GRACE_MS);
    assert!(world.is_removed(web.unit));
}

/// 1. A principal is removed by force. 2. The sweep starts the timer of the budget for its subordinate, which is Dying, too.
/// 3. The grace period of the principal passes.
#[test]
fn a_forced_principal_does_not_wait_for_the_budget_of_its_subordinate() {
    let mut world = World::new();
    let set = BTreeMap::from([("teardown-budget".to_owned(), "10m".to_owned())]);
    world.run(|draft, _| model::configure(draft, MODEL, &set, &[])).expect("a duration");
    let (_, web, logging) = related_subordinate(&mut world);
    force_unit(&mut world, web.unit, Force::AfterWait, NOW);
    let budget = |draft: &mut Draft| {
        force_timer::start_budget_timer(draft, MODEL, logging.unit, 600_000, NOW);
        Ok::<_, Refusal>(())
    };
    world.run(|draft, _| budget(draft)).expect("no refusal");
    assert_eq!(forced(&world), 2);
    for periods in 1..=3 {
        sweep(&mut world, NOW + periods * GRACE_MS);
    }
    assert!(world.is_removed(logging.unit) && world.is_removed(web.unit));
}

/// 1. A unit is Dying on a budget of ten minutes, and they pass.
/// 2. Before the next sweep the budget is raised to an hour, and the wall clock is set forward by ten years.
/// 3. For the janitor the ten minutes have passed, so it passes the wall clock to the batch (sim 452). The hour counts
///    from the raise: it has not passed.
#[test]
fn a_raised_budget_counts_its_whole_length() {
    let mut world = World::new();
    let (_, web, _) = related_units(&mut world);
    let start_budget_timer = |draft: &mut Draft| {
        force_timer::start_budget_timer(draft, MODEL, web.unit, 600_000, NOW);
        Ok(())
    };
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit, 60)).expect("the removal is accepted");
    world.run(|draft, _| start_budget_timer(draft)).expect("no refusal");
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
    let (_, web, _) = related_units(&mut world);
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit, 60)).expect("the removal is accepted");
    world
        .run(|draft, _| {
            force_timer::start_budget_timer(draft, MODEL, web.unit, 10, NOW);
            Ok(())
        })
        .expect("no refusal");
    force_unit(&mut world, web.unit, Force::AfterWait, NOW);
    sweep(&mut world, NOW + GRACE_MS);
    assert_eq!(world.life(web.unit), Some(Life::Dead));
}

/// The budget is an hour, and ten seconds of it are left. The wall clock does not matter, although it was set
/// meanwhile.
#[test]
fn force_requested_by_a_person_does_not_delay_the_budget() {
    let mut world = World::new();
    let (_, web, _) = related_units(&mut world);
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit, 60)).expect("the removal is accepted");
    let start_and_store_timer = |draft: &mut Draft| {
        force_timer::start_budget_timer(draft, MODEL, web.unit, 3_600_000, NOW);
        force_timer::store_timers(
            draft,
            MODEL,
            &[ForceTimer { id: web.unit, timer_started_ms: NOW, waited_ms: 3_590_000 }],
        );
        Ok(())
    };
    world.run(|draft, _| start_and_store_timer(draft)).expect("no refusal");
    for now_ms in [NOW + 3_590_000, NOW + 7_000_000, NOW - 7_000_000] {
        let mut world = world.copy();
        force_unit(&mut world, web.unit, Force::AfterWait, now_ms);
        let forced = read(world.reader(), &MODEL.forced_removal(web.unit)).expect("a force timer exists");
        assert_eq!(forced.due_ms, now_ms + 10_000);
        assert_eq!(forced.due_ms - force_timer::timer_started_ms(&forced) - forced.waited_ms, 10_000);
        force_unit(&mut world, web.unit, Force::AfterWait, now_ms - 10_000);
        assert_eq!(read(world.reader(), &MODEL.forced_removal(web.unit)), Some(forced), "a second request");
    }
}

/// Two controllers count the same wait, and the one that has started later stores its checkpoint last.
#[test]
fn a_checkpoint_of_another_controller_does_not_lower_what_was_waited() {
    let mut world = World::new();
    let (_, web, _) = related_units(&mut world);
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit, 60)).expect("the removal is accepted");
    for waited_ms in [50_000, 40_000] {
        let store = |draft: &mut Draft| {
            force_timer::start_budget_timer(draft, MODEL, web.unit, 3_600_000, NOW);
            let checkpoint = ForceTimer { id: web.unit, timer_started_ms: NOW, waited_ms };
            force_timer::store_timers(draft, MODEL, &[checkpoint]);
            Ok(())
        };
        world.run(|draft, _| store(draft)).expect("no refusal");
        let forced = read(world.reader(), &MODEL.forced_removal(web.unit)).expect("a force timer exists");
        assert_eq!(forced.waited_ms, 50_000);
    }
}
