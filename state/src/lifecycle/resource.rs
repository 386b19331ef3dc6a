//! Attaches files to the resources of an application, with its deployment, its refresh or later.
//!
//! All names are checked before anything is written. A file must have been uploaded: its use is recorded in the same
//! transaction, so that it is not removed before. Called by `application` and `transitions::attach_resources`.

use crate::charm::Charm;
use crate::documents::draft::Draft;
use crate::documents::prelude::{GLOBAL, Model};
use crate::documents::refusal::Refusal;
use crate::lifecycle::archive;
use crate::terms::names::Uuid;
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::application::ApplicationRefusal;
use crate::terms::resource::{ResourceFile, Resources};
use std::collections::BTreeMap;

/// The most files of one request: one read and one write each, beside the 78 writes of a deployment with the most peer
/// relations and its first unit (9 of the application, 8 × 7 of peer relations, 13 of a unit): 98 of a transaction's 600.
pub const RESOURCES_PER_REQUEST_MAX: usize = 20;

/// Refuses resources that the charm does not declare, and too many.
///
/// # Errors
/// The names of all resources that the charm does not declare, or the limit.
pub(crate) fn require_declared(charm: &Charm, requested: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let undeclared = requested.keys().filter(|name| !charm.resources.contains_key(*name));
    let undeclared: Vec<String> = undeclared.cloned().collect();
    if !undeclared.is_empty() {
        let (charm, resources) = (charm.name.clone(), undeclared);
        return Err(ApplicationRefusal::UndeclaredResources { charm, resources }.into());
    }
    if requested.len() > RESOURCES_PER_REQUEST_MAX {
        let (count, max) = (requested.len(), RESOURCES_PER_REQUEST_MAX);
        return Err(ApplicationRefusal::TooManyResources { count, max }.into());
    }
    Ok(())
}

/// An application whose charm declares resources.
#[derive(Clone, Copy)]
pub(crate) struct ResourceOwner<'a> {
    pub model: Model,
    pub application: Uuid,
    pub charm: &'a Charm,
}

/// Attaches uploaded files, by resource; the values are digests. A file that is attached already changes nothing.
///
/// # Errors
/// If the charm does not declare a resource, or a file is not on the controller.
pub(crate) fn attach(
    draft: &mut Draft,
    ResourceOwner { model, application, charm }: ResourceOwner,
    resources: &mut Resources,
    requested: &BTreeMap<String, String>,
    now_ms: i64,
) -> Result<(), Refusal> {
    require_declared(charm, requested)?;
    let mut is_changed = false;
    for (name, sha256) in requested {
        let stored = draft.get(&GLOBAL.archive(sha256));
        let bytes = stored.ok_or_else(|| Refusal::not_found(EntityKind::ResourceFile, sha256))?.bytes;
        let file =
            ResourceFile { sha256: sha256.clone(), bytes, attached_ms: now_ms, ..ResourceFile::default() };
        is_changed |= resources.replace(name, file);
        archive::record_use(draft, model, application, sha256);
    }
    resources.version += u64::from(is_changed);
    Ok(())
}

/// The resources of an application whose charm is replaced: those that the new charm does not declare are dropped.
pub(crate) fn retain_declared(charm: &Charm, resources: &Resources) -> Resources {
    let mut kept = resources.clone();
    kept.files.retain(|name, _| charm.resources.contains_key(name));
    kept
}
