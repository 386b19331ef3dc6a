//! Reads and formats `agent.yaml`, the configuration file of an agent ([`AgentConfig`]).
//!
//! The file contains a token, so it is refused if other users may read it. A unit agent reads its file again every few
//! seconds and restarts when the content has changed; a machine agent reads the files of its units for every plan.

use crate::fault;
use anyhow::{Context, Result, bail};
use api::AgentConfig;
use charms::yaml::{self, YamlError};
use host::file::read_regular;
use state::terms::health::{Fault, Limit};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Files whose parsed content is kept: those of the units of a full machine, that of the machine, and 7 of earlier units.
/// When there are more, all are parsed again.
const PARSED_MAX: usize = state::lifecycle::machine::UNITS_MAX + 8;

/// The largest configuration: some certificates of 2 KiB each.
const FILE_BYTES_MAX: u64 = 64 << 10;

thread_local! {
    /// By path: the text that was read last, and its parsed form. An idle agent reads the same text every few seconds,
    /// and parsing it costs more than everything else that it does.
    static PARSED: RefCell<BTreeMap<PathBuf, (String, AgentConfig)>> = RefCell::default();
}

/// Reads the configuration in this folder.
///
/// # Errors
/// If it cannot be read or parsed, or if others may read it.
pub fn read(folder: &Path) -> Result<AgentConfig> {
    read_file(&folder.join(AgentConfig::FILE))
}

/// Reads the configuration in this file.
///
/// # Errors
/// If it cannot be read or parsed, or if others may read it.
pub fn read_file(path: &Path) -> Result<AgentConfig> {
    let shown = path.display();
    let read = read_regular(path, FILE_BYTES_MAX).map_err(read_error);
    let (bytes, found) = read.with_context(|| format!("cannot read {shown}"))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if found.permissions().mode() & 0o077 != 0 {
        bail!(
            "cannot use {shown}: it contains a token, and other users may read it\nhint: chmod 600 {shown}"
        );
    }
    PARSED.with_borrow_mut(|parsed| {
        if let Some((_, config)) = parsed.get(path).filter(|(before, _)| *before == text) {
            return Ok(config.clone());
        }
        let config: AgentConfig = yaml::from_str(&text)
            .with_context(|| format!("cannot parse {shown} as the configuration of an agent"))?;
        if parsed.len() >= PARSED_MAX {
            parsed.clear();
        }
        parsed.insert(path.to_owned(), (text, config.clone()));
        Ok(config)
    })
}

/// The error of a read, which reports a limit of the host only if it is one of open files. Any other limit is not one that a
/// read can reach: it is an error of this file, on a file system of its own, and must not stand for the host.
fn read_error(error: io::Error) -> io::Error {
    let limit = error.raw_os_error().and_then(fault::of_errno);
    match limit {
        Some(Fault::Limit(Limit::Descriptors | Limit::HostDescriptors) | Fault::Disk) | None => error,
        Some(_) => io::Error::new(error.kind(), error.to_string()),
    }
}

/// Whether reading failed because the file does not exist or is damaged, so that nothing of it can be used. A file that
/// could not be read for another reason, such as a limit of the host, may be intact.
pub fn is_absent_or_damaged(error: &anyhow::Error) -> bool {
    let is_io = |found: &io::Error| matches!(found.kind(), ErrorKind::NotFound | ErrorKind::InvalidData);
    error.is::<YamlError>() || error.downcast_ref::<io::Error>().is_some_and(is_io)
}

/// The content of the file.
pub fn to_yaml(config: &AgentConfig) -> String {
    yaml::to_string(config).expect("configurations are plain data")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    /// An error that reports a limit ends the listing of the units, because their files may be intact.
    #[test]
    fn only_the_limits_of_open_files_are_limits_of_the_host_for_a_read() {
        let limit_of = |errno: Errno| {
            let error = read_error(io::Error::from_raw_os_error(errno as i32));
            fault::of_error(&anyhow::Error::new(error).context("cannot read agent.yaml"))
        };
        assert_eq!(limit_of(Errno::EMFILE), Some(Fault::Limit(Limit::Descriptors)));
        assert_eq!(limit_of(Errno::ENFILE), Some(Fault::Limit(Limit::HostDescriptors)));
        for errno in
            [Errno::ENOSPC, Errno::EDQUOT, Errno::EFBIG, Errno::ENOMEM, Errno::EADDRNOTAVAIL, Errno::ELOOP]
        {
            assert_eq!(limit_of(errno), None, "{errno}");
        }
    }
}
