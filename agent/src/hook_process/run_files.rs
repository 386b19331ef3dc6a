//! The files of one run. The agent writes `context.yaml` before it opens the gate of the shim; the shim writes the
//! outcome.
//!
//! A later agent reads `context.yaml` when it re-attaches, while the hook may still run, to answer its tools. The current
//! agent polls the outcome until it exists. An unreadable file is treated like an absent one. The machine agent reads these
//! files, too, and a hook may replace them: what is no regular file is not waited for, and none is read beyond its bound.

use crate::fault;
use hook_client::shim;
use host::escape::json_as_yaml;
use host::file::read_regular;
use serde::{Deserialize, Serialize};
use state::terms::operation::Operation;
use state::terms::start_reason::StartReason;
use state::unit::hook_context::HookContext;
use state::unit::hook_log::HookHandler;
use state::unit::outcome::RunExit;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

/// The file that holds the [`RunFile`], in the folder of a run: JSON, which is valid YAML.
pub(crate) const CONTEXT_FILE: &str = "context.yaml";

/// The largest `context.yaml`: twice 16 MiB, because each value has a line of its own. It has 1 MiB of settings of others, the
/// unit's own with 5 MiB and those of its application that are not committed yet, the declarations, the configuration and the leader settings with 1.25 MiB each, the parameters of an action, and relations
/// with 400 bytes for each of 20,000 related units.
pub(crate) const CONTEXT_BYTES_MAX: u64 = 32 << 20;
/// The largest outcome: the path of a program that could not be started, of at most 4 KiB, after two words.
const OUTCOME_BYTES_MAX: u64 = 8 << 10;
/// The largest file of an output: what the shim stores, twice for the marks in the place of masked contents.
const OUTPUT_FILE_BYTES_MAX: u64 = 2 * shim::OUTPUT_BYTES_MAX as u64;

/// `context.yaml`: what a later agent needs to answer the tools of this run, and, for people, what was run, why, and from
/// which view. A process that has the id of the context may call tools, so only its digest is stored.
#[derive(Serialize, Deserialize)]
pub struct RunFile {
    pub(crate) operation: Operation,
    pub(crate) reason: StartReason,
    pub(crate) position: Option<state::terms::position::Position>,
    pub(crate) context_digest: String,
    /// The boot in which the run started. After another boot no unsynced file is reliable: the outcome may
    /// exist while the calls are lost.
    pub(crate) boot: String,
    /// The program of the charm that runs a hook; none for an action or commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) handler: Option<HookHandler>,
    /// Whether a warm parent has forked the hook.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) warm: bool,
    pub(crate) context: HookContext,
}

impl RunFile {
    /// The digest of the id of the context.
    pub fn context_digest(&self) -> &str {
        &self.context_digest
    }

    /// What runs.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Why the agent chose it.
    pub fn reason(&self) -> &StartReason {
        &self.reason
    }

    /// Whether a warm parent has forked the hook.
    pub fn is_warm(&self) -> bool {
        self.warm
    }

    /// Writes the file of a run, which is read after it is complete, because the gate of the shim is opened later.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, run_folder: &Path) -> io::Result<()> {
        // JSON is valid YAML; one value per line is readable
        let text = serde_json::to_string_pretty(self).expect("contexts are plain data");
        create_file(&run_folder.join(CONTEXT_FILE), json_as_yaml(&text).as_bytes(), 0o600)
    }
}

/// When the file of a run was written, which is when it started. None if it is absent.
pub fn started(run_folder: &Path) -> Option<SystemTime> {
    fs::metadata(run_folder.join(CONTEXT_FILE)).ok()?.modified().ok()
}

/// When the outcome was stored. None if it was not.
pub fn finished_at(run_folder: &Path) -> Option<SystemTime> {
    fs::metadata(run_folder.join(shim::OUTCOME)).ok()?.modified().ok()
}

