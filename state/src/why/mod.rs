//! Why entities wait: everything that a unit, an application, a relation, a machine or a model waits for.
//!
//! An explanation is computed on request by the functions that make the decisions (design 1, 5): the blockers of
//! removals, and the unit agent's `next` applied to the replica of its state; `non_removal_causes` explains entities
//! that are not being removed. Presence, commit times and force timers are arguments ([`facts`]). There is one file per
//! kind of entity. Called by the controller for `pintle why` and dry runs, and for the times in refusals
//! (`pending_since`).

mod application;
pub mod explanation;
pub mod facts;
mod hook_lock;
mod machine;
mod model;
pub mod non_removal_causes;
pub mod pending_since;
mod relation;
mod unit;

use crate::documents::blockers::EntityId;
use crate::documents::draft::read;
use crate::documents::refusal::Refusal;
use crate::terms::cause::{Cause, deduplicate};
use crate::terms::names::{RelationNumber, Uuid};
use crate::terms::refusal::EntityKind;
use explanation::Why;
use facts::{CAUSES_MAX, Facts};

/// The entity to explain.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// The whole model.
    Model,
    /// A unit.
    Unit(Uuid),
    /// An application and its name.
    Application(Uuid, &'a str),
    /// A machine and its name.
    Machine(Uuid, &'a str),
    /// A relation.
    Relation(Uuid),
    /// The machine or the relation with this number: if both exist, the one that waits for something.
    MachineOrRelation {
        /// The number.
        number: RelationNumber,
        /// The machine with this name.
        machine: Option<Uuid>,
        /// The relation with this number.
        relation: Option<Uuid>,
    },
}

/// Explains an entity with at most 20 causes.
///
/// # Errors
/// If there is no such entity.
pub fn explain(facts: &Facts<'_>, subject: Subject<'_>) -> Result<Why, Refusal> {
    let mut why = match subject {
        Subject::Model => model::explain(facts)?,
        Subject::Unit(id) => unit::explain(facts, id)?,
        Subject::Application(id, name) => application::explain(facts, id, name)?,
        Subject::Machine(id, name) => machine::explain(facts, id, name),
        Subject::Relation(id) => relation::explain(facts, id)?,
        Subject::MachineOrRelation { number, machine, relation } => {
            let machine = machine.map(|id| machine::explain(facts, id, &number.to_string()));
            let relation = relation.and_then(|id| relation::explain(facts, id).ok());
            let found = match (machine, relation) {
                (Some(machine), Some(relation)) if machine.causes.is_empty() => Some(relation),
                (Some(machine), _) => Some(machine),
                (None, relation) => relation,
            };
            found.ok_or_else(|| Refusal::not_found(EntityKind::MachineOrRelation, number))?
        }
    };
    deduplicate(&mut why.causes);
    why.more |= why.causes.len() > CAUSES_MAX;
    why.causes.truncate(CAUSES_MAX);
    Ok(why)
}

/// The cause for a unit or machine whose agent was present and is silent now.
pub fn silent_agent(facts: &Facts<'_>, entity: EntityId) -> Option<Cause> {
    match entity {
        EntityId::Unit(id) => unit::silent_agent(facts, id, &read(facts.reader, &facts.model.unit(id))?),
        EntityId::Machine(id) => machine::silent_agent(facts, id),
        EntityId::Application(_) | EntityId::Relation(_) => None,
    }
}
