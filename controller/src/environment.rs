//! All that the handlers ask of the world beside the store: clocks, randomness, one timer, charm archives. The
//! simulator has its own (design 14).

use api::error::ApiError;
use state::charm::Charm;
use state::terms::names::Uuid;
use state::views::inline_settings;
use std::future::Future;

/// A charm archive that is kept.
pub struct StoredArchive {
    pub sha256: String,
    pub bytes: u64,
    pub charm: Charm,
}

pub trait Environment: Send + Sync + 'static {
    /// Wall clock in milliseconds since the epoch: for people only, nothing is decided on it.
    fn wall_ms(&self) -> i64;
    /// Milliseconds on a clock that never steps.
    fn monotonic_ms(&self) -> u64;
    /// 128 fresh random bits.
    fn random(&self) -> u128;
    fn sleep_until(&self, monotonic_ms: u64) -> impl Future<Output = ()> + Send;
    /// Reads a charm archive and keeps it under its digest; when this answers it is durable. An error names every
    /// problem of the charm, one a line, and nothing was kept.
    fn store_archive(&self, bytes: Vec<u8>) -> impl Future<Output = Result<StoredArchive, ApiError>> + Send;
    /// The archive of this digest; none = it is not there or is damaged.
    fn archive(&self, sha256: &str) -> impl Future<Output = Option<Vec<u8>>> + Send;
    /// Bytes of settings that come along with a unit's view (design 9). The simulator's are fewer.
    fn inline_settings_bytes_max(&self) -> usize {
        inline_settings::BYTES_MAX
    }
    /// The store is broken: nothing may be answered any more (design 15). Ends the process.
    fn store_broken(&self, why: &str);
}

/// A random uuid (version 4).
pub fn random_uuid(environment: &impl Environment) -> Uuid {
    version_4(environment.random())
}

/// Uuids for one transition: its retries find the same ones.
#[derive(Clone, Copy)]
pub struct Uuids(u128);

impl Uuids {
    pub fn new(environment: &impl Environment) -> Uuids {
        Uuids(environment.random())
    }

    /// The supply, from its beginning.
    pub fn supply(self) -> impl FnMut() -> Uuid {
        let mut next = self.0;
        move || {
            // An odd step far from any power of two: neighbours differ in all places people look at.
            next = next.wrapping_add(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            version_4(next)
        }
    }
}

/// Random bits as a uuid of version 4.
pub fn version_4(bits: u128) -> Uuid {
    Uuid(bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62)
}
