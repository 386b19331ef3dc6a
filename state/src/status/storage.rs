//! Storage as users are shown it.

use crate::charm::StorageType;
use crate::documents::draft::{Reader, read, read_all};
use crate::documents::prelude::{KeyParts, Kind, Model, StorageDoc};
use crate::documents::refusal::Refusal;
use crate::terms::life::Life;
use crate::terms::names::UnitName;
use crate::terms::refusal::EntityKind;
use crate::terms::storage::{StorageId, StoragePool};
use crate::terms::string_enum::string_enum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

string_enum! {
    /// The status of an instance.
    StorageStatus {
        /// The machine agent has not provided it to its unit.
        Pending = "pending",
        /// Its unit can use it.
        Attached = "attached",
        /// Its unit is to detach it.
        Detaching = "detaching",
        /// No unit has it.
        Detached = "detached",
        /// Its content is being deleted.
        Destroying = "destroying",
        /// The machine agent cannot provide or delete it.
        Error = "error",
    }
}

/// An instance of storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StorageInfo {
    /// The kind.
    pub kind: StorageType,
    /// The pool.
    pub pool: StoragePool,
    /// The size in MiB.
    pub size_mib: u64,
    /// Whether its content outlives its attachment to a unit.
    pub persistent: bool,
    /// The life: not Alive once its removal was requested.
    pub life: Life,
    /// The status.
    pub status: StorageStatus,
    /// When the status changed last, in milliseconds since 1970.
    pub since_ms: i64,
    /// The last error of the machine agent; empty if there is none.
    pub message: String,
    /// The name of the machine that has the content.
    pub machine: String,
    /// The unit to which it is attached.
    pub unit: Option<UnitName>,
    /// Where the unit finds it; none until the machine agent has provided it.
    pub location: Option<String>,
}

/// The storage of a model, by id.
pub fn all(reader: &dyn Reader, model: Model) -> BTreeMap<StorageId, StorageInfo> {
    let documents = read_all::<StorageDoc>(reader, &model.prefix(Kind::Storage)).into_iter();
    let shown = documents.filter_map(|(key, doc)| {
        let id = KeyParts::of(&key)?.rest.parse().ok()?;
        Some((id, info(reader, model, doc)))
    });
    shown.collect()
}

/// One instance.
///
/// # Errors
/// If there is none with this id.
pub fn find(reader: &dyn Reader, model: Model, id: &StorageId) -> Result<StorageInfo, Refusal> {
    let doc = read(reader, &model.storage(id)).ok_or_else(|| Refusal::not_found(EntityKind::Storage, id))?;
    Ok(info(reader, model, doc))
}

fn info(reader: &dyn Reader, model: Model, doc: StorageDoc) -> StorageInfo {
    let is_provided = doc.attachment.as_ref().is_some_and(|attachment| attachment.location.is_some());
    let status = match (&doc.error, &doc.attachment) {
        (Some(_), _) => StorageStatus::Error,
        (None, None) if doc.life != Life::Alive => StorageStatus::Destroying,
        (None, None) => StorageStatus::Detached,
        (None, Some(_)) if doc.is_detaching() => StorageStatus::Detaching,
        (None, Some(_)) if is_provided => StorageStatus::Attached,
        (None, Some(_)) => StorageStatus::Pending,
    };
    let machine = read(reader, &model.machine(doc.machine)).map(|machine| machine.name);
    let unit = doc.attachment.as_ref().and_then(|attachment| read(reader, &model.unit(attachment.unit)));
    StorageInfo {
        kind: doc.kind,
        pool: doc.pool,
        size_mib: doc.size_mib,
        persistent: doc.pool.is_persistent(),
        life: doc.life,
        status,
        since_ms: doc.since_ms,
        message: doc.error.unwrap_or_default(),
        machine: machine.unwrap_or_default(),
        unit: unit.map(|unit| unit.name),
        location: doc.attachment.and_then(|attachment| attachment.location),
    }
}
