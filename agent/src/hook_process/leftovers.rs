//! The end of a run's processes, and of nobody else's.

use super::{ADOPTED_LOOK, read_kept, read_outcome};
use crate::shim;
use host::process::Process;
use nix::sys::signal::Signal;
use std::path::Path;

/// Looks at a shim whose hook was killed, 20 ms apart: 1 s, five times what it waits for the rest of the output.
const SHIM_LOOKS: u32 = 50;
/// Looks at a killed leftover, 20 ms apart, after which it is told that it is still there: every 10 s.
const KILL_LOOKS_TOLD: u32 = 500;

/// An exec takes microseconds, on a stopped or starved machine longer; a process that was given no environment shows
/// none for ever, and is left alone after so many looks: 2 s.
const EXEC_LOOKS: u32 = 100;

/// Before a run is repeated its recorded processes and the hook's process group must be dead (design 12). What the
/// hook left running in other sessions is the charm's and lives on.
pub async fn end_leftovers(at: &Path) {
    let shim = Process::read(&at.join(shim::SHIM_PID));
    if let Some(shim) = shim {
        kill(&shim);
    }
    let context_digest = read_kept(at).map(|kept| kept.context_digest);
    for looks in 1u32.. {
        if looks.is_multiple_of(KILL_LOOKS_TOLD) {
            tracing::error!("{}: a killed hook does not end: waiting for it", at.display());
        }
        // before the pid file is read: a dying shim may still write it
        let shim_ended = !shim.is_some_and(|shim| shim.is_alive());
        let group = match (Process::read(&at.join(shim::HOOK_PID)), shim) {
            (Some(hook), _) => Group::of(hook, context_digest.as_deref()),
            (None, Some(shim)) => Group::unnamed(shim, context_digest.as_deref()),
            (None, None) => Group::Ended,
        };
        match &group {
            Group::Running(members) => members.iter().for_each(kill),
            Group::Unknown if looks < EXEC_LOOKS => {}
            Group::Unknown | Group::Ended if shim_ended => return,
            Group::Unknown | Group::Ended => {}
        }
        tokio::time::sleep(ADOPTED_LOOK).await;
    }
}

/// Ends a hook that asked for a reboot at once. Its shim is left alone until it has written down what the hook printed,
/// which stands.
pub(super) async fn stop_for_reboot(at: &Path) {
    let context_digest = read_kept(at).map(|kept| kept.context_digest);
    for _ in 0..SHIM_LOOKS {
        let hook = Process::read(&at.join(shim::HOOK_PID));
        if read_outcome(at).is_some() || hook.is_none() {
            break;
        }
        if let Some(Group::Running(members)) = hook.map(|hook| Group::of(hook, context_digest.as_deref())) {
            members.iter().for_each(kill);
        }
        tokio::time::sleep(ADOPTED_LOOK).await;
    }
    end_leftovers(at).await;
}

/// The process group that a hook led. After the leader's end its number may lead another group some day: that one
/// does not know the id of this run's context, and is none of ours.
enum Group {
    Running(Vec<Process>),
    /// Nobody of ours was seen in it, and the environment of one is empty: while a process is replaced by its
    /// program (exec) the kernel shows it so.
    Unknown,
    Ended,
}

impl Group {
    fn of(hook: Process, context_digest: Option<&str>) -> Group {
        let members = Process::in_group(hook.pid);
        if members.iter().any(|process| *process == hook || knows(process, context_digest)) {
            return Group::Running(members);
        }
        Group::of_others(&members)
    }

    /// Of a shim that may have died when its hook was started and not yet written down: whoever has begun since and
    /// knows the id of this run's context.
    fn unnamed(shim: Process, context_digest: Option<&str>) -> Group {
        let (ours, others): (Vec<Process>, Vec<Process>) = Process::started_since(shim.start)
            .into_iter()
            .partition(|process| knows(process, context_digest));
        if ours.is_empty() { Group::of_others(&others) } else { Group::Running(ours) }
    }

    fn of_others(others: &[Process]) -> Group {
        if others.iter().any(Process::has_no_environment) { Group::Unknown } else { Group::Ended }
    }
}

fn kill(process: &Process) {
    if let Err(error) = process.signal(Signal::SIGKILL) {
        tracing::warn!("cannot kill process {}: {error}", process.pid);
    }
}

fn knows(process: &Process, context_digest: Option<&str>) -> bool {
    let id = process.variable("JUJU_CONTEXT_ID").map(|id| host::digest::sha256(&id));
    id.is_some() && id.as_deref() == context_digest
}
