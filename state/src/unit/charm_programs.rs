//! What the agent observes of the programs of its charm, and whether one of them was lost.
//!
//! A person or a program that cleans folders may delete them at any time. A charm that lacks one is fetched again
//! (`pending_operations`, `chosen_operation`), and a hook during which one was deleted is run again (`run_exit`): it may
//! have skipped what it could not find and ended well. A charm may delete its `dispatch` itself when it is installed or
//! upgraded, so that its files in `hooks/` are used. This is concluded only from such a hook that was run again and left it
//! deleted each time, and it is stored with the record of that hook, so that no restart of an agent forgets it. No hook
//! can run without `metadata.yaml`, which is fetched again each time.

use super::local::Local;
use crate::terms::charm_program::CharmProgram;
use std::collections::BTreeSet;

/// What an agent observes of the programs of the installed charm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramFiles {
    /// Those that were unpacked with the charm.
    pub unpacked: BTreeSet<CharmProgram>,
    /// Those that exist now.
    pub existing: BTreeSet<CharmProgram>,
}

impl ProgramFiles {
    /// Whether a program is missing that the charm has not deleted itself.
    pub fn is_any_lost(&self, local: &Local) -> bool {
        self.missing().any(|program| !local.deleted_programs.contains(&program))
    }

    /// Those that were unpacked and do not exist.
    pub fn missing(&self) -> impl Iterator<Item = CharmProgram> {
        self.unpacked.difference(&self.existing).copied()
    }
}
