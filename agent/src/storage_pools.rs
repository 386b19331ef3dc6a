//! The pools of storage of a machine: directories, filesystems in memory, and block devices over files.
//!
//! Each instance has a folder of its own below `storage/` of the machine's folder, which is named by its id and the
//! first digits of its uuid, so that no other instance finds its content. On a machine that is not of the
//! provider `local`, a filesystem is also mounted where its charm declares it. Every function may be interrupted and
//! repeated. What is provided is stored beside the content, so that it is provided again after a boot without the
//! controller.
//!
//! Called by the machine agent through [`StorageHost`].

use crate::ports::StorageHost;
use crate::provided_storage::{ProvidedStorage, folder_of, is_mountable};
use crate::unrestored_storage::UnrestoredStorage;
use anyhow::{Context, Result, bail};
use api::machine_folder::{DATA_DIR, DEVICE_FILE, STORAGE_DIR};
use host::file::{exists, ignore_not_found};
use host::mounts::mount_points;
use host::program::{self, HostProgram};
use host::tree;
use nix::errno::Errno;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use state::terms::storage::{MachineAttachment, MachineStorage, StorageId, StoragePool};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// In the folder of an instance: the directory of its content, or the mount point of a filesystem in memory.
const CONTENT_DIR: &str = "content";
/// The number of the device through which loop devices are added (the kernel's list of device numbers).
const LOOP_CONTROL: u64 = makedev(10, 237);
/// In the folder of an instance: a link to its block device, whose number another boot may change.
const DEVICE: &str = "device";

/// Creates a folder and those above it that do not exist. Every user may enter them: services of a charm run as other
/// users. The mode of an existing folder is its charm's.
fn create_public(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    path.parent().map_or(Ok(()), create_public)?;
    crate::folder::public_dir(path)
}

/// The pools of the machine in one folder.
#[derive(Debug)]
pub struct StoragePools {
    data: PathBuf,
}

impl StoragePools {
    /// The pools of the machine whose folder is `data`.
    pub fn new(data: &Path) -> StoragePools {
        StoragePools { data: data.to_owned() }
    }

    fn folder(&self, id: &StorageId, storage: &MachineStorage) -> PathBuf {
        folder_of(&self.data, id, storage)
    }

    /// The folders of all instances, in the order of their names.
    fn folders(&self) -> Result<Vec<PathBuf>> {
        let entries = ignore_not_found(fs::read_dir(self.data.join(STORAGE_DIR)))?.into_iter().flatten();
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        paths.retain(|path| path.is_dir());
        paths.sort();
        Ok(paths)
    }

    async fn provide(&self, id: &StorageId, storage: &MachineStorage) -> Result<String> {
        let Some(attachment) = &storage.attachment else { bail!("storage {id} is not attached") };
        let folder = self.folder(id, storage);
        let content = folder.join(CONTENT_DIR);
        crate::folder::public_dir(&self.data.join(STORAGE_DIR))?;
        crate::folder::public_dir(&folder)?;
        let before = ProvidedStorage::read_or_set_aside(&folder)?;
        let provided = ProvidedStorage { id: id.clone(), storage: storage.clone() };
        if let Some(old) = before.as_ref().and_then(ProvidedStorage::location)
            && provided.location() != Some(old)
            && is_mounted_at(&content, Path::new(old))?
        {
            unmount(Path::new(old), InUse::Refuse).await?;
        }
        provided.write(&folder)?;
        match storage.pool {
            StoragePool::Rootfs => create_public(&content)?,
            StoragePool::Tmpfs => {
                create_public(&content)?;
                if !mount_points()?.contains(&content) {
                    let options = format!("size={}m,mode=0755", storage.size_mib);
                    run("mount", &["-t", "tmpfs", "-o", &options, "pintle-storage"], &[&content]).await?;
                }
            }
            StoragePool::Loop => {
                let device = loop_device(&folder.join(DEVICE_FILE), storage.size_mib).await?;
                let link = folder.join(DEVICE);
                if fs::read_link(&link).ok().as_deref() != Some(Path::new(&device)) {
                    ignore_not_found(fs::remove_file(&link))?;
                    symlink(&device, &link)?;
                }
                return link.into_os_string().into_string().ok().context("the location is not UTF-8");
            }
        }
        let location = self.mount(&content, attachment).await?;
        location.into_os_string().into_string().ok().context("the location is not UTF-8")
    }

