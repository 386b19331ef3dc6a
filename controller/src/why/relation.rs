//! What a relation waits for: a Dying one for its members to leave, another for the units of its applications to enter.

use super::{Explainer, is_full};
use api::Why;
use state::documents::blockers::{self, EntityId};
use state::documents::draft::{read, read_all};
use state::documents::keys::{RelationDoc, ScopeDoc, last_id};
use state::documents::refusal::Refusal;
use state::documents::{effective_life, waiting};
use state::lifecycle::relation;
use state::terms::cause::{Cause, Duty, Entity};
use state::terms::life::Life;
use state::terms::names::Uuid;

impl Explainer<'_> {
    pub(super) fn relation(&self, id: Uuid) -> Result<Why, Refusal> {
        let gone = || Refusal::not_found("relation", id);
        let doc = read(self.reader, &self.model.relation(id)).ok_or_else(gone)?;
        let life = effective_life::relation_life_of(&mut { self.reader }, self.model, id, &doc);
        let mut causes = self.blockers(EntityId::Relation(id));
        let present = read_all::<ScopeDoc>(self.reader, &self.model.scopes(id));
        if let Some(suspended) = waiting::suspended(self.reader, self.model, id) {
            let leaving = blockers::suspended_relation_blockers(&mut { self.reader }, self.model, id);
            causes.extend(leaving.into_iter().map(|one| self.pending_since().with_since(one)));
            causes.push(suspended);
        } else if life == Life::Alive {
            let present: Vec<Uuid> = present.iter().filter_map(|(key, _)| last_id(key)).collect();
            self.entering(&doc, &present, &mut causes)?;
        }
        let entity = Entity::Relation(doc.name());
        causes.extend(self.forced(id, entity.clone()));
        let now = format!("{} units in scope", present.len());
        Ok(Why { entity, life, now, causes, more: false })
    }

    /// Each unit that has yet to enter, followed by the first thing that it waits for itself.
    fn entering(&self, doc: &RelationDoc, present: &[Uuid], causes: &mut Vec<Cause>) -> Result<(), Refusal> {
        let units = doc.sides.iter().map(|side| self.model.units_of(side.application));
        for (key, ()) in units.flat_map(|index| read_all::<()>(self.reader, &index)) {
            let id = last_id(&key).expect("an index ends with an id");
            let Some(unit) = read(self.reader, &self.model.unit(id)) else { continue };
            let alive =
                effective_life::unit_life_of(&mut { self.reader }, self.model, id, &unit) == Life::Alive;
            if !alive || !relation::includes_unit(doc, &unit) || present.contains(&id) {
                continue;
            }
            let enter = Cause::of_unit_agent(&unit.name, Duty::EnterScope { relation: doc.name() });
            causes.push(enter.since(doc.created_ms));
            causes.extend(self.unit(id)?.causes.into_iter().next());
            if is_full(causes) {
                break;
            }
        }
        Ok(())
    }
}
