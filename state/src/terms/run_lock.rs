//! The locks under which the programs of charms run (spec/uniter.md B.5).
//!
//! As in Juju, an action without `parallel: true` and without an execution group runs under the lock of the hooks. Whatever
//! lock an action takes, its agent runs nothing else meanwhile: the hooks of its own unit wait until it has ended.
//! `unit::chosen_operation` decides which lock a run takes, the agent holds it, and `status::hook_lock` derives the holder.

use crate::charm::Action;

/// A lock that a run holds from its start to its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunLock {
    /// The hook lock of the machine.
    Machine,
    /// The lock of the unit. No other unit waits for it; a reboot of the machine does.
    Unit,
    /// The lock of an execution group on the machine.
    Group(String),
}

impl RunLock {
    /// Returns the lock of a hook or of commands: with the setting `parallel` of the model, hooks of different units run at
    /// the same time.
    pub fn of_hook(parallel: bool) -> RunLock {
        if parallel { RunLock::Unit } else { RunLock::Machine }
    }

    /// Returns the lock of an action as its charm declares it, in a model with this setting `parallel`.
    pub fn of_action(action: &Action, parallel: bool) -> RunLock {
        match &action.execution_group {
            group if !group.is_empty() => RunLock::Group(group.clone()),
            _ => RunLock::of_hook(parallel || action.parallel),
        }
    }

    /// The execution group; none if the lock is not that of a group.
    pub fn group(self) -> Option<String> {
        match self {
            RunLock::Group(group) => Some(group),
            RunLock::Machine | RunLock::Unit => None,
        }
    }
}

/// The lock that an agent holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldLock {
    /// None.
    None,
    /// This one.
    One(RunLock),
    /// Whichever the next run takes: for explaining a unit without running it.
    Any,
}

impl HeldLock {
    /// Whether a run that takes this lock may start.
    pub fn allows(&self, lock: &RunLock) -> bool {
        match self {
            HeldLock::None => false,
            HeldLock::One(held) => held == lock,
            HeldLock::Any => true,
        }
    }
}
