//! Documents of a model as a whole: its name, clock, settings, ssh keys, life, destruction and sequences.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::force::Force;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::ssh_key::SshKey;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelDoc {
    /// The name of the model.
    pub name: String,
    /// When the model was created.
    pub created_ms: i64,
    /// How far the clock of the model was advanced altogether, in milliseconds.
    #[serde(default)]
    pub advanced_ms: u64,
}

/// The progress of the destruction of a model (see `transitions::destruction`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestructionDoc {
    /// When the destruction was requested.
    pub since_ms: i64,
    /// The force that was requested.
    #[serde(default)]
    pub force: Force,
    /// When force was requested; none if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced_ms: Option<i64>,
    /// What the next batch does.
    pub phase: DestructionPhase,
}

/// The entities whose removal the next batch of the destruction of a model requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum DestructionPhase {
    /// The applications after this one.
    Applications {
        /// The key of the last application whose removal was requested; empty at the start.
        after: String,
    },
    /// The machines after this one.
    Machines {
        /// The key of the last machine whose removal was requested; empty at the start.
        after: String,
    },
    /// The removal of each was requested; the model is removed once none is left.
    #[serde(rename = "done")]
    AwaitingRemoval,
}

impl Default for DestructionPhase {
    fn default() -> DestructionPhase {
        DestructionPhase::Applications { after: String::new() }
    }
}

impl Model {
    /// The model.
    pub fn model(&self) -> Key<ModelDoc> {
        self.key(Kind::Model, &[])
    }
    /// The settings that the user set for the model.
    pub fn model_config(&self) -> Key<BTreeMap<String, Value>> {
        self.key(Kind::ModelConfig, &[])
    }
    /// The keys with which people log in to the machines of the model, in the order in which they were added; absent if
    /// there is none.
    pub fn ssh_keys(&self) -> Key<Vec<SshKey>> {
        self.key(Kind::SshKeys, &[])
    }
    /// The life of the model.
    pub fn model_life(&self) -> Key<Life> {
        self.key(Kind::ModelLife, &[])
    }
    /// The destruction of the model; absent unless the model is being destroyed.
    pub fn model_destruction(&self) -> Key<DestructionDoc> {
        self.key(Kind::ModelDestruction, &[])
    }
    /// The uuid of the model of this name. Under [`GLOBAL`](crate::documents::key::GLOBAL).
    pub fn model_name(&self, name: &str) -> Key<Uuid> {
        self.key_by_name(Kind::ModelName, name)
    }
    /// The next number of a sequence: `machine`, `relation`, `action`, `storage`, `unit/NAME`, `charm/NAME`,
    /// `leader/APPLICATION-UUID`; under [`GLOBAL`](crate::documents::key::GLOBAL) `address`. All but `leader/...` are kept
    /// until the model is removed, so that no number of a removed entity is used again.
    pub fn sequence(&self, name: &str) -> Key<u64> {
        self.key_by_name(Kind::Sequence, name)
    }
}
