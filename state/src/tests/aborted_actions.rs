//! Cancelled actions that a hostile unit reports as running.

use crate::documents::prelude::ActionDoc;
use crate::lifecycle::action;
use crate::terms::activity::Activity;
use crate::terms::status::ActionStatus;
use crate::tests::*;
use serde_json::Map;

fn doc(world: &World, id: u64) -> ActionDoc {
    read(world.reader(), &MODEL.action(id)).expect("the action exists")
}

fn enqueue(world: &mut World, unit: Uuid, name: &str) -> u64 {
    let enqueued = world.run(|draft, _| action::enqueue(draft, MODEL, unit, name, &Map::new(), 50));
    enqueued.expect("cancelled actions make room").id
}

/// A unit runs one action at a time. Another claim would leave actions that nothing ends when the unit is removed.
#[test]
fn only_one_cancelled_action_of_a_unit_is_shown_as_being_aborted() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let agent = Agent::attach(&mut world, "web/0");
    let (unit, name) = (agent.unit, "backup".to_owned());
    let cancelled: Vec<u64> = (0..action::ENQUEUED_MAX).map(|_| enqueue(&mut world, unit, &name)).collect();
    let claim = |world: &mut World, id: u64| {
        let activity = Activity::Action { id, name: name.clone() };
        let claimed = world.run(|draft, _| {
            action::set_running(draft, MODEL, unit, &activity, 95);
            Ok(())
        });
        claimed.expect("no refusal");
    };
    for id in &cancelled {
        world.run(|draft, _| action::cancel(draft, MODEL, *id, 90)).expect("it is pending");
    }
    for _ in 0..action::ENQUEUED_MAX {
        enqueue(&mut world, unit, &name);
    }
    for id in &cancelled {
        claim(&mut world, *id);
    }
    assert_eq!(doc(&world, cancelled[0]).status, ActionStatus::Aborting);
    for id in &cancelled[1..] {
        assert_eq!(doc(&world, *id).status, ActionStatus::Cancelled, "{id}");
    }
    assert!(
        read_all::<ActionStatus>(world.reader(), &MODEL.actions_of(unit)).len() <= action::ENQUEUED_MAX + 1
    );
}
