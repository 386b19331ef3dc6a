//! The client file: the address of the controller and the credentials of the command-line client.

use serde::{Deserialize, Serialize};

/// In a data folder of `pintle up`: the folder of the controller.
pub const CONTROLLER_DIR: &str = "controller";
/// The name of the controller of every data folder: each is the only one that its commands reach.
pub const CONTROLLER_NAME: &str = "here";
/// The cloud of every model.
pub const CLOUD_NAME: &str = "local";
/// The region of every model.
pub const REGION_NAME: &str = "local";
/// The first user of a controller (design 16), to whom all models belong.
pub const FIRST_USER: &str = "admin";

/// The content of `DIR/client.yaml`, a YAML file of mode 0600 with which the commands of a user find and authenticate
/// their controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientFile {
    /// Host and port: `127.0.0.1:17070`.
    pub controller: String,
    /// Further addresses at which the controller, or another one of the same store, may be reached, as `controller`. A
    /// person adds them; they are kept when the file is written again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_controllers: Vec<String>,
    /// The name in the controller's certificate, which is its uuid.
    pub server_name: String,
    /// The only trusted CA, as PEM.
    pub ca: String,
    /// The name of the user.
    pub user: String,
    /// The token of the user.
    pub token: String,
    /// The name of the current model, which commands without `-m` use; empty if there is none, because it was
    /// destroyed.
    pub model: String,
}

impl ClientFile {
    /// Its name in a data folder.
    pub const FILE: &str = "client.yaml";
}
