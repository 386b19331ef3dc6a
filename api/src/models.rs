//! Models and their settings.

use crate::applications::ConfigChange;
use crate::changes::Changed;
use crate::removal::Force;
use crate::request::requests;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::terms::life::Life;
use state::terms::names::Uuid;
use state::terms::status::SettingSource;
use std::collections::BTreeMap;

requests! { ModelRequests {
    ListModels = get "/v1/models", Reader => Vec<ModelInfo>;
    CreateModel = post "/v1/models", Admin => ModelInfo;
    DestroyModel = post "/v1/models/{model}/destroy", Admin => Changed;
    GetModelConfig = get "/v1/models/{model}/model-config", Reader => BTreeMap<String, ModelSetting>;
    ConfigureModel = post "/v1/models/{model}/model-config", Writer => Changed;
} }

/// All models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListModels;

/// Destroys a model: it is Dying with all that is in it, and goes when nothing is left in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestroyModel {
    #[serde(default)]
    pub force: Force,
}

/// A model's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetModelConfig;

/// Changes a model's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigureModel {
    pub change: ConfigChange,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    pub uuid: Uuid,
    pub name: String,
    pub life: Life,
    pub controller: Uuid,
    pub created_ms: i64,
}

/// Creates a model. `AlreadyExists` when the name is taken.
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
