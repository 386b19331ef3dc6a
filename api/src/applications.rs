//! Requests about applications: deploying, refreshing, configuring and removing them.

use crate::changes::WriteResponse;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::charm::OptionType;
use state::terms::force::Force;
use state::terms::position::Committed;
use state::terms::unit_documents::CharmDoc;
use std::collections::BTreeMap;

pub use state::lifecycle::application::{Deploy, Deployed, Refresh};

requests! { ApplicationRequests {
    Deploy = post "/v1/models/{model}/deploy", Writer => Committed<Deployed>;
    Refresh = post "/v1/models/{model}/refresh", Writer => Committed<CharmDoc>;
    GetConfig = post "/v1/models/{model}/config", Reader => ApplicationConfig;
    Configure = post "/v1/models/{model}/configure", Writer => WriteResponse;
    SetTrust = post "/v1/models/{model}/trust", Writer => WriteResponse;
    RemoveApplication = post "/v1/models/{model}/remove-application", Writer => WriteResponse;
} }

/// Returns the settings of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetConfig {
    /// The application.
    pub application: String,
}

/// Changes the settings of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Configure {
    /// The application.
    pub application: String,
    /// The change.
    pub change: ConfigChange,
}

/// Grants or revokes the trust of an application: whether its charm may read the credential of its cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetTrust {
    /// The application.
    pub application: String,
    /// Whether it is trusted from now on.
    pub trusted: bool,
}

/// Destroys an application with all its units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveApplication {
    /// The application.
    pub application: String,
    /// Whether it is removed by force.
    #[serde(default)]
    pub force: Force,
    /// Whether the storage of its units is removed with them.
    #[serde(default)]
    pub destroy_storage: bool,
}

/// A change of settings, applied as a whole or not at all. Values are texts; the controller parses them by the
/// type of the option.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigChange {
    /// The new values, by option.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// The options that return to their default.
    #[serde(default)]
    pub reset: Vec<String>,
}

/// One option of an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// The type of the option.
    #[serde(rename = "type")]
    pub kind: OptionType,
    /// The description of the option.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The value in effect: that of the user, otherwise the default; none if the option is unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The default of the charm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Whether a user set the value in effect.
    pub user: bool,
}

/// The settings of an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApplicationConfig {
    /// The application.
    pub application: String,
    /// The name of its charm.
    pub charm: String,
    /// Whether the application is trusted with the credential of its cloud.
    pub trusted: bool,
    /// All options of the charm, by name.
    pub settings: BTreeMap<String, Setting>,
}
