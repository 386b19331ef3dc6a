//! The file through which the command-line client finds and trusts its controller.

use serde::{Deserialize, Serialize};

/// The 0600 file through which a person's command finds and trusts its controller: YAML in `DIR/client.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientFile {
    /// `127.0.0.1:17070`.
    pub controller: String,
    /// The name in the controller's certificate: its uuid.
    pub server_name: String,
    /// The only CA that is trusted, PEM.
    pub ca: String,
    pub user: String,
    pub token: String,
    /// Name of the model that commands without `-m` mean; empty = none: it was destroyed.
    pub model: String,
}
