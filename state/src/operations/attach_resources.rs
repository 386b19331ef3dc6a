//! The user's `attach-resource`: replaces files of an application, after which its units run upgrade-charm.

use crate::documents::draft::Draft;
use crate::documents::prelude::Model;
use crate::documents::refusal::Refusal;
use crate::lifecycle::resource::ResourceOwner;
use crate::lifecycle::{application, resource};
use crate::terms::names::Uuid;
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::application::ApplicationRequest;
use std::collections::BTreeMap;

/// Attaches uploaded files to the resources of an application, all or none; the values are digests.
///
/// # Errors
/// If the application is not Alive, its charm does not declare a resource, or a file is not on the controller.
pub fn attach(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    requested: &BTreeMap<String, String>,
    now_ms: i64,
) -> Result<(), Refusal> {
    application::require_alive(draft, model, id, ApplicationRequest::AttachResource)?;
    let found = application::charm_of(draft, model, id);
    let (before, charm) = found.ok_or_else(|| Refusal::not_found(EntityKind::ApplicationCharm, id))?;
    let mut next = before.clone();
    let owner = ResourceOwner { model, application: id, charm: &charm };
    resource::attach(draft, owner, &mut next.resources, requested, now_ms)?;
    if next != before {
        draft.put(&model.application_charm(id), &next);
    }
    Ok(())
}
