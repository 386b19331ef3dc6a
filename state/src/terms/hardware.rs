//! The hardware of a machine, as it is shown.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The most bytes of the name of an architecture; the longest of Juju has 7.
const ARCHITECTURE_BYTES_MAX: usize = 32;

/// The hardware of a machine, which its agent or its provider reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hardware {
    /// The architecture by its name in Juju: `amd64`.
    pub arch: String,
    /// The number of processors.
    pub cores: u64,
    /// The memory, in MiB.
    pub mem_mib: u64,
}

impl Hardware {
    /// Whether the name of the architecture can be one.
    pub fn is_plausible(&self) -> bool {
        let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        (1..=ARCHITECTURE_BYTES_MAX).contains(&self.arch.len()) && self.arch.bytes().all(is_part)
    }
}

/// In the form of Juju: `arch=amd64 cores=2 mem=7934M`.
impl fmt::Display for Hardware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hardware { arch, cores, mem_mib } = self;
        write!(f, "arch={arch} cores={cores} mem={mem_mib}M")
    }
}
