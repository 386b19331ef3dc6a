//! Which file of the charm is run (spec/hook-tools.md 5, spec/uniter.md A.9).

use crate::names::UnitName;

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

/// Why an action without a file fails.
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
