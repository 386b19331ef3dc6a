//! The provider port: lists, creates, starts, terminates and hands over the instances of machines on this host.
//!
//! A provider makes no decisions: `state::machine::provision` plans, and the provisioner executes the plan through
//! this port. The folder of a machine is `machines/<uuid>`; it has an instance from the moment it contains
//! `instance.yaml`.

pub mod local;
mod mounts;
pub mod nspawn;

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::supervisor::agent_file::AgentConfigFile;
use api::{ClientFile, MachineInfo, ModelInfo};
use clap::ValueEnum;
use host::file::{ignore_not_found, write_atomic};
use host::process::Process;
use serde::{Deserialize, Serialize};
use state::terms::names::Uuid;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The provider of machines that are not manually provisioned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// Machines are folders and processes on this host
    #[default]
    Local,
    /// Machines are systemd-nspawn containers (requires root)
    Nspawn,
}

impl ProviderKind {
    /// The name of the provider, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ProviderKind::Local => "local",
            ProviderKind::Nspawn => "nspawn",
        }
    }
}

/// Largest number of kept instances of one machine: one, and one more for each restore of the controller.
const HANDED_OVER_MAX: u32 = 100;

/// The content of `instance.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// The model of the machine.
    pub model: Uuid,
    /// The nonce under which the instance was created.
    pub nonce: Uuid,
    /// The address of the machine.
    pub address: String,
}

impl Instance {
    const FILE: &str = "instance.yaml";

    /// Reads the file of a machine's folder; `None` if it does not exist. A damaged file is an error, because the
    /// instance may exist.
    pub fn read(folder: &Path) -> io::Result<Option<Instance>> {
        let text = ignore_not_found(std::fs::read_to_string(folder.join(Instance::FILE)))?;
        let parse = |text: String| serde_yaml::from_str(&text);
        let damaged =
            |error: serde_yaml::Error| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        text.map(parse).transpose().map_err(damaged)
    }

    /// Writes the file atomically.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let text = serde_yaml::to_string(self).expect("plain data");
        write_atomic(&folder.join(Instance::FILE), text.as_bytes())
    }
}

/// The specification of an instance.
pub struct InstanceSpec<'a> {
    /// The machine for which the instance is created.
    pub machine: &'a MachineInfo,
    /// The model of the machine.
    pub model: &'a ModelInfo,
    /// The nonce under which the instance is created.
    pub nonce: Uuid,
    /// Address and certificate of the controller, for the machine agent.
    pub client: &'a ClientFile,
}

/// A created instance.
pub struct CreatedInstance {
    /// The provider's name of the instance.
    pub instance_id: String,
    /// The address of the machine.
    pub address: String,
    /// The token of the machine agent, which is already on disk.
    pub token: String,
}

/// For each machine, the nonce of its instance, or why it cannot be read.
pub type InstanceList = BTreeMap<Uuid, Result<Uuid, CommandError>>;

/// The operations of a provider.
pub trait Provider {
    /// The name that is recorded with each instance.
    fn name(&self) -> &'static str;
    /// Lists the instances of a model, by machine.
    ///
    /// # Errors
    /// If the instances cannot be listed: an empty list means that no instance exists. An instance that cannot be
    /// read, of any model, is an error in its entry of the list.
    fn list(&self, model: Uuid) -> Result<InstanceList, CommandError>;
    /// The address of a machine that runs under the supervision of this provider.
    fn running_address(&self, machine: Uuid) -> Option<String>;
    /// Creates the instance, or completes its creation. Idempotent.
    fn create(&mut self, spec: &InstanceSpec<'_>) -> Result<CreatedInstance, CommandError>;
    /// Starts a created instance. Returns `Some(pause)` if the instance has just exited and must be started again
    /// only after this pause.
    fn start(
        &mut self,
        spec: &InstanceSpec<'_>,
    ) -> impl Future<Output = Result<Option<Duration>, CommandError>>;
    /// Stops the instance and deletes it with all its data. Succeeds if there is none.
    fn terminate(&mut self, machine: Uuid) -> impl Future<Output = Result<(), CommandError>>;
    /// Hands the instance over to the operator: it is no longer listed or managed. Succeeds if there is none.
    fn hand_over(&mut self, machine: Uuid) -> impl Future<Output = Result<(), CommandError>>;
    /// Completes when a machine that must run may have stopped.
    fn wait_for_change(&self) -> impl Future<Output = ()>;
}

/// The configured provider of a data folder.
pub enum AnyProvider {
    /// Folders and processes.
    Local(local::Local),
    /// Containers.
    Nspawn(nspawn::Nspawn),
}

impl Provider for AnyProvider {
    fn name(&self) -> &'static str {
        match self {
            AnyProvider::Local(_) => ProviderKind::Local.name(),
            AnyProvider::Nspawn(_) => ProviderKind::Nspawn.name(),
        }
    }

