//! Documents of a model as a whole: its name, its settings, its life, its destruction, its sequences.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelDoc {
    pub name: String,
    pub created_ms: i64,
}

/// How far a model is on its way out (see `destruction`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestructionDoc {
    pub since_ms: i64,
    /// When force was asked for; none = it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced_ms: Option<i64>,
    /// With force: nobody is waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_wait: bool,
    /// The last application or machine that was destroyed with it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after: String,
}

impl Model {
    pub fn model(&self) -> Key<ModelDoc> {
        self.key(Kind::Model, &[])
    }
    pub fn model_config(&self) -> Key<BTreeMap<String, Value>> {
        self.key(Kind::ModelConfig, &[])
    }
    pub fn model_life(&self) -> Key<Life> {
        self.key(Kind::ModelLife, &[])
    }
    /// There while the model is being destroyed.
    pub fn model_destruction(&self) -> Key<DestructionDoc> {
        self.key(Kind::ModelDestruction, &[])
    }
    /// Under [`GLOBAL`]: a model's name -> its uuid.
    pub fn model_name(&self, name: &str) -> Key<Uuid> {
        self.named(Kind::ModelName, name)
    }
    /// Next number of a sequence: `machine`, `relation`, `action`, `unit/<application name>`. Kept after removal:
    /// numbers are never reused.
    pub fn sequence(&self, name: &str) -> Key<u64> {
        self.named(Kind::Sequence, name)
    }
}
