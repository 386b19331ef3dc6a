//! The random part of delays, which keeps units from acting at the same time.
//!
//! It is a function of the unit, so that a simulation is reproducible.

use crate::terms::names::Uuid;
use sha2::{Digest, Sha256};

/// Returns a pseudo-random number that is a function of its arguments.
pub(super) fn jitter(unit: Uuid, salt: u64) -> u64 {
    let digest = Sha256::digest([&unit.0.to_be_bytes()[..], &salt.to_be_bytes()[..]].concat());
    digest[..8].iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}
