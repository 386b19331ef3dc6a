//! The environment of the real controller: this host's clocks and randomness, and a folder of charm archives.
//!
//! The file name of an archive is its digest. An archive is written to a temporary file, synced and renamed, so a
//! file is either complete or absent. Its digest is verified again on each read.

use crate::environment::{Environment, StoredArchive};
use api::error::{ApiError, ErrorCode};
use host::digest::sha256;
use host::file::write_atomic;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// The exit status after a broken store: `EX_SOFTWARE` of sysexits.h.
const EXIT_BROKEN: i32 = 70;

/// This host's clocks, randomness and folder of archives.
pub struct HostEnvironment {
    started: Instant,
    archives: PathBuf,
}

impl HostEnvironment {
    /// Creates the folder `archives` if it does not exist. The monotonic clock starts at 0.
    pub fn new(archives: PathBuf) -> io::Result<HostEnvironment> {
        fs::create_dir_all(&archives)?;
        Ok(HostEnvironment { started: Instant::now(), archives })
    }
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
        host::random::bits()
    }

    async fn sleep_until(&self, monotonic_ms: u64) {
        tokio::time::sleep_until(self.started + Duration::from_millis(monotonic_ms)).await;
    }

    async fn store_archive(&self, bytes: Vec<u8>) -> Result<StoredArchive, ApiError> {
        let archives = self.archives.clone();
        blocking(move || {
            // The validation must not depend on this host, since the charm runs on the machines.
            let options = charms::ReadOptions { cache: archives.clone(), force: true };
            let source = charms::read::read_archive("the archive", bytes, &options).map_err(|problems| {
                let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
                ApiError::new(ErrorCode::Invalid, lines.join("\n"))
            })?;
            write_atomic(&archives.join(&source.sha256), &source.archive).map_err(|e| {
                let text = format!("cannot store the charm archive: {e}");
                ApiError::new(ErrorCode::Unavailable, text)
                    .hint("free disk space on the controller's host, then deploy again")
            })?;
            Ok(StoredArchive {
                bytes: source.archive.len() as u64,
                sha256: source.sha256,
                charm: source.charm,
            })
        })
        .await
    }

    async fn archive(&self, digest: &str) -> Option<Vec<u8>> {
        let (file, expected) = (self.archives.join(digest), digest.to_owned());
        let bytes = blocking(move || fs::read(file)).await.ok()?;
        (sha256(&bytes) == expected).then_some(bytes)
    }

    fn store_broken(&self, why: &str) {
        tracing::error!("{why}; exiting: a restarted controller continues from the state on disk");
        std::process::exit(EXIT_BROKEN);
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("disk work does not panic")
}
