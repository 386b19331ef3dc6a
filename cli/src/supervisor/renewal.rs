//! Removes from a copy of a data folder everything with which it would reach its original, before the copy may start.
//!
//! * Pid files name processes of the original, and links of the tool sockets lead to its folders.
//! * The controller's identity, certificates and port, and the tokens of the operator, the machines and the units,
//!   would authenticate agents of the copy as those of the original.
//!
//! The models, units and their state are kept. Every step can be repeated after an interruption. Called by `identity`, and by
//! `up --restored`, which starts a new store generation.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::supervisor::agent_file::FILE_BYTES_MAX;
use crate::supervisor::settings::UpSettings;
use api::etcd_file::ETCD_FILE;
use api::machine_folder::{AGENTS_DIR, QUARANTINE_DIR, RUNS_DIR, SOCKET_DIR, TOKEN_ACCEPTED};
use api::{AgentConfig, CONTROLLER_DIR};
use host::file::{ignore_not_found, read_regular, write_atomic};
use host::process::Process;
use serde_json::{Value, json};
use state::terms::provider_kind::ProviderKind;
use std::io;
use std::path::{Path, PathBuf};

/// The address in a configuration until the new controller listens: no program can listen on port 0.
const NO_ADDRESS: &str = "127.0.0.1:0";
/// The files of the controller's identity. It creates those that do not exist.
const CONTROLLER_FILES: [&str; 5] = ["identity.yaml", "ca.pem", "ca-key.pem", "server.pem", "server-key.pem"];

/// Refuses a copy whose machines are containers: their addresses, their network and the tokens inside them are those
/// of the original, and this host must not write below the root of a container. Refuses one whose models are in etcd, because
/// they belong to the identity of the original.
///
/// # Errors
/// If a machine of the folder is a container, or the models are in etcd.
pub fn require_renewable(dir: &DataDir) -> Result<(), CommandError> {
    let has_machines = entries(&dir.machines()).next().is_some();
    if UpSettings::read(dir)?.provider == ProviderKind::Nspawn && has_machines {
        let text =
            format!("cannot give {} a new identity: its machines are containers", dir.path().display());
        return Err(CommandError::new(text).hint("start with another data folder: --data DIR"));
    }
    let etcd = dir.path().join(ETCD_FILE);
    if etcd.exists() {
        let text = format!("cannot give {} a new identity: its models are in etcd", dir.path().display());
        return Err(CommandError::new(text).hint("start with another data folder: --data DIR"));
    }
    Ok(())
}

/// The running processes that the pid files of a folder name, or that have locked a file at its path.
pub fn processes(dir: &DataDir) -> Vec<Process> {
    let held = host::lock::held_below(dir.path()).into_iter().map(|lock| lock.holder);
    pid_files(dir).iter().filter_map(|file| Process::read_alive(file)).chain(held).collect()
}

/// Deletes the pid files and the socket links, which lead to processes of the original. A hook that ran when the folder
/// was copied counts as interrupted.
///
/// # Errors
/// If a file cannot be deleted.
pub fn forget_processes(dir: &DataDir) -> io::Result<()> {
    for file in pid_files(dir) {
        ignore_not_found(std::fs::remove_file(file))?;
    }
    for link in units(dir).into_iter().map(|unit| unit.join(SOCKET_DIR)) {
        if link.is_symlink() {
            std::fs::remove_file(link)?;
        }
    }
    Ok(())
}

/// Replaces the identity of the controller and all tokens on disk. The controller reads the new tokens when it and its
/// agents start, and forgets the old ones then.
///
/// Returns the configurations of agents that are damaged and were left as they are: no agent starts with them.
///
/// # Errors
/// If a file cannot be read or written, or the client file is damaged.
pub fn renew_secrets(dir: &DataDir) -> io::Result<Vec<PathBuf>> {
    let client_file = dir.client_file();
    if !renew_file(&client_file, "controller", NO_ADDRESS.into())? {
        return Err(io::Error::other(format!("{} is damaged", client_file.display())));
    }
    for name in CONTROLLER_FILES {
        ignore_not_found(std::fs::remove_file(dir.path().join(CONTROLLER_DIR).join(name)))?;
    }
    let (units, mut damaged) = (units(dir), Vec::new());
    for unit in &units {
        // before the token, so that an interrupted renewal never leaves a new token marked as accepted
        ignore_not_found(std::fs::remove_file(unit.join(TOKEN_ACCEPTED)))?;
    }
    for folder in units.iter().chain(&machines(dir)) {
        let path = folder.join(AgentConfig::FILE);
        // The supervisor writes the address of the new controller.
        if !renew_file(&path, "controllers", json!([NO_ADDRESS]))? {
            damaged.push(path);
        }
    }
    Ok(damaged)
}

/// Makes the next start of the controller begin a new store generation: its agents report again what the copy of the
/// store lacks.
///
/// # Errors
/// If the mark cannot be written.
pub fn start_store_generation(dir: &DataDir) -> io::Result<()> {
    write_atomic(&dir.restored_mark(), b"")
}

