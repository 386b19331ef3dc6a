//! What is provided of the storage of a machine, as it is stored beside the content of each instance: it is provided again
//! after a boot without the controller.
//!
//! The hooks of the unit that has the instance can write to its folder. A file that cannot be used for a reason of its own
//! is damaged, and is set aside before anything is provided: the controller shows what is to be provided, and the agents of the other units must not
//! wait for it. A file of another instance counts as damaged as well. Used by `storage_pools`.

use anyhow::{Context, Result};
use api::machine_folder::STORAGE_DIR;
use host::file::{ignore_not_found, read_regular_text, write_atomic};
use nix::errno::Errno;
use state::terms::storage::{MachineStorage, StorageId};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

/// In the folder of an instance: what is provided, while a unit has it.
const PROVIDED: &str = "provided.yaml";
/// In the folder of an instance: a damaged [`PROVIDED`] that was set aside; a newer one replaces it.
const DAMAGED: &str = "provided.yaml.damaged";
/// The largest such file: two locations of 4 KiB, each byte up to four times as long, and some names.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// What is provided to a unit, as [`PROVIDED`] stores it before it is mounted: a map of one entry.
#[derive(Debug)]
pub(crate) struct ProvidedStorage {
    pub(crate) id: StorageId,
    pub(crate) storage: MachineStorage,
}

/// The folder of an instance, in that of its machine.
pub(crate) fn folder_of(machine: &Path, id: &StorageId, storage: &MachineStorage) -> PathBuf {
    machine.join(STORAGE_DIR).join(folder_name(id, storage))
}

/// No other instance finds the content: the name has the first digits of the uuid.
fn folder_name(id: &StorageId, storage: &MachineStorage) -> String {
    format!("{}-{}-{}", id.name, id.number, &storage.instance.to_string()[..8])
}

impl ProvidedStorage {
    /// Reads the file in the folder of an instance. None if it is absent, or damaged: it is no regular file, has a content that
    /// no agent has written, or belongs to another instance.
    ///
    /// # Errors
    /// If it cannot be read. What is provided is then not known.
    pub(crate) fn read(folder: &Path) -> Result<Option<ProvidedStorage>> {
        let path = folder.join(PROVIDED);
        let damage = match read_regular_text(&path, FILE_BYTES_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => return not_found(folder, &path),
            Err(error) if error.kind() == ErrorKind::InvalidData => error.to_string(),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
            Ok(text) => match charms::yaml::from_str::<BTreeMap<StorageId, MachineStorage>>(&text) {
                Ok(stored) => {
                    match stored.into_iter().next().map(|(id, storage)| ProvidedStorage { id, storage }) {
                        Some(provided) if !provided.is_of(folder) => "it is not of this instance".to_owned(),
                        provided => return Ok(provided),
                    }
                }
                Err(error) => error.to_string(),
            },
        };
        set_aside(folder, &path, &damage);
        Ok(None)
    }

    /// As [`ProvidedStorage::read`], but a file that cannot be read for a reason of its own counts as damaged, too: for those
    /// who provide, because the controller shows what is to be provided, and other units must not wait for the file.
    ///
    /// # Errors
    /// If it cannot be read for another reason, such as a limit of the host or a disk that fails.
    pub(crate) fn read_or_set_aside(folder: &Path) -> Result<Option<ProvidedStorage>> {
        let is_own = |error: &io::Error| is_of_the_file(error);
        match ProvidedStorage::read(folder) {
            Err(error) if error.downcast_ref().is_some_and(is_own) => {
                set_aside(folder, &folder.join(PROVIDED), &format!("{error:#}"));
                Ok(None)
            }
            read => read,
        }
    }

    /// Stores it before it is mounted, so that a mount which is interrupted is found again.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let stored = BTreeMap::from([(&self.id, &self.storage)]);
        Ok(write_atomic(&folder.join(PROVIDED), charms::yaml::to_string(&stored)?.as_bytes())?)
    }

    /// Deletes what is stored in the folder of an instance.
    ///
    /// # Errors
    /// If it cannot be deleted.
    pub(crate) fn delete(folder: &Path) -> io::Result<()> {
        ignore_not_found(fs::remove_file(folder.join(PROVIDED))).map(drop)
    }

    /// Where the charm declares that the filesystem is mounted. It is not mounted there on every machine.
    pub(crate) fn location(&self) -> Option<&str> {
        self.storage.attachment.as_ref()?.wanted_location.as_deref()
    }

    /// Whether it belongs to the instance of this folder.
    fn is_of(&self, folder: &Path) -> bool {
        let name = folder_name(&self.id, &self.storage);
        folder.file_name().is_some_and(|found| found == name.as_str())
    }
}

/// Nothing is there, or a link whose target is absent, which is damage.
fn not_found(folder: &Path, path: &Path) -> Result<Option<ProvidedStorage>> {
    if path.is_symlink() {
        set_aside(folder, path, "it is a link");
    }
    Ok(None)
}

/// Whether the error is a property of the file: what it is, or who may read it. A later attempt finds the same.
fn is_of_the_file(error: &io::Error) -> bool {
    let is_own_errno = |errno| {
        let own = [
            Errno::ELOOP,
            Errno::EACCES,
            Errno::EPERM,
            Errno::EINVAL,
            Errno::EISDIR,
            Errno::ENOTDIR,
            Errno::ENAMETOOLONG,
            Errno::ENXIO,
            Errno::ENODEV,
            Errno::ETXTBSY,
        ];
        own.contains(&Errno::from_raw(errno))
    };
    error.raw_os_error().is_some_and(is_own_errno)
}

