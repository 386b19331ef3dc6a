//! What the hook tools of a unit need on its disk: the links of their names to the one program, and the socket of the agent.
//!
//! A person or a program that cleans folders may delete either while the agent runs. Both are checked before each hook and
//! made again, because a charm whose tools are missing need not fail; and they are checked after it, because such a hook has
//! changed nothing that its tools were to change: the run does not count as done.
//!
//! Created by `unit_program`; called by `hook_process`.

use crate::folder::{UnitFolder, public_dir};
use crate::installed_programs::require_hook_program;
use crate::juju_paths;
use crate::socket_dir::socket_dir;
use crate::tool_socket::ToolSocket;
use anyhow::{Context, Result, bail};
use std::cell::Cell;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

/// The links and the socket of one unit.
pub struct HookTools {
    folder: UnitFolder,
    socket: ToolSocket,
    /// The folder of the links, when they were complete.
    complete: Cell<Option<FolderState>>,
    /// Whether the links or the socket of the current run were missing when this agent started.
    were_missing: Cell<bool>,
}

/// Changes when an entry of a folder is added, replaced or removed: its device, its inode, and the time of its last
/// change in seconds and nanoseconds.
type FolderState = (u64, u64, i64, i64);

impl HookTools {
    /// The links, which exist, and the socket. `were_missing`: one of them did not exist although a run was started.
    pub fn new(folder: UnitFolder, socket: ToolSocket, were_missing: bool) -> HookTools {
        let complete = Cell::new(folder_state(&folder.tools()));
        HookTools { folder, socket, complete, were_missing: Cell::new(were_missing) }
    }

    /// Whether the path of the socket does not lead to the agent any more.
    pub fn was_socket_removed(&self) -> bool {
        self.socket.was_removed()
    }

    /// Makes the links and the socket again if they were deleted, before a hook starts.
    ///
    /// # Errors
    /// If that is not possible; the error names the path.
    pub fn restore(&self) -> io::Result<()> {
        if !self.are_links_complete() {
            let tools = self.folder.tools();
            tracing::warn!("{} was changed or deleted: making the hook tools again", tools.display());
            link(&self.folder).map_err(|error| with_kind(&error))?;
            self.complete.set(folder_state(&tools));
        }
        if self.socket.was_removed() {
            tracing::warn!("{} was deleted: listening again", self.socket.path().display());
            self.listen_again().map_err(|error| with_kind(&error))?;
        }
        self.were_missing.set(false);
        Ok(())
    }

    /// Whether the tools of the run that has just ended could reach the agent all the time.
    pub fn were_reachable(&self) -> bool {
        !self.were_missing.get() && self.are_links_complete() && !self.socket.was_removed()
    }

    fn are_links_complete(&self) -> bool {
        let complete = self.complete.get();
        complete.is_some() && complete == folder_state(&self.folder.tools())
    }

    fn listen_again(&self) -> Result<()> {
        let path = self.socket.path();
        // hooks are given the path at which the agent listened first
        if Some(socket_dir(&self.folder)?.as_path()) != path.parent() {
            bail!("{} was deleted", path.display());
        }
        self.socket.listen_again().with_context(|| path.display().to_string())
    }
}

fn folder_state(folder: &Path) -> Option<FolderState> {
    let found = fs::metadata(folder).ok()?;
    Some((found.dev(), found.ino(), found.mtime(), found.mtime_nsec()))
}

/// The whole text of an error, with the kind of what the system has reported.
fn with_kind(error: &anyhow::Error) -> io::Error {
    let kind = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    io::Error::new(kind.unwrap_or(io::ErrorKind::Other), format!("{error:#}"))
}

/// Links every tool name to the one program (spec/hook-tools.md 1.1), except `juju-exec` and `juju-run`, which are
/// scripts.
///
/// # Errors
/// If a link cannot be made; the error names the path.
pub fn link(folder: &UnitFolder) -> Result<()> {
    let tools = folder.tools();
    public_dir(tools.parent().unwrap_or(&tools))
        .and_then(|()| public_dir(&tools))
        .with_context(|| tools.display().to_string())?;
    let program = require_hook_program()?;
    juju_paths::write_exec_scripts(&tools, &folder.machine())?;
    for name in commands::NAMES.iter().filter(|name| !juju_paths::EXEC_NAMES.contains(name)) {
        let link = tools.join(name);
        if fs::read_link(&link).ok().as_ref() != Some(&program) {
            let temporary = tools.join(format!(".{name}.new"));
            fs::remove_file(&temporary).ok();
            let linked = symlink(&program, &temporary).and_then(|()| fs::rename(&temporary, &link));
            linked.with_context(|| link.display().to_string())?;
        }
    }
    Ok(())
}
