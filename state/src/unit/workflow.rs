//! The workflow of a unit as operators see it: new, ready, running, or an error state (spec/uniter.md G.5).
//!
//! It is derived from the stored state, for display only; no decision depends on it.

use super::local::Local;
use crate::terms::operation::{Hook, Operation};

/// The state of a unit in its workflow (design 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workflow {
    /// install has not succeeded yet.
    New,
    /// install has succeeded, and the unit has not started or has stopped.
    Ready,
    /// start has succeeded.
    Running,
    /// An operation before or including install is in error.
    InstallError,
    /// An operation before or including start is in error.
    StartError,
    /// stop, remove or the report that the unit is Dead is in error.
    StopError,
    /// A later hook or operation is in error; its name.
    HookError(String),
}

impl std::fmt::Display for Workflow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Workflow::New => f.write_str("new"),
            Workflow::Ready => f.write_str("ready"),
            Workflow::Running => f.write_str("running"),
            Workflow::InstallError => f.write_str("install-error"),
            Workflow::StartError => f.write_str("start-error"),
            Workflow::StopError => f.write_str("stop-error"),
            Workflow::HookError(hook) => write!(f, "hook-error({hook})"),
        }
    }
}

impl Local {
    /// Returns the position of the unit in the workflow new -> ready -> running (spec/uniter.md G.5).
    pub fn workflow(&self) -> Workflow {
        // retries, and operations that run while the unit is in error, do not change the error state
        if let Some(episode) = self.episode() {
            return match &episode.operation {
                Operation::Hook(Hook::Stop | Hook::Remove) | Operation::SetDead => Workflow::StopError,
                Operation::Hook(Hook::Relation { .. }) if self.started => {
                    Workflow::HookError(hook_name(&episode.operation))
                }
                _ if !self.installed => Workflow::InstallError,
                _ if !self.started => Workflow::StartError,
                operation => Workflow::HookError(hook_name(operation)),
            };
        }
        match (self.installed, self.started && !self.stopped) {
            (false, _) => Workflow::New,
            (true, false) => Workflow::Ready,
            (true, true) => Workflow::Running,
        }
    }
}

fn hook_name(operation: &Operation) -> String {
    match operation {
        Operation::Hook(hook) => hook.name().to_string(),
        Operation::InstallCharm(_)
        | Operation::EnterScope { .. }
        | Operation::LeaveScope { .. }
        | Operation::Action { .. }
        | Operation::Commands(_)
        | Operation::Resync
        | Operation::SetDead => operation.to_string(),
    }
}