/// The last `lines_max` lines of the output that a run has stored, without the names of their streams, and how many are
/// before them.
pub fn last_output(run_folder: &Path, lines_max: usize) -> (Vec<String>, usize) {
    let bytes = read_output(&run_folder.join(shim::OUTPUT));
    let text = String::from_utf8_lossy(&bytes);
    let decode = |entry: &str| {
        let line = [shim::STDOUT, shim::STDERR].iter().find_map(|stream| shim::decode_entry(stream, entry));
        line.unwrap_or(entry).to_owned()
    };
    let mut lines: Vec<String> = text.lines().map(decode).collect();
    let before = lines.len().saturating_sub(lines_max);
    lines.drain(..before);
    (lines, before)
}

/// What a program has printed, as the shim has stored it. Empty if the file is absent, or is not one that the shim has
/// written.
pub(crate) fn read_output(file: &Path) -> Vec<u8> {
    read_regular(file, OUTPUT_FILE_BYTES_MAX).map_or_else(|_| Vec::new(), |(bytes, _)| bytes)
}

/// Creates a file.
pub(super) fn create_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)
}

/// The file of a run. None if it is absent or unreadable.
pub fn read_run_file(run_folder: &Path) -> Option<RunFile> {
    let (bytes, _) = read_regular(&run_folder.join(CONTEXT_FILE), CONTEXT_BYTES_MAX).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The outcome that the shim has stored. None if it has not stored one.
pub fn read_outcome(run_folder: &Path) -> Option<RunExit> {
    let (bytes, _) = read_regular(&run_folder.join(shim::OUTCOME), OUTCOME_BYTES_MAX).ok()?;
    // the path of a program need not be UTF-8
    let text = String::from_utf8_lossy(bytes.trim_ascii_end());
    let (kind, rest) = text.split_once(' ')?;
    match kind {
        shim::EXIT => rest.parse().ok().map(RunExit::Code),
        shim::SIGNAL => rest.parse().ok().map(RunExit::Signal),
        shim::FAILED => {
            let (errno, what) = rest.split_once(' ')?;
            let error = io::Error::from_raw_os_error(errno.parse().ok()?);
            Some(RunExit::Failed(format!("{what}: {}", fault::with_setting(&error)).into()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::without_waiting::without_waiting;
    use std::fs::File;
    use std::path::PathBuf;

    fn read_all(run: &Path) -> (bool, bool, Vec<u8>) {
        let output = read_output(&run.join(shim::OUTPUT));
        (read_run_file(run).is_some(), read_outcome(run).is_some(), output)
    }

    fn run_with(plant: impl Fn(&Path)) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a folder");
        for name in [CONTEXT_FILE, shim::OUTCOME, shim::OUTPUT] {
            plant(&dir.path().join(name));
        }
        let run = dir.path().to_owned();
        (dir, run)
    }

    /// The machine agent reads them on its only thread, when it recalls the unit.
    #[test]
    fn a_pipe_in_the_place_of_a_file_of_a_run_is_not_waited_for() {
        let mode = nix::sys::stat::Mode::S_IRWXU;
        let (_dir, run) = run_with(|path| nix::unistd::mkfifo(path, mode).expect("a new pipe"));
        assert_eq!(without_waiting(move || read_all(&run)), (false, false, Vec::new()));
    }

    #[test]
    fn a_file_of_a_run_that_no_agent_and_no_shim_has_written_is_not_read_into_memory() {
        let memory = || {
            let status = std::fs::read_to_string("/proc/self/status").expect("it runs");
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a field of Linux");
            peak.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
        };
        let sparse = |path: &Path| File::create(path).and_then(|file| file.set_len(1 << 30)).expect("made");
        let ((_dir, run), before) = (run_with(sparse), memory());
        assert_eq!(read_all(&run), (false, false, Vec::new()));
        let added = memory().saturating_sub(before);
        assert!(added < 512 << 20, "{added} bytes");
    }
}
