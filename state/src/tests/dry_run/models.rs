//! Dry runs of the destruction of a model.

use crate::lifecycle::machine;
use crate::terms::force::Force;
use crate::terms::operation::Hook;
use crate::tests::dry_run::fixture::*;
use crate::tests::*;
use crate::transitions::dry_run::DryRun;
use crate::transitions::dry_run::{TARGETS_MAX, dry_run_of_model};

fn destroyed(world: &World, force: Force) -> DryRun {
    dry_run_of_model(world.reader(), MODEL, force, 60, &ALL_PRESENT).expect("the model exists")
}

#[test]
fn machines_whose_units_are_removed_and_then_the_model_are_removed_last() {
    let mut world = World::new();
    related_units(&mut world);
    world
        .run(|draft, ids| {
            let id = ids();
            machine::add(draft, MODEL, id, 1)
        })
        .expect("the model is alive");
    let result = destroyed(&world, Force::No);
    let last = names(&result.removed_eventually);
    assert!(last.ends_with(&["machine 2".to_owned(), "model dev".to_owned()]), "{last:?}");
    for entity in ["machine 0", "machine 1", "unit db/0", "unit shop/0", "application db"] {
        assert_eq!(last.iter().filter(|name| *name == entity).count(), 1, "{entity}: {last:?}");
    }
    assert!(!result.truncated);
}

#[test]
fn a_model_of_which_only_a_part_is_simulated_is_removed_by_force_alone() {
    let mut world = World::new();
    for number in 0..=TARGETS_MAX {
        world.deploy(&format!("plain{number}"), "plain", 0);
    }
    let model = "model dev".to_owned();
    let (gentle, forced) = (destroyed(&world, Force::No), destroyed(&world, Force::AfterWait));
    assert!(gentle.truncated && forced.truncated);
    assert!(!names(&gentle.removed_eventually).contains(&model));
    assert_eq!(names(&forced.removed_eventually).last(), Some(&model));
}

#[test]
fn a_model_with_a_unit_that_is_not_removed_remains() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    let record = agent.record(Operation::Hook(Hook::UpdateStatus), failed);
    agent.commit(&mut world, record);
    let result = destroyed(&world, Force::No);
    let last = names(&result.removed_eventually);
    assert!(!last.contains(&"machine 0".to_owned()) && !last.contains(&"model dev".to_owned()), "{last:?}");
    assert_eq!(
        names(&destroyed(&world, Force::AfterWait).removed_eventually).last(),
        Some(&"model dev".to_owned())
    );
}