    fn list(&self, model: Uuid) -> Result<InstanceList, CommandError> {
        match self {
            AnyProvider::Local(local) => local.list(model),
            AnyProvider::Nspawn(nspawn) => nspawn.list(model),
        }
        .map_err(|error| CommandError::new(format!("cannot list the machines: {error}")))
    }

    fn running_address(&self, machine: Uuid) -> Option<String> {
        match self {
            AnyProvider::Local(local) => local.running_address(machine),
            AnyProvider::Nspawn(nspawn) => nspawn.running_address(machine),
        }
    }

    fn create(&mut self, spec: &InstanceSpec<'_>) -> Result<CreatedInstance, CommandError> {
        match self {
            AnyProvider::Local(local) => local.create(spec),
            AnyProvider::Nspawn(nspawn) => nspawn.create(spec),
        }
    }

    async fn start(&mut self, spec: &InstanceSpec<'_>) -> Result<Option<Duration>, CommandError> {
        match self {
            AnyProvider::Local(local) => local.start(spec.machine.uuid).await.map(|()| None),
            AnyProvider::Nspawn(nspawn) => nspawn.start(spec).await,
        }
    }

    async fn terminate(&mut self, machine: Uuid) -> Result<(), CommandError> {
        match self {
            AnyProvider::Local(local) => local.terminate(machine).await,
            AnyProvider::Nspawn(nspawn) => nspawn.terminate(machine).await,
        }
    }

    async fn hand_over(&mut self, machine: Uuid) -> Result<(), CommandError> {
        match self {
            AnyProvider::Local(local) => local.hand_over(machine).await,
            AnyProvider::Nspawn(nspawn) => nspawn.hand_over(machine),
        }
    }

    async fn wait_for_change(&self) {
        match self {
            // `SupervisedProcess` restarts the agents of local machines.
            AnyProvider::Local(_) => std::future::pending().await,
            AnyProvider::Nspawn(nspawn) => nspawn.wait_for_change().await,
        }
    }
}

impl AnyProvider {
    /// Ends supervision. Returns the child processes that keep running, which the caller must stop.
    pub fn release(self) -> Vec<Process> {
        match self {
            AnyProvider::Local(local) => local.release(),
            AnyProvider::Nspawn(_) => Vec::new(),
        }
    }
}

/// Creates a folder that only its owner can access.
fn make_folder(folder: &Path) -> io::Result<()> {
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700).create(folder)
}

/// Moves the folder of a machine to the kept instances, which no provider lists; its processes keep running. The new
/// name is unused: after a restore of the controller the same machine can be created and kept again.
fn hand_over(dir: &DataDir, machine: Uuid) -> Result<(), CommandError> {
    let folder = dir.machines().join(machine.to_string());
    let moved = || {
        if !folder.try_exists()? {
            return Ok(());
        }
        make_folder(&dir.kept_instances())?;
        let names = (0..HANDED_OVER_MAX).map(|again| match again {
            0 => machine.to_string(),
            _ => format!("{machine}.{again}"),
        });
        let free = names.map(|name| dir.kept_instances().join(name)).find(|path| !path.exists());
        let path = free.ok_or_else(|| {
            io::Error::other(format!("{} has too many of its instances", dir.kept_instances().display()))
        })?;
        std::fs::rename(&folder, path)
    };
    moved()
        .map_err(|error: io::Error| CommandError::new(format!("cannot move {}: {error}", folder.display())))
}

/// Deletes the folder of a machine. `instance.yaml` is deleted last: after an interrupted deletion the next
/// provisioner still lists the instance and completes the deletion.
fn remove_folder(folder: &Path) -> io::Result<()> {
    let Some(entries) = ignore_not_found(std::fs::read_dir(folder))? else { return Ok(()) };
    let entries = entries.collect::<io::Result<Vec<_>>>()?;
    let names = entries.iter().map(std::fs::DirEntry::file_name).collect();
    remove_in_order(folder, names, |path| match std::fs::symlink_metadata(path)?.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => std::fs::remove_file(path),
    })?;
    std::fs::remove_dir(folder)
}

fn remove_in_order(
    folder: &Path,
    mut names: Vec<OsString>,
    mut remove: impl FnMut(&Path) -> io::Result<()>,
) -> io::Result<()> {
    names.sort_by_key(|name| removal_order(name));
    names.iter().try_for_each(|name| remove(&folder.join(name)))
}

