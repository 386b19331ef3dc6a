//! The environment of the real controller: this host's clocks and randomness, and a folder of charm archives.
//!
//! The file name of an archive is its digest. An archive is written to a temporary file, synced and renamed, so a
//! file is either complete or absent; the next start removes temporary files that were left behind. The digest is
//! verified again on each read, and no read needs the memory of a whole file. If the store keeps the files for all
//! controllers, the folder is a cache of them (`shared_files`).

use crate::archive_file::{ArchiveFile, DamagedFiles};
use crate::disk_threads::DiskThreads;
use crate::environment::{Environment, StoredArchive};
use crate::secret_keys::SecretKeys;
use crate::shared_files::SharedFiles;
use crate::store::files::StoreFiles;
use anyhow::{Context, anyhow};
use api::error::{ApiError, ErrorCode};
use api::text::fault::not_started;
use host::digest::{is_sha256, sha256, sha256_of};
use host::file::{ignore_not_found, is_temporary, sync_folder, write_atomic};
use state::documents::draft::Revision;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Received archives that are verified at the same time: each takes up to 512 MiB of memory.
const VERIFICATIONS_MAX: usize = 1;
/// The exit status after a broken store: `EX_SOFTWARE` of sysexits.h.
const EXIT_BROKEN: i32 = 70;

/// This host's clocks, randomness and folder of archives.
pub struct HostEnvironment {
    started: Instant,
    archives: PathBuf,
    damaged: DamagedFiles,
    disk: DiskThreads,
    verifications: Arc<Semaphore>,
    secret_keys: Option<SecretKeys>,
    shared: Option<SharedFiles>,
}

impl HostEnvironment {
    /// Creates the folder `archives` if it does not exist, and removes unfinished archives from it. No other process
    /// may use the folder. The monotonic clock starts at 0.
    ///
    /// # Errors
    /// If the folder cannot be created, read or cleaned, or a thread cannot be started.
    pub fn new(archives: PathBuf) -> anyhow::Result<HostEnvironment> {
        clean(&archives).with_context(|| format!("cannot use {}", archives.display()))?;
        let disk = DiskThreads::start()
            .map_err(|error| anyhow!("cannot start a thread: {}", not_started(&error)))?;
        let verifications = Arc::new(Semaphore::new(VERIFICATIONS_MAX));
        let (started, damaged) = (Instant::now(), DamagedFiles::default());
        Ok(HostEnvironment {
            started,
            archives,
            damaged,
            disk,
            verifications,
            secret_keys: None,
            shared: None,
        })
    }

    /// The same environment with the keys of secrets.
    pub fn with_secret_keys(self, keys: SecretKeys) -> HostEnvironment {
        HostEnvironment { secret_keys: Some(keys), ..self }
    }

    /// The same environment with the files that the store keeps. The folder is a cache of them, of this size.
    pub fn with_shared_files(self, files: StoreFiles, cache_bytes_max: u64) -> HostEnvironment {
        let (folder, disk) = (self.archives.clone(), self.disk.clone());
        let shared = SharedFiles::new(files, folder, disk, cache_bytes_max);
        HostEnvironment { shared: Some(shared), ..self }
    }

    /// Stores those of these files that the folder has and the store lacks.
    pub fn complete_shared_files(
        &self,
        registered: BTreeSet<String>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let shared = self.shared.clone();
        async move {
            if let Some(shared) = shared {
                shared.complete(registered).await;
            }
        }
    }

    /// Stores a file that was stored in the folder for all controllers, if the store keeps files.
    async fn share(&self, sha256: &str) -> Result<(), ApiError> {
        match &self.shared {
            Some(shared) => shared.store(sha256).await,
            None => Ok(()),
        }
    }

    /// Fetches a file that the folder lacks, or has only damaged. False if it is missing or damaged in the store, too, or the
    /// store keeps no files.
    async fn fetch(&self, sha256: &str, is_damaged: bool) -> io::Result<bool> {
        let Some(shared) = &self.shared else { return Ok(false) };
        if is_damaged {
            let file = self.archives.join(sha256);
            self.disk.run(move || ignore_not_found(fs::remove_file(file))).await?;
        }
        let is_there = shared.fetch(sha256).await?;
        if is_there {
            self.damaged.remove(sha256);
        }
        Ok(is_there)
    }

