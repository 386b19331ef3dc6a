//! The existence of an entity, as the store records it for a uuid: its life, its tombstone, or nothing (design 7).
//!
//! Agents decide by it whether an entity is removed, so the absence of a record alone is no evidence. Called by the
//! handlers of machine agents and of the provisioner.

use crate::documents::document_reads::Documents;
use crate::documents::effective_life;
use crate::documents::prelude::Model;
use crate::terms::assignment::Existence;
use crate::terms::life::Life;
use crate::terms::names::Uuid;

/// The existence of a unit, with its effective life.
pub fn unit(documents: &mut impl Documents, model: Model, id: Uuid) -> Existence {
    let life = effective_life::unit_life(documents, model, id);
    of_life(documents, model, id, life)
}

/// The existence of a machine.
pub fn machine(documents: &mut impl Documents, model: Model, id: Uuid) -> Existence {
    let life = documents.document(&model.machine_life(id));
    of_life(documents, model, id, life)
}

/// The existence of an entity with this life; none if the store has no record of it.
pub(crate) fn of_life(
    documents: &mut impl Documents,
    model: Model,
    id: Uuid,
    life: Option<Life>,
) -> Existence {
    match life {
        Some(life) => Existence::Known(life),
        None if documents.document(&model.tombstone(id)).is_some() => Existence::Tombstone,
        None => Existence::Unknown,
    }
}