/// The order in which files are deleted: the greatest last.
fn removal_order(name: &OsStr) -> u8 {
    match name.to_str() {
        Some(Instance::FILE) => 2,
        Some(AgentConfigFile::NAME) => 1,
        _ => 0,
    }
}

/// Reads the instance of a machine's folder for [`Provider::list`].
fn instance_for_list(folder: &Path) -> Result<Option<Instance>, CommandError> {
    let unread =
        |error| CommandError::new(format!("cannot read {}/{}: {error}", folder.display(), Instance::FILE));
    Instance::read(folder).map_err(unread)
}

/// The address of the instance in a folder; `None` if it does not exist or cannot be read.
fn address(folder: &Path) -> Option<String> {
    Instance::read(folder).ok().flatten().map(|instance| instance.address)
}

fn machine_folders(machines: &Path) -> io::Result<Vec<(Uuid, PathBuf)>> {
    let id = |folder: PathBuf| Some((folder.file_name()?.to_str()?.parse().ok()?, folder));
    Ok(folders(machines)?.into_iter().filter_map(id).collect())
}

/// The paths in a folder; empty if the folder does not exist.
fn folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = ignore_not_found(std::fs::read_dir(path))?.into_iter().flatten();
    entries.map(|entry| Ok(entry?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_whose_deletion_was_interrupted_is_still_listed() {
        // The result does not depend on the order of the directory.
        for names in [
            [Instance::FILE, AgentConfigFile::NAME, "a", "z"],
            ["z", "a", AgentConfigFile::NAME, Instance::FILE],
        ] {
            for cut in 0..names.len() {
                let mut removed = Vec::new();
                let cut_off = |path: &Path| {
                    if removed.len() == cut {
                        return Err(io::Error::other("cut off"));
                    }
                    removed.push(path.to_owned());
                    Ok(())
                };
                let listed = names.iter().map(OsString::from).collect();
                remove_in_order(Path::new("/m"), listed, cut_off).expect_err("it was cut off");
                let is_gone = |name: &str| removed.contains(&Path::new("/m").join(name));
                assert!(!is_gone(Instance::FILE), "cut off after {cut} of {names:?}: {removed:?}");
                assert!(
                    cut == 3 || !is_gone(AgentConfigFile::NAME),
                    "cut off after {cut} of {names:?}: {removed:?}"
                );
            }
        }

        let machines = tempfile::tempdir().expect("a folder");
        let folder = machines.path().join(Uuid(7).to_string());
        for below in ["a", "units/web-0", "z"] {
            std::fs::create_dir_all(folder.join(below)).expect("made");
        }
        let instance = Instance { model: Uuid(1), nonce: Uuid(2), address: String::new() };
        instance.write(&folder).expect("written");
        for file in [AgentConfigFile::NAME, "machine.log"] {
            std::fs::write(folder.join(file), "").expect("written");
        }
        remove_folder(&folder).expect("removed");
        assert_eq!(machine_folders(machines.path()).expect("listed"), []);
        remove_folder(&folder).expect("what is not there is removed");
    }

    #[test]
    fn a_handed_over_instance_is_moved_once_to_an_unused_name() {
        let outer = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(outer.path())).expect("a path");
        for name in ["00000000-0000-0000-0000-000000000007", "00000000-0000-0000-0000-000000000007.1"] {
            make_folder(&dir.machines().join(Uuid(7).to_string())).expect("made");
            assert_eq!(hand_over(&dir, Uuid(7)), Ok(()));
            assert_eq!(hand_over(&dir, Uuid(7)), Ok(()), "it was done before a crash");
            assert_eq!(machine_folders(&dir.machines()).expect("listed"), []);
            assert!(dir.kept_instances().join(name).is_dir());
        }
    }

    #[test]
    fn a_folder_that_cannot_be_listed_is_an_error_and_not_an_empty_list() {
        let outer = tempfile::tempdir().expect("a folder");
        assert_eq!(machine_folders(&outer.path().join("none")).expect("no machine yet"), []);
        let file = outer.path().join("file");
        std::fs::write(&file, "").expect("written");
        machine_folders(&file).expect_err("no folder");
        std::fs::create_dir(outer.path().join("instance.yaml")).expect("made");
        Instance::read(outer.path()).expect_err("it is there, and cannot be read");
        let cut_off = tempfile::tempdir().expect("a folder");
        std::fs::write(cut_off.path().join(Instance::FILE), "").expect("written");
        Instance::read(cut_off.path()).expect_err("it is there, and not understood");
    }
}
