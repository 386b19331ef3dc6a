//! What users request of the storage of a charm, compared with what the charm declares.

use crate::charm::{Charm, Storage};
use crate::documents::refusal::Refusal;
use crate::terms::names::beginning;
use crate::terms::refusal::storage::StorageRefusal;
use crate::terms::storage::{
    SIZE_MIB_DEFAULT, STORAGE_OF_MACHINE_MAX, STORAGE_OF_UNIT_MAX, StorageDirective, StoragePool,
};
use std::collections::BTreeMap;

/// Verifies the directives of a deployment against what the charm declares.
///
/// # Errors
/// If a name is not declared, or a count, pool or size does not suit its storage.
pub fn validate_directives(
    charm: &Charm,
    directives: &BTreeMap<String, StorageDirective>,
) -> Result<(), Refusal> {
    for (name, directive) in directives {
        let declared = declared(charm, name)?;
        suitable(name, declared, Some(directive))?;
        require_count(name, declared, count_of(declared, Some(directive)))?;
    }
    Ok(())
}

pub(super) fn declared<'a>(charm: &'a Charm, name: &str) -> Result<&'a Storage, Refusal> {
    let not_declared =
        || StorageRefusal::NotDeclared { charm: charm.name.clone(), name: beginning(name).to_owned() }.into();
    charm.storage.get(name).ok_or_else(not_declared)
}

/// The pool and the size in MiB of an instance.
pub(super) fn suitable(
    name: &str,
    declared: &Storage,
    directive: Option<&StorageDirective>,
) -> Result<(StoragePool, u64), Refusal> {
    let pool = match directive.and_then(|directive| directive.pool.as_ref()) {
        None => StoragePool::default_of(declared.kind),
        Some(pool) => {
            let known: Option<StoragePool> = pool.parse().ok();
            let suitable = known.filter(|known| known.provides(declared.kind));
            let unsuitable = || StorageRefusal::UnsuitablePool { name: name.to_owned(), pool: pool.clone() };
            suitable.ok_or_else(unsuitable)?
        }
    };
    let requested = directive.and_then(|directive| directive.size_mib);
    let size_mib = requested.unwrap_or(SIZE_MIB_DEFAULT.max(declared.minimum_size_mib));
    if size_mib < declared.minimum_size_mib {
        let min_mib = declared.minimum_size_mib;
        return Err(StorageRefusal::TooSmall { name: name.to_owned(), size_mib, min_mib }.into());
    }
    Ok((pool, size_mib))
}

/// The number of instances of a new unit, or of one request.
pub(super) fn count_of(declared: &Storage, directive: Option<&StorageDirective>) -> usize {
    match directive {
        Some(directive) => directive.count.unwrap_or(1) as usize,
        None => declared.count_min as usize,
    }
}

/// Refuses a number of instances of one unit that the charm does not permit or that exceeds the limit of a unit.
pub(super) fn require_count(name: &str, declared: &Storage, count: usize) -> Result<(), Refusal> {
    let (min, max) = (declared.count_min, declared.count_max);
    let is_within = count >= min as usize && max.is_none_or(|max| count <= max as usize);
    if !is_within {
        return Err(StorageRefusal::WrongCount { name: name.to_owned(), count, min, max }.into());
    }
    if count > STORAGE_OF_UNIT_MAX {
        return Err(too_many());
    }
    Ok(())
}

/// The refusal of more instances than a unit or a machine may have.
pub(super) fn too_many() -> Refusal {
    let (unit_max, machine_max) = (STORAGE_OF_UNIT_MAX, STORAGE_OF_MACHINE_MAX);
    StorageRefusal::TooMany { unit_max, machine_max }.into()
}
