//! The grace period in a model that is destroyed with force: only for agents that can still finish.

use crate::documents::prelude::{ForcedEntityKind, ForcedRemovalDoc, ForcedRemovalPhase};
use crate::lifecycle::machine;
use crate::terms::force::{Force, ForcedBy};
use crate::tests::force::fixture::{NOW, force_unit, related_units, sweep};
use crate::tests::*;
use crate::transitions::destruction;
use crate::transitions::force_timer::{GRACE_MS, timer_now_ms};

fn fail(world: &mut World, agent: &mut Agent) {
    let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    let record = agent.record(Operation::Hook(Hook::UpdateStatus), failed);
    agent.commit(world, record);
}

fn destroy_with_force(world: &mut World) {
    world
        .run(|draft, _| destruction::destroy(draft, MODEL, Force::AfterWait, NOW))
        .expect("the model exists");
    while world.run(|draft, _| destruction::destroy_batch(draft, MODEL)).expect("it is never refused") {}
}

#[test]
fn a_unit_in_error_has_no_grace_period_and_a_healthy_one_has_all_of_it() {
    let mut world = World::new();
    let (_, mut web, mut db) = related_units(&mut world);
    fail(&mut world, &mut web);
    destroy_with_force(&mut world);
    sweep(&mut world, NOW + 1);
    assert_eq!(world.life(web.unit), Some(Life::Dead), "it waits only for its machine agent");
    assert_eq!(world.life(db.unit), Some(Life::Dying));
    sweep(&mut world, NOW + GRACE_MS - 1);
    assert_eq!(world.life(db.unit), Some(Life::Dying), "its hooks can still finish");
    // a unit that fails on its way has no grace period from then on
    fail(&mut world, &mut db);
    sweep(&mut world, NOW + GRACE_MS - 1);
    assert_eq!(world.life(db.unit), Some(Life::Dead));
    let on = read(world.reader(), &MODEL.unit(web.unit)).expect("its machine agent recalls it").machine;
    assert!(!machine::needs_unit_agent(world.reader(), MODEL, on));
}

#[test]
fn a_unit_in_error_keeps_its_grace_period_if_its_model_is_not_destroyed() {
    let mut world = World::new();
    let (_, mut web, _) = related_units(&mut world);
    fail(&mut world, &mut web);
    force_unit(&mut world, web.unit, Force::AfterWait, NOW);
    sweep(&mut world, NOW + GRACE_MS - 1);
    assert_eq!(world.life(web.unit), Some(Life::Dying), "an operator may still resolve it");
}

#[test]
fn only_a_model_destroyed_by_force_does_not_wait_for_an_absent_agent() {
    let unit = ForcedRemovalDoc {
        kind: ForcedEntityKind::Unit,
        since_ms: NOW,
        due_ms: NOW + GRACE_MS,
        no_wait: false,
        by: ForcedBy::Operator,
        phase: ForcedRemovalPhase::default(),
        waited_ms: 0,
    };
    let machine = ForcedRemovalDoc { kind: ForcedEntityKind::Machine, ..unit.clone() };
    for forced in [&unit, &machine] {
        assert_eq!(timer_now_ms(forced, NOW + 1, true, true), NOW + GRACE_MS);
        assert_eq!(timer_now_ms(forced, NOW + 2 * GRACE_MS, true, true), NOW + 2 * GRACE_MS);
        assert_eq!(timer_now_ms(forced, NOW + 1, true, false), NOW + 1);
        assert_eq!(timer_now_ms(forced, NOW + 1, false, true), NOW + 1);
    }
    let waiting = [
        ForcedRemovalDoc { by: ForcedBy::Budget, ..unit.clone() },
        ForcedRemovalDoc { kind: ForcedEntityKind::Relation, ..unit },
        ForcedRemovalDoc { phase: ForcedRemovalPhase::AgentGrace, ..machine },
    ];
    for forced in waiting {
        assert_eq!(timer_now_ms(&forced, NOW + 1, true, true), NOW + 1, "{forced:?}");
    }
}