    /// Mounts a content where its charm declares it. A machine of the provider `local` is a folder of a host that it shares
    /// with others, so nothing is mounted outside of the folder.
    async fn mount(&self, content: &Path, attachment: &MachineAttachment) -> Result<PathBuf> {
        let is_root = nix::unistd::geteuid().is_root();
        let Some(wanted) = &attachment.wanted_location else { return Ok(content.to_owned()) };
        if self.data != Path::new(DATA_DIR) || !is_root {
            return Ok(content.to_owned());
        }
        let target = PathBuf::from(wanted);
        if !is_mountable(&target, &self.data) {
            bail!(
                "cannot mount storage at {wanted}: it is no absolute path, or hides the folder of the machine"
            );
        }
        let is_mounted = is_mount_point(&target)?;
        if is_mounted && !is_mounted_at(content, &target)? {
            bail!("{wanted} is the mount point of another filesystem");
        }
        if !is_mounted {
            create_public(&target).with_context(|| wanted.clone())?;
            run("mount", &["--bind"], &[content, &target]).await?;
        }
        // also for an earlier mount, after which this may have failed
        if attachment.read_only {
            run("mount", &["-o", "remount,bind,ro"], &[&target]).await?;
        }
        Ok(target)
    }

    async fn release(&self, folder: &Path, in_use: InUse) -> Result<()> {
        if let Some(provided) = ProvidedStorage::read(folder)? {
            if let Some(target) = provided.location().map(Path::new)
                && is_mounted_at(&folder.join(CONTENT_DIR), target)?
            {
                unmount(target, in_use).await?;
            }
            ProvidedStorage::delete(folder)?;
        }
        let device = folder.join(DEVICE_FILE);
        if exists(&device)?
            && let Some(attached) = attached_device(&device).await?
        {
            run("losetup", &["-d", &attached], &[]).await?;
        }
        Ok(())
    }

    async fn delete(&self, id: &StorageId, storage: &MachineStorage) -> Result<()> {
        let folder = self.folder(id, storage);
        self.release(&folder, InUse::Refuse).await?;
        unmount(&folder.join(CONTENT_DIR), InUse::Refuse).await?;
        // deleting would follow what a charm has mounted inside
        if let Some(mounted) = mount_points()?.iter().find(|mounted| mounted.starts_with(&folder)) {
            bail!("{} is still mounted", mounted.display());
        }
        tree::remove(&folder)?;
        Ok(())
    }
}

/// Whether something is mounted at a path. The list of mounts has resolved paths.
fn is_mount_point(target: &Path) -> Result<bool> {
    let Some(resolved) = ignore_not_found(fs::canonicalize(target))? else { return Ok(false) };
    Ok(mount_points()?.contains(&resolved))
}

/// Whether a content is what is mounted at `target`: both then have the same device and inode. What is stored is no
/// evidence, because it is stored before the mount.
fn is_mounted_at(content: &Path, target: &Path) -> Result<bool> {
    if !is_mount_point(target)? {
        return Ok(false);
    }
    let Some(content) = ignore_not_found(fs::metadata(content))? else { return Ok(false) };
    let mounted = fs::metadata(target)?;
    Ok((content.dev(), content.ino()) == (mounted.dev(), mounted.ino()))
}

/// What happens to a mount that a process uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InUse {
    /// It stays mounted, which is an error.
    Refuse,
    /// It is removed from the tree of mounts, with those below it; the process keeps what it has open. For a machine whose
    /// units have ended: services of its charms may still run.
    Detach,
}

