//! What one seed's run is made of: its faults, its size, and the planted fault if there is one.

use crate::sim::mutants::Mutant;
use crate::sim::world::Chance;

/// Chances are per mille: of a poll for crashes, of a message for the network, of a hook for charms.
#[derive(Clone, Debug)]
pub struct Mix {
    pub agent_crash: u64,
    pub message_crash: u64,
    /// Of the polls of anybody.
    pub controller_crash: u64,
    pub reboot: u64,
    /// The hook's process dies with its agent.
    pub process_dies: u64,
    pub message_lost: u64,
    pub message_doubled: u64,
    pub message_late: u64,
    pub watch_broken: u64,
    pub partition: u64,
    pub sync_fails: u64,
    pub hook_fails: u64,
    pub hook_hangs: u64,
    /// Real bytes on the crash disk, through the production journal.
    pub bytes: bool,
    /// Everything that is sent goes through JSON.
    pub wire: bool,
    /// The reply of every commit is lost once and every request doubled.
    pub every_reply_lost: bool,
    /// For one hour nobody reaches the controller.
    pub outage: bool,
    pub subordinate: bool,
    /// Revisions that the store's change log keeps.
    pub changes_kept: u64,
    /// Acts of each user.
    pub acts: u64,
    /// All documents are checked after every commit, not only now and then.
    pub every_commit: bool,
    pub mutant: Option<Mutant>,
}

impl Mix {
    /// The mix of a seed. Each kind of fault is absent in some seeds, so that others come to the fore.
    pub fn of(seed: u64, mutant: Option<Mutant>) -> Mix {
        let mut chance = Chance::new(seed ^ 0x6d69_7800);
        let mut some = |values: &[u64]| *chance.pick(values).expect("values are given");
        Mix {
            agent_crash: some(&[0, 2, 5, 20]),
            message_crash: some(&[0, 0, 2, 10]),
            controller_crash: some(&[0, 0, 0, 1]),
            reboot: some(&[0, 0, 100, 200]),
            process_dies: some(&[0, 300, 1000]),
            message_lost: some(&[0, 10, 50, 200]),
            message_doubled: some(&[0, 50, 300]),
            message_late: some(&[0, 0, 20, 100]),
            watch_broken: some(&[0, 100, 300]),
            partition: some(&[0, 0, 5, 10]),
            sync_fails: some(&[0, 0, 0, 10]),
            hook_fails: some(&[0, 0, 50, 200]),
            hook_hangs: some(&[0, 50]),
            bytes: seed.is_multiple_of(10),
            wire: seed % 10 == 5,
            every_reply_lost: seed % 20 == 7,
            outage: seed % 20 == 13,
            subordinate: some(&[0, 0, 1]) == 1,
            changes_kept: some(&[10_000, 10_000, 10_000, 3]),
            acts: some(&[2, 4, 6, 8]),
            every_commit: seed.is_multiple_of(4),
            mutant,
        }
    }

    pub fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}
