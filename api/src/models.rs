//! Models and their settings.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::life::Life;
use state::names::Uuid;
use state::status::SettingSource;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    pub uuid: Uuid,
    pub name: String,
    pub life: Life,
    pub controller: Uuid,
    pub created_ms: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateModel {
    pub name: String,
    #[serde(default)]
    pub config: BTreeMap<String, String>,
}

/// One model setting and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelSetting {
    pub value: Value,
    pub source: SettingSource,
}
