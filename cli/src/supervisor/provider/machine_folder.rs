//! The folders of the machines of a data folder: lists them, hands them over to the user (`--keep-instance`) and deletes
//! them. The providers create them.
//!
//! A machine has an instance while its folder contains `instance.yaml`. An interrupted deletion is completed from the
//! files that the folder still contains. Called by the providers.

use super::instance::{Instance, InstanceList};
use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use api::AgentConfig;
use host::file::{create_private_folder, ignore_not_found};
use state::terms::names::Uuid;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// Largest number of kept instances of one machine: one, and one more for each restore of the controller.
const HANDED_OVER_MAX: u32 = 100;

/// Moves the folder of a machine to the kept instances, which no provider lists; its processes keep running. The new
/// name is unused: after a restore of the controller the same machine can be created and kept again.
pub(super) fn hand_over(dir: &DataDir, machine: Uuid) -> Result<(), CommandError> {
    let folder = dir.machines().join(machine.to_string());
    let moved = || {
        if !folder.try_exists()? {
            return Ok(());
        }
        create_private_folder(&dir.kept_instances())?;
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
pub(super) fn remove_folder(folder: &Path) -> io::Result<()> {
    let Some(entries) = ignore_not_found(std::fs::read_dir(folder))? else { return Ok(()) };
    let entries = entries.collect::<io::Result<Vec<_>>>()?;
    let names = entries.iter().map(std::fs::DirEntry::file_name).collect();
    remove_in_order(folder, names, host::tree::remove)?;
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
        Some(AgentConfig::FILE) => 1,
        _ => 0,
    }
}

/// The instances of a model, for `Provider::list`.
pub(super) fn list(machines: &Path, model: Uuid) -> io::Result<InstanceList> {
    let mut found = InstanceList::new();
    for (id, folder) in machine_folders(machines)? {
        match Instance::read(&folder) {
            Ok(Some(instance)) if instance.model == model => drop(found.insert(id, Ok(instance.nonce))),
            Ok(_) => {}
            Err(error) => {
                let remedy = match error.kind() {
                    io::ErrorKind::InvalidData => "; put the file back from a backup",
                    _ => "",
                };
                let text = format!("cannot read {}/{}: {error}{remedy}", folder.display(), Instance::FILE);
                found.insert(id, Err(CommandError::new(text)));
            }
        }
    }
    Ok(found)
}

/// The address of the instance in a folder; `None` if it does not exist or cannot be read.
pub(super) fn address(folder: &Path) -> Option<String> {
    Instance::read(folder).ok().flatten().map(|instance| instance.address)
}

fn machine_folders(machines: &Path) -> io::Result<Vec<(Uuid, PathBuf)>> {
    let id = |folder: PathBuf| Some((folder.file_name()?.to_str()?.parse().ok()?, folder));
    Ok(folders(machines)?.into_iter().filter_map(id).collect())
}

/// The paths in a folder; empty if the folder does not exist.
pub(super) fn folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = ignore_not_found(std::fs::read_dir(path))?.into_iter().flatten();
    entries.map(|entry| Ok(entry?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::machine_folder::MACHINE_LOG;

    #[test]
    fn a_machine_whose_deletion_was_interrupted_is_still_listed() {
        // The result does not depend on the order of the directory.
        for names in
            [[Instance::FILE, AgentConfig::FILE, "a", "z"], ["z", "a", AgentConfig::FILE, Instance::FILE]]
        {
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
                let is_removed = |name: &str| removed.contains(&Path::new("/m").join(name));
                assert!(!is_removed(Instance::FILE), "cut off after {cut} of {names:?}: {removed:?}");
                assert!(
                    cut == 3 || !is_removed(AgentConfig::FILE),
                    "cut off after {cut} of {names:?}: {removed:?}"
                );
            }
        }

        let machines = tempfile::tempdir().expect("a folder");
        let folder = machines.path().join(Uuid(7).to_string());
        for below in ["a", "units/web-0", "z"] {
            std::fs::create_dir_all(folder.join(below)).expect("made");
        }
        let instance = Instance { model: Uuid(1), nonce: Uuid(2), ..Instance::default() };
        instance.write(&folder).expect("written");
        for file in [AgentConfig::FILE, MACHINE_LOG] {
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
            create_private_folder(&dir.machines().join(Uuid(7).to_string())).expect("made");
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
