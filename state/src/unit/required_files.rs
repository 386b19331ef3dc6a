//! What the agent observes of the files without which no hook of its charm can run, `metadata.yaml` and `dispatch`, and
//! whether one of them was lost.
//!
//! A person or a program that cleans folders may delete them at any time. A charm that lacks one is fetched again
//! (`pending_operations`, `chosen_operation`), and a hook that was not found or ended well while one was deleted is run again
//! (`run_exit`): it may have skipped what it could not find. A charm may delete its `dispatch` itself when it is installed or
//! upgraded, so that its files in `hooks/` are used. This is concluded only from such a hook that was run again and left it
//! deleted each time, and it is stored with the record of that hook, so that no restart of an agent forgets it.
//! `metadata.yaml` is fetched again each time.

use super::local::Local;
use crate::terms::required_file::RequiredFile;
use std::collections::BTreeSet;

/// What an agent observes of these files of the installed charm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredFiles {
    /// Those that were unpacked with the charm.
    pub unpacked: BTreeSet<RequiredFile>,
    /// Those that exist now.
    pub existing: BTreeSet<RequiredFile>,
}

impl RequiredFiles {
    /// Whether a file is missing that the charm has not deleted itself.
    pub fn is_any_lost(&self, local: &Local) -> bool {
        self.missing().any(|file| !local.deleted_files.contains(&file))
    }

    /// Those that were unpacked and do not exist.
    pub fn missing(&self) -> impl Iterator<Item = RequiredFile> {
        self.unpacked.difference(&self.existing).copied()
    }
}
