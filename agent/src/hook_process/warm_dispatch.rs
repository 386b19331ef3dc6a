//! The warm parent of a unit (docs/explanation/warm-dispatch.md): when it is started, used and given up.
//!
//! Nothing depends on it: a run that it does not fork is started as usual. A parent is started in the background after a
//! run has ended, so that it delays no hook. A charm whose modules do something that a fork would not repeat has none
//! until it is refreshed or its agent restarts.
//!
//! Called by `CharmRunner` at the start of a run and after its end.

use super::hand_off::{HAND_OFF_TIMEOUT, NotHandedOff};
use super::memory_guard::{MemoryGuard, free_place};
use super::warm_parent::{ANSWER_TIMEOUT, ForkRequest, ParentRoom, Refusal, WarmParent};
use crate::folder::UnitFolder;
use host::file::open_regular;
use state::unit::warm_dispatch::{ProgramFacts, PythonLaunch, SHELL, is_python_file, python_launch};
use std::cell::{Cell, RefCell};
use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// The largest dispatch script that is read, in bytes: those of charmcraft have less than 1,000.
const SCRIPT_BYTES_MAX: u64 = 16 << 10;
/// The number of parents in a row that were never used because the files of the charm had changed, after which there is no
/// further one. A charm whose first hooks install packages changes them once or twice.
const STALE_MAX: u32 = 3;

/// Whether a warm parent has forked a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forked {
    Yes,
    No,
    /// It has ended, or does not answer: what it may have forked is to be killed.
    Unknown,
}

/// The warm parent of a unit, if it has one.
#[derive(Default)]
pub(super) struct WarmDispatch {
    parent: RefCell<Option<WarmParent>>,
    /// The charm that is installed cannot have a warm parent.
    is_unsuitable: Cell<bool>,
    /// The parents in a row that were stale at their first use.
    stale: Cell<u32>,
    /// The launch of the last run.
    last: RefCell<Option<PythonLaunch>>,
    memory: Arc<MemoryGuard>,
}

impl WarmDispatch {
    /// Ends the parent, because another charm is installed or the setting of the model is off.
    pub(super) fn reset(&self) {
        self.parent.take();
        self.is_unsuitable.set(false);
        self.stale.set(0);
        self.last.take();
    }

    /// Whether there is a parent, which may still import the modules.
    pub(super) fn has_parent(&self) -> bool {
        self.parent.borrow().is_some()
    }

    /// Lets the parent fork a run, whose processes get this end of its socket.
    pub(super) async fn fork(
        &self,
        launch: &PythonLaunch,
        request: &ForkRequest<'_>,
        run: OwnedFd,
    ) -> Forked {
        let Some(mut parent) = self.parent.take() else { return Forked::No };
        if parent.launch != *launch {
            // a hook that is a file of its own
            self.parent.replace(Some(parent));
            return Forked::No;
        }
        match parent.fork(request, run).await {
            Ok(()) => {
                self.stale.set(0);
                self.parent.replace(Some(parent));
                Forked::Yes
            }
            Err(Refusal::Importing) => {
                self.parent.replace(Some(parent));
                Forked::No
            }
            Err(refusal) => {
                self.give_up(&refusal);
                if matches!(refusal, Refusal::Silent | Refusal::Lost) { Forked::Unknown } else { Forked::No }
            }
        }
    }

    /// Ends the parent, because what it has forked has not become a shim and a hook. The caller kills it.
    pub(super) fn give_up_fork(&self, fork: &NotHandedOff) {
        self.parent.take();
        self.forbid(&if fork.has_ended {
            "end a process that is forked".to_owned()
        } else {
            format!("delay a fork by more than {} seconds", HAND_OFF_TIMEOUT.as_secs())
        });
    }

