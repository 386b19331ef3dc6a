//! Faults of a unit agent: determines the fault behind an error.
//!
//! An agent whose host refuses it something (disk, processes, threads, open files) names the limit and the setting that
//! raises it. Called wherever an agent uses its host, and by the programs for their exit codes.

use crate::exit_code;
use crate::ports::DiskError;
use anyhow::Result;
use host::program::ProgramError;
use nix::errno::Errno;
use state::terms::health::{Fault, Limit, ProcessEnd, UnitAgentExit, bounded_line};
use std::error::Error as _;
use std::process::ExitCode;

/// The context of an error whose fault is known where the error occurs.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{}", api::text::fault::state(*.0))]
pub struct FaultContext(pub Fault);

/// Ends a program because of an error: with the exit code of its fault, if it has one.
///
/// # Errors
/// The same error, if it has no fault.
pub fn as_exit_code(error: anyhow::Error) -> Result<ExitCode> {
    match of_error(&error) {
        Some(fault) => {
            eprintln!("ERROR {error:#}");
            Ok(ExitCode::from(exit_code::of_fault(fault)))
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

/// The error of a program of the host, with its fault if it could not be started because of the limit of processes.
pub fn program_error(error: ProgramError) -> anyhow::Error {
    let errno = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>()?.raw_os_error());
    let is_limit = errno.and_then(of_start_errno) == Some(Fault::Limit(Limit::Processes));
    let error = anyhow::Error::new(error);
    if is_limit { error.context(FaultContext(Fault::Limit(Limit::Processes))) } else { error }
}

/// The error of a process that cannot be started, with its fault if it is the limit of processes.
pub fn start_error(error: std::io::Error) -> anyhow::Error {
    match error.raw_os_error().and_then(of_start_errno) {
        Some(Fault::Limit(Limit::Processes)) => {
            anyhow::Error::new(error).context(FaultContext(Fault::Limit(Limit::Processes)))
        }
        Some(_) | None => error.into(),
    }
}

/// The error of a process that cannot be started, with the setting to change if it reports a limit.
pub fn with_setting(error: &std::io::Error) -> String {
    match error.raw_os_error().and_then(of_start_errno) {
        Some(Fault::Limit(limit)) => {
            let setting = api::text::fault::setting(limit).map(|setting| format!("; raise {setting}"));
            format!("{error}{}", setting.unwrap_or_default())
        }
        Some(_) | None => error.to_string(),
    }
}

/// The fault that this error number of a system call reports: a limit, or a disk that fails. None for other errors.
pub fn of_errno(errno: i32) -> Option<Fault> {
    let limit = match Errno::from_raw(errno) {
        Errno::EMFILE => Limit::Descriptors,
        Errno::ENFILE => Limit::HostDescriptors,
        Errno::ENOSPC => Limit::DiskSpace,
        Errno::EDQUOT => Limit::DiskQuota,
        Errno::EFBIG => Limit::FileSize,
        Errno::ENOMEM => Limit::Memory,
        Errno::EADDRNOTAVAIL => Limit::Ports,
        Errno::EIO | Errno::EROFS => return Some(Fault::Disk),
        _ => return None,
    };
    Some(Fault::Limit(limit))
}

/// As [`of_errno`], for the start of a process or a thread. Only there EAGAIN reports a limit; from any other system
/// call it means that the call would block.
fn of_start_errno(errno: i32) -> Option<Fault> {
    match Errno::from_raw(errno) {
        Errno::EAGAIN => Some(Fault::Limit(Limit::Processes)),
        _ => of_errno(errno),
    }
}

/// The end of an agent that could not be started because of this error.
pub fn not_started(error: &anyhow::Error, now_ms: i64) -> UnitAgentExit {
    UnitAgentExit {
        end: ProcessEnd::NotStarted,
        fault: of_error(error),
        last_error: Some(bounded_line(&format!("{error:#}"))),
        since_ms: now_ms,
        at_ms: now_ms,
        count: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_recognised_in_an_error_with_context() {
        let error = |errno: Errno| {
            anyhow::Error::new(std::io::Error::from_raw_os_error(errno as i32)).context("cannot start")
        };
        assert_eq!(of_error(&error(Errno::EMFILE)), Some(Fault::Limit(Limit::Descriptors)));
        assert_eq!(of_error(&error(Errno::EADDRNOTAVAIL)), Some(Fault::Limit(Limit::Ports)));
        assert_eq!(of_error(&error(Errno::ENOMEM)), Some(Fault::Limit(Limit::Memory)));
        assert_eq!(of_error(&error(Errno::ENOENT)), None);
        let recognised = anyhow::anyhow!("its format is 2").context(FaultContext(Fault::FolderFormat));
        assert_eq!(of_error(&recognised), Some(Fault::FolderFormat));
    }
    #[test]
    fn eagain_is_the_limit_of_processes_only_where_a_process_is_started() {
        let would_block = || std::io::Error::from_raw_os_error(Errno::EAGAIN as i32);
        assert_eq!(of_error(&start_error(would_block())), Some(Fault::Limit(Limit::Processes)));
        assert_eq!(of_error(&would_block().into()), None);
        let no_program = std::io::Error::from_raw_os_error(Errno::ENOENT as i32);
        assert_eq!(of_error(&start_error(no_program)), None);
    }
}
