//! `pintle why`: what an entity waits for.
//!
//! The answer is computed on request by the functions that make the decisions (design 1, 5): the model's blockers, and
//! the unit agent's `next` applied to the replica of its state. This module adds what documents do not contain: which
//! agents are present, what they run, since when a duty is pending, and how long forced removals still wait.
//!
//! One file per kind of entity, over the facts of `facts.rs`. Called by the handlers of `GetWhy` and of dry runs.

mod application;
mod facts;
mod machine;
mod model;
mod relation;
mod unit;

use crate::lookup::{find_leader, find_relation};
use api::{EntityChoice, RelationChoice, Why};
use facts::CAUSES_MAX;
use state::documents::blockers::EntityId;
use state::documents::draft::read;
use state::documents::refusal::Refusal;
use state::lifecycle::unit as units;
use state::terms::cause::{Cause, deduplicate};
use state::terms::names::RelationNumber;
use state::terms::refusal::EntityKind;

pub(crate) use facts::Facts;

/// Explains an entity with at most [`CAUSES_MAX`] causes.
///
/// # Errors
/// If there is no such entity.
pub(crate) fn explain(facts: &Facts<'_>, entity: &EntityChoice) -> Result<Why, Refusal> {
    let mut why = explain_entity(facts, entity)?;
    deduplicate(&mut why.causes);
    why.more = why.causes.len() > CAUSES_MAX;
    why.causes.truncate(CAUSES_MAX);
    Ok(why)
}

fn explain_entity(facts: &Facts<'_>, entity: &EntityChoice) -> Result<Why, Refusal> {
    let (reader, model) = (facts.reader, facts.model);
    match entity {
        EntityChoice::Model => model::explain(facts),
        EntityChoice::Unit(name) => unit::explain(facts, units::find(&mut { reader }, model, name)?),
        EntityChoice::LeaderOf(name) => unit::explain(facts, find_leader(reader, model, name)?.0),
        EntityChoice::Application(name) => application::explain(facts, name),
        EntityChoice::Machine(name) => machine::explain(facts, name),
        EntityChoice::Relation(choice) => relation::explain(facts, find_relation(reader, model, choice)?),
        EntityChoice::Number(number) => explain_number(facts, *number),
    }
}

/// Explains the machine or the relation of this number: the one that waits for something, if both exist.
fn explain_number(facts: &Facts<'_>, number: RelationNumber) -> Result<Why, Refusal> {
    let relation = EntityChoice::Relation(RelationChoice::Number(number));
    match (machine::explain(facts, &number.to_string()), explain_entity(facts, &relation)) {
        (Ok(machine), Ok(relation)) if machine.causes.is_empty() => Ok(relation),
        (Ok(machine), _) => Ok(machine),
        (Err(_), Ok(relation)) => Ok(relation),
        (Err(_), Err(_)) => Err(Refusal::not_found(EntityKind::MachineOrRelation, number)),
    }
}

/// Returns the cause for a unit or machine whose agent was present and is silent now.
pub(crate) fn silent_agent(facts: &Facts<'_>, entity: EntityId) -> Option<Cause> {
    match entity {
        EntityId::Unit(id) => unit::silent_agent(facts, id, &read(facts.reader, &facts.model.unit(id))?),
        EntityId::Machine(id) => machine::silent_agent(facts, id),
        EntityId::Application(_) | EntityId::Relation(_) => None,
    }
}
