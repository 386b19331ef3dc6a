//! The real outside: this host's clocks and randomness, and charm archives by digest in a folder.
//!
//! An archive is written beside its place, synced and renamed: under a digest's name there is the whole archive or
//! nothing, and it is checked again when it is read.

use crate::outside::{Kept, Outside};
use crate::tokens::sha256_hex;
use api::error::{ApiError, ErrorCode};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// What a broken store ends the process with: `EX_SOFTWARE` of sysexits.h.
const EXIT_BROKEN: i32 = 70;

pub struct Host {
    started: Instant,
    archives: PathBuf,
}

impl Host {
    /// Keeps archives in `archives`, which is created.
    pub fn new(archives: PathBuf) -> io::Result<Host> {
        fs::create_dir_all(&archives)?;
        Ok(Host { started: Instant::now(), archives })
    }
}

/// Fills 16 bytes from the kernel.
pub fn random() -> u128 {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.expect("the kernel gives randomness");
    u128::from_ne_bytes(bytes)
}

impl Outside for Host {
    fn wall_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn random(&self) -> u128 {
        random()
    }

    async fn sleep_until(&self, monotonic_ms: u64) {
        tokio::time::sleep_until(self.started + Duration::from_millis(monotonic_ms)).await;
    }

    async fn keep_archive(&self, bytes: Vec<u8>) -> Result<Kept, ApiError> {
        let archives = self.archives.clone();
        blocking(move || {
            // What is checked here must not depend on this host: the charm runs on the machines.
            let options = charms::ReadOptions { cache: archives.clone(), force: true };
            let source = charms::read::read_archive("the archive", bytes, &options).map_err(|problems| {
                let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
                ApiError::new(ErrorCode::Invalid, lines.join("\n"))
            })?;
            write_whole(&archives.join(&source.sha256), &source.archive, 0o600).map_err(|e| {
                let text = format!("the charm archive could not be kept: {e}");
                ApiError::new(ErrorCode::Unavailable, text).hint("free some space and deploy again")
            })?;
            Ok(Kept { bytes: source.archive.len() as u64, sha256: source.sha256, charm: source.charm })
        })
        .await
    }

    async fn archive(&self, sha256: &str) -> Option<Vec<u8>> {
        let (place, sha256) = (self.archives.join(sha256), sha256.to_owned());
        let bytes = blocking(move || fs::read(place)).await.ok()?;
        (sha256_hex(&bytes) == sha256).then_some(bytes)
    }

    fn broken(&self, why: &str) {
        tracing::error!("{why}; ending, to start again from what is on disk");
        std::process::exit(EXIT_BROKEN);
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("disk work does not panic")
}

/// Writes beside, syncs, renames, syncs the folder: the file is there whole or as it was before.
pub fn write_whole(place: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = place.parent().expect("a file lies in a folder");
    let beside = folder.join(format!(".{:032x}", random()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&beside)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, place))
        .and_then(|()| File::open(folder)?.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(&beside); // what is left is a hidden file that nobody reads
    }
    written
}
