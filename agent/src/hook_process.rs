//! The charm on this machine: its folder, its hooks behind their shims, their tool calls. Implements
//! `ports::Charms`. A run whose agent died is taken over in [`adoption`]; what of a run must not go on is ended in
//! [`leftovers`].

mod leftovers;
mod reattach;

use host::backoff::Backoff;
use host::file::{is_disk_full, write_atomic, write_atomic_unsynced};
use host::lock::Lock;
pub use leftovers::end_leftovers;
use leftovers::stop_for_reboot;

use crate::clock::kernel_boot;
use crate::folder::{self, Folder};
use crate::ports::{Charms, Ending, HookHost};
use crate::reboot;
use crate::shim;
use crate::tool_calls::{CallsFile, HookSession};
use crate::tool_socket::{Answer, Call, Gate};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde::{Deserialize, Serialize};
use state::charm::Charm;
use state::unit::dispatch::{CharmFiles, Dispatch, Entry, dispatch, knows};
use state::unit::environment::{MachineFacts, environment};
use state::unit::hook::{ActionWrites, HookContext, Level, ReportContent};
use state::unit::local::Run;
use state::unit::operation::{CharmRef, Operation};
use state::unit::outcome::{Exit, stream};
use state::unit::record::Said;
use std::cell::RefCell;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, watch};

/// Run folders kept of one unit; older ones go (invariant: the folder is bounded).
const RUNS_KEPT: u64 = 200;
/// How often an adopted process, which is no child of ours, is looked at.
const ADOPTED_LOOK: Duration = Duration::from_millis(20);
/// Between tries of the machine's hook lock.
const LOCK_LOOK_FIRST_MS: u64 = 2;
const LOCK_LOOK_MAX_MS: u64 = 50;

/// Of what a hook printed on stderr, its last lines are in its record: half of what that holds.
const OUTPUT_LINES_MAX: usize = state::unit::record::SAID_MAX / 2;
/// Of what an action printed, its end is kept as a result: two of them leave a record's 1 MiB to the rest.
const RESULT_BYTES_MAX: usize = 64 << 10;

const DECLARED: &str = "charm.json";
const CONTEXT: &str = "context.yaml";

/// The charm of one unit.
pub struct HostCharms {
    folder: Folder,
    around: MachineFacts,
    calls: Mutex<mpsc::Receiver<Call>>,
    gate: watch::Sender<Gate>,
    declared: RefCell<Option<Arc<Charm>>>,
    /// The hook lock while it is held, for the shim to inherit.
    lock: RefCell<Weak<Lock>>,
}

#[derive(Serialize, Deserialize)]
struct Declared {
    sha256: String,
    charm: Charm,
}

/// `context.yaml`: what a successor needs to answer this run's tools. The context's id is a secret: only its
/// digest is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    operation: String,
    cause: String,
    position: Option<state::terms::position::Position>,
    context_digest: String,
    /// The boot it began in. After another one nothing unsynced is certain: an outcome may be there whose calls
    /// are not.
    boot: String,
    context: HookContext,
}

impl HostCharms {
    /// `gate` is that of the socket `calls` come from.
    pub fn new(
        folder: Folder,
        around: MachineFacts,
        calls: mpsc::Receiver<Call>,
        gate: watch::Sender<Gate>,
    ) -> HostCharms {
        let declared = read_declared(&folder);
        HostCharms {
            folder,
            around,
            calls: Mutex::new(calls),
            gate,
            declared: RefCell::new(declared),
            lock: RefCell::default(),
        }
    }

    fn charm_file(&self, name: &str) -> Entry {
        match fs::metadata(self.folder.charm().join(name)) {
            Err(_) => Entry::Absent,
            Ok(found) if found.is_dir() => Entry::Directory,
            Ok(found) if found.permissions().mode() & 0o111 != 0 => Entry::Executable,
            Ok(_) => Entry::NotExecutable,
        }
    }

    fn program(&self, path: &str) -> Dispatch {
        let metadata = self.folder.charm().join("metadata.yaml").is_file();
        dispatch(
            CharmFiles { metadata, dispatch: self.charm_file("dispatch"), own: self.charm_file(path) },
            path,
        )
    }

