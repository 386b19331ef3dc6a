//! Operations: the tasks that one command has enqueued.

use crate::lifecycle::action;
use crate::tests::*;
use serde_json::Map;

#[test]
fn a_task_becomes_one_of_the_operation_of_an_earlier_task() {
    let mut world = World::new();
    world.deploy("web", "web", 3);
    let units = ["web/0", "web/1", "web/2"].map(|name| world.unit(name));
    let mut enqueue = |unit: Uuid, operation: Option<u64>| {
        world.run(|draft, _| {
            let enqueued = action::enqueue(draft, MODEL, unit, "backup", &Map::new(), 50)?;
            match operation {
                Some(operation) => action::add_to_operation(draft, MODEL, enqueued, operation),
                None => Ok(enqueued),
            }
        })
    };
    let first = enqueue(units[0], None).expect("a new operation");
    assert_eq!(first.operation, first.id);
    let second = enqueue(units[1], Some(first.id)).expect("it exists");
    assert_eq!(second.operation, first.id);
    for unknown in [second.id, 99] {
        assert_eq!(
            refused(enqueue(units[2], Some(unknown))),
            not_found(EntityKind::Operation, &unknown.to_string()),
            "the number of a task that is not the first one, and an unknown number"
        );
    }
    let stored = read(world.reader(), &MODEL.action(second.id)).expect("it is stored");
    assert_eq!(stored, second);
}
