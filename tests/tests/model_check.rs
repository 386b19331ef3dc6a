//! Runs the model checker on a space that takes seconds; `cargo sim --model` searches the whole space.

use tests::model_check::{Bounds, Space, UserRequest, search};

fn searched(bounds: &Bounds) -> Space {
    search(bounds).unwrap_or_else(|violation| panic!("{}:\n{}", violation.what, violation.steps.join("\n")))
}

#[test]
fn one_unit_each_is_removed_cleanly_in_every_order_and_with_a_crash_at_every_step() {
    let user_requests = vec![
        UserRequest::RemoveRelation,
        UserRequest::RemoveUnit("web/0"),
        UserRequest::RemoveApplication("db"),
    ];
    let by_force =
        vec![UserRequest::RemoveRelation, UserRequest::ForceUnit("web/0"), UserRequest::RemoveUnit("db/0")];
    let forced = searched(&Bounds { units: 1, user_requests: by_force, crash: true });
    assert!(forced.states > 500 && forced.at_rest > 5, "{forced:?} is not the expected space");
    let space = searched(&Bounds { units: 1, user_requests, crash: true });
    println!("{space:?}");
    assert!(space.states > 500 && space.at_rest > 5, "{space:?} is not the expected space");
}