    /// Writes down what a successor needs, then starts the shim.
    fn start(&self, run: &Run, context: &HookContext, program: &str) -> io::Result<tokio::process::Child> {
        let at = self.folder.run(run.number);
        if at.exists() {
            fs::remove_dir_all(&at)?;
        }
        folder::private_dir(&at)?;
        let mut kept = Kept {
            operation: run.operation.to_string(),
            cause: run.cause.clone(),
            position: run.position,
            context_digest: host::digest::sha256(context.id.as_bytes()),
            boot: kernel_boot(),
            context: context.clone(),
        };
        kept.context.id.clear();
        // JSON is YAML; one value a line is for people
        let text = serde_json::to_string_pretty(&kept).expect("contexts are plain data");
        write_atomic_unsynced(&at.join(CONTEXT), text.as_bytes())?;
        let lock = self.lock.borrow().upgrade().expect("hooks run under the machine's hook lock");
        let mut command = Command::new(crate::program::path());
        command
            .arg("shim")
            .arg(&at)
            .arg(self.folder.charm().join(program))
            .env_clear()
            .envs(environment(context, &self.around))
            .current_dir(self.folder.charm())
            .stdin(Stdio::from(lock.copy()?))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        tokio::process::Command::from(command).spawn()
    }

    /// Answers tools until `over` is: the process ended.
    async fn serve_tools(
        &self,
        conversation: &mut HookSession<'_>,
        outward: &impl HookHost,
        over: impl Future<Output = ()>,
    ) {
        let mut over = std::pin::pin!(over);
        let mut calls = self.calls.lock().await;
        self.gate.send_replace(Gate::Open);
        'hook: while !conversation.ends_boot() {
            tokio::select! {
                biased;
                () = &mut over => break,
                Some(call) = calls.recv() => {
                    let answer = loop {
                        let asked = match conversation.answer(&call.frame) {
                            Ok(answer) => break answer,
                            Err(asked) => asked,
                        };
                        tokio::select! {
                            biased;
                            () = &mut over => break 'hook,
                            bag = outward.bag(&asked) => conversation.take_bag(&asked, bag),
                        }
                    };
                    // a caller that is gone meanwhile calls again with the same id, or never
                    call.answer.send(answer).ok();
                }
            }
        }
        self.gate.send_replace(Gate::Closed);
        // calls that raced with the end are wholly refused (invariant I33)
        while let Ok(call) = calls.try_recv() {
            call.answer.send(Answer::closed()).ok();
        }
    }

    fn ending(&self, run: &Run, conversation: HookSession) -> Ending {
        let at = self.folder.run(run.number);
        let exit = read_outcome(&at).unwrap_or(Exit::Interrupted);
        let ends_boot = conversation.ends_boot();
        let (mut writes, mut said) = conversation.close();
        if matches!(run.operation, Operation::Action { .. }) {
            add_results(&at, &exit, &mut writes.action);
        }
        // what it printed before it was interrupted is printed again; one that asked for its end did not fail, and stands
        if exit != Exit::Interrupted || ends_boot {
            said.extend(output_lines(&at, run, said.last().map_or(0, |last| last.call)));
        }
        self.delete_old_runs(run.number);
        Ending { exit, writes, said }
    }

    fn delete_old_runs(&self, number: u64) {
        let entries = fs::read_dir(self.folder.file("hooks")).into_iter().flatten().flatten();
        for entry in entries {
            let old = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
            if old.is_some_and(|old| old + RUNS_KEPT <= number) {
                // what is not removed now is removed after the next run
                fs::remove_dir_all(entry.path()).ok();
            }
        }
    }
}

