//! The charm on this machine: its folder, its hooks behind their shims, and the tool calls of these hooks.
//!
//! Hooks and actions run under a lock that the shim inherits, so a hook never runs beside its own repetition, even if the
//! agent dies.
//!
//! `port` is what the unit agent's loop calls; `lock_wait` waits for the hook lock; `debug_session` runs hooks in a
//! terminal; `own_processes` proves which processes belong to a run; `reattach` continues a run whose agent died; `printed` reads what a program has printed;
//! `remaining_processes` kills the processes of a run that must not continue; `resources` provides the files of
//! resources; `run_files` writes and reads the files of a run; `run_folders` deletes old folders; `gated_shim` is a shim
//! that was started, and `start` starts it; `warm_dispatch`, `warm_parent`, `parent_watch`, `memory_guard` and `hand_off` fork
//! the hooks of Python charms.

mod debug_session;
mod gated_shim;
mod hand_off;
mod lock_wait;
mod memory_guard;
mod own_processes;
mod parent_watch;
mod port;
mod printed;
mod reattach;
mod remaining_processes;
mod resources;
pub mod run_files;
mod run_folders;
mod start;
mod warm_dispatch;
mod warm_parent;

pub use gated_shim::GatedShim;
pub use hand_off::kill_forked;
use host::file::{read_regular, write_atomic};
use host::lock::Lock;
pub(crate) use printed::unmodified_output;
use printed::{delete_output, masked_output, omitted_output, output_lines, process_result};
pub use remaining_processes::{
    is_running, kill_remaining_processes, kill_unknown_runs, running, stop_running,
};
pub(crate) use resources::RESOURCES_DIR;
use run_files::{create_file, read_outcome, read_run_file};
use run_folders::RunFolders;
use warm_dispatch::WarmDispatch;

use crate::clock::kernel_boot_id;
use crate::folder::UnitFolder;
use crate::hook_session::{CallsFile, CallsLine, ControllerRequest, HookSession};
use crate::hook_tools::HookTools;
use crate::ports::{CharmHost, HookHost};
use crate::run_lock_files;
use crate::tool_socket::{ContextState, ToolCall, closed_reply};
use hook_client::shim;
use serde::{Deserialize, Serialize};
use state::charm::Charm;
use state::terms::activity::Activity;
use state::terms::log_module;
use state::terms::operation::Operation;
use state::terms::required_file::RequiredFile;
use state::terms::run_lock::RunLock;
use state::unit::dispatch::{CharmFiles, Dispatch, PathKind, dispatch};
use state::unit::environment::MachineFacts;
use state::unit::hook_log::HookHandler;
use state::unit::local::Run;
use state::unit::outcome::{HookResult, RunExit};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc, watch};

/// The file of commands, in the folder of their run.
const SCRIPT: &str = "commands";
/// The file that holds what the installed charm declares.
pub(crate) const CHARM_FILE: &str = "charm.json";
/// The largest such file: the document of a charm has at most 1.25 MiB.
const CHARM_FILE_BYTES_MAX: u64 = 4 << 20;

/// Runs the hooks of one unit's charm as processes of this machine.
pub struct CharmRunner {
    folder: UnitFolder,
    machine_facts: MachineFacts,
    /// The tool calls that the tool socket has received.
    calls: Mutex<mpsc::Receiver<ToolCall>>,
    /// Whether tool calls are answered now; the tool socket reads it.
    context_state: watch::Sender<ContextState>,
    /// What the installed charm declares; none before the first installation.
    declared: RefCell<Option<Arc<Charm>>>,
    /// The files that hooks need which were unpacked with the installed charm.
    unpacked: RefCell<BTreeSet<RequiredFile>>,
    /// The lock of the run while it is held; the shim inherits it.
    lock: RefCell<Weak<Lock>>,
    /// The last error of a lock that was logged, until it is acquired.
    lock_error: RefCell<Option<String>>,
    run_folders: RunFolders,
    /// The runs that have finished since expired folders were last deleted, with their folders. Expired folders are deleted while the next hook
    /// runs, so that the deletion delays neither the outcome of a hook nor the start of the next one.
    finished_runs: RefCell<Vec<(u64, PathBuf)>>,
    /// The hook tools, which are made again if they were deleted; none for a replay.
    tools: Option<Rc<HookTools>>,
    /// The warm parent of a Python charm; none if this runner forks no hooks.
    warm: Option<WarmDispatch>,
}

/// `charm.json`: what the installed charm declares, and the digest of its archive.
#[derive(Serialize, Deserialize)]
pub struct InstalledCharmFile {
    sha256: String,
    charm: Charm,
}

