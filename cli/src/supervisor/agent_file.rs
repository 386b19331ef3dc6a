//! `agent.yaml` of a machine: who its agent is, and how it finds and trusts the controller. It holds the token and
//! is written before the controller is told of it, so a token that the controller knows is never lost.

use api::{ClientFile, MachineInfo};
use host::file::write_atomic;
use serde::{Deserialize, Serialize};
use state::terms::names::Uuid;
use std::io;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentConfigFile {
    pub kind: String,
    pub uuid: Uuid,
    /// What people see: `0`.
    pub name: String,
    pub model: Uuid,
    pub controllers: Vec<String>,
    /// The name in the controller's certificate.
    pub server_name: String,
    /// PEM.
    pub ca: String,
    pub token: String,
}

impl AgentConfigFile {
    pub const NAME: &str = "agent.yaml";

    pub fn read(folder: &Path) -> Option<AgentConfigFile> {
        serde_yaml::from_str(&std::fs::read_to_string(folder.join(AgentConfigFile::NAME)).ok()?).ok()
    }
}

/// Makes the file right: with the token that is there already, else a fresh one. Answers the token.
pub fn write(folder: &Path, machine: &MachineInfo, model: Uuid, client: &ClientFile) -> io::Result<String> {
    let path = folder.join(AgentConfigFile::NAME);
    let before = AgentConfigFile::read(folder);
    let kept = before.as_ref().filter(|file| file.uuid == machine.uuid).map(|file| file.token.clone());
    let file = AgentConfigFile {
        kind: "machine".to_owned(),
        uuid: machine.uuid,
        name: machine.name.clone(),
        model,
        controllers: vec![client.controller.clone()],
        server_name: client.server_name.clone(),
        ca: client.ca.clone(),
        token: kept.unwrap_or_else(host::random::token),
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
    fn the_token_stays_when_the_controller_moves() {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = MachineInfo {
            uuid: Uuid(7),
            name: "0".to_owned(),
            address: String::new(),
            life: Life::Alive,
            manual: false,
            kept: false,
            left: false,
            occupied: false,
            lived: false,
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
