//! Documents of storage: the instances, and the indexes of the instances of a unit and of a machine.
//!
//! An instance and its attachment are one document, because an instance is attached to one unit at most. Its content
//! exists on one machine only, which never changes: another machine cannot reach it.

use crate::charm::StorageType;
use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::storage::{StorageDirective, StorageId, StoragePool};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// An instance of storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageDoc {
    /// Identifies the instance, also if its id was given to another one after a restore.
    pub uuid: Uuid,
    /// The kind.
    pub kind: StorageType,
    /// The pool.
    pub pool: StoragePool,
    /// The size in MiB.
    pub size_mib: u64,
    /// The machine that has the content.
    pub machine: Uuid,
    /// When it was created.
    pub created_ms: i64,
    /// Whether its removal was requested. It is Dying until its content is deleted.
    pub life: Life,
    /// Whether the machine agent has provided it once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provisioned: bool,
    /// Whether a unit has run storage-attached for it: its content matters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub used: bool,
    /// The attachment to a unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<AttachmentDoc>,
    /// The last error of the machine agent; none once it has succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When its status changed last.
    pub since_ms: i64,
}

/// The attachment of an instance to a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentDoc {
    /// The unit.
    pub unit: Uuid,
    /// Where the unit finds it; none until the machine agent has provided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Whether the unit has run storage-attached.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub attached: bool,
    /// Whether it is to be detached. An attachment also ends with its unit and with its instance.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detaching: bool,
}

/// What was requested for the storage of each unit of an application, by the name of the storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationStorageDoc {
    /// The directives that the user has given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub directives: BTreeMap<String, StorageDirective>,
    /// Whether the storage of its units is removed with them (`--destroy-storage`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub destroyed: bool,
}

/// The instances of a unit.
pub type UnitStorageDoc = BTreeSet<StorageId>;
/// The instances of a machine with their life. A machine with an Alive one is kept when its last unit is removed.
pub type MachineStorageDoc = BTreeMap<StorageId, Life>;

impl Model {
    /// An instance of storage.
    pub fn storage(&self, id: &StorageId) -> Key<StorageDoc> {
        self.key_with_rest(Kind::Storage, format_args!("{id}"))
    }
    /// The instances that are attached to a unit; absent if there are none.
    pub fn unit_storage(&self, unit: Uuid) -> Key<UnitStorageDoc> {
        self.key(Kind::StorageOf, &[unit])
    }
    /// The instances whose content a machine has; absent if there are none.
    pub fn machine_storage(&self, machine: Uuid) -> Key<MachineStorageDoc> {
        self.key(Kind::StorageOn, &[machine])
    }
    /// What was requested for the storage of the units of an application; absent if nothing was.
    pub fn application_storage(&self, application: Uuid) -> Key<ApplicationStorageDoc> {
        self.key(Kind::ApplicationStorage, &[application])
    }
}

impl StorageDoc {
    /// Whether its attachment is ending for a unit that is itself Alive.
    pub fn is_detaching(&self) -> bool {
        self.life != Life::Alive || self.attachment.as_ref().is_some_and(|attachment| attachment.detaching)
    }
}
