//! Selects the file of the charm that a hook or action executes (spec/hook-tools.md 5, spec/uniter.md A.9).
//!
//! The decision is pure: the caller (the agent's hook process) inspects the charm's folder and passes in the
//! facts. If the charm has a `dispatch` file, no other file is ever executed.

use super::hook_context::HookTrigger;
use crate::charm::Charm;
use crate::terms::failure_reason::FailureReason;

/// What a path in the charm's folder is. Symbolic links are followed; a dangling link is `Absent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// Nothing exists at the path.
    Absent,
    /// A file that the agent may execute.
    Executable,
    /// A file without permission to execute it.
    NotExecutable,
    /// A directory.
    Directory,
}

/// The facts about the charm's folder that decide the dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CharmFiles {
    /// Whether the folder contains the charm's metadata (`metadata.yaml` or its equivalent).
    pub has_metadata: bool,
    /// The file `dispatch`.
    pub dispatch: PathKind,
    /// The file of this hook or action: `hooks/<hook>` or `actions/<action>`.
    pub specific: PathKind,
}

/// The result of the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// Execute this file, relative to the charm's folder, without arguments.
    Run(String),
    /// The charm has no file for the hook or action. A missing hook is no error; an action fails with
    /// [`FailureReason::ActionMissing`].
    Missing,
    /// The hook or action fails for this reason.
    Failed(FailureReason),
}

/// Selects the file to execute. `path` is `hooks/<hook>` or `actions/<action>`, and is used only if the charm has no
/// `dispatch`.
pub fn dispatch(files: CharmFiles, path: &str) -> Dispatch {
    if !files.has_metadata {
        return Dispatch::Failed(FailureReason::CharmMissing);
    }
    let (file, entry) = match files.dispatch {
        PathKind::Absent => (path, files.specific),
        PathKind::Executable | PathKind::NotExecutable | PathKind::Directory => ("dispatch", files.dispatch),
    };
    match entry {
        PathKind::Absent => Dispatch::Missing,
        PathKind::Executable => Dispatch::Run(file.to_owned()),
        PathKind::NotExecutable => Dispatch::Failed(FailureReason::NotExecutable { file: file.to_owned() }),
        PathKind::Directory => Dispatch::Failed(FailureReason::IsDirectory { file: file.to_owned() }),
    }
}

/// Whether the deployed charm declares what is to run. Only an action can be undeclared: the controller validates it
/// against the charm of the application, and the unit may run another revision (it has not upgraded yet, or is in
/// error). The charm's `dispatch` must not be executed for an undeclared action, because it would exit 0 (scenario
/// 145).
pub fn declares(deployed: &Charm, trigger: &HookTrigger) -> bool {
    match trigger {
        HookTrigger::Action(action) => deployed.actions.contains_key(&action.name),
        HookTrigger::Hook(_)
        | HookTrigger::Relation { .. }
        | HookTrigger::Storage { .. }
        | HookTrigger::Secret { .. }
        | HookTrigger::Workload { .. }
        | HookTrigger::Commands(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(dispatch: PathKind, specific: PathKind) -> Dispatch {
        super::dispatch(CharmFiles { has_metadata: true, dispatch, specific }, "hooks/start")
    }

    #[test]
    fn dispatch_takes_precedence_over_the_file_of_the_hook() {
        assert_eq!(decide(PathKind::Executable, PathKind::Executable), Dispatch::Run("dispatch".to_owned()));
        assert!(matches!(decide(PathKind::NotExecutable, PathKind::Executable), Dispatch::Failed(_)));
    }

    #[test]
    fn without_dispatch_the_file_of_the_hook_runs_or_is_missing() {
        assert_eq!(decide(PathKind::Absent, PathKind::Executable), Dispatch::Run("hooks/start".to_owned()));
        assert_eq!(decide(PathKind::Absent, PathKind::Absent), Dispatch::Missing);
        for unusable in [PathKind::Directory, PathKind::NotExecutable] {
            assert!(matches!(decide(PathKind::Absent, unusable), Dispatch::Failed(_)), "{unusable:?}");
        }
    }
}
