//! The configuration file of an agent, `agent.yaml`: the agent's identity, its controllers and its token.
//!
//! The file is written by the program that deploys the agent, with mode 0600, and is refused if others may read
//! it. An agent reads it once at start; when the file changes, the agent restarts to read it again.

use anyhow::{Context, Result, bail};
use charms::yaml;
use serde::{Deserialize, Serialize};
use state::terms::names::Uuid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The name of the configuration file in the folder of an agent.
pub const FILE: &str = "agent.yaml";

/// Which agent the configuration is for.
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
    #[serde(default)]
    pub machine: String,
}

impl AgentConfig {
    /// Reads the configuration in this folder.
    ///
    /// # Errors
    /// If it cannot be read or parsed, or if others may read it.
    pub fn read(folder: &Path) -> Result<AgentConfig> {
        AgentConfig::read_file(&folder.join(FILE))
    }

    /// Reads the configuration in this file. See [`AgentConfig::read`].
    pub fn read_file(path: &Path) -> Result<AgentConfig> {
        let shown = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        let mode = fs::metadata(path).with_context(|| format!("cannot read {shown}"))?.permissions().mode();
        if mode & 0o077 != 0 {
            bail!(
                "cannot use {shown}: it contains a token, and other users may read it\nhint: chmod 600 {shown}"
            );
        }
        yaml::from_str(&text)
            .with_context(|| format!("cannot parse {shown} as the configuration of an agent"))
    }

    /// The content of the file.
    pub fn to_yaml(&self) -> String {
        yaml::to_string(self).expect("configurations are plain data")
    }

    /// The client for the requests of this agent to its controller.
    pub fn client(&self) -> Result<api::client::Client> {
        let address = self.controllers.first().context("agent.yaml has no controller address")?.clone();
        let controller = api::client::Controller {
            address,
            server_name: self.server_name.clone(),
            ca: self.ca.clone(),
            token: self.token.clone(),
        };
        Ok(api::client::Client::agent(&controller, self.model, self.uuid)?)
    }
}