/// What the agent adds to an action's results (spec/hook-tools.md 2.7): how its program ended, and what it printed,
/// byte for byte.
fn add_results(at: &Path, exit: &Exit, action: &mut ActionWrites) {
    let Exit::Code(code) = exit else { return };
    action.results.insert("return-code".into(), (*code).into());
    for stream in ["stdout", "stderr"] {
        let mut printed = fs::read(at.join(stream)).unwrap_or_default();
        let is_text = std::str::from_utf8(&printed).is_ok();
        let over = printed.len().saturating_sub(RESULT_BYTES_MAX);
        // a character is not cut in half
        let start = (over..printed.len()).find(|at| !is_text || printed[*at] & 0xc0 != 0x80).unwrap_or(over);
        printed.drain(..start);
        if printed.is_empty() {
            continue;
        }
        let text = match String::from_utf8(printed) {
            Ok(text) => text,
            Err(error) => {
                action.results.insert(format!("{stream}-encoding"), "base64".into());
                BASE64_STANDARD.encode(error.as_bytes())
            }
        };
        action.results.insert(stream.into(), text.into());
    }
}

/// What the charm printed, as log lines: stderr as warnings (spec/hook-tools.md 5.6). stdout is DEBUG, below what
/// is stored; it stays in `output.log`.
fn output_lines(at: &Path, run: &Run, last_call: u32) -> Vec<Said> {
    let text = fs::read(at.join(shim::OUTPUT)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let hook = stream(&run.operation);
    let mut lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("stderr: ")).collect();
    let left_out = lines.len().saturating_sub(OUTPUT_LINES_MAX);
    lines.drain(..left_out);
    let more = (left_out > 0).then(|| {
        format!("{left_out} lines before these are left out: they are in hooks/{:06}/output.log", run.number)
    });
    let line = |(text, call): (String, u32)| Said {
        call,
        at_ms: crate::clock::wall_ms(),
        what: ReportContent::Output { hook: hook.clone(), level: Level::Warning, text }.truncated(),
    };
    more.into_iter().chain(lines.into_iter().map(str::to_owned)).zip(last_call + 1..).map(line).collect()
}

fn read_declared(folder: &Folder) -> Option<Arc<Charm>> {
    let declared: Declared = serde_json::from_slice(&fs::read(folder.file(DECLARED)).ok()?).ok()?;
    Some(Arc::new(declared.charm))
}

fn read_outcome(at: &Path) -> Option<Exit> {
    let text = fs::read_to_string(at.join(shim::OUTCOME)).ok()?;
    let (kind, rest) = text.trim_end().split_once(' ')?;
    match kind {
        "exit" => rest.parse().ok().map(Exit::Code),
        "signal" => rest.parse().ok().map(Exit::Signal),
        "refused" => Some(Exit::Refused(rest.to_owned())),
        _ => None,
    }
}

impl Charms for HostCharms {
    type Lock = Rc<Lock>;

    async fn lock(&self, parallel: bool) -> Rc<Lock> {
        let folder = if parallel { self.folder.root().to_path_buf() } else { self.folder.machine() };
        let path = folder.join(reboot::HOOK_LOCK);
        let holder = format!("{} (pid {})", self.folder.tag(), std::process::id());
        let mut backoff = Backoff::new(LOCK_LOOK_FIRST_MS, LOCK_LOOK_MAX_MS);
        loop {
            match Lock::take(&path, &holder) {
                Ok(Ok(lock)) => {
                    let lock = Rc::new(lock);
                    *self.lock.borrow_mut() = Rc::downgrade(&lock);
                    return lock;
                }
                Ok(Err(_)) => {}
                Err(error) => tracing::warn!("{}: {error}", path.display()),
            }
            tokio::time::sleep(Duration::from_millis(backoff.delay_ms())).await;
            backoff.increase();
        }
    }

    fn declared(&self) -> Option<Arc<Charm>> {
        // a charm that somebody deleted is fetched again
        self.declared.borrow().clone().filter(|_| self.folder.charm().is_dir())
    }

