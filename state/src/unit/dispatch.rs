//! Which file of the charm is run (spec/hook-tools.md 5, spec/uniter.md A.9).

use super::hook::Cause;
use crate::charm::Charm;
use crate::terms::names::UnitName;

/// What stands at a path of the charm. Links are followed; a link that leads nowhere is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Absent,
    Executable,
    NotExecutable,
    Directory,
}

/// What dispatching needs to know of the charm's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CharmFiles {
    /// The charm says what it is (`metadata.yaml` or what stands for it).
    pub metadata: bool,
    /// `dispatch`.
    pub dispatch: Entry,
    /// `hooks/<hook>` or `actions/<action>`.
    pub own: Entry,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// This file, relative to the charm's folder, without arguments.
    Run(String),
    /// Not an error for a hook; for an action see [`missing_action`].
    Missing,
    /// The hook or action fails with this text.
    Failed(String),
}

/// `path` is `hooks/<hook>` or `actions/<action>`. A `dispatch` that is there is the only one asked.
pub fn dispatch(files: CharmFiles, path: &str) -> Dispatch {
    if !files.metadata {
        return Dispatch::Failed("charm missing from disk".to_owned());
    }
    let (file, entry) = match files.dispatch {
        Entry::Absent => (path, files.own),
        Entry::Executable | Entry::NotExecutable | Entry::Directory => ("dispatch", files.dispatch),
    };
    match entry {
        Entry::Absent => Dispatch::Missing,
        Entry::Executable => Dispatch::Run(file.to_owned()),
        Entry::NotExecutable => Dispatch::Failed(format!("fork/exec {file}: permission denied")),
        Entry::Directory => Dispatch::Failed(format!("{file} is a directory: permission denied")),
    }
}

/// The deployed charm has what is to be run; the others are missing. An action is accepted by the charm of its
/// application, and the unit may run another revision: still, in an error, or since a refresh. The charm's `dispatch`
/// would be run for what it does not know, and exit 0 (scenario 145).
pub fn knows(deployed: &Charm, cause: &Cause) -> bool {
    match cause {
        Cause::Action(action) => deployed.actions.contains_key(&action.name),
        Cause::Hook(_)
        | Cause::Relation { .. }
        | Cause::Storage { .. }
        | Cause::Secret { .. }
        | Cause::Workload { .. }
        | Cause::Commands(_) => true,
    }
}

/// Why an action that the charm does not have fails.
pub fn missing_action(unit: &UnitName) -> String {
    format!("action not implemented on unit \"{unit}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(dispatch: Entry, own: Entry) -> Dispatch {
        super::dispatch(CharmFiles { metadata: true, dispatch, own }, "hooks/start")
    }

    #[test]
    fn a_dispatch_that_is_there_is_the_only_one_asked() {
        assert_eq!(decide(Entry::Executable, Entry::Executable), Dispatch::Run("dispatch".to_owned()));
        assert!(matches!(decide(Entry::NotExecutable, Entry::Executable), Dispatch::Failed(_)));
    }

    #[test]
    fn without_dispatch_the_hook_runs_or_is_missing() {
        assert_eq!(decide(Entry::Absent, Entry::Executable), Dispatch::Run("hooks/start".to_owned()));
        assert_eq!(decide(Entry::Absent, Entry::Absent), Dispatch::Missing);
        assert!(matches!(decide(Entry::Absent, Entry::Directory), Dispatch::Failed(_)));
    }
}
