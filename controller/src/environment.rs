//! The environment port: everything that the handlers need besides the store.
//!
//! It provides clocks, randomness, a timer, the stored files (charm archives and files of resources), the keys of secrets,
//! and the end of the process. Handlers must use nothing else of the host, so that the simulator can replace it (design
//! 14). `host_environment` implements it for the real controller.

use crate::archive_file::ArchiveFile;
use crate::disk_threads::DiskThreads;
use crate::secret_keys::SecretKeys;
use api::error::{ApiError, ErrorCode};
use state::charm::Charm;
use state::documents::draft::Revision;
use state::terms::names::Uuid;
use state::views::inline_settings;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};

/// A charm archive that was stored.
pub struct StoredArchive {
    /// The digest of the archive, in hexadecimal. It is also the archive's file name.
    pub sha256: String,
    /// The size of the archive.
    pub bytes: u64,
    /// The charm that the archive contains.
    pub charm: Charm,
}

/// What the handlers need of the host. See the module.
pub trait Environment: Send + Sync + 'static {
    /// Returns the wall clock, in milliseconds since the epoch. It is for display, and decides when enrolment tokens
    /// expire, when provisioning is tried again and when secrets are due; how long a removal waits does not depend on it
    /// (I43).
    fn wall_ms(&self) -> i64;
    /// Returns the monotonic clock, in milliseconds.
    fn monotonic_ms(&self) -> u64;
    /// Returns 128 new random bits.
    fn random(&self) -> u128;
    /// Waits until the monotonic clock has reached this time.
    fn sleep_until(&self, monotonic_ms: u64) -> impl Future<Output = ()> + Send;
    /// Reads a charm archive and stores it under its digest. The archive is durable when this returns. An error
    /// lists every problem of the charm, one per line, and nothing is stored.
    fn store_archive(&self, bytes: Vec<u8>) -> impl Future<Output = Result<StoredArchive, ApiError>> + Send;
    /// Returns the folder into which the server receives archives, and the threads that write there; none if this
    /// environment has none.
    fn receiving_folder(&self) -> Option<(PathBuf, DiskThreads)> {
        None
    }
    /// Like [`Environment::store_archive`], for an archive that was received into a file of that folder and synced. The
    /// file is renamed if the archive is stored.
    fn store_received_archive(
        &self,
        file: &Path,
    ) -> impl Future<Output = Result<StoredArchive, ApiError>> + Send {
        let text = format!("cannot store the archive {}", file.display());
        std::future::ready(Err(ApiError::new(ErrorCode::Unavailable, text)))
    }
    /// Stores the file of a resource under its digest, which is returned. The file is durable when this returns.
    fn store_resource(&self, bytes: Vec<u8>) -> impl Future<Output = Result<String, ApiError>> + Send {
        let text = format!("cannot store a file of {} bytes", bytes.len());
        std::future::ready(Err(ApiError::new(ErrorCode::Unavailable, text)))
    }
    /// Like [`Environment::store_resource`], for a file that was received into [`Environment::receiving_folder`] and
    /// synced. The file is renamed if it is stored. Returns its digest and size.
    fn store_received_resource(
        &self,
        file: &Path,
    ) -> impl Future<Output = Result<(String, u64), ApiError>> + Send {
        let text = format!("cannot store the file {}", file.display());
        std::future::ready(Err(ApiError::new(ErrorCode::Unavailable, text)))
    }
    /// Returns the charm archive or file of a resource of this digest; none if it is absent or damaged.
    fn stored_file(&self, sha256: &str) -> impl Future<Output = Option<Vec<u8>>> + Send;
    /// Whether the file of this digest is stored and intact. The janitor of another controller keeps it for a while then.
    fn has_stored_file(&self, sha256: &str) -> impl Future<Output = bool> + Send {
        async { self.stored_file(sha256).await.is_some() }
    }
    /// Opens the file of this digest, to send it in pieces; none if it is absent or known to be damaged, or
    /// if this environment has no files. An error does not prove that it is absent: a limit of the host may be reached, or its
    /// disk may fail.
    fn open_stored_file(
        &self,
        _sha256: &str,
    ) -> impl Future<Output = io::Result<Option<ArchiveFile>>> + Send {
        std::future::ready(Ok(None))
    }
    /// Returns all stored files, also those of uploads that have ended half way: by digest, when any controller has last
    /// uploaded or looked the file up, as a revision of the store; 0 if no other controller uses it.
    fn stored_files(&self) -> impl Future<Output = BTreeMap<String, Revision>> + Send;
    /// Deletes a stored file, unless another controller has uploaded or looked it up since it had this revision. A failure
    /// is logged; the file is deleted later.
    fn delete_stored_file(&self, sha256: &str, revision: Revision) -> impl Future<Output = ()> + Send;
    /// The keys with which contents of secrets are sealed; none if there are no secrets here.
    fn secret_keys(&self) -> Option<&SecretKeys> {
        None
    }
    /// Returns the most bytes of settings that are inlined in a unit's view; other settings are fetched on demand
    /// (design 9). The simulator uses a smaller bound.
    fn inline_settings_bytes_max(&self) -> usize {
        inline_settings::INLINE_BYTES_MAX
    }
    /// Ends the process because the store is broken: no request may be answered any more (design 15).
    fn on_store_failure(&self, why: &str);
}

/// Returns a random uuid (version 4).
pub fn random_uuid(environment: &impl Environment) -> Uuid {
    uuid_v4(environment.random())
}

/// The uuids for one transition. Each retry of the transition receives the same ones.
#[derive(Clone, Copy)]
pub struct Uuids(u128);

impl Uuids {
    /// Draws the seed of the uuids.
    pub fn new(environment: &impl Environment) -> Uuids {
        Uuids(environment.random())
    }

    /// Returns a generator that starts with the first uuid.
    pub fn generator(self) -> impl FnMut() -> Uuid {
        let mut next = self.0;
        move || {
            // The step is odd and far from any power of two, so that consecutive uuids differ in many digits.
            next = next.wrapping_add(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            uuid_v4(next)
        }
    }
}

/// Converts random bits to a uuid of version 4.
pub fn uuid_v4(bits: u128) -> Uuid {
    Uuid(bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62)
}