/// Unmounts a path if something is mounted there.
async fn unmount(target: &Path, in_use: InUse) -> Result<()> {
    if !is_mount_point(target)? {
        return Ok(());
    }
    match run("umount", &[], &[target]).await {
        Err(_) if in_use == InUse::Detach => {
            let detached = nix::mount::umount2(target, nix::mount::MntFlags::MNT_DETACH);
            detached.with_context(|| format!("cannot unmount {}", target.display()))
        }
        unmounted => unmounted.map(drop),
    }
}

/// The block device over a file, which is created with its size.
async fn loop_device(file: &Path, size_mib: u64) -> Result<String> {
    if !exists(file)? {
        let new = file.with_extension("new");
        fs::File::create(&new)?.set_len(size_mib.saturating_mul(1 << 20))?;
        fs::rename(&new, file)?;
    }
    if let Some(device) = attached_device(file).await? {
        return Ok(device);
    }
    // if all are in use, the kernel adds one
    run("losetup", &["--find"], &[]).await?;
    create_device_files()?;
    run("losetup", &["--find", "--show"], &[file]).await
}

/// Creates the files of the loop devices that the kernel has. The `/dev` of a container is its own and has none of them.
fn create_device_files() -> Result<()> {
    create_device_file(Path::new("/dev/loop-control"), SFlag::S_IFCHR, LOOP_CONTROL)?;
    for device in ignore_not_found(fs::read_dir("/sys/block"))?.into_iter().flatten() {
        let device = device?;
        let name = device.file_name();
        if !name.as_encoded_bytes().starts_with(b"loop") {
            continue;
        }
        if let Some(numbers) = ignore_removed_device(fs::read_to_string(device.path().join("dev")))? {
            let (major, minor) = numbers.trim().split_once(':').context("a device number is MAJOR:MINOR")?;
            let number = makedev(major.parse()?, minor.parse()?);
            create_device_file(&Path::new("/dev").join(name), SFlag::S_IFBLK, number)?;
        }
    }
    Ok(())
}

/// Maps the errors of a device that was removed meanwhile to `None`: it has no file any more, or the kernel does not read
/// it any more.
fn ignore_removed_device<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.raw_os_error() == Some(Errno::ENODEV as i32) => Ok(None),
        read => ignore_not_found(read),
    }
}

fn create_device_file(path: &Path, kind: SFlag, number: u64) -> Result<()> {
    match mknod(path, kind, Mode::S_IRUSR | Mode::S_IWUSR, number) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(_) if exists(path)? => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot create {}", path.display())),
    }
}

/// The device that is attached to a file. A boot of a container does not detach it, and removes its file in /dev.
async fn attached_device(file: &Path) -> Result<Option<String>> {
    create_device_files()?;
    let listed = run("losetup", &["--noheadings", "--output", "NAME", "--associated"], &[file]).await?;
    Ok(listed.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()))
}

/// Runs a program of the host and returns what it prints. The loop of the agent waits for it, but not longer than its
/// time limit.
async fn run(program: &str, arguments: &[&str], paths: &[&Path]) -> Result<String> {
    let paths = paths.iter().map(|path| path.display().to_string());
    let arguments = arguments.iter().map(|argument| (*argument).to_owned()).chain(paths);
    let printed = HostProgram::new(program, arguments, program::QUICK).run().await?;
    Ok(printed.trim().to_owned())
}

impl StorageHost for StoragePools {
    async fn provide_storage(&self, id: &StorageId, storage: &MachineStorage) -> Result<String> {
        self.provide(id, storage).await
    }

    async fn release_storage(&self, id: &StorageId, storage: &MachineStorage) -> Result<()> {
        self.release(&self.folder(id, storage), InUse::Refuse).await
    }

    async fn delete_storage(&self, id: &StorageId, storage: &MachineStorage) -> Result<()> {
        self.delete(id, storage).await
    }

