//! How a run has ended, and which ends count as others: a hook whose charm, tools or view were lost while it ran.
//!
//! The agent observes the process and the files, and passes the facts in. Used by `outcome`, which makes the record.

use super::hook_context_builder::NoContext;
use super::local::{Local, Run};
use super::required_files::RequiredFiles;
use crate::terms::failure_reason::FailureReason;
use crate::terms::operation::{Hook, Operation};

/// How a hook's process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunExit {
    /// The process exited with this code.
    Code(i32),
    /// A signal ended it that its agent has not sent, which is a failure of the charm (spec I.14).
    Signal(i32),
    /// The agent, the machine or a crash ended it. A hook is run again and has not failed, unless that happened too often in
    /// a row; an action is not run again and has failed (`retry::interrupted`).
    Interrupted,
    /// The charm does not implement the hook or the action.
    Missing,
    /// The action was cancelled after its start was saved and before its program started.
    Cancelled,
    /// The hook could not be started, or a request of it could not be executed.
    Failed(FailureReason),
}

impl RunExit {
    /// Whether a hook that ended in this way has failed. An action that failed, and a hook that was killed for the reboot
    /// that it requested, are no failed hooks. A unit can also be in error for a refused record or for repeated
    /// interruptions, which no exit shows.
    pub fn is_failed_hook(&self, operation: &Operation, requests_reboot: bool) -> bool {
        let has_failed = match self {
            RunExit::Code(code) => *code != 0,
            RunExit::Signal(_) | RunExit::Failed(_) => true,
            RunExit::Interrupted | RunExit::Missing | RunExit::Cancelled => false,
        };
        has_failed && !requests_reboot && !operation.runs_once()
    }

    /// The end of a run after which the folder of the charm is missing. A hook that has deleted it has failed, so that the
    /// charm is fetched for each retry and not again at once: it would delete it again. A unit that is being removed needs
    /// no charm after its last hooks.
    pub fn without_charm(self, operation: &Operation) -> RunExit {
        match (self, operation) {
            (RunExit::Code(0), Operation::Hook(hook)) if !matches!(hook, Hook::Stop | Hook::Remove) => {
                RunExit::Failed(FailureReason::CharmMissing)
            }
            (exit, _) => exit,
        }
    }

    /// The end of a run after which these files of the charm exist. A hook that has lost one of them is interrupted, once,
    /// because a hook that deletes one itself would do so each time; a hook whose program was not found has not run. The last
    /// hooks of a unit may delete everything.
    pub fn with_required_files(self, local: &Local, run: &Run, files: &RequiredFiles) -> RunExit {
        let Operation::Hook(hook) = &run.operation else { return self };
        if matches!(hook, Hook::Stop | Hook::Remove) || !files.is_any_lost(local) {
            return self;
        }
        match self {
            RunExit::Code(0) if run.attempt == 1 => RunExit::Interrupted,
            RunExit::Missing => RunExit::Interrupted,
            RunExit::Code(_)
            | RunExit::Signal(_)
            | RunExit::Interrupted
            | RunExit::Cancelled
            | RunExit::Failed(_) => self,
        }
    }

    /// The end of a run whose charm was lost after its start was stored. A hook is started again.
    pub fn with_lost_charm(operation: &Operation) -> RunExit {
        match operation.runs_once() {
            true => RunExit::Failed(FailureReason::CharmMissing),
            false => RunExit::Interrupted,
        }
    }

    /// The end of a run whose tools could not reach the agent, because they or the socket were deleted. A hook that ignores
    /// the failures of its tools has changed nothing with them: it is started again, once, because a hook that deletes them
    /// itself would do so each time. The last hooks of a unit may delete them.
    pub fn without_tools(self, run: &Run) -> RunExit {
        match (self, &run.operation) {
            (RunExit::Code(0), Operation::Hook(hook))
                if run.attempt == 1 && !matches!(hook, Hook::Stop | Hook::Remove) =>
            {
                RunExit::Interrupted
            }
            (exit, _) => exit,
        }
    }

    /// The end of a run whose view was dropped, because its agent has attached to a store of another generation. This is
    /// no failure of the charm: a hook is started again with the new view.
    pub fn without_view(operation: &Operation) -> RunExit {
        match operation.runs_once() {
            true => RunExit::Failed(FailureReason::ControllerRestored),
            false => RunExit::Interrupted,
        }
    }
}

impl From<NoContext> for RunExit {
    /// How a run ends that cannot be started, because it has no context.
    fn from(reason: NoContext) -> RunExit {
        match reason {
            NoContext::NoProgram => RunExit::Missing,
            NoContext::ActionCancelled => RunExit::Cancelled,
            NoContext::NotInRelation => RunExit::Failed(FailureReason::RelationNotShown),
            NoContext::ScriptAbsent => RunExit::Interrupted,
        }
    }
}
