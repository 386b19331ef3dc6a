//! `agent.yaml` of a machine: the identity of its agent, and the address, certificate and token for the controller.
//!
//! The file contains the token. It is written before the token is registered with the controller, so a registered
//! token is never lost. Written by the providers, read by `pintle-agent`.

use api::{AgentConfig, AgentKind, ClientFile, DesiredMachine};
use host::file::{read_regular_text, write_atomic};
use state::terms::names::Uuid;
use std::io;
use std::path::Path;

/// The largest such file, as the agents read it.
pub(super) const FILE_BYTES_MAX: u64 = 64 << 10;

/// Reads the file of a machine; `None` if it does not exist or cannot be parsed.
fn read(folder: &Path) -> Option<AgentConfig> {
    charms::yaml::from_str(&read_regular_text(&folder.join(AgentConfig::FILE), FILE_BYTES_MAX).ok()?).ok()
}

/// Whether the file is that of this machine: it was not deleted, damaged or replaced.
pub fn is_of(folder: &Path, machine: Uuid) -> bool {
    read(folder).is_some_and(|config| config.uuid == machine)
}

/// Writes the file unless it is up to date, and returns its token. An existing token of the same machine is kept;
/// otherwise a new one is generated.
///
/// # Errors
/// If the file cannot be written.
pub fn write(
    folder: &Path,
    machine: &DesiredMachine,
    model: Uuid,
    client: &ClientFile,
) -> io::Result<String> {
    let before = read(folder);
    let existing_token =
        before.as_ref().filter(|config| config.uuid == machine.uuid).map(|config| config.token.clone());
    let config = AgentConfig {
        kind: AgentKind::Machine,
        uuid: machine.uuid,
        name: machine.name.clone(),
        model,
        controllers: [&client.controller].into_iter().chain(&client.other_controllers).cloned().collect(),
        server_name: client.server_name.clone(),
        ca: client.ca.clone(),
        token: existing_token.unwrap_or_else(host::random::token),
        machine: String::new(),
    };
    if before.as_ref() != Some(&config) {
        let text = charms::yaml::to_string(&config).map_err(io::Error::other)?;
        write_atomic(&folder.join(AgentConfig::FILE), text.as_bytes())?;
    }
    Ok(config.token)
}

/// The `client.yaml` of a test, with this address of the controller.
#[cfg(test)]
pub(super) fn client_file(controller: &str) -> ClientFile {
    ClientFile {
        controller: controller.to_owned(),
        other_controllers: Vec::new(),
        server_name: "x".to_owned(),
        ca: "-----BEGIN\nPEM\n".to_owned(),
        user: "admin".to_owned(),
        token: "user's".to_owned(),
        model: "dev".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_token_is_kept_when_the_address_of_the_controller_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = DesiredMachine { uuid: Uuid(7), name: "0".to_owned(), ..DesiredMachine::default() };
        let client = |controller: &str| ClientFile {
            other_controllers: vec!["192.0.2.7:1".to_owned()],
            ..client_file(controller)
        };
        let first = write(folder.path(), &machine, Uuid(1), &client("127.0.0.1:1")).expect("written");
        let second = write(folder.path(), &machine, Uuid(1), &client("127.0.0.1:2")).expect("written");
        assert_eq!(first, second);
        let text = fs::read_to_string(folder.path().join("agent.yaml")).expect("there");
        assert!(text.contains("kind: machine") && !text.contains("machine:"), "{text}");
        let config: AgentConfig = charms::yaml::from_str(&text).expect("our own YAML");
        assert_eq!(
            (config.controllers[0].as_str(), config.ca.as_str()),
            ("127.0.0.1:2", "-----BEGIN\nPEM\n")
        );
        assert_eq!((config.uuid, config.token), (Uuid(7), second));
    }
}