    async fn is_deployed(&self, charm: &CharmRef) -> bool {
        let known: Option<Declared> =
            fs::read(self.folder.file(DECLARED)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let same = known.is_some_and(|known| known.sha256 == charm.sha256);
        same && charms::verify(&self.folder.charm()).is_some_and(|differing| differing.is_empty())
    }

    async fn deploy(&self, charm: &CharmRef, archive: Vec<u8>) -> Result<(), String> {
        if archive.is_empty() {
            return Ok(());
        }
        // before the first byte is interpreted (S21)
        if host::digest::sha256(&archive) != charm.sha256 {
            return Err(format!("the archive of {} is damaged: its digest is another one", charm.url));
        }
        let options = charms::ReadOptions { cache: self.folder.file("cache"), force: true };
        let read = charms::read::read_archive(&charm.url, archive, &options);
        let source =
            read.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        let installed = charms::install(&source.archive, &charm.sha256, &self.folder.charm(), charm.revision);
        let installed = installed.map_err(|error| error.to_string())?;
        for name in installed.renamed_files {
            tracing::warn!(
                "the charm's own {name} made way for the new revision's: kept as {name}.juju-orig"
            );
        }
        let declared = Declared { sha256: charm.sha256.clone(), charm: source.charm };
        let text = serde_json::to_vec(&declared).expect("declarations are plain data");
        write_atomic(&self.folder.file(DECLARED), &text).map_err(|error| error.to_string())?;
        *self.declared.borrow_mut() = Some(Arc::new(declared.charm));
        Ok(())
    }

    async fn run(&self, run: &Run, context: HookContext, outward: &impl HookHost) -> Ending {
        let nothing = |exit| Ending { exit, writes: Default::default(), said: Vec::new() };
        if self.declared().is_some_and(|charm| !knows(&charm, &context.cause)) {
            return nothing(Exit::Missing);
        }
        let path = context.cause.dispatch_path().expect("hooks and actions have a path");
        let program = match self.program(&path) {
            Dispatch::Run(program) => program,
            Dispatch::Missing => return nothing(Exit::Missing),
            Dispatch::Failed(why) => return nothing(Exit::Refused(why)),
        };
        let mut shim = loop {
            match self.start(run, &context, &program) {
                Ok(shim) => break shim,
                // no failure of the charm's
                Err(error) if is_disk_full(&error) => {
                    tracing::error!("{} cannot be started: {error}; free some space", run.operation);
                    tokio::time::sleep(shim::DISK_FULL_RETRY).await;
                }
                Err(error) => return nothing(Exit::Refused(format!("cannot start the hook: {error}"))),
            }
        };
        let at = self.folder.run(run.number);
        let digest = host::digest::sha256(context.id.as_bytes());
        let (said, leads) = (|said: &Said| outward.said(said), || outward.leads());
        let mut conversation = HookSession::new(context, digest, CallsFile::open(&at), &said, &leads);
        self.serve_tools(&mut conversation, outward, async {
            // how the shim ended says nothing: its record does
            shim.wait().await.ok();
        })
        .await;
        if conversation.ends_boot() {
            tokio::join!(stop_for_reboot(&at), shim.wait()).1.ok();
        }
        if read_outcome(&at).is_none() {
            tracing::warn!("the shim of run {} died", run.number);
            end_leftovers(&at).await;
        }
        self.ending(run, conversation)
    }

    async fn adopt(&self, run: &Run, outward: &impl HookHost) -> Option<Ending> {
        let ending = self.reattach(run, outward).await;
        self.gate.send_replace(Gate::Closed);
        ending
    }

    async fn reboot(&self, boot: &str) {
        if let Err(error) = reboot::ask(&self.folder.machine(), boot) {
            tracing::error!("the machine cannot be told to reboot: {error}");
        }
    }
}

fn read_kept(at: &Path) -> Option<Kept> {
    serde_json::from_slice(&fs::read(at.join(CONTEXT)).ok()?).ok()
}

/// The folder of this unit's socket: short, private, reached by the link `run` (socket paths stay below 108 bytes).
pub fn socket_dir(folder: &Folder) -> io::Result<PathBuf> {
    let base = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|base| base.is_dir());
    let base =
        base.unwrap_or_else(|| PathBuf::from("/tmp")).join(format!("pintle-{}", nix::unistd::geteuid()));
    folder::private_dir(&base)?;
    let short = host::digest::sha256(folder.root().as_os_str().as_encoded_bytes());
    let dir = base.join(&short[..12]);
    folder::private_dir(&dir)?;
    let link = folder.file("run");
    if fs::read_link(&link).ok().as_ref() != Some(&dir) {
        fs::remove_file(&link).ok();
        std::os::unix::fs::symlink(&dir, &link)?;
    }
    Ok(dir)
}