impl InstalledCharmFile {
    /// Reads the file of a unit. None if it is absent or unreadable.
    pub fn read(folder: &UnitFolder) -> Option<InstalledCharmFile> {
        serde_json::from_slice(&read_regular(&folder.file(CHARM_FILE), CHARM_FILE_BYTES_MAX).ok()?.0).ok()
    }

    /// What the charm declares.
    pub(crate) fn into_charm(self) -> Charm {
        self.charm
    }

    /// Writes the file of a unit.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, folder: &UnitFolder) -> io::Result<()> {
        let text = serde_json::to_vec(self).expect("declarations are plain data");
        write_atomic(&folder.file(CHARM_FILE), &text)
    }
}

/// The files that hooks need which were unpacked with the installed charm, whether or not they still exist.
fn unpacked_files(folder: &UnitFolder) -> BTreeSet<RequiredFile> {
    let unpacked = charms::unpacked_files(&folder.charm());
    RequiredFile::ALL
        .into_iter()
        .filter(|program| unpacked.iter().any(|path| path == program.path()))
        .collect()
}

impl CharmRunner {
    /// A runner for the charm in `folder`. `calls` are received from the tool socket, which reads `context_state`.
    pub fn new(
        folder: UnitFolder,
        machine_facts: MachineFacts,
        calls: mpsc::Receiver<ToolCall>,
        context_state: watch::Sender<ContextState>,
    ) -> CharmRunner {
        let declared = InstalledCharmFile::read(&folder).map(|declared| Arc::new(declared.charm));
        let unpacked = RefCell::new(unpacked_files(&folder));
        CharmRunner {
            folder,
            unpacked,
            machine_facts,
            calls: Mutex::new(calls),
            context_state,
            declared: RefCell::new(declared),
            lock: RefCell::default(),
            lock_error: RefCell::default(),
            run_folders: RunFolders::default(),
            finished_runs: RefCell::default(),
            tools: None,
            warm: None,
        }
    }

    /// Makes these tools again before a hook if they were deleted.
    pub(crate) fn with_tools(self, tools: Rc<HookTools>) -> CharmRunner {
        CharmRunner { tools: Some(tools), ..self }
    }

    /// Lets a warm parent fork the hooks of a Python charm, in a model that allows it.
    pub fn with_warm_dispatch(self) -> CharmRunner {
        CharmRunner { warm: Some(WarmDispatch::default()), ..self }
    }

    /// Waits until the warm parent has imported the modules of the charm. False if there is none: the next hook starts
    /// without it.
    pub async fn until_warm(&self) -> bool {
        match &self.warm {
            Some(warm) => warm.until_ready().await,
            None => false,
        }
    }

    fn charm_file(&self, name: &str) -> PathKind {
        match fs::metadata(self.folder.charm().join(name)) {
            Err(_) => PathKind::Absent,
            Ok(found) if found.is_dir() => PathKind::Directory,
            Ok(found) if found.permissions().mode() & 0o111 != 0 => PathKind::Executable,
            Ok(_) => PathKind::NotExecutable,
        }
    }

    fn program(&self, path: &str) -> Dispatch {
        let has_metadata = self.folder.charm().join("metadata.yaml").is_file();
        dispatch(
            CharmFiles {
                has_metadata,
                dispatch: self.charm_file("dispatch"),
                specific: self.charm_file(path),
            },
            path,
        )
    }

    /// The program of the charm that runs a hook; none for an action or commands.
    fn handler(&self, run: &Run) -> Option<HookHandler> {
        let Operation::Hook(_) = run.operation else { return None };
        Some(match self.charm_file("dispatch") {
            PathKind::Absent => HookHandler::Explicit,
            PathKind::Executable | PathKind::NotExecutable | PathKind::Directory => HookHandler::Dispatch,
        })
    }

    /// Waits until a lock is acquired.
    async fn acquire_lock(&self, lock: &RunLock) -> Rc<Lock> {
        self.acquire_lock_file(&run_lock_files::file(&self.folder, lock)).await
    }

    async fn acquire_lock_file(&self, path: &Path) -> Rc<Lock> {
        let holder = format!("{} (pid {})", self.folder.tag(), std::process::id());
        let lock = Rc::new(lock_wait::acquire(path, &holder, &self.lock_error).await);
        *self.lock.borrow_mut() = Rc::downgrade(&lock);
        lock
    }

