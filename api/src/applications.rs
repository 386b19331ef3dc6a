//! Applications: deploying, refreshing, configuring and removing them.

use crate::changes::Changed;
use crate::removal::Force;
use crate::request::requests;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::charm::OptionType;
use state::terms::names::UnitName;
use std::collections::BTreeMap;

requests! { ApplicationRequests {
    Deploy = post "/v1/models/{model}/deploy", Writer => Deployed;
    Refresh = post "/v1/models/{model}/refresh", Writer => RefreshResponse;
    GetConfig = post "/v1/models/{model}/config", Reader => ApplicationConfig;
    Configure = post "/v1/models/{model}/configure", Writer => Changed;
    RemoveApplication = post "/v1/models/{model}/remove-application", Writer => Changed;
} }

/// An application's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetConfig {
    pub application: String,
}

/// Changes an application's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configure {
    pub application: String,
    pub change: ConfigChange,
}

/// Destroys an application with all its units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveApplication {
    pub application: String,
    #[serde(default)]
    pub force: Force,
}

/// A change of settings, all or nothing. Values are as typed; the controller parses them by type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigChange {
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    #[serde(default)]
    pub reset: Vec<String>,
}

/// Deploys an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deploy {
    /// None = the charm's name.
    pub application: Option<String>,
    /// Of an uploaded archive; `NotFound` when it is not there (any more).
    pub sha256: String,
    /// Ignored for a subordinate charm, which has no units of its own.
    pub units: u32,
    /// Name of the machine for the first unit; none = each unit on a new one.
    pub to: Option<String>,
    #[serde(default)]
    pub config: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployed {
    pub application: String,
    /// `local:web-0`.
    pub charm_url: String,
    pub charm_revision: u32,
    pub units: Vec<UnitName>,
    pub revision: u64,
}

/// One option of an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    #[serde(rename = "type")]
    pub kind: OptionType,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// In force now: what the user set, else the default; none = unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The value in force was set by a user.
    pub user: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApplicationConfig {
    pub application: String,
    /// Name of its charm.
    pub charm: String,
    pub settings: BTreeMap<String, Setting>,
}

/// Changes an application's charm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refresh {
    pub application: String,
    pub sha256: String,
    /// `--force-units`: replace the charm even while a hook is in error.
    pub forced: bool,
    #[serde(default)]
    pub config: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshResponse {
    pub charm_url: String,
    pub revision: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
