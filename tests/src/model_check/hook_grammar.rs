//! The order of a charm's hooks in one relation (spec A.11).

use state::terms::operation::{Hook, Operation, RelationEvent};
use state::unit::local::Local;

/// Checks a hook that is about to start.
pub fn check(local: &Local, operation: &Operation) -> Result<(), String> {
    let broken = |what: String| Err(format!("{operation}: {what}"));
    match operation {
        Operation::Hook(Hook::Relation { relation, event, .. }) => {
            let Some(known) = local.relations.get(relation) else {
                return broken("not in the relation".into());
            };
            match event {
                RelationEvent::Created if known.created => broken("a second time".into()),
                RelationEvent::Joined { unit, .. } if known.members.contains_key(unit) => {
                    broken("it has joined before".into())
                }
                RelationEvent::Changed { unit, .. } | RelationEvent::Departed { unit, .. }
                    if !known.members.contains_key(unit) =>
                {
                    broken("it has not joined".into())
                }
                RelationEvent::Broken if !known.members.is_empty() => {
                    broken(format!("{:?} have not departed", known.members.keys()))
                }
                _ => Ok(()),
            }
        }
        Operation::Hook(Hook::Stop) if !local.relations.is_empty() => {
            broken(format!("still in relations {:?}", local.relations.keys()))
        }
        _ => Ok(()),
    }
}
