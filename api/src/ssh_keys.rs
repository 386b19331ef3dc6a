//! Requests about the ssh keys of a model, with which people log in to its machines.

use crate::changes::WriteResponse;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

requests! { SshKeyRequests {
    ListSshKeys = get "/v1/models/{model}/ssh-keys", Reader => Vec<SshKeyInfo>;
    AddSshKeys = post "/v1/models/{model}/ssh-keys", Admin => WriteResponse;
    RemoveSshKeys = post "/v1/models/{model}/remove-ssh-keys", Admin => WriteResponse;
} }

/// Returns the ssh keys of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListSshKeys;

/// Adds ssh keys to a model, all or none: a holder of such a key may log in to its machines that have users of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddSshKeys {
    /// Public keys in the form of OpenSSH: `TYPE BASE64 [COMMENT]`.
    pub keys: Vec<String>,
}

/// Removes ssh keys of a model, all or none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveSshKeys {
    /// Fingerprints, comments, or whole keys.
    pub keys: Vec<String>,
}

/// An ssh key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SshKeyInfo {
    /// The key: `TYPE BASE64 [COMMENT]`.
    pub key: String,
    /// The MD5 fingerprint.
    pub fingerprint: String,
    /// The comment; empty if there is none.
    pub comment: String,
}
