//! The configuration file of an agent, `agent.yaml`: the agent's identity, its controllers and its token.
//!
//! The file is written with mode 0600 by the program that creates the agent's folder: a provider of machines, the
//! enrolment of a manually provisioned machine, or the machine agent for its unit agents. It is read by `pintle-agent`.

use crate::client::{Client, ControllerConnection};
use crate::error::{ApiError, ErrorCode};
use serde::{Deserialize, Serialize};
use state::terms::names::Uuid;

/// Which agent a configuration is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentKind {
    /// The agent of a unit.
    Unit,
    /// The agent of a machine.
    Machine,
}

/// The content of `agent.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentConfig {
    /// Which agent this is.
    pub kind: AgentKind,
    /// The id of the unit or machine.
    pub uuid: Uuid,
    /// The name of the unit, such as `web/0`, or of the machine, such as `0`.
    pub name: String,
    /// The id of its model.
    pub model: Uuid,
    /// The addresses of the controllers, as `host:port`.
    pub controllers: Vec<String>,
    /// The name in the controller's certificate.
    pub server_name: String,
    /// The only CA that the agent trusts, as PEM.
    pub ca: String,
    /// The token with which the agent authenticates; a secret.
    pub token: String,
    /// The name of a unit's machine; empty for a machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
}

impl AgentConfig {
    /// The name of the file in the folder of an agent.
    pub const FILE: &str = "agent.yaml";

    /// The client for the requests of this agent to its controller.
    ///
    /// # Errors
    /// If the configuration names no controller, or the CA is not valid.
    pub fn client(&self) -> Result<Client, ApiError> {
        let Some((address, others)) = self.controllers.split_first() else {
            return Err(ApiError::new(ErrorCode::Invalid, "agent.yaml has no controller address"));
        };
        let controller = ControllerConnection {
            address: address.clone(),
            other_addresses: others.to_vec(),
            server_name: self.server_name.clone(),
            ca: self.ca.clone(),
            token: self.token.clone(),
            local_address: None,
        };
        Client::agent(&controller, self.model, self.uuid)
    }
}
