//! What the hook tools of a unit need on its disk: the links of their names to the one program, and the socket of the agent.
//!
//! A person or a program that cleans folders may delete either while the agent runs. Both are checked before each hook and
//! made again, because a charm whose tools are missing need not fail; and they are checked after it, because such a hook has
//! changed nothing that its tools were to change: it is run again once.
//!
//! Created by `unit_program`; called by `hook_process`.

use crate::folder::{UnitFolder, public_dir};
use crate::installed_programs::{hook_program, require_hook_program};
use crate::juju_paths;
use crate::socket_dir::socket_dir;
use crate::tool_socket::ToolSocket;
use anyhow::{Context, Result, bail};
use std::cell::Cell;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::Duration;

/// The links and the socket of one unit.
pub struct HookTools {
    folder: UnitFolder,
    socket: ToolSocket,
    /// The folder of the links, when they were complete.
    complete: Cell<Option<FolderState>>,
    /// Whether the links or the socket of the current run were missing when this agent started.
    were_missing: Cell<bool>,
}

/// A folder whose last change is older than this has another state after the next one: the kernel counts the time of a
/// change in ticks of up to 10 ms.
const FOLDER_TICK: Duration = Duration::from_millis(20);

/// Changes when an entry of a folder is added, replaced or removed: its device, its inode, and the time of its last
/// change in seconds and nanoseconds.
type FolderState = (u64, u64, i64, i64);

impl HookTools {
    /// The links, which exist, and the socket. `were_missing`: one of them did not exist although a run was started.
    pub fn new(folder: UnitFolder, socket: ToolSocket, were_missing: bool) -> HookTools {
        HookTools { folder, socket, complete: Cell::default(), were_missing: Cell::new(were_missing) }
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

    /// Whether no link is missing. A charm may have added files of its own to the folder.
    fn are_links_complete(&self) -> bool {
        let found = fs::metadata(self.folder.tools()).ok();
        let state = found.as_ref().map(|it| (it.dev(), it.ino(), it.mtime(), it.mtime_nsec()));
        if state.is_some() && self.complete.get() == state {
            return true;
        }
        let age = found.and_then(|found| found.modified().ok()?.elapsed().ok());
        let is_complete = has_links(&self.folder.tools());
        self.complete.set(state.filter(|_| is_complete && age.is_some_and(|age| age > FOLDER_TICK)));
        is_complete
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

fn has_links(tools: &Path) -> bool {
    let program = hook_program();
    commands::NAMES.iter().all(|name| match juju_paths::EXEC_NAMES.contains(name) {
        true => tools.join(name).is_file(),
        false => fs::read_link(tools.join(name)).is_ok_and(|target| target == program),
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool_socket::{ContextState, listen};
    use tokio::sync::watch;

    /// A program beside the tests, to which the tools are linked.
    fn linked(machine: &Path) -> UnitFolder {
        let folder = UnitFolder::in_machine(machine, "unit-web-0");
        fs::create_dir_all(folder.root()).unwrap();
        fs::create_dir_all(folder.tools()).unwrap();
        for name in &commands::NAMES {
            match juju_paths::EXEC_NAMES.contains(name) {
                true => fs::write(folder.tools().join(name), "").unwrap(),
                false => symlink(hook_program(), folder.tools().join(name)).unwrap(),
            }
        }
        folder
    }

    #[tokio::test]
    async fn a_missing_link_or_socket_is_noticed_and_a_file_of_the_charm_is_not() {
        let machine = tempfile::tempdir().unwrap();
        let folder = linked(machine.path());
        let (_, closed) = watch::channel(ContextState::Closed);
        let socket = socket_dir(&folder).unwrap().join(crate::socket_dir::SOCKET);
        let tools = HookTools::new(folder.clone(), listen(&socket, closed).unwrap().socket, false);
        assert!(tools.were_reachable());
        fs::write(folder.tools().join("wrapper"), "of the charm").unwrap();
        assert!(tools.were_reachable());
        fs::remove_file(folder.tools().join("status-set")).unwrap();
        assert!(!tools.were_reachable());
        symlink(hook_program(), folder.tools().join("status-set")).unwrap();
        assert!(tools.were_reachable());
        fs::remove_file(&socket).unwrap();
        assert!(!tools.were_reachable());
        tools.restore().unwrap();
        assert!(tools.were_reachable() && socket.exists());
    }

    #[tokio::test]
    async fn the_run_of_an_earlier_agent_without_tools_is_remembered_until_the_next_run() {
        let machine = tempfile::tempdir().unwrap();
        let folder = linked(machine.path());
        let (_, closed) = watch::channel(ContextState::Closed);
        let socket = socket_dir(&folder).unwrap().join(crate::socket_dir::SOCKET);
        let tools = HookTools::new(folder, listen(&socket, closed).unwrap().socket, true);
        assert!(!tools.were_reachable());
        tools.restore().unwrap();
        assert!(tools.were_reachable());
    }
}
