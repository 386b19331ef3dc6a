//! How a supervised process ended, in a file that the supervisor writes and the commands read: why no controller answers.
//!
//! The supervisor replaces the file whenever the process has ended. `up` deletes it before it has the process started,
//! so that it finds no older end in it. On a full disk the file cannot be written; the reader then looks at the disk.
//!
//! Written by `supervised_process`; read by `up`, by the `local` provider, and for the error of a command that no controller
//! answers.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use api::text::fault;
use host::disk::FullDisk;
use host::file::{ignore_not_found, write_atomic_unsynced};
use host::process::Process;
use host::restart::{EXIT_REFUSED, EndedBy, IMMEDIATE_RESTARTS_MAX};
use serde::{Deserialize, Serialize};
use state::terms::health::{Fault, Limit, ProcessEnd};
use std::io;
use std::path::Path;

/// The ends after which a process that ends by itself is reported. The first restarts come after 0.1 s and 0.2 s: what
/// has not passed by then does not pass by itself.
const ENDS_REPORTED_MIN: u32 = 3;

/// One or more ends of a process, without a longer run between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessExits {
    /// How it ended the last time.
    pub end: ProcessEnd,
    /// The last error that it has logged, or why it could not be started.
    pub error: Option<String>,
    /// The number of ends.
    pub count: u32,
}

impl ProcessExits {
    /// Reads the file; none if it is absent or damaged.
    pub fn read(file: &Path) -> Option<ProcessExits> {
        charms::yaml::from_str(&std::fs::read_to_string(file).ok()?).ok()
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// If it cannot be written. An earlier file is deleted then, because its content is no longer true.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        let text = charms::yaml::to_string(self).expect("plain data");
        write_atomic_unsynced(file, text.as_bytes()).inspect_err(|_| drop(std::fs::remove_file(file)))
    }

    /// Deletes the file.
    ///
    /// # Errors
    /// If it cannot be deleted.
    pub fn forget(file: &Path) -> io::Result<()> {
        ignore_not_found(std::fs::remove_file(file)).map(drop)
    }

    /// Whether the process ends at each start, so that waiting for the next one is of no use. A process that others kill
    /// is restarted at once a number of times, and may run again.
    pub fn is_failing(&self) -> bool {
        let reported_from = match self.end {
            ProcessEnd::Code(code) if code == i32::from(EXIT_REFUSED) => 1,
            ProcessEnd::Signal(signal) if EndedBy::of_signal(Some(signal)) == EndedBy::Signal => {
                IMMEDIATE_RESTARTS_MAX + 1
            }
            ProcessEnd::Code(_) | ProcessEnd::Signal(_) | ProcessEnd::NotStarted | ProcessEnd::Unobserved => {
                ENDS_REPORTED_MIN
            }
        };
        self.count >= reported_from
    }

    /// The error of a controller that ends at each start: how it ended, its own error, and what helps.
    fn describe(&self, dir: &DataDir) -> CommandError {
        let error = self.error.as_deref().map(|error| format!(":\n{error}")).unwrap_or_default();
        let end = fault::end(&self.end, self.count);
        CommandError::new(format!(
            "the controller of {} does not answer: it {end}{error}",
            dir.path().display()
        ))
    }
}

/// Why the controller of a folder does not run; none if it runs, or if that is not known.
pub fn why_no_controller(dir: &DataDir) -> Option<CommandError> {
    if Process::read_alive(&dir.controller_pid()).is_some() {
        return None;
    }
    let failing = ProcessExits::read(&dir.controller_exits()).filter(ProcessExits::is_failing);
    let full = full_disk(dir);
    let failure = failing.map(|exits| exits.describe(dir)).or_else(|| {
        let text = format!("the controller of {} does not answer: it does not run", dir.path().display());
        full.is_some().then(|| CommandError::new(text))
    })?;
    Some(with_remedy(failure, dir, "controller"))
}

/// Adds what helps: room on a full disk, or else the log of the process. Afterwards `up` has it started at once.
pub fn with_remedy(mut failure: CommandError, dir: &DataDir, log: &str) -> CommandError {
    match full_disk(dir) {
        Some(limit) => {
            failure.message += &format!("\n{}", fault::state(Fault::Limit(limit)));
            failure.hint(format!("free disk space in {}, then: pintle up", dir.path().display()))
        }
        None => failure.hint(format!("see {}; after the repair: pintle up", dir.log(log).display())),
    }
}

/// The limit that the disk of a data folder has reached.
fn full_disk(dir: &DataDir) -> Option<Limit> {
    Some(match host::disk::full(dir.path())? {
        FullDisk::Space => Limit::DiskSpace,
        FullDisk::Files => Limit::DiskFiles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_failing_when_it_ends_by_itself_again_or_refuses_to_serve() {
        let failing_from = |end: ProcessEnd| {
            let is_failing = |count: &u32| ProcessExits { end, error: None, count: *count }.is_failing();
            (1..100).find(is_failing)
        };
        assert_eq!(failing_from(ProcessEnd::Code(1)), Some(3));
        assert_eq!(failing_from(ProcessEnd::NotStarted), Some(3));
        assert_eq!(failing_from(ProcessEnd::Signal(6)), Some(3));
        assert_eq!(failing_from(ProcessEnd::Signal(9)), Some(11));
        assert_eq!(failing_from(ProcessEnd::Code(3)), Some(1));
    }

    #[test]
    fn an_end_that_cannot_be_written_leaves_no_older_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("exits.yaml");
        let exits = ProcessExits { end: ProcessEnd::Code(1), error: Some("ERROR a: b".to_owned()), count: 2 };
        exits.write(&file).expect("written");
        assert_eq!(ProcessExits::read(&file), Some(exits.clone()));
        ProcessExits::forget(&file).expect("deleted");
        ProcessExits::forget(&file).expect("nothing to delete");
        assert_eq!(ProcessExits::read(&file), None);
        // too long for the name of a temporary file beside it, and not for its own
        let file = folder.path().join("e".repeat(240));
        std::fs::write(&file, charms::yaml::to_string(&exits).expect("plain data")).expect("written");
        assert_eq!(ProcessExits::read(&file), Some(exits.clone()));
        exits.write(&file).expect_err("it cannot be replaced");
        assert_eq!(ProcessExits::read(&file), None);
    }
}