/// Sets this field and a new token in a YAML file. Other fields are kept, including those of a newer version. Returns
/// false and leaves the file unchanged if it is not a map of fields. A file that does not exist is not an error.
fn renew_file(path: &Path, name: &str, value: Value) -> io::Result<bool> {
    let to_error = |error| io::Error::other(format!("cannot read {}: {error}", path.display()));
    let read = ignore_not_found(read_regular(path, FILE_BYTES_MAX));
    let Some((text, _)) = read.map_err(to_error)? else { return Ok(true) };
    let parsed = std::str::from_utf8(&text).ok().and_then(|text| charms::yaml::value(text).ok());
    let Some(Value::Object(mut document)) = parsed else { return Ok(false) };
    document.insert(name.into(), value);
    document.insert("token".into(), host::random::token().into());
    write_atomic(path, charms::yaml::to_string(&document).map_err(io::Error::other)?.as_bytes())?;
    Ok(true)
}

fn machines(dir: &DataDir) -> Vec<PathBuf> {
    [dir.machines(), dir.kept_instances()].iter().flat_map(|folder| entries(folder)).collect()
}

fn units(dir: &DataDir) -> Vec<PathBuf> {
    let folders = machines(dir).into_iter();
    let folders = folders.flat_map(|machine| [AGENTS_DIR, QUARANTINE_DIR].map(|name| machine.join(name)));
    folders.flat_map(|folder| entries(&folder).collect::<Vec<_>>()).collect()
}

fn pid_files(dir: &DataDir) -> Vec<PathBuf> {
    let units = units(dir);
    let runs = units.iter().flat_map(|unit| entries(&unit.join(RUNS_DIR)));
    let first = [dir.path().to_owned(), dir.second_controller().path().to_owned()];
    let folders = first.into_iter().chain(machines(dir)).chain(runs);
    let folders: Vec<PathBuf> = folders.chain(units.iter().cloned()).collect();
    let files = folders.iter().flat_map(|folder| entries(folder));
    files.filter(|file| file.extension().is_some_and(|extension| extension == "pid")).collect()
}

/// The paths in a folder; none if it does not exist.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewed_copy_has_no_process_no_token_and_no_address_of_its_original() {
        let outer = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(&outer.path().join("d"))).expect("a path");
        dir.create().expect("made");
        let unit = dir.machines().join("m/agents/unit-web-0");
        let write = |path: PathBuf, text: &str| {
            std::fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        let client =
            "controller: 127.0.0.1:17070\nserver_name: x\nca: pem\nuser: admin\ntoken: secret\nmodel: shop\n";
        write(dir.client_file(), client);
        let config = "kind: unit\nuuid: 00000000-0000-4000-8000-000000000001\nname: web/0\n\
                      model: 00000000-0000-4000-8000-000000000002\ncontrollers: ['127.0.0.1:17070']\nserver_name: x\n\
                      ca: pem\ntoken: secret\nmachine: '0'\nof_a_newer_version: {kept: 1}\n";
        write(unit.join("agent.yaml"), config);
        write(dir.machines().join("m/agent.yaml"), config);
        let (older, damaged) = (unit.with_file_name("unit-web-1"), unit.with_file_name("unit-web-2"));
        write(older.join("agent.yaml"), "name: web/1\ntoken: secret\n");
        write(damaged.join("agent.yaml"), "name: [web/2\n");
        write(unit.join(TOKEN_ACCEPTED), "");
        for name in CONTROLLER_FILES {
            write(dir.path().join(CONTROLLER_DIR).join(name), "");
        }
        let this_process = Process::current().to_string();
        for file in [dir.controller_pid(), unit.join("agent.pid"), unit.join("hooks/000001/shim.pid")] {
            write(file, &this_process);
        }
        write(unit.join("charm/charm.pid"), "of the charm");
        std::os::unix::fs::symlink("/run/pintle-0/of-the-original", unit.join(SOCKET_DIR)).expect("linked");
        assert_eq!(processes(&dir).len(), 3);

        forget_processes(&dir).expect("forgotten");
        assert_eq!(renew_secrets(&dir).expect("renewed"), [damaged.join("agent.yaml")]);
        assert_eq!(processes(&dir), []);
        assert!(!unit.join(SOCKET_DIR).is_symlink() && !unit.join(TOKEN_ACCEPTED).exists());
        assert!(unit.join("charm/charm.pid").exists());
        let config = std::fs::read_to_string(unit.join("agent.yaml")).expect("kept");
        assert!(config.contains("of_a_newer_version:\n  kept: 1"), "{config}");
        let config: AgentConfig = charms::yaml::from_str(&config).expect("still valid");
        assert_eq!((config.name.as_str(), config.machine.as_str()), ("web/0", "0"));
        let agents = [&unit, &older, &dir.machines().join("m")].map(|folder| folder.join("agent.yaml"));
        for file in agents.into_iter().chain([dir.client_file()]) {
            let text = std::fs::read_to_string(&file).expect("it is kept");
            assert!(!text.contains("secret") && !text.contains("17070"), "{text}");
        }
        assert!(std::fs::read_to_string(dir.client_file()).expect("kept").contains("model: shop"));
        assert_eq!(entries(&dir.path().join(CONTROLLER_DIR)).count(), 0);
    }
}
