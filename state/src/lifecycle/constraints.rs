//! The constraints of the machines of an application or of a model. They are stored and shown; no
//! provider chooses or creates a machine by them.

use crate::documents::document_reads::Documents;
use crate::documents::draft::Draft;
use crate::documents::prelude::Model;
use crate::documents::refusal::Refusal;
use crate::lifecycle::application;
use crate::terms::constraints::Constraints;
use crate::terms::names::Uuid;
use crate::terms::refusal::EntityKind;

/// The uuid of the application of this name, or of the model: what constraints belong to.
///
/// # Errors
/// If it does not exist.
pub fn find_constrained(
    documents: &mut impl Documents,
    model: Model,
    application: Option<&str>,
) -> Result<Uuid, Refusal> {
    match application {
        Some(name) => application::find(documents, model, name),
        None if documents.document(&model.model()).is_some() => Ok(model.0),
        None => Err(Refusal::not_found(EntityKind::Model, model.0)),
    }
}

/// Replaces the constraints of the application of this name, or of the model.
///
/// # Errors
/// If it does not exist.
pub fn set(
    draft: &mut Draft,
    model: Model,
    application: Option<&str>,
    constraints: &Constraints,
) -> Result<(), Refusal> {
    let key = model.constraints(find_constrained(draft, model, application)?);
    match constraints.0.is_empty() {
        true => draft.remove(&key),
        false => draft.put(&key, constraints),
    }
    Ok(())
}