    async fn restore_storage(&self) -> UnrestoredStorage {
        let mut unrestored = UnrestoredStorage::default();
        let folders = self.folders().unwrap_or_else(|error| {
            unrestored.add_unreadable(format!("{error:#}"));
            Vec::new()
        });
        for folder in folders {
            let text = |error: anyhow::Error| format!("{}: {error:#}", folder.display());
            match ProvidedStorage::read_or_set_aside(&folder) {
                Ok(Some(ProvidedStorage { id, storage })) => {
                    // what no unit has is not provided
                    let Some(attachment) = &storage.attachment else { continue };
                    if let Err(error) = self.provide(&id, &storage).await {
                        unrestored.add(attachment.unit, text(error));
                    }
                }
                Ok(None) => {}
                Err(error) => unrestored.add_unreadable(text(error)),
            }
        }
        unrestored.store(&self.data);
        unrestored
    }

    async fn release_all_storage(&self) -> Result<()> {
        let mut errors = Vec::new();
        for folder in self.folders()? {
            // neither depends on the other
            for released in [
                self.release(&folder, InUse::Detach).await,
                unmount(&folder.join(CONTENT_DIR), InUse::Detach).await,
            ] {
                errors.extend(released.err().map(|error| format!("{}: {error:#}", folder.display())));
            }
        }
        all_or_errors(&errors).context("cannot release all storage")
    }
}

