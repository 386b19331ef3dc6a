//! Faults of a unit agent: how an error becomes one, and how it crosses the end of the process.
//!
//! A unit agent that cannot go on ends with the exit code of its fault, because a full disk takes no other report. The
//! machine agent translates the code back. Called by `folder`, `unit_program`, `unit_supervisor` and `machine_agent`.

use crate::ports::DiskError;
use anyhow::Result;
use nix::errno::Errno;
use state::terms::health::{Fault, Limit, ProcessEnd, UnitAgentExit, bounded_line};
use std::process::ExitCode;

/// The exit code of the first fault of [`Fault::ALL`]; the next ones follow. No program and no shell uses these.
const EXIT_FIRST: u8 = 80;

/// A fault that the code has recognised, as part of an error.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{}", api::text::fault::state(*.0))]
pub struct FaultContext(pub Fault);

/// The exit code of an agent that ends because of this fault.
pub fn exit_code(fault: Fault) -> u8 {
    let place = Fault::ALL.iter().position(|known| *known == fault).unwrap_or_default();
    EXIT_FIRST + u8::try_from(place).unwrap_or_default()
}

/// The fault of this exit code, if it is that of one.
pub fn of_exit_code(code: i32) -> Option<Fault> {
    let place = usize::try_from(code - i32::from(EXIT_FIRST)).ok()?;
    Fault::ALL.get(place).copied()
}

/// Ends a program because of an error: with the exit code of its fault, if it is known.
///
/// # Errors
/// The same error, if its fault is not known.
pub fn as_exit_code(error: anyhow::Error) -> Result<ExitCode> {
    match of_error(&error) {
        Some(fault) => {
            eprintln!("ERROR {error:#}");
            Ok(ExitCode::from(exit_code(fault)))
        }
        None => Err(error),
    }
}

/// The fault behind an error: one that was recognised, or a limit that a system call has reported.
pub fn of_error(error: &anyhow::Error) -> Option<Fault> {
    let of_disk = || error.downcast_ref::<DiskError>().and_then(|failed| failed.fault);
    let recognised = error.downcast_ref::<FaultContext>().map(|recognised| recognised.0).or_else(of_disk);
    let errno = |cause: &(dyn std::error::Error + 'static)| {
        let of_io = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        of_io.or_else(|| cause.downcast_ref::<Errno>().map(|errno| *errno as i32))
    };
    recognised.or_else(|| error.chain().find_map(errno).and_then(of_errno))
}

/// An error of a system call, with the setting to change if it reports a limit.
pub fn with_setting(error: &std::io::Error) -> String {
    match error.raw_os_error().and_then(of_errno) {
        Some(Fault::Limit(limit)) => {
            let setting = api::text::fault::setting(limit).map(|setting| format!("; raise {setting}"));
            format!("{error}{}", setting.unwrap_or_default())
        }
        Some(_) | None => error.to_string(),
    }
}

/// The limit that this error of a system call reports, or a disk that fails.
pub fn of_errno(errno: i32) -> Option<Fault> {
    let limit = match Errno::from_raw(errno) {
        Errno::EMFILE => Limit::Descriptors,
        Errno::ENFILE => Limit::HostDescriptors,
        Errno::EAGAIN => Limit::Processes,
        Errno::ENOSPC => Limit::DiskSpace,
        Errno::EDQUOT => Limit::DiskQuota,
        Errno::ENOMEM => Limit::Memory,
        Errno::EADDRNOTAVAIL => Limit::Ports,
        Errno::EIO | Errno::EROFS => return Some(Fault::Disk),
        _ => return None,
    };
    Some(Fault::Limit(limit))
}

/// The end of an agent that could not be started because of this error.
pub fn not_started(error: &anyhow::Error, now_ms: i64) -> UnitAgentExit {
    UnitAgentExit {
        end: ProcessEnd::NotStarted,
        fault: of_error(error),
        last_line: Some(bounded_line(&format!("{error:#}"))),
        since_ms: now_ms,
        at_ms: now_ms,
        count: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_survives_the_end_of_its_process_as_an_exit_code() {
        for fault in Fault::ALL {
            assert_eq!(of_exit_code(i32::from(exit_code(*fault))), Some(*fault));
        }
        assert_eq!(of_exit_code(1), None);
        assert_eq!(of_exit_code(15), None, "an agent that restarts");
        assert_eq!(of_exit_code(127), None, "a program that a shell does not find");
    }

    #[test]
    fn a_limit_is_recognised_in_an_error_with_context() {
        let error = |errno: Errno| {
            anyhow::Error::new(std::io::Error::from_raw_os_error(errno as i32)).context("cannot start")
        };
        assert_eq!(of_error(&error(Errno::EMFILE)), Some(Fault::Limit(Limit::Descriptors)));
        assert_eq!(of_error(&error(Errno::EAGAIN)), Some(Fault::Limit(Limit::Processes)));
        assert_eq!(of_error(&error(Errno::ENOENT)), None);
        let recognised = anyhow::anyhow!("its format is 2").context(FaultContext(Fault::FolderFormat));
        assert_eq!(of_error(&recognised), Some(Fault::FolderFormat));
    }
}
