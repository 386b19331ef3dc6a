//! The limit of this process for open descriptors, from which the limits of its connections follow.

use super::connection_limits::{DESCRIPTORS_MIN, Limits};
use anyhow::{Context, Result, bail};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit of descriptors to the hard limit. An error if the hard limit is below `DESCRIPTORS_MIN`.
/// `program` calls it before it opens the store.
pub fn raise_limit() -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit of open files")?;
    if hard < DESCRIPTORS_MIN {
        bail!(
            "cannot start: the limit of open files is {hard}, and the controller needs {DESCRIPTORS_MIN}\n\
             hint: raise it, for example with: ulimit -Hn 4096"
        );
    }
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("cannot raise the limit of open files")?;
    }
    Ok(())
}

/// Returns the limits of connections under the current limit of descriptors.
pub(super) fn connection_limits() -> Limits {
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(DESCRIPTORS_MIN, |(soft, _)| soft);
    Limits::for_descriptors(soft)
}
