//! Refusals of requests about storage, in English.

use crate::text::refusal::refusal_text::{RefusalText, plain, with_hint};
use state::terms::refusal::storage::StorageRefusal;
use state::terms::storage::LOCATION_BYTES_MAX;

pub(super) fn text(reason: &StorageRefusal) -> RefusalText {
    match reason {
        StorageRefusal::NotDeclared { charm, name } => {
            plain(format!("charm {charm} declares no storage {name:?}"))
        }
        StorageRefusal::WrongCount { name, count, min, max } => {
            let max = max.map_or("more".to_owned(), |max| max.to_string());
            plain(format!("storage {name:?} has {min} to {max} instances in a unit, not {count}"))
        }
        StorageRefusal::UnsuitablePool { name, pool } => {
            with_hint(format!("cannot use pool {pool:?} for storage {name:?}"), "see: pintle storage-pools")
        }
        StorageRefusal::TooSmall { name, size_mib, min_mib } => {
            plain(format!("storage {name:?} needs {min_mib} MiB at least, not {size_mib} MiB"))
        }
        StorageRefusal::TooMany { unit_max, machine_max } => plain(format!(
            "too much storage: a unit has {unit_max} instances at most, and a machine {machine_max}"
        )),
        StorageRefusal::UnitNotAlive { unit } => {
            plain(format!("cannot attach storage to {unit}: it is being removed"))
        }
        StorageRefusal::Attached { id, unit } => {
            let unit = unit.as_ref().map_or("a unit".to_owned(), ToString::to_string);
            with_hint(
                format!("cannot attach storage {id}: it is attached to {unit}"),
                format!("detach it first: pintle detach-storage {id}"),
            )
        }
        StorageRefusal::NotAttached { id } => {
            plain(format!("cannot detach storage {id}: it is not attached"))
        }
        StorageRefusal::BeingRemoved { id } => {
            plain(format!("cannot attach storage {id}: it is being removed"))
        }
        StorageRefusal::OtherMachine { id, machine } => with_hint(
            format!(
                "cannot attach storage {id}: its content is on machine {machine}, and no other machine can reach it"
            ),
            format!("add the unit to that machine: --to {machine}"),
        ),
        StorageRefusal::OtherKind { id } => {
            plain(format!("cannot attach storage {id}: the charm declares storage of another type"))
        }
        StorageRefusal::NotDetachable { id } => with_hint(
            format!("cannot detach storage {id}: its content is in memory and ends with its attachment"),
            format!("to remove it: pintle remove-storage --force {id}"),
        ),
        StorageRefusal::NotReleasable { id, pool } => with_hint(
            format!(
                "cannot release storage {id}: the content of the pool {} exists on its machine only",
                pool.as_str()
            ),
            format!("to keep the content: pintle detach-storage {id}"),
        ),
        StorageRefusal::InUse { id } => with_hint(
            format!("cannot remove storage {id}: it is attached"),
            format!("pintle detach-storage {id}, or pintle remove-storage --force {id}"),
        ),
        StorageRefusal::InvalidLocation { id } => plain(format!(
            "invalid location of storage {id}: expected an absolute path of at most {LOCATION_BYTES_MAX} bytes without \
             control characters"
        )),
        StorageRefusal::AttachedToSeveral => {
            plain("cannot attach existing storage: it needs exactly one unit".to_owned())
        }
        StorageRefusal::UnitHasStorage { unit, id } => {
            plain(format!("{unit} cannot become Dead: it has not detached storage {id}"))
        }
        StorageRefusal::OnMachine { machine, storage } => {
            let list: Vec<String> = storage.iter().map(ToString::to_string).collect();
            with_hint(
                format!("cannot remove machine {machine}: it has the content of storage {}", list.join(", ")),
                format!(
                    "remove the storage first: pintle remove-storage {}; or lose it: pintle remove-machine {machine} --force",
                    list.join(" ")
                ),
            )
        }
    }
}
