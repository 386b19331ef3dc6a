//! Requests of users about secrets. Those of unit agents are in `unit_agent`.

use crate::changes::WriteResponse;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::terms::secret::{SecretContent, SecretId};
use std::collections::BTreeMap;

pub use state::status::secret::{SecretAccess, SecretInfo, SecretScope};

requests! { SecretRequests {
    AddSecret = post "/v1/models/{model}/add-secret", Writer => AddSecretResponse;
    UpdateSecret = post "/v1/models/{model}/update-secret", Writer => WriteResponse;
    GrantSecret = post "/v1/models/{model}/grant-secret", Writer => WriteResponse;
    RevokeSecret = post "/v1/models/{model}/revoke-secret", Writer => WriteResponse;
    RemoveSecret = post "/v1/models/{model}/remove-secret", Writer => WriteResponse;
    ListSecrets = get "/v1/models/{model}/secrets", Reader => BTreeMap<SecretId, SecretInfo>;
    GetSecret = post "/v1/models/{model}/secret", Reader => GetSecretResponse;
    RevealSecret = post "/v1/models/{model}/reveal-secret", Admin => SecretContent;
} }

/// Adds a secret of users. No application reads it before it is granted. `AlreadyExists` if the name is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddSecret {
    /// The name.
    pub name: String,
    /// What it is for; may be empty.
    #[serde(default)]
    pub description: String,
    /// The content.
    pub content: SecretContent,
}

/// The secret that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddSecretResponse {
    /// The id.
    pub secret: SecretId,
    /// The revision of the store that contains the change.
    pub revision: u64,
}

/// Changes a secret of users. A field that is `None` is not changed. Units that read an older revision continue to read it
/// until they request the newest one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateSecret {
    /// The name or the URI of the secret.
    pub secret: String,
    /// The new name.
    #[serde(default)]
    pub name: Option<String>,
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether a revision that nobody reads is removed once there is a newer one.
    #[serde(default)]
    pub auto_prune: Option<bool>,
    /// The content of a new revision.
    #[serde(default)]
    pub content: Option<SecretContent>,
}

/// Lets applications read a secret of users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantSecret {
    /// The name or the URI of the secret.
    pub secret: String,
    /// The names of the applications.
    pub applications: Vec<String>,
}

/// Ends the access of applications to a secret of users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeSecret {
    /// The name or the URI of the secret.
    pub secret: String,
    /// The names of the applications.
    pub applications: Vec<String>,
}

/// Removes a secret of users, or one revision of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveSecret {
    /// The name or the URI of the secret.
    pub secret: String,
    /// The only revision to remove.
    #[serde(default)]
    pub revision: Option<u64>,
}

/// Returns all secrets of the model, without their contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListSecrets;

/// Returns a secret of a user, an application or a unit, without its content. `NotFound` if it does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetSecret {
    /// The URI of the secret, or the name of a secret of users.
    pub secret: String,
}

/// A secret without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetSecretResponse {
    /// The id.
    pub id: SecretId,
    /// Everything but the content.
    pub secret: SecretInfo,
}

/// Returns the content of a secret of a user, an application or a unit. `NotFound` if it does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RevealSecret {
    /// The URI of the secret, or the name of a secret of users.
    pub secret: String,
    /// The revision; by default the newest.
    #[serde(default)]
    pub revision: Option<u64>,
}
