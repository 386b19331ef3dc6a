//! Why a request about storage is refused.

use crate::terms::names::UnitName;
use crate::terms::refusal::code::Code;
use crate::terms::storage::{StorageId, StoragePool};
use serde::{Deserialize, Serialize};

/// Why a request about storage is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StorageRefusal {
    /// The charm declares no storage of this name.
    NotDeclared {
        /// The name of the charm.
        charm: String,
        /// The name of the storage.
        name: String,
    },
    /// The unit would have fewer or more instances than the charm declares.
    WrongCount {
        /// The name of the storage.
        name: String,
        /// The number that the unit would have.
        count: usize,
        /// The fewest that the charm permits.
        min: u32,
        /// The most that the charm permits; none if there is no bound.
        max: Option<u32>,
    },
    /// There is no such pool, or it does not provide this kind of storage.
    UnsuitablePool {
        /// The name of the storage.
        name: String,
        /// The name of the pool.
        pool: String,
    },
    /// The size is smaller than the charm declares.
    TooSmall {
        /// The name of the storage.
        name: String,
        /// The requested size in MiB.
        size_mib: u64,
        /// The smallest size in MiB.
        min_mib: u64,
    },
    /// The unit or its machine would have too many instances.
    TooMany {
        /// The most instances of a unit.
        unit_max: usize,
        /// The most instances of a machine.
        machine_max: usize,
    },
    /// The unit is being removed.
    UnitNotAlive {
        /// The unit.
        unit: UnitName,
    },
    /// The instance is attached already.
    Attached {
        /// The instance.
        id: StorageId,
        /// The unit that has it, if it exists.
        unit: Option<UnitName>,
    },
    /// The instance is not attached to any unit.
    NotAttached {
        /// The instance.
        id: StorageId,
    },
    /// The instance is being removed.
    BeingRemoved {
        /// The instance.
        id: StorageId,
    },
    /// The instance is on another machine than the unit.
    OtherMachine {
        /// The instance.
        id: StorageId,
        /// The name of its machine.
        machine: String,
    },
    /// The instance is of another kind than the storage that the charm declares.
    OtherKind {
        /// The instance.
        id: StorageId,
    },
    /// The content of the instance does not outlive its attachment.
    NotDetachable {
        /// The instance.
        id: StorageId,
    },
    /// The content of the instance cannot outlive its record.
    NotReleasable {
        /// The instance.
        id: StorageId,
        /// Its pool.
        pool: StoragePool,
    },
    /// The instance is attached to a unit: it is removed only with force.
    InUse {
        /// The instance.
        id: StorageId,
    },
    /// A machine agent reports a path that is not absolute, is too long, or contains control characters.
    InvalidLocation {
        /// The instance.
        id: StorageId,
    },
    /// Existing storage can be attached to one new unit only.
    AttachedToSeveral,
    /// The unit cannot become Dead, because it has not run storage-detaching.
    UnitHasStorage {
        /// The unit.
        unit: UnitName,
        /// The first instance.
        id: StorageId,
    },
    /// The machine has storage with content, which would be lost.
    OnMachine {
        /// The name of the machine.
        machine: String,
        /// The instances.
        storage: Vec<StorageId>,
    },
}

impl StorageRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            StorageRefusal::NotDeclared { .. }
            | StorageRefusal::WrongCount { .. }
            | StorageRefusal::UnsuitablePool { .. }
            | StorageRefusal::TooSmall { .. }
            | StorageRefusal::TooMany { .. }
            | StorageRefusal::OtherMachine { .. }
            | StorageRefusal::OtherKind { .. }
            | StorageRefusal::NotDetachable { .. }
            | StorageRefusal::NotReleasable { .. }
            | StorageRefusal::InvalidLocation { .. }
            | StorageRefusal::AttachedToSeveral => Code::Invalid,
            StorageRefusal::UnitNotAlive { .. } | StorageRefusal::BeingRemoved { .. } => Code::NotAlive,
            StorageRefusal::Attached { .. }
            | StorageRefusal::NotAttached { .. }
            | StorageRefusal::InUse { .. }
            | StorageRefusal::UnitHasStorage { .. }
            | StorageRefusal::OnMachine { .. } => Code::Busy,
        }
    }
}
