//! Requests about models and their settings.

use crate::applications::ConfigChange;
use crate::changes::WriteResponse;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::terms::force::Force;
use state::terms::life::Life;
use state::terms::names::Uuid;
use state::terms::status::ModelState;
use state::transitions::dry_run::DryRun;
use std::collections::BTreeMap;

pub use state::status::model_config::{ModelDefault, ModelSetting};

requests! { ModelRequests {
    ListModels = get "/v1/models", Reader => Vec<ModelInfo>;
    CreateModel = post "/v1/models", Admin => ModelInfo;
    DestroyModel = post "/v1/models/{model}/destroy", Admin => WriteResponse;
    DryRunDestroyModel = post "/v1/models/{model}/dry-run-destroy", Reader => DryRun;
    GetModelConfig = get "/v1/models/{model}/model-config", Reader => BTreeMap<String, ModelSetting>;
    ConfigureModel = post "/v1/models/{model}/model-config", Writer => WriteResponse;
    GetModelDefaults = get "/v1/model-defaults", Reader => BTreeMap<String, ModelDefault>;
    ConfigureModelDefaults = post "/v1/model-defaults", Admin => WriteResponse;
} }

/// Returns all models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListModels;

/// Destroys a model: it becomes Dying with everything in it, and is removed when it is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DestroyModel {
    /// Whether it is destroyed by force.
    #[serde(default)]
    pub force: Force,
}

/// Simulates the destruction of a model; nothing is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DryRunDestroyModel {
    /// Whether it would be destroyed by force.
    #[serde(default)]
    pub force: Force,
}

/// Returns the settings of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetModelConfig;

/// Changes the settings of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigureModel {
    /// The change.
    pub change: ConfigChange,
}

/// Returns the settings with which new models begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetModelDefaults;

/// Changes the settings with which new models begin. Existing models keep theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigureModelDefaults {
    /// The change.
    pub change: ConfigChange,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelInfo {
    /// The uuid of the model.
    pub uuid: Uuid,
    /// The name of the model.
    pub name: String,
    /// The life.
    pub life: Life,
    /// Whether it is being destroyed.
    pub state: ModelState,
    /// The uuid of the controller.
    pub controller: Uuid,
    /// When the model was created.
    pub created_ms: i64,
    /// Whether the model has machines.
    pub has_machines: bool,
    /// Whether charms are developed in the model: the setting `development`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub development: bool,
}

/// Creates a model. `AlreadyExists` if the name is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateModel {
    /// The name of the model.
    pub name: String,
    /// The initial settings.
    #[serde(default)]
    pub config: BTreeMap<String, String>,
}
