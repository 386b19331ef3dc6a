//! The provider port: what there is as machines on this host, and how one is made, kept and taken away. What is to be
//! done is decided by `state::machine::provision`.
//!
//! A machine's folder is `machines/<uuid>`. From the moment that it holds `instance.yaml` there is an instance.

pub mod local;
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

/// Which provider makes the machines that no person brings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// Folders and processes on this host
    #[default]
    Local,
    /// Containers with a system of their own (needs root)
    Nspawn,
}

impl ProviderKind {
    pub fn name(self) -> &'static str {
        match self {
            ProviderKind::Local => "local",
            ProviderKind::Nspawn => "nspawn",
        }
    }
}

/// Instances of one machine that are kept: one, and one more for each restore of the controller.
const HANDED_OVER_MAX: u32 = 100;

/// `instance.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    pub model: Uuid,
    /// The nonce it was made under.
    pub nonce: Uuid,
    pub address: String,
}

impl Instance {
    const FILE: &str = "instance.yaml";

    /// None: it is not there. What this program did not write is an error: an instance may be there.
    pub fn read(folder: &Path) -> io::Result<Option<Instance>> {
        let text = ignore_not_found(std::fs::read_to_string(folder.join(Instance::FILE)))?;
        let parse = |text: String| serde_yaml::from_str(&text);
        let damaged =
            |error: serde_yaml::Error| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        text.map(parse).transpose().map_err(damaged)
    }

    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let text = serde_yaml::to_string(self).expect("plain data");
        write_atomic(&folder.join(Instance::FILE), text.as_bytes())
    }
}

/// What a machine is made for and from.
pub struct InstanceSpec<'a> {
    pub machine: &'a MachineInfo,
    pub model: &'a ModelInfo,
    pub nonce: Uuid,
    /// How its agent finds and trusts the controller.
    pub client: &'a ClientFile,
}

/// What became of it.
pub struct CreatedInstance {
    pub instance_id: String,
    pub address: String,
    /// Of its agent; on disk already.
    pub token: String,
}

/// By machine, the nonce of its instance, or why that is not known.
pub type InstanceList = BTreeMap<Uuid, Result<Uuid, CommandError>>;

/// What the provisioner's loop asks of a provider.
pub trait Provider {
    /// As it is recorded.
    fn name(&self) -> &'static str;
    /// The instances of a model, each by its machine with the nonce it was made under. What cannot be listed is an
    /// error: that nothing is listed means that nothing is there. So is one of them, of whichever model, that cannot
    /// be read.
    fn list(&self, model: Uuid) -> Result<InstanceList, CommandError>;
    /// The address of a machine that runs, as far as this provider has seen to it.
    fn running_address(&self, machine: Uuid) -> Option<String>;
    /// Makes the instance, or what is not done of it.
    fn create(&mut self, spec: &InstanceSpec<'_>) -> Result<CreatedInstance, CommandError>;
    /// Starts what was made. None: it has just ended, and is started again after this pause.
    fn start(&mut self, spec: &InstanceSpec<'_>) -> impl Future<Output = Result<Option<Duration>, CommandError>>;
    /// Ends it, and takes it away with all that is in it. What is not there is no failure.
    fn terminate(&mut self, machine: Uuid) -> impl Future<Output = Result<(), CommandError>>;
    /// Leaves it to its user: it is not found any more, and nothing is done with it. What is not there is no failure.
    fn hand_over(&mut self, machine: Uuid) -> impl Future<Output = Result<(), CommandError>>;
    /// Over when a machine may have ended that is to run.
    fn wait_for_change(&self) -> impl Future<Output = ()>;
}

/// The provider of a data folder.
pub enum AnyProvider {
    Local(local::Local),
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
            // its agents are started again by what started them
            AnyProvider::Local(_) => std::future::pending().await,
            AnyProvider::Nspawn(nspawn) => nspawn.wait_for_change().await,
        }
    }
}