    fn give_up(&self, refusal: &Refusal) {
        match refusal {
            Refusal::Importing | Refusal::Lost => {}
            Refusal::Silent => {
                self.forbid(&format!("delay a fork by more than {} seconds", ANSWER_TIMEOUT.as_secs()));
            }
            Refusal::Stale(path) => {
                tracing::debug!("{path} has changed: a new warm parent is started");
                self.stale.set(self.stale.get() + 1);
                if self.stale.get() == STALE_MAX {
                    self.forbid(&format!("change {path}"));
                }
            }
            Refusal::Unsuitable(reason) => self.forbid(&format!("do this when they are imported: {reason}")),
        }
    }

    fn forbid(&self, what: &str) {
        tracing::info!("hooks start without a warm parent: the modules of the charm {what}");
        self.is_unsuitable.set(true);
    }

    /// Starts a parent for the next run, unless there is one. `variables` are those of every run of the unit.
    pub(super) fn prepare(
        &self,
        folder: &UnitFolder,
        launch: PythonLaunch,
        variables: Vec<(String, String)>,
    ) {
        let is_repeated = self.last.replace(Some(launch.clone())).as_ref() == Some(&launch);
        // without a dispatch, the next hook is probably another file
        let is_expected = is_repeated || !is_file_of_one_hook(&folder.charm(), &launch);
        if let Some(parent) = &mut *self.parent.borrow_mut()
            && (parent.launch == launch || !is_expected)
        {
            return parent.restart_idle_timer();
        }
        if self.is_unsuitable.get() || !is_expected || !self.memory.has_room() {
            return;
        }
        let Some(place) = free_place(&folder.machine(), &folder.tag()) else {
            return tracing::debug!("no warm parent is started: the machine has as many as it may have");
        };
        let room = ParentRoom { place, memory: Arc::clone(&self.memory) };
        match WarmParent::start(folder, launch, variables, room) {
            Ok(parent) => drop(self.parent.replace(Some(parent))),
            Err(error) => tracing::debug!("cannot start a warm parent: {error}"),
        }
    }

    /// Waits until the parent has imported the modules of the charm. False if there is none.
    pub(super) async fn until_ready(&self) -> bool {
        let Some(mut parent) = self.parent.take() else { return false };
        match parent.until_ready().await {
            Ok(()) => {
                self.parent.replace(Some(parent));
                true
            }
            Err(refusal) => {
                self.give_up(&refusal);
                false
            }
        }
    }
}

/// Returns how a program of the charm starts Python, if it does.
pub(super) fn launch_of(charm: &Path, program: &Path) -> Option<PythonLaunch> {
    let real_charm = charm.canonicalize().ok()?;
    let text = beginning(program)?;
    let is_python = is_python_file(&text);
    // a script may ask where it is
    if !is_python
        && (text.len() as u64 == SCRIPT_BYTES_MAX || program.canonicalize().ok()?.parent()? != real_charm)
    {
        return None;
    }
    let facts = ProgramFacts {
        program: program.to_str()?,
        charm: real_charm.to_str()?,
        text: &text,
        architecture: std::env::consts::ARCH,
    };
    let launch = python_launch(&facts)?;
    let names_python = launch.arguments.len() > 1;
    let runs_python = names_python || is_python_file(&beginning(&charm.join(&launch.script))?);
    let is_complete = launch.required_files.iter().all(|path| charm.join(path).exists());
    (runs_python && is_complete && (is_python || is_dash())).then_some(launch)
}

/// Whether the launch runs a file that one hook or action has, which knows its name.
fn is_file_of_one_hook(charm: &Path, launch: &PythonLaunch) -> bool {
    let path = Path::new(&launch.script).strip_prefix(charm);
    path.is_ok_and(|path| path.starts_with("hooks") || path.starts_with("actions"))
}

fn is_dash() -> bool {
    fs::canonicalize(SHELL).is_ok_and(|path| path.file_name().is_some_and(|name| name == "dash"))
}

/// The beginning of a file. None if it is absent, or not text.
fn beginning(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    open_regular(path).ok()?.0.take(SCRIPT_BYTES_MAX).read_to_end(&mut text).ok()?;
    match String::from_utf8(text) {
        Ok(text) => Some(text),
        // a long file may be cut within a character
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            String::from_utf8(error.into_bytes().get(..valid)?.to_vec()).ok()
        }
    }
}