    /// Answers tool calls until `process_end` completes or the hook requests an immediate reboot.
    async fn serve_tools(
        &self,
        run: u64,
        session: &mut HookSession<'_>,
        hook_host: &impl HookHost,
        process_end: impl Future<Output = ()>,
    ) {
        let mut process_end = std::pin::pin!(process_end);
        let mut calls = self.calls.lock().await;
        self.context_state.send_replace(ContextState::Open);
        'hook: while !session.requests_reboot() {
            tokio::select! {
                biased;
                () = &mut process_end => break,
                Some(call) = calls.recv() => {
                    let answer = loop {
                        let request = match session.answer(&call.frame, call.pid) {
                            Ok(answer) => break answer,
                            Err(request) => request,
                        };
                        let request = std::pin::pin!(self.make_request(run, session, hook_host, request));
                        tokio::select! {
                            biased;
                            () = &mut process_end => break 'hook,
                            () = request => {}
                        }
                    };
                    // a client that has disconnected calls again with the same id, or never
                    call.answer.send(answer).ok();
                }
            }
        }
        self.context_state.send_replace(ContextState::Closed);
        // calls that raced with the end are refused as a whole (invariant I33)
        while let Ok(call) = calls.try_recv() {
            call.answer.send(closed_reply()).ok();
        }
    }

    /// Makes a request that a tool call of the run needs, and passes the answer to the session.
    async fn make_request(
        &self,
        run: u64,
        session: &mut HookSession<'_>,
        hook_host: &impl HookHost,
        request: ControllerRequest,
    ) {
        match request {
            ControllerRequest::Bag(request) => {
                let bag = hook_host.fetch_bag(&request).await;
                session.insert_bag(&request, bag);
            }
            ControllerRequest::LeaderSettings { call, change } => {
                session
                    .insert_leader_write_response(hook_host.write_leader_settings(run, call, &change).await);
            }
            ControllerRequest::Secret(request) => {
                session.insert_secret_response(hook_host.request_secret(&request).await);
            }
            ControllerRequest::Resource(request) => {
                session.insert_resource_response(
                    resources::provide(self.folder.root(), &request, hook_host).await,
                );
            }
        }
    }

    /// The result of a finished run: its outcome, and everything that its session and its output contain.
    fn finish(&self, run: &Run, session: HookSession, handler: Option<HookHandler>) -> HookResult {
        let run_folder = self.folder.started_run(run);
        let exit = read_outcome(&run_folder).unwrap_or(RunExit::Interrupted);
        let exit = if self.folder.charm().is_dir() { exit } else { exit.without_charm(&run.operation) };
        let exit = match self.tools.as_ref().is_none_or(|tools| tools.were_reachable()) {
            true => exit,
            false => {
                tracing::warn!("the hook tools of run {} could not reach the agent", run.number);
                exit.without_tools(run)
            }
        };
        let requests_reboot = session.requests_reboot();
        let is_maskable = !session.has_unknown_contents;
        let secrets = session.secrets().clone();
        let context = session.context();
        let module = log_module::of_run(&context.unit, &Activity::from(&run.operation));
        let lowest = context.model.logging.level_of(&module);
        let output_bytes_max = context.output_bytes_max();
        let (mut writes, mut reports) = session.close();
        if matches!(run.operation, Operation::Action { .. }) {
            writes.action.process = process_result(&run_folder, &exit, output_bytes_max);
        }
        // An interrupted hook prints its output again when it is repeated. A hook that requested its end by a
        // reboot did not fail: its output is final.
        let printed = match is_maskable {
            true => masked_output(&run_folder, &secrets),
            false => omitted_output(&run_folder),
        };
        if exit != RunExit::Interrupted || requests_reboot {
            let last_report = reports.last().map_or(0, |last| last.number);
            reports.extend(output_lines(&printed, run, last_report, lowest));
        }
        let has_failed = exit.is_failed_hook(&run.operation, requests_reboot);
        if has_failed {
            run_folders::mark_failed(&run_folder);
        }
        self.finished_runs.borrow_mut().push((run.number, run_folder));
        HookResult { exit, handler, files: Some(self.required_files()), writes, reports }
    }
}

/// Deletes the output of an interrupted run that may contain the contents of secrets: this agent does not know them, and
/// cannot mask them. The output of a run of an earlier boot is always deleted, because the file of its calls, which shows
/// whether it used secrets, may be lost.
fn delete_unmasked_output(run_folder: &Path) {
    let is_confidential = |line: &CallsLine| matches!(line, CallsLine::Confidential(_));
    let is_of_this_boot = read_run_file(run_folder).is_some_and(|file| file.boot == kernel_boot_id());
    let calls = CallsFile::read(run_folder);
    if !is_of_this_boot || calls.is_none_or(|lines| lines.iter().any(is_confidential)) {
        delete_output(&run_folder.join(shim::OUTPUT));
    }
}
