//! `agent.yaml` of a machine: the identity of its agent, and the address, certificate and token for the controller.
//!
//! The file contains the token. It is written before the token is registered with the controller, so a registered
//! token is never lost. Written by the providers, read by `pintle-agent`.

use api::{ClientFile, MachineInfo};
use host::file::write_atomic;
use serde::{Deserialize, Serialize};
use state::terms::names::Uuid;
use std::io;
use std::path::Path;

/// The content of `agent.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentConfigFile {
    /// `machine`.
    pub kind: String,
    /// The machine.
    pub uuid: Uuid,
    /// The displayed name of the machine, for example `0`.
    pub name: String,
    /// The model of the machine.
    pub model: Uuid,
    /// Addresses of the controller, as HOST:PORT.
    pub controllers: Vec<String>,
    /// The name in the certificate of the controller.
    pub server_name: String,
    /// The certificate authority of the controller, in PEM format.
    pub ca: String,
    /// The token of the machine agent.
    pub token: String,
}

impl AgentConfigFile {
    /// The name of the file in the folder of the machine.
    pub const NAME: &str = "agent.yaml";

    /// Reads the file of a machine; `None` if it does not exist or cannot be parsed.
    pub fn read(folder: &Path) -> Option<AgentConfigFile> {
        serde_yaml::from_str(&std::fs::read_to_string(folder.join(AgentConfigFile::NAME)).ok()?).ok()
    }
}

/// Writes the file unless it is up to date, and returns its token. An existing token of the same machine is kept;
/// otherwise a new one is generated.
pub fn write(folder: &Path, machine: &MachineInfo, model: Uuid, client: &ClientFile) -> io::Result<String> {
    let path = folder.join(AgentConfigFile::NAME);
    let before = AgentConfigFile::read(folder);
    let existing_token =
        before.as_ref().filter(|file| file.uuid == machine.uuid).map(|file| file.token.clone());
    let file = AgentConfigFile {
        kind: "machine".to_owned(),
        uuid: machine.uuid,
        name: machine.name.clone(),
        model,
        controllers: vec![client.controller.clone()],
        server_name: client.server_name.clone(),
        ca: client.ca.clone(),
        token: existing_token.unwrap_or_else(host::random::token),
    };
    if before.as_ref() != Some(&file) {
        write_atomic(&path, serde_yaml::to_string(&file).expect("plain data").as_bytes())?;
    }
    Ok(file.token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::terms::life::Life;

    #[test]
    fn the_token_is_kept_when_the_address_of_the_controller_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = MachineInfo {
            uuid: Uuid(7),
            name: "0".to_owned(),
            address: String::new(),
            life: Life::Alive,
            manual: false,
            keep_instance: false,
            agent_gone: false,
            has_units: false,
            has_attached_unit: false,
            nonce: None,
            instance_id: None,
            retry_ms: None,
        };
        let client = |controller: &str| ClientFile {
            controller: controller.to_owned(),
            server_name: "x".to_owned(),
            ca: "-----BEGIN\nPEM\n".to_owned(),
            user: "admin".to_owned(),
            token: "user's".to_owned(),
            model: "dev".to_owned(),
        };
        let first = write(folder.path(), &machine, Uuid(1), &client("127.0.0.1:1")).expect("written");
        let second = write(folder.path(), &machine, Uuid(1), &client("127.0.0.1:2")).expect("written");
        assert_eq!(first, second);
        let text = std::fs::read_to_string(folder.path().join("agent.yaml")).expect("there");
        let file: AgentConfigFile = serde_yaml::from_str(&text).expect("our own YAML");
        assert_eq!((file.controllers[0].as_str(), file.ca.as_str()), ("127.0.0.1:2", "-----BEGIN\nPEM\n"));
        assert_eq!((file.kind.as_str(), file.uuid, file.token), ("machine", Uuid(7), second));
    }
}
