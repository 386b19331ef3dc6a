//! What one seed's run is made of: its faults, its size, and the planted fault if there is one.

use crate::sim::mutants::Mutant;
use crate::sim::world::SeededRng;

const ONE_IN_100: [u64; 100] = one_in();
const ONE_IN_20: [u64; 20] = one_in();

const fn one_in<const N: usize>() -> [u64; N] {
    let mut values = [0; N];
    values[0] = 1;
    values
}

macro_rules! mix {
    ($($(#[$doc:meta])* $name:ident: $values:expr,)*) => {
        /// Chances are per mille: of a poll for crashes, of a message for the network, of a hook for charms.
        #[derive(Clone, Debug, PartialEq)]
        pub struct FaultProfile {
            $($(#[$doc])* pub $name: u64,)*
            pub mutant: Option<Mutant>,
        }

        impl FaultProfile {
            /// Every number of a mix by name: what shrinking takes away one by one.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            fn drawn(chance: &mut SeededRng, mutant: Option<Mutant>) -> FaultProfile {
                let mut some = |values: &[u64]| *chance.pick(values).expect("values are given");
                FaultProfile { $($name: some(&$values),)* mutant }
            }

            /// The number of this name.
            pub fn number(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

mix! {
    agent_crash: [0, 2, 5, 20],
    message_crash: [0, 0, 2, 10],
    /// Of the polls of anybody, in a third of them.
    controller_crash: [0, 0, 0, 1],
    machine_agent_crash: [0, 0, 5],
    reboot: [0, 0, 100, 200],
    /// The hook's process dies with its agent.
    process_dies: [0, 300, 1000],
    /// The system kills a hook's process, its agent lives.
    process_killed: [0, 0, 0, 2],
    message_lost: [0, 10, 50, 200],
    message_doubled: [0, 50, 300],
    message_late: [0, 0, 20, 100],
    /// What people and machine agents send is lost, doubled or late too.
    operator_messages_lost: [0, 0, 1],
    watch_broken: [0, 100, 300],
    partition: [0, 0, 5, 10],
    /// Of what the provider of machines is asked: refused, or done and not answered.
    provider_fails: [0, 0, 50, 300],
    /// Its listing is a few seconds old.
    stale_listing: [0, 0, 300],
    provisioner_crash: [0, 0, 5, 30],
    instance_ends: [0, 0, 0, 300],
    instance_lost: [0, 0, 0, 0, 0, 100],
    sync_fails: [0, 0, 0, 10],
    /// A machine's disk, or the controller's, is full for a while.
    disk_full: [0, 0, 0, 2],
    /// A unit's folder is gone.
    folder_lost: [0, 0, 0, 1],
    /// Bytes of a unit's files are flipped.
    corrupted: [0, 0, 1],
    /// A second agent on a copy of a unit's folder.
    copied: [0, 0, 0, 1],
    frozen: [0, 0, 0, 3],
    /// The model has a teardown budget from the start.
    budget: [0, 0, 0, 1],
    /// In the end people destroy the model.
    destroyed: ONE_IN_20,
    /// The controller is restored from an older copy, once.
    restored: [0, 0, 0, 1],
    /// And meanwhile another one, on the same copy, had started one of its machines.
    started_elsewhere: [0, 1],
    clock_jumps: [0, 0, 3],
    hook_fails: [0, 0, 50, 200],
    hook_hangs: [0, 50],
    /// A hook asks for a reboot, after it or at once.
    hook_requests_reboot: [0, 0, 0, 20],
    /// Real bytes on the crash disk, through the production journal.
    bytes: ONE_IN_100,
    /// Everything that is sent goes through JSON.
    wire: [0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    /// The reply of every commit is lost once and every request doubled.
    every_reply_lost: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    /// For so many minutes nobody reaches the controller.
    outage: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 60],
    subordinate: [0, 0, 1],
    /// Revisions that the store's change log keeps.
    changes_kept: [10_000, 10_000, 10_000, 3],
    /// By how many units the first two applications begin with more than the least, at most.
    units: [1, 1, 1, 2],
    /// Nobody asks for more units than that.
    units_max: [3, 3, 4, 4, 4, 5, 6, 12],
    /// Acts of each user.
    acts: [2, 3, 4, 6],
    /// All documents are checked after each of so many commits.
    checked_every: [1, 16, 16, 16, 16, 16, 16, 16],
    /// Transactions are replayed at the end.
    replayed: [0, 0, 0, 1],
    /// Bytes of settings that come along with a view; 0: as many as in production.
    settings_along: [0, 0, 0, 1, 300],
    /// After the chaos something is removed and cannot go, and people ask why.
    stuck: [0, 0, 0, 1],
    /// Of the polls of the janitor, which has few: it begins anew, and so do the waits that it measures.
    janitor_crash: [0, 0, 20, 200],
    /// Of a hook: it opens or closes a port.
    port: [100, 100, 100, 500],
    /// Of what people do: a relation is suspended, or resumed, beside the few times that it is anyway.
    suspend_relation: [0, 0, 0, 0, 0, 0, 0, 300],
    /// Of messages: it takes seconds, there and back.
    message_slow: [0, 0, 0, 20, 200],
}

impl FaultProfile {
    /// The mix of a seed. Each kind of fault is absent in some seeds, so that others come to the fore.
    pub fn of(seed: u64, mutant: Option<Mutant>) -> FaultProfile {
        let mut mix = FaultProfile::drawn(&mut SeededRng::new(seed ^ 0x6d69_7800), mutant);
        match mutant {
            Some(Mutant::Product(row)) => {
                for (name, value) in &mutants::table::mutants()[row].mix {
                    *mix.number(name).expect("the mix of a mutant names numbers") = *value;
                }
            }
            Some(mutant) if mutant.is_in_disk_bytes() => (mix.bytes, mix.reboot) = (1, 200),
            Some(Mutant::FailedSyncIsAccepted) => mix.sync_fails = 10,
            Some(Mutant::StoreGenerationIsKept) => mix.restored = 1,
            Some(Mutant::NonceIsNotUnique) => (mix.provider_fails, mix.stale_listing) = (300, 300),
            Some(Mutant::TimersFollowWallClock) => mix.clock_jumps = 3,
            Some(Mutant::ReadsAreNotChecked | Mutant::SetsAreNotChecked) => mix.replayed = 1,
            Some(Mutant::CompactionIsSilent) => mix.changes_kept = 3,
            Some(Mutant::OmittedBagIsEmpty | Mutant::FetchesAgain) => mix.settings_along = 1,
            // nobody reaches the controller for longer than a term: who led has written, and another leads
            Some(Mutant::OlderLeaderWrites) => (mix.outage, mix.units) = (2, 2),
            _ => {}
        }
        // the corruption of bytes needs bytes
        mix.corrupted *= mix.bytes;
        mix
    }

    pub fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}