/// The result of what was attempted for each instance.
fn all_or_errors(errors: &[String]) -> Result<()> {
    match errors {
        [] => Ok(()),
        _ => bail!("{}", errors.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::charm::StorageType;
    use state::terms::names::Uuid;

    fn id() -> StorageId {
        StorageId { name: "data".into(), number: 3 }
    }

    fn storage(instance: u128) -> MachineStorage {
        MachineStorage {
            instance: Uuid(instance << 100),
            kind: StorageType::Filesystem,
            pool: StoragePool::Rootfs,
            size_mib: 1,
            removed: false,
            attachment: Some(MachineAttachment {
                unit: Uuid(1),
                wanted_location: Some("/srv/pintle-test-of-storage".into()),
                read_only: false,
                location: None,
            }),
        }
    }

    #[tokio::test]
    async fn each_unit_may_lack_its_storage_if_what_was_provided_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let pools = StoragePools::new(dir.path());
        let location = pools.provide_storage(&id(), &storage(1)).await.unwrap();
        fs::remove_dir(&location).unwrap();
        fs::write(&location, "no folder").unwrap();
        let unrestored = pools.restore_storage().await;
        let lacks = [1, 2].map(|unit| unrestored.error_of(Uuid(unit)).is_some());
        assert_eq!(lacks, [true, false]);
        fs::remove_dir_all(dir.path().join(STORAGE_DIR)).unwrap();
        fs::write(dir.path().join(STORAGE_DIR), "no folder").unwrap();
        let unrestored = pools.restore_storage().await;
        assert!(unrestored.error_of(Uuid(2)).is_some());
        fs::remove_file(dir.path().join(STORAGE_DIR)).unwrap();
        let unrestored = pools.restore_storage().await;
        assert!(unrestored.is_empty());
    }

    #[tokio::test]
    async fn no_unit_lacks_its_storage_because_a_hook_has_damaged_what_was_provided() {
        let dir = tempfile::tempdir().unwrap();
        let pools = StoragePools::new(dir.path());
        pools.provide_storage(&id(), &storage(1)).await.unwrap();
        let provided = folder_of(dir.path(), &id(), &storage(1)).join("provided.yaml");
        fs::remove_file(&provided).unwrap();
        symlink(&provided, &provided).unwrap();
        assert!(pools.restore_storage().await.is_empty());
        pools.provide_storage(&id(), &storage(1)).await.unwrap();
        assert!(provided.symlink_metadata().unwrap().is_file(), "the controller shows it");
    }

    /// `/proc` is a mount point of every host: it is no content of a storage, and a link to it is the same mount point.
    #[tokio::test]
    async fn a_filesystem_of_the_host_is_not_taken_for_a_content_and_not_unmounted() {
        let dir = tempfile::tempdir().unwrap();
        let (proc, link) = (Path::new("/proc"), dir.path().join("link"));
        symlink(proc, &link).unwrap();
        assert!(is_mount_point(&link).unwrap());
        assert!(!is_mounted_at(dir.path(), proc).unwrap());
        let pools = StoragePools::new(dir.path());
        let mut wanted = storage(1);
        wanted.attachment.as_mut().unwrap().wanted_location = Some("/proc".into());
        for _twice in 0..2 {
            let location = pools.provide_storage(&id(), &wanted).await.unwrap();
            assert!(Path::new(&location).starts_with(dir.path()), "{location}");
        }
        pools.release_storage(&id(), &wanted).await.unwrap();
        assert!(is_mount_point(proc).unwrap());
    }

    #[test]
    fn a_device_that_is_removed_meanwhile_is_no_error() {
        let failed = |errno: Errno| Err::<(), _>(io::Error::from_raw_os_error(errno as i32));
        for removed in [Errno::ENOENT, Errno::ENODEV] {
            assert!(ignore_removed_device(failed(removed)).unwrap().is_none());
        }
        ignore_removed_device(failed(Errno::EIO)).unwrap_err();
    }

    /// A link that refers to itself stands for any file that cannot be seen.
    #[tokio::test]
    async fn a_device_file_that_cannot_be_seen_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(DEVICE_FILE);
        std::os::unix::fs::symlink(&file, &file).unwrap();
        loop_device(&file, 1).await.unwrap_err();
        assert!(file.is_symlink());
    }

    #[tokio::test]
    async fn a_directory_keeps_its_content_until_it_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let pools = StoragePools::new(dir.path());
        let location = pools.provide_storage(&id(), &storage(1)).await.unwrap();
        assert!(
            Path::new(&location).starts_with(dir.path()),
            "a machine of the provider local has no paths outside of its folder: {location}"
        );
        fs::write(Path::new(&location).join("file"), "kept").unwrap();
        pools.release_storage(&id(), &storage(1)).await.unwrap();
        assert_eq!(pools.provide_storage(&id(), &storage(1)).await.unwrap(), location);
        assert_eq!(fs::read_to_string(Path::new(&location).join("file")).unwrap(), "kept");
        let other = pools.provide_storage(&id(), &storage(2)).await.unwrap();
        assert_ne!(other, location, "another instance of the same id has another folder");
        pools.delete_storage(&id(), &storage(2)).await.unwrap();
        assert!(Path::new(&location).exists() && !Path::new(&other).exists());
        pools.delete_storage(&id(), &storage(1)).await.unwrap();
        pools.delete_storage(&id(), &storage(1)).await.unwrap();
        assert!(!Path::new(&location).exists());
        pools.release_all_storage().await.unwrap();
    }

    /// Services of a charm run as other users; the agent has a umask that keeps them out of its other files.
    #[tokio::test(flavor = "current_thread")]
    async fn every_user_may_enter_the_folders_of_storage_whatever_the_umask_is() {
        const RESTRICTED: &str = "PINTLE_TEST_STORAGE_MODES";
        if let Some(data) = std::env::var_os(RESTRICTED) {
            nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
            let data = PathBuf::from(data);
            let location = StoragePools::new(&data).provide_storage(&id(), &storage(1)).await.unwrap();
            create_public(&data.join("srv/cache/0")).unwrap();
            let made = ["srv", "srv/cache", "srv/cache/0"].map(|path| data.join(path));
            let above = Path::new(&location).ancestors().take_while(|path| **path != data);
            for path in above.map(Path::to_owned).chain(made) {
                assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o755, "{}", path.display());
            }
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let restricted = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("storage_pools::tests::every_user_may_enter_the_folders_of_storage_whatever_the_umask_is")
            .env(RESTRICTED, dir.path())
            .output()
            .unwrap();
        assert!(restricted.status.success(), "{restricted:?}");
        assert!(String::from_utf8_lossy(&restricted.stdout).contains("1 passed"), "{restricted:?}");
    }
}
