//! The request for disk usage: of the store, the models and the charm archives on the controller, and of the units on
//! their machines.

use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::terms::disk_usage::UnitDiskUsage;
use state::terms::owner::Owner;
use std::fmt;

requests! { DiskUsageRequests {
    GetDiskUsage = get "/v1/disk-usage", Reader => DiskUsage;
} }

/// Returns what the store, the models, their units, the charm archives and the files of resources take on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetDiskUsage;

/// The disk usage of the controller and of units, in bytes. The size of a document includes its key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskUsage {
    /// The files of the store.
    pub store: StoreDiskUsage,
    /// The models, by name.
    pub models: Vec<ModelDiskUsage>,
    /// The charm archives and the files of resources, the largest first.
    pub archives: Vec<ArchiveDiskUsage>,
}

/// The files of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreDiskUsage {
    /// The database.
    pub database_bytes: u64,
    /// The write-ahead log beside it.
    pub wal_bytes: u64,
    /// What the change log takes in the database.
    pub change_log_bytes: u64,
    /// What the documents of no model take: tokens, archives, tombstones of models.
    pub global_bytes: u64,
    /// The part of `global_bytes` that the tokens of removed machines take whose agents have not reported since.
    pub retired_tokens_bytes: u64,
}

/// What one model takes in the store, and its units on their machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelDiskUsage {
    /// The name of the model.
    pub model: String,
    /// All documents of the model.
    pub documents_bytes: u64,
    /// The part of `documents_bytes` that the lines of the debug log take.
    pub log_bytes: u64,
    /// The part of `documents_bytes` that the actions take.
    pub actions_bytes: u64,
    /// The part of `documents_bytes` that the tombstones take.
    pub tombstones_bytes: u64,
    /// The units, by name.
    pub units: Vec<UnitDisk>,
    /// The machines with folders of units of which the controller has no record, by name.
    pub machines: Vec<MachineDisk>,
}

/// What one machine takes beside its units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineDisk {
    /// The name of the machine.
    pub machine: String,
    /// The folders of units of which the controller has no record.
    pub quarantined_bytes: u64,
}

/// What one unit takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnitDisk {
    /// The name of the unit.
    pub unit: String,
    /// The name of its machine.
    pub machine: String,
    /// Its lines of the debug log, in the store.
    pub log_bytes: u64,
    /// What it takes on its machine; none if the machine agent has not reported it since the controller started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_machine: Option<UnitDiskUsage>,
    /// How long ago the machine agent measured that, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_ago_ms: Option<u64>,
}

/// One charm archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArchiveDiskUsage {
    /// The digest.
    pub sha256: String,
    /// The name of the charm; none for the file of a resource.
    pub charm: Option<String>,
    /// The size of the file.
    pub bytes: u64,
    /// The applications and units that use it. Without any, it is removed after a grace period.
    pub used_by: Vec<ArchiveUser>,
}

/// An application or a unit that uses a charm archive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ArchiveUser {
    /// The name of its model.
    pub model: String,
    /// The application or the unit.
    pub owner: Owner,
}

impl fmt::Display for ArchiveUser {
    /// Writes the user as commands name it: `dev:web/0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.owner {
            Owner::Application(name) => write!(f, "{}:{name}", self.model),
            Owner::Unit(unit) => write!(f, "{}:{unit}", self.model),
        }
    }
}
