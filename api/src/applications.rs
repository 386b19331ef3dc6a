//! Requests about applications: deploying, refreshing, configuring and removing them.

use crate::changes::WriteResponse;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::terms::force::Force;
use state::terms::position::Committed;
use state::terms::unit_documents::CharmDoc;
use std::collections::BTreeMap;

pub use state::lifecycle::application::{Deploy, Deployed, Refresh};
pub use state::status::application_config::{ApplicationConfig, Setting};
pub use state::status::charm_revision::KeptRevision;

requests! { ApplicationRequests {
    Deploy = post "/v1/models/{model}/deploy", Writer => Committed<Deployed>;
    Refresh = post "/v1/models/{model}/refresh", Writer => Committed<Refreshed>;
    GetConfig = post "/v1/models/{model}/config", Reader => ApplicationConfig;
    Configure = post "/v1/models/{model}/configure", Writer => WriteResponse;
    SetTrust = post "/v1/models/{model}/trust", Writer => WriteResponse;
    SetExposed = post "/v1/models/{model}/expose", Writer => WriteResponse;
    RemoveApplication = post "/v1/models/{model}/remove-application", Writer => WriteResponse;
} }

/// An application that was refreshed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Refreshed {
    /// Its charm.
    pub charm: CharmDoc,
    /// The units in error that keep another revision until their error has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptRevision>,
}

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

/// Sets whether an application is shown as exposed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetExposed {
    /// The application.
    pub application: String,
    /// Whether it is exposed from now on.
    pub exposed: bool,
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
