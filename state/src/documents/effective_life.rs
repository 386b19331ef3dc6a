//! Life downwards is derived, never written: an application of 100,000 units is destroyed by one document (design 5).
//! What is derived is at most Dying; Dead is only ever an entity's own.

use crate::documents::draft::{Draft, Key, Reader, read};
use crate::documents::json_text::Document;
use crate::documents::keys::{Model, RelationDoc, SubordinateLink, UnitDoc, last_id};
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use serde_json::Value;

/// Reads of a draft (recorded) or of a reader (views): what is derived must come out the same.
pub trait Documents {
    fn document<T: Document>(&mut self, key: &Key<T>) -> Option<T>;
    /// Up to `limit` committed keys below `prefix`, in order.
    fn keys(&mut self, prefix: &str, limit: usize) -> Vec<String>;
    /// Some key is below `prefix`.
    fn any(&mut self, prefix: &str) -> bool;

    /// The entities an index names: the last part of each key.
    fn ids(&mut self, prefix: &str, limit: usize) -> Vec<Uuid> {
        self.keys(prefix, limit).iter().filter_map(|key| last_id(key)).collect()
    }
}

impl Documents for Draft<'_> {
    fn document<T: Document>(&mut self, key: &Key<T>) -> Option<T> {
        self.get(key)
    }
    fn keys(&mut self, prefix: &str, limit: usize) -> Vec<String> {
        self.page::<Value>(prefix, "", limit).into_iter().map(|(key, _)| key).collect()
    }
    fn any(&mut self, prefix: &str) -> bool {
        self.first(prefix, &[]).is_some()
    }
}

impl Documents for &dyn Reader {
    fn document<T: Document>(&mut self, key: &Key<T>) -> Option<T> {
        read(*self, key)
    }
    fn keys(&mut self, prefix: &str, limit: usize) -> Vec<String> {
        self.scan(prefix, "", limit).into_iter().map(|stored| stored.key).collect()
    }
    fn any(&mut self, prefix: &str) -> bool {
        !self.scan(prefix, "", 1).is_empty()
    }
}

fn derived(life: Option<Life>) -> Life {
    life.unwrap_or(Life::Dying).min(Life::Dying)
}

/// The furthest of the unit's own, its application's, its principal's and its machine's life; none when there is no
/// such unit (spec E.8#3, #4; I23). A subordinate is Dying too when the line of relations it came with has ended (spec
/// A.12; scenarios 121, 122).
pub fn unit_life(documents: &mut impl Documents, model: Model, id: Uuid) -> Option<Life> {
    let unit = documents.document(&model.unit(id))?;
    Some(unit_life_of(documents, model, id, &unit))
}

/// The same for a unit whose document was read already.
pub fn unit_life_of(documents: &mut impl Documents, model: Model, id: Uuid, unit: &UnitDoc) -> Life {
    let own = documents.document(&model.unit_life(id)).unwrap_or(Life::Dying);
    let mut life = own.most_advanced(derived(documents.document(&model.application_life(unit.application))));
    life = life.most_advanced(derived(documents.document(&model.machine_life(unit.machine))));
    match unit.principal.zip(unit.subordinate_link) {
        Some((principal, subordinate_link)) => {
            life.most_advanced(life_under(documents, model, principal, &subordinate_link))
        }
        None => life,
    }
}

/// What a principal lets its subordinate be.
fn life_under(
    documents: &mut impl Documents,
    model: Model,
    principal: Uuid,
    subordinate_link: &SubordinateLink,
) -> Life {
    let related =
        if documents.any(&model.relations_of_link(subordinate_link)) { Life::Alive } else { Life::Dying };
    related
        .most_advanced(derived(documents.document(&model.unit_life(principal))))
        .most_advanced(derived(documents.document(&model.application_life(subordinate_link.principal))))
}

/// The furthest of the relation's own life and its applications'; none when there is no such relation.
pub fn relation_life(documents: &mut impl Documents, model: Model, id: Uuid) -> Option<Life> {
    let relation = documents.document(&model.relation(id))?;
    Some(relation_life_of(documents, model, id, &relation))
}

/// The same for a relation whose document was read already.
pub fn relation_life_of(
    documents: &mut impl Documents,
    model: Model,
    id: Uuid,
    relation: &RelationDoc,
) -> Life {
    let mut life = documents.document(&model.relation_life(id)).unwrap_or(Life::Dying);
    for side in &relation.sides {
        life = life.most_advanced(derived(documents.document(&model.application_life(side.application))));
    }
    life
}
