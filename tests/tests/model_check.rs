//! Runs the model checker on a space that takes seconds; `cargo sim --model` searches the whole space.

use tests::model_check::{Bounds, Command, Space, search};

fn searched(bounds: &Bounds) -> Space {
    search(bounds).unwrap_or_else(|violation| panic!("{}:\n{}", violation.what, violation.steps.join("\n")))
}

#[test]
fn one_unit_each_is_removed_cleanly_in_every_order_and_with_a_crash_at_every_step() {
    let commands =
        vec![Command::RemoveRelation, Command::RemoveUnit("web/0"), Command::RemoveApplication("db")];
    let by_force = vec![Command::RemoveRelation, Command::ForceUnit("web/0"), Command::RemoveUnit("db/0")];
    let forced = searched(&Bounds { units: 1, commands: by_force, crash: true });
    assert!(forced.states > 500 && forced.quiet > 5, "{forced:?} is not the expected space");
    let space = searched(&Bounds { units: 1, commands, crash: true });
    println!("{space:?}");
    assert!(space.states > 500 && space.quiet > 5, "{space:?} is not the expected space");
}