/// Whether a content may be mounted at this path on the machine with this folder: it is absolute, names no folder above
/// another one, and hides neither the folder nor a part of it. The path is stored in a file that hooks can write.
pub(crate) fn is_mountable(location: &Path, machine: &Path) -> bool {
    let is_plain = location.is_absolute() && !location.components().any(|part| part == Component::ParentDir);
    is_plain && !machine.starts_with(location) && !location.starts_with(machine)
}

/// Renames a damaged file. One that cannot be renamed, such as a mount point, stays, and counts as damaged at the next
/// attempt as well.
fn set_aside(folder: &Path, path: &Path, damage: &str) {
    let to = folder.join(DAMAGED);
    // A folder does not replace a file, nor a file a folder. A folder that a hook has made is not deleted, because something
    // may be mounted in it.
    let unused = || folder.join(format!("{DAMAGED}-{}", crate::clock::random_uuid()));
    match fs::rename(path, &to).or_else(|_| fs::rename(path, unused())) {
        Ok(()) => tracing::warn!("set aside {}, which is damaged: {damage}", path.display()),
        Err(error) => {
            tracing::warn!(
                "ignored {}, which is damaged: {damage}; it cannot be set aside: {error}",
                path.display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::without_waiting::without_waiting;
    use state::charm::StorageType;
    use state::terms::names::Uuid;
    use state::terms::storage::{MachineAttachment, StoragePool};
    use std::os::unix::fs::symlink;

    fn provided(location: Option<&str>) -> ProvidedStorage {
        let attachment = MachineAttachment {
            unit: Uuid(1),
            wanted_location: location.map(Into::into),
            read_only: false,
            location: None,
        };
        let storage = MachineStorage {
            instance: Uuid(1 << 100),
            kind: StorageType::Filesystem,
            pool: StoragePool::Rootfs,
            size_mib: 1,
            removed: false,
            attachment: Some(attachment),
        };
        ProvidedStorage { id: StorageId { name: "data".into(), number: 3 }, storage }
    }

    /// The folder of a machine, and that of the instance, which exists.
    fn folders() -> (tempfile::TempDir, PathBuf) {
        let machine = tempfile::tempdir().expect("a folder");
        let stored = provided(None);
        let folder = folder_of(machine.path(), &stored.id, &stored.storage);
        fs::create_dir_all(&folder).expect("made");
        (machine, folder)
    }

    #[test]
    fn what_is_no_readable_file_is_set_aside_and_never_waited_for() {
        let (_machine, folder) = folders();
        let file = folder.join(PROVIDED);
        let plant: [&dyn Fn(); 7] = [
            &|| symlink(PROVIDED, &file).expect("linked to itself"),
            &|| symlink("absent", &file).expect("linked"),
            &|| nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).expect("a new pipe"),
            &|| fs::create_dir_all(file.join("below")).expect("made"),
            &|| fs::File::create(&file).and_then(|file| file.set_len(1 << 30)).expect("made"),
            &|| fs::write(&file, b"\xff").expect("written"),
            &|| fs::create_dir_all(file.join("below")).expect("made"),
        ];
        for (n, plant) in plant.iter().enumerate() {
            plant();
            let folder = folder.clone();
            let read = without_waiting(move || {
                ProvidedStorage::read_or_set_aside(&folder).map(|found| found.is_none())
            });
            assert!(read.expect("a reason of its own"), "{n}");
            assert!(file.symlink_metadata().is_err(), "{n}: it is set aside");
        }
        provided(None).write(&folder).expect("nothing is in the way");
        assert!(ProvidedStorage::read(&folder).expect("readable").is_some());
    }

    #[test]
    fn what_belongs_to_another_instance_is_set_aside() {
        let (_machine, folder) = folders();
        let is_used = |stored: &ProvidedStorage| {
            stored.write(&folder).expect("written");
            ProvidedStorage::read(&folder).expect("readable").is_some()
        };
        let of_id = |name: &str, number| {
            let id = StorageId { name: name.into(), number };
            ProvidedStorage { id, ..provided(Some("/srv")) }
        };
        assert!(is_used(&of_id("data", 3)));
        for other in [of_id("data", 4), of_id("cache", 3), of_id("../data", 3)] {
            assert!(!is_used(&other), "{other:?}");
        }
        let mut other = provided(None);
        other.storage.instance = Uuid(2 << 100);
        assert!(!is_used(&other));
    }

    #[test]
    fn a_content_hides_nothing_of_its_machine() {
        let is_mountable = |location: &str| is_mountable(Path::new(location), Path::new("/var/lib/pintle"));
        for location in ["/srv", "/var/lib/postgresql", "/var/lib/pintle-of-another"] {
            assert!(is_mountable(location), "{location}");
        }
        for location in ["/", "/var", "/var/lib/pintle", "/var/lib/pintle/agents", "/srv/../var", "srv", ""] {
            assert!(!is_mountable(location), "{location}");
        }
    }

    #[test]
    fn a_disk_that_fails_is_no_damage_of_the_file() {
        let of_file = |errno: Errno| is_of_the_file(&io::Error::from_raw_os_error(errno as i32));
        assert!([Errno::ELOOP, Errno::EACCES, Errno::EINVAL].into_iter().all(of_file));
        assert!(![Errno::EIO, Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM].into_iter().any(of_file));
    }
}
