//! Explains a relation: a Dying relation waits for its members to leave, a suspended one also to be resumed, an Alive
//! one for the units of its applications to enter.

use crate::documents::blockers::{self, EntityId};
use crate::documents::draft::{read, read_all};
use crate::documents::effective_life;
use crate::documents::prelude::{RelationDoc, ScopeDoc, last_id};
use crate::documents::refusal::Refusal;
use crate::terms::cause::{Cause, Duty, Entity};
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::refusal::EntityKind;
use crate::why::explanation::{EntityState, Why};
use crate::why::facts::{Facts, deduplicate_and_check_full};
use crate::why::non_removal_causes;
use crate::why::unit;

/// Explains a relation.
pub(crate) fn explain(facts: &Facts<'_>, id: Uuid) -> Result<Why, Refusal> {
    let not_found = || Refusal::not_found(EntityKind::Relation, id);
    let doc = read(facts.reader, &facts.model.relation(id)).ok_or_else(not_found)?;
    let life = effective_life::relation_life_of(&mut { facts.reader }, facts.model, id, &doc);
    let mut causes = facts.blockers(EntityId::Relation(id));
    let present = read_all::<ScopeDoc>(facts.reader, &facts.model.scopes(id));
    if let Some(suspended) = non_removal_causes::suspended(facts.reader, facts.model, id) {
        let departing = blockers::suspended_relation_blockers(&mut { facts.reader }, facts.model, id);
        causes.extend(departing.into_iter().map(|cause| facts.pending_since().with_since(cause)));
        causes.push(suspended);
    } else if life == Life::Alive {
        let present: Vec<Uuid> = present.iter().filter_map(|(key, _)| last_id(key)).collect();
        entering(facts, &doc, &present, &mut causes)?;
    }
    let entity = Entity::Relation(doc.name());
    causes.extend(facts.forced_removal_cause(id, entity.clone()));
    let now = EntityState::Relation { units_in_scope: present.len() };
    Ok(Why { entity, life, now, causes, more: false })
}

/// Adds each unit that must still enter the scope, followed by the first cause of that unit.
fn entering(
    facts: &Facts<'_>,
    doc: &RelationDoc,
    present: &[Uuid],
    causes: &mut Vec<Cause>,
) -> Result<(), Refusal> {
    let units = doc.ends.iter().map(|end| facts.model.units_of(end.application));
    for (key, ()) in units.flat_map(|index| read_all::<()>(facts.reader, &index)) {
        let id = last_id(&key).expect("an index ends with an id");
        let Some(unit) = read(facts.reader, &facts.model.unit(id)) else { continue };
        let alive =
            effective_life::unit_life_of(&mut { facts.reader }, facts.model, id, &unit) == Life::Alive;
        if !alive || !unit.takes_part_in(doc) || present.contains(&id) {
            continue;
        }
        let enter = Cause::of_unit_agent(&unit.name, Duty::EnterScope { relation: doc.name() });
        causes.push(enter.since(doc.created_ms.max(unit.created_ms)));
        causes.extend(unit::explain(facts, id)?.causes.into_iter().next());
        if deduplicate_and_check_full(causes) {
            break;
        }
    }
    Ok(())
}
