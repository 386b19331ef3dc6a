//! The pools of storage of a machine: directories, filesystems in memory, and block devices over files.
//!
//! Each instance has a folder of its own below `storage/` of the machine's folder, which is named by its id and the
//! first digits of its uuid, so that no other instance finds its content. On a machine that is not local, a filesystem is
//! also mounted where its charm declares it. Every function may be interrupted and repeated.
//!
//! Called by the machine agent through [`StorageHost`].

use crate::ports::StorageHost;
use anyhow::{Context, Result, bail};
use api::machine_folder::DATA_DIR;
use host::file::{exists, ignore_not_found, write_atomic};
use host::mounts::mount_points;
use host::program::{self, HostProgram};
use state::terms::storage::{MachineAttachment, MachineStorage, StorageId, StoragePool};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of all instances, in the folder of the machine.
const STORAGE_DIR: &str = "storage";
/// In the folder of an instance: the directory of its content, or the mount point of a filesystem in memory.
const CONTENT_DIR: &str = "content";
/// In the folder of an instance: the file of a block device.
const DEVICE_FILE: &str = "device.img";
/// In the folder of an instance: where its content is mounted besides.
const MOUNTED_AT: &str = "mounted-at";

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
        let digits = &storage.instance.to_string()[..8];
        self.data.join(STORAGE_DIR).join(format!("{}-{}-{digits}", id.name, id.number))
    }

    async fn provide(&self, id: &StorageId, storage: &MachineStorage) -> Result<String> {
        let Some(attachment) = &storage.attachment else { bail!("storage {id} is not attached") };
        let folder = self.folder(id, storage);
        let content = folder.join(CONTENT_DIR);
        crate::folder::public_dir(&self.data.join(STORAGE_DIR))?;
        crate::folder::public_dir(&folder)?;
        match storage.pool {
            StoragePool::Rootfs => fs::create_dir_all(&content)?,
            StoragePool::Tmpfs => {
                fs::create_dir_all(&content)?;
                if !mount_points()?.contains(&content) {
                    let options = format!("size={}m,mode=0755", storage.size_mib);
                    run("mount", &["-t", "tmpfs", "-o", &options, "pintle-storage"], &[&content]).await?;
                }
            }
            StoragePool::Loop => return loop_device(&folder.join(DEVICE_FILE), storage.size_mib).await,
        }
        let location = self.mount(&folder, &content, attachment).await?;
        location.into_os_string().into_string().ok().context("the location is not UTF-8")
    }

    /// Mounts a content where its charm declares it. A local machine, which is a folder of another host, has no paths
    /// outside this folder.
    async fn mount(&self, folder: &Path, content: &Path, attachment: &MachineAttachment) -> Result<PathBuf> {
        let is_root = nix::unistd::geteuid().is_root();
        let Some(wanted) = &attachment.wanted_location else { return Ok(content.to_owned()) };
        if self.data != Path::new(DATA_DIR) || !is_root {
            return Ok(content.to_owned());
        }
        let target = PathBuf::from(wanted);
        if !target.is_absolute() {
            bail!("the location {wanted} is not an absolute path");
        }
        let mounted_at = folder.join(MOUNTED_AT);
        let is_mounted = mount_points()?.contains(&target);
        let is_ours = fs::read_to_string(&mounted_at).ok().as_ref() == Some(wanted);
        if is_mounted && !is_ours {
            bail!("{wanted} is the mount point of another filesystem");
        }
        if !is_mounted {
            fs::create_dir_all(&target).with_context(|| wanted.clone())?;
            // stored first, so that a mount which is interrupted is found again
            write_atomic(&mounted_at, wanted.as_bytes())?;
            run("mount", &["--bind"], &[content, &target]).await?;
        }
        // also for an earlier mount, after which this may have failed
        if attachment.read_only {
            run("mount", &["-o", "remount,bind,ro"], &[&target]).await?;
        }
        Ok(target)
    }

    async fn release(&self, folder: &Path) -> Result<()> {
        let mounted_at = folder.join(MOUNTED_AT);
        if let Ok(target) = fs::read_to_string(&mounted_at) {
            unmount(Path::new(&target)).await?;
            ignore_not_found(fs::remove_file(&mounted_at))?;
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
        self.release(&folder).await?;
        unmount(&folder.join(CONTENT_DIR)).await?;
        // deleting would follow what a charm has mounted inside
        if let Some(mounted) = mount_points()?.iter().find(|mounted| mounted.starts_with(&folder)) {
            bail!("{} is still mounted", mounted.display());
        }
        ignore_not_found(fs::remove_dir_all(&folder))?;
        Ok(())
    }
}

/// Unmounts a path if something is mounted there.
async fn unmount(target: &Path) -> Result<()> {
    match mount_points()?.iter().any(|mounted| mounted == target) {
        true => run("umount", &[], &[target]).await.map(drop),
        false => Ok(()),
    }
}

/// The block device over a file, which is created with its size.
async fn loop_device(file: &Path, size_mib: u64) -> Result<String> {
    if !exists(file)? {
        let new = file.with_extension("new");
        fs::File::create(&new)?.set_len(size_mib.saturating_mul(1 << 20))?;
        fs::rename(&new, file)?;
    }
    match attached_device(file).await? {
        Some(device) => Ok(device),
        None => run("losetup", &["--find", "--show"], &[file]).await,
    }
}

/// The device that is attached to a file.
async fn attached_device(file: &Path) -> Result<Option<String>> {
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
        self.release(&self.folder(id, storage)).await
    }

    async fn delete_storage(&self, id: &StorageId, storage: &MachineStorage) -> Result<()> {
        self.delete(id, storage).await
    }

    async fn release_all_storage(&self) -> Result<()> {
        let Ok(folders) = fs::read_dir(self.data.join(STORAGE_DIR)) else { return Ok(()) };
        for folder in folders {
            let folder = folder?.path();
            self.release(&folder).await?;
            unmount(&folder.join(CONTENT_DIR)).await?;
        }
        Ok(())
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
            "a local machine has no paths outside: {location}"
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
}
