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
use crate::terms::refusal::application::ApplicationRefusal;

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
/// If it does not exist, or is a subordinate: its units are on the machines of their principals.
pub fn set(
    draft: &mut Draft,
    model: Model,
    application: Option<&str>,
    constraints: &Constraints,
) -> Result<(), Refusal> {
    let constrained = find_constrained(draft, model, application)?;
    if let Some(doc) = draft.get(&model.application(constrained)).filter(|doc| doc.subordinate) {
        return Err(ApplicationRefusal::SubordinateConstraints { application: doc.name }.into());
    }
    let key = model.constraints(constrained);
    match constraints.is_empty() {
        true => draft.remove(&key),
        false => draft.put(&key, constraints),
    }
    Ok(())
}
