//! The files of one run, as a later agent or the cleanup after it reads them.
//!
//! `context.yaml` was written before the gate of the shim was opened; the shim writes the outcome. A file that is
//! absent or unreadable counts as absent.

use crate::fault;
use hook_client::shim;
use serde::{Deserialize, Serialize};
use state::terms::start_reason::StartReason;
use state::unit::hook_context::HookContext;
use state::unit::outcome::Exit;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// How often a re-attached or killed process is polled: it is not a child of this process.
pub(super) const PROCESS_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The file that holds the [`RunFile`], in the folder of a run: JSON, which is valid YAML.
pub(super) const CONTEXT_FILE: &str = "context.yaml";

/// `context.yaml`: what a later agent needs to answer the tools of this run. The id of the context is a secret,
/// so only its digest is stored.
#[derive(Serialize, Deserialize)]
pub(super) struct RunFile {
    pub(super) operation: String,
    pub(super) reason: StartReason,
    pub(super) position: Option<state::terms::position::Position>,
    pub(super) context_digest: String,
    /// The boot in which the run started. After another boot no unsynced file is reliable: the outcome may
    /// exist while the calls are lost.
    pub(super) boot: String,
    pub(super) context: HookContext,
}

pub(super) fn read_run_file(run_folder: &Path) -> Option<RunFile> {
    serde_json::from_slice(&fs::read(run_folder.join(CONTEXT_FILE)).ok()?).ok()
}

/// The outcome that the shim has stored. None if it has not stored one.
pub(super) fn read_outcome(run_folder: &Path) -> Option<Exit> {
    let bytes = fs::read(run_folder.join(shim::OUTCOME)).ok()?;
    // the path of a program need not be UTF-8
    let text = String::from_utf8_lossy(&bytes);
    let (kind, rest) = text.split_once(' ')?;
    match kind {
        "exit" => rest.parse().ok().map(Exit::Code),
        "signal" => rest.parse().ok().map(Exit::Signal),
        "failed" => {
            let (errno, what) = rest.split_once(' ')?;
            let error = io::Error::from_raw_os_error(errno.parse().ok()?);
            Some(Exit::Failed(format!("{what}: {}", fault::with_setting(&error))))
        }
        _ => None,
    }
}