impl AnyProvider {
    /// Starts nothing any more. Answers the children that go on, which the caller stops.
    pub fn release(self) -> Vec<Process> {
        match self {
            AnyProvider::Local(local) => local.release(),
            AnyProvider::Nspawn(_) => Vec::new(),
        }
    }
}

/// Makes a folder that only its user enters.
fn make_folder(folder: &Path) -> io::Result<()> {
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700).create(folder)
}

/// Moves a machine's folder to where no provider looks, with whatever runs in it. Its name there is free: a machine that
/// a restored controller knows again is made anew, and may be kept again.
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
        let free = names.map(|name| dir.kept_instances().join(name)).find(|place| !place.exists());
        let place =
            free.ok_or_else(|| io::Error::other(format!("{} is full of it", dir.kept_instances().display())))?;
        std::fs::rename(&folder, place)
    };
    moved().map_err(|error: io::Error| CommandError::new(format!("cannot move {}: {error}", folder.display())))
}

/// Takes a machine's folder away. What says that an instance is there goes last: one whose removal was cut off is found
/// by the next provisioner, and taken away to its end.
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

/// The greater, the later.
fn removal_order(name: &OsStr) -> u8 {
    match name.to_str() {
        Some(Instance::FILE) => 2,
        Some(AgentConfigFile::NAME) => 1,
        _ => 0,
    }
}

/// The instance in a machine's folder, for a listing.
fn instance_for_list(folder: &Path) -> Result<Option<Instance>, CommandError> {
    let unread =
        |error| CommandError::new(format!("cannot read {}/{}: {error}", folder.display(), Instance::FILE));
    Instance::read(folder).map_err(unread)
}

/// Where an instance that is there, and can be read, is found.
fn address(folder: &Path) -> Option<String> {
    Instance::read(folder).ok().flatten().map(|instance| instance.address)
}

fn machine_folders(machines: &Path) -> io::Result<Vec<(Uuid, PathBuf)>> {
    let id = |folder: PathBuf| Some((folder.file_name()?.to_str()?.parse().ok()?, folder));
    Ok(folders(machines)?.into_iter().filter_map(id).collect())
}

/// What lies in a place; nothing where there is no such place.
fn folders(place: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = ignore_not_found(std::fs::read_dir(place))?.into_iter().flatten();
    entries.map(|entry| Ok(entry?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_whose_removal_was_cut_off_is_still_found() {
        // whatever order the folder is listed in
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
    fn what_is_handed_over_is_moved_once_to_a_free_name() {
        let place = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(place.path())).expect("a path");
        for name in ["00000000-0000-0000-0000-000000000007", "00000000-0000-0000-0000-000000000007.1"] {
            make_folder(&dir.machines().join(Uuid(7).to_string())).expect("made");
            assert_eq!(hand_over(&dir, Uuid(7)), Ok(()));
            assert_eq!(hand_over(&dir, Uuid(7)), Ok(()), "it was done before a crash");
            assert_eq!(machine_folders(&dir.machines()).expect("listed"), []);
            assert!(dir.kept_instances().join(name).is_dir());
        }
    }

    #[test]
    fn machines_that_cannot_be_listed_are_no_empty_list() {
        let place = tempfile::tempdir().expect("a folder");
        assert_eq!(machine_folders(&place.path().join("none")).expect("no machine yet"), []);
        let file = place.path().join("file");
        std::fs::write(&file, "").expect("written");
        machine_folders(&file).expect_err("no folder");
        std::fs::create_dir(place.path().join("instance.yaml")).expect("made");
        Instance::read(place.path()).expect_err("it is there, and cannot be read");
        let cut_off = tempfile::tempdir().expect("a folder");
        std::fs::write(cut_off.path().join(Instance::FILE), "").expect("written");
        Instance::read(cut_off.path()).expect_err("it is there, and not understood");
    }
}