    /// Whether the file of this digest is in the folder and intact.
    async fn is_in_folder(&self, digest: &str) -> bool {
        let (file, expected) = (self.archives.join(digest), digest.to_owned());
        let is_intact = move || File::open(file).and_then(sha256_of).is_ok_and(|digest| digest == expected);
        self.disk.run_on_whole_file(is_intact).await
    }

    /// Opens the file of this digest in the folder; none if it is absent or known to be damaged.
    async fn open_in_folder(&self, digest: &str) -> io::Result<Option<ArchiveFile>> {
        let (file, expected, damaged) = (self.archives.join(digest), digest.to_owned(), self.damaged.clone());
        if damaged.contains(digest) {
            return Ok(None);
        }
        let (disk, is_cache) = (self.disk.clone(), self.shared.is_some());
        let open = move || {
            if is_cache {
                SharedFiles::record_used(&file);
            }
            ignore_not_found(ArchiveFile::new(&file, expected, damaged, disk))
        };
        self.disk.run(open).await
    }
}

/// Creates the folder of archives if it does not exist, and removes unfinished archives from it.
fn clean(archives: &Path) -> io::Result<()> {
    fs::create_dir_all(archives)?;
    for entry in fs::read_dir(archives)? {
        let entry = entry?;
        if is_temporary(&entry.file_name()) && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Verifies an archive. The result must not depend on this host, since the charm runs on the machines.
fn verify(archives: &Path, bytes: Vec<u8>) -> Result<charms::CharmSource, ApiError> {
    let options = charms::ReadOptions { cache: archives.to_owned(), force: true };
    charms::read::read_archive("the archive", bytes, &options).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        ApiError::new(ErrorCode::Invalid, lines.join("\n"))
    })
}

fn not_stored(error: io::Error) -> ApiError {
    ApiError::new(ErrorCode::Unavailable, format!("cannot store the upload: {error}"))
        .hint("free disk space on the controller's host, then try again")
}

fn stored(source: charms::CharmSource) -> StoredArchive {
    StoredArchive { bytes: source.archive.len() as u64, sha256: source.sha256, charm: source.charm }
}

impl Environment for HostEnvironment {
    fn wall_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn random(&self) -> u128 {
        host::random::random_u128()
    }

    fn secret_keys(&self) -> Option<&SecretKeys> {
        self.secret_keys.as_ref()
    }

    async fn sleep_until(&self, monotonic_ms: u64) {
        tokio::time::sleep_until(self.started + Duration::from_millis(monotonic_ms)).await;
    }

    async fn store_archive(&self, bytes: Vec<u8>) -> Result<StoredArchive, ApiError> {
        let (archives, damaged) = (self.archives.clone(), self.damaged.clone());
        let stored = self.disk.run_on_whole_file(move || -> Result<StoredArchive, ApiError> {
            let source = verify(&archives, bytes)?;
            write_atomic(&archives.join(&source.sha256), &source.archive).map_err(not_stored)?;
            damaged.remove(&source.sha256);
            Ok(stored(source))
        });
        let stored = stored.await?;
        self.share(&stored.sha256).await?;
        Ok(stored)
    }

    fn receiving_folder(&self) -> Option<(PathBuf, DiskThreads)> {
        Some((self.archives.clone(), self.disk.clone()))
    }

    async fn store_received_archive(&self, file: &Path) -> Result<StoredArchive, ApiError> {
        let (archives, damaged, file) = (self.archives.clone(), self.damaged.clone(), file.to_owned());
        let permit = self.verifications.clone().acquire_owned().await;
        let stored = self.disk.run_on_whole_file(move || -> Result<StoredArchive, ApiError> {
            let _permit = permit;
            let source = verify(&archives, fs::read(&file).map_err(not_stored)?)?;
            let renamed = fs::rename(&file, archives.join(&source.sha256));
            renamed.and_then(|()| sync_folder(&archives)).map_err(not_stored)?;
            damaged.remove(&source.sha256);
            Ok(stored(source))
        });
        let stored = stored.await?;
        self.share(&stored.sha256).await?;
        Ok(stored)
    }

