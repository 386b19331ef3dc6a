//! Effective life: the life of an entity, derived from its own life and the lives above it.
//!
//! A life is never propagated by writing: one document destroys an application of 100,000 units (design 5). A
//! derived life is at most Dying; Dead is always an entity's own life. Transitions and views call these
//! functions and must get the same result, so both read through [`Documents`].

use crate::documents::document_reads::Documents;
use crate::documents::prelude::{Model, RelationDoc, SubordinateLink, UnitDoc};
use crate::terms::life::Life;
use crate::terms::names::Uuid;

/// What the life of a superior contributes: at most Dying. A superior that does not exist counts as Dying.
fn at_most_dying(life: Option<Life>) -> Life {
    life.unwrap_or(Life::Dying).min(Life::Dying)
}

/// The life of a model. One whose life is damaged on disk counts as Dying, because nothing may be added to it.
pub fn model_life(documents: &mut impl Documents, model: Model) -> Life {
    documents.document(&model.model_life()).unwrap_or(Life::Dying)
}

/// The life of an application; see [`model_life`].
pub fn application_life(documents: &mut impl Documents, model: Model, id: Uuid) -> Life {
    documents.document(&model.application_life(id)).unwrap_or(Life::Dying)
}

/// The life of a machine. One whose life is damaged on disk counts as Dead.
pub fn machine_life(documents: &mut impl Documents, model: Model, id: Uuid) -> Life {
    documents.document(&model.machine_life(id)).unwrap_or(Life::Dead)
}

/// The effective life of a unit: the most advanced of its own life and those of its application, its principal
/// and its machine. None if the unit does not exist (spec E.8#3, #4; I23). A subordinate is also Dying once the
/// last relation of its subordinate link was removed (spec A.12; scenarios 121, 122).
pub fn unit_life(documents: &mut impl Documents, model: Model, id: Uuid) -> Option<Life> {
    let unit = documents.document(&model.unit(id))?;
    Some(unit_life_of(documents, model, id, &unit))
}

/// [`unit_life`] of a unit whose document was read already.
pub fn unit_life_of(documents: &mut impl Documents, model: Model, id: Uuid, unit: &UnitDoc) -> Life {
    let own = documents.document(&model.unit_life(id)).unwrap_or(Life::Dying);
    let mut life =
        own.most_advanced(at_most_dying(documents.document(&model.application_life(unit.application))));
    life = life.most_advanced(at_most_dying(documents.document(&model.machine_life(unit.machine))));
    match unit.principal.zip(unit.subordinate_link) {
        Some((principal, subordinate_link)) => {
            life.most_advanced(life_from_principal(documents, model, principal, &subordinate_link))
        }
        None => life,
    }
}

/// The life that a principal and its relations impose on a subordinate.
fn life_from_principal(
    documents: &mut impl Documents,
    model: Model,
    principal: Uuid,
    subordinate_link: &SubordinateLink,
) -> Life {
    let related =
        if documents.any(&model.relations_of_link(subordinate_link)) { Life::Alive } else { Life::Dying };
    related
        .most_advanced(at_most_dying(documents.document(&model.unit_life(principal))))
        .most_advanced(at_most_dying(documents.document(&model.application_life(subordinate_link.principal))))
}

/// The effective life of a relation: the most advanced of its own life and those of its applications. None if
/// the relation does not exist.
pub fn relation_life(documents: &mut impl Documents, model: Model, id: Uuid) -> Option<Life> {
    let relation = documents.document(&model.relation(id))?;
    Some(relation_life_of(documents, model, id, &relation))
}

/// [`relation_life`] of a relation whose document was read already.
pub fn relation_life_of(
    documents: &mut impl Documents,
    model: Model,
    id: Uuid,
    relation: &RelationDoc,
) -> Life {
    let mut life = documents.document(&model.relation_life(id)).unwrap_or(Life::Dying);
    for end in &relation.ends {
        life =
            life.most_advanced(at_most_dying(documents.document(&model.application_life(end.application))));
    }
    life
}
