//! `agent.yaml`: who this agent is, where its controllers are, and how it proves itself. Written by whoever deploys
//! the agent, 0600; read once at start, and again (by a restart) when it changes.

use anyhow::{Context, Result, bail};
use charms::yaml;
use serde::{Deserialize, Serialize};
use state::terms::names::Uuid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub const FILE: &str = "agent.yaml";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Unit,
    Machine,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    pub kind: Kind,
    pub uuid: Uuid,
    /// `web/0`, or the machine's `0`.
    pub name: String,
    pub model: Uuid,
    /// `host:port`; the first one that answers is used.
    pub controllers: Vec<String>,
    /// The name in the controller's certificate.
    pub server_name: String,
    /// The only CA that is trusted, PEM.
    pub ca: String,
    pub token: String,
    /// A unit's machine.
    #[serde(default)]
    pub machine: String,
}

impl Config {
    pub fn read(folder: &Path) -> Result<Config> {
        Config::from(&folder.join(FILE))
    }

    pub fn from(path: &Path) -> Result<Config> {
        let shown = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        let mode = fs::metadata(path).with_context(|| format!("cannot read {shown}"))?.permissions().mode();
        if mode & 0o077 != 0 {
            bail!("{shown} holds a token and may be read by others: chmod 600 {shown}");
        }
        yaml::from_str(&text).with_context(|| format!("{shown} is not an agent's configuration"))
    }

    pub fn text(&self) -> String {
        yaml::to_string(self).expect("configurations are plain data")
    }

    /// The client this agent calls its controller with.
    pub fn client(&self) -> Result<api::client::Client> {
        let address = self.controllers.first().context("agent.yaml names no controller")?.clone();
        let controller = api::client::Controller {
            address,
            server_name: self.server_name.clone(),
            ca: self.ca.clone(),
            token: self.token.clone(),
        };
        Ok(api::client::Client::agent(&controller, self.model, self.uuid)?)
    }
}