    async fn store_resource(&self, bytes: Vec<u8>) -> Result<String, ApiError> {
        let (archives, damaged) = (self.archives.clone(), self.damaged.clone());
        let stored = self.disk.run_on_whole_file(move || -> Result<String, ApiError> {
            let digest = sha256(&bytes);
            write_atomic(&archives.join(&digest), &bytes).map_err(not_stored)?;
            damaged.remove(&digest);
            Ok(digest)
        });
        let digest = stored.await?;
        self.share(&digest).await?;
        Ok(digest)
    }

    async fn store_received_resource(&self, file: &Path) -> Result<(String, u64), ApiError> {
        let (archives, damaged, file) = (self.archives.clone(), self.damaged.clone(), file.to_owned());
        let stored = self.disk.run_on_whole_file(move || -> Result<(String, u64), ApiError> {
            let digest = File::open(&file).and_then(sha256_of).map_err(not_stored)?;
            let bytes = fs::metadata(&file).map_err(not_stored)?.len();
            let renamed = fs::rename(&file, archives.join(&digest));
            renamed.and_then(|()| sync_folder(&archives)).map_err(not_stored)?;
            damaged.remove(&digest);
            Ok((digest, bytes))
        });
        let stored = stored.await?;
        self.share(&stored.0).await?;
        Ok(stored)
    }

    async fn stored_file(&self, digest: &str) -> Option<Vec<u8>> {
        let mut file = self.open_stored_file(digest).await.ok()??;
        let mut bytes = Vec::new();
        while let Some(piece) = file.next_piece().await.ok()? {
            bytes.extend(piece);
        }
        Some(bytes)
    }

    async fn has_stored_file(&self, digest: &str) -> bool {
        if let Some(shared) = &self.shared
            && !shared.is_stored(digest).await
        {
            return false;
        }
        if self.is_in_folder(digest).await {
            self.damaged.remove(digest); // it was put back
            return true;
        }
        self.fetch(digest, true).await.unwrap_or_else(|error| {
            tracing::warn!("cannot fetch the file {digest} of the archives: {error}");
            false
        })
    }

    async fn open_stored_file(&self, digest: &str) -> io::Result<Option<ArchiveFile>> {
        match self.open_in_folder(digest).await? {
            None if self.fetch(digest, self.damaged.contains(digest)).await? => {
                self.open_in_folder(digest).await
            }
            opened => Ok(opened),
        }
    }

    async fn stored_files(&self) -> BTreeMap<String, Revision> {
        let folder = self.archives.clone();
        let in_folder = self.disk.run(move || {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
            names.filter(|name| is_sha256(name)).map(|name| (name, 0)).collect::<BTreeMap<String, Revision>>()
        });
        let Some(shared) = &self.shared else { return in_folder.await };
        match shared.list().await {
            // Those of the folder alone, too: an upload that the store did not accept.
            Ok(listed) => {
                let mut stored = in_folder.await;
                stored.extend(listed.into_iter().map(|(sha256, state)| (sha256, state.revision)));
                stored
            }
            Err(error) => {
                tracing::warn!("cannot list the files in the store: {error}");
                BTreeMap::new()
            }
        }
    }

    async fn delete_stored_file(&self, sha256: &str, revision: Revision) {
        if let Some(shared) = &self.shared
            && !shared.delete(sha256, revision).await
        {
            return;
        }
        let file = self.archives.join(sha256);
        self.disk
            .run(move || {
                if let Err(error) = ignore_not_found(fs::remove_file(&file)) {
                    tracing::warn!("cannot delete {}: {error}", file.display());
                }
            })
            .await;
    }

    fn on_store_failure(&self, why: &str) {
        tracing::error!("{why}; exiting: a restarted controller continues from the state on disk");
        std::process::exit(EXIT_BROKEN);
    }
}
