//! Fault profile of a seed: the rates of its faults, the size of its schedule, and its mutant if there is one.
//!
//! Each kind of fault is absent in some seeds. A mix sets numbers of the profile by the names of its fields:
//! `cargo sim --mix NAME=N`, and the field `mix` of a mutant. A fault is drawn by [`World::draws_fault`] where it
//! occurs: those of processes, machines and folders in `faults`, the others at the ports (`network`, `disk`,
//! `provider`).
//!
//! [`World::draws_fault`]: crate::sim::world::World::draws_fault

use crate::sim::mutants::Mutant;
use crate::sim::random::SeededRng;

const ONE_IN_100: [u64; 100] = one_in();
const ONE_IN_20: [u64; 20] = one_in();

const fn one_in<const N: usize>() -> [u64; N] {
    let mut values = [0; N];
    values[0] = 1;
    values
}

macro_rules! fault_profile {
    ($($(#[$doc:meta])* $name:ident: $values:expr,)*) => {
        /// Rates are per mille: of a poll for crashes, of a message for the network, of a hook for charms.
        #[derive(Clone, Debug, PartialEq)]
        pub struct FaultProfile {
            $($(#[$doc])* pub $name: u64,)*
            pub mutant: Option<Mutant>,
        }

        impl FaultProfile {
            /// The names of all numbers, which shrinking lowers one by one.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            fn random(chance: &mut SeededRng, mutant: Option<Mutant>) -> FaultProfile {
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

fault_profile! {
    agent_crash: [0, 2, 5, 20],
    message_crash: [0, 0, 2, 10],
    /// The rate per poll of any task, in a third of the polls.
    controller_crash: [0, 0, 0, 1],
    machine_agent_crash: [0, 0, 5],
    reboot: [0, 0, 100, 200],
    /// The process of the hook dies with its agent.
    process_dies: [0, 300, 1000],
    /// The process of a hook is killed, and its agent lives.
    process_killed: [0, 0, 0, 2],
    message_lost: [0, 10, 50, 200],
    message_duplicated: [0, 50, 300],
    message_late: [0, 0, 20, 100],
    /// The messages of operators and machine agents are lost, duplicated or late, too.
    operator_messages_lost: [0, 0, 1],
    watch_broken: [0, 100, 300],
    partition: [0, 0, 5, 10],
    /// The rate of requests that the provider refuses, or executes without a response.
    provider_fails: [0, 0, 50, 300],
    /// The rate of listings of the provider that are a few seconds old.
    stale_listing: [0, 0, 300],
    provisioner_crash: [0, 0, 5, 30],
    instance_ends: [0, 0, 0, 300],
    instance_lost: [0, 0, 0, 0, 0, 100],
    sync_fails: [0, 0, 0, 10],
    /// The disk of a machine or of the controller is full for a while.
    disk_full: [0, 0, 0, 2],
    /// The folder of a unit is deleted.
    folder_lost: [0, 0, 0, 1],
    /// A bit of a unit's files is flipped.
    corrupted: [0, 0, 1],
    /// The folder of a unit is copied, and a second agent runs on the copy.
    folder_copied: [0, 0, 0, 1],
    agent_frozen: [0, 0, 0, 3],
    /// Whether the model has a teardown budget from the start.
    budget: [0, 0, 0, 1],
    /// Whether the operators destroy the model in the end.
    destroyed: ONE_IN_20,
    /// Whether the controller is restored from a backup, once.
    restored: [0, 0, 0, 1],
    /// Whether another controller with the same backup started one of the machines in the meantime.
    started_elsewhere: [0, 1],
    clock_jumps: [0, 0, 3],
    hook_fails: [0, 0, 50, 200],
    hook_hangs: [0, 50],
    /// A hook requests a reboot, after it or at once.
    hook_requests_reboot: [0, 0, 0, 20],
    /// Whether the disk stores bytes, through the production journal.
    byte_disk: ONE_IN_100,
    /// Whether all messages are encoded as JSON.
    json_messages: [0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    /// Whether the response of every commit is lost once and every request is duplicated.
    every_response_lost: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    /// For how many minutes the controller is unreachable.
    outage_minutes: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 60],
    subordinate: [0, 0, 1],
    /// The number of revisions in the change log of the store.
    changes_kept: [10_000, 10_000, 10_000, 3],
    /// The largest number of additional units of the first two applications.
    units: [1, 1, 1, 2],
    /// Operators add no units beyond this number.
    units_max: [3, 3, 4, 4, 4, 5, 6, 12],
    /// The number of actions of each operator.
    operator_actions: [2, 3, 4, 6],
    /// All documents are checked once per this number of commits.
    commits_per_full_check: [1, 16, 16, 16, 16, 16, 16, 16],
    /// Whether the transactions are replayed at the end.
    check_serializable: [0, 0, 0, 1],
    /// The bytes of settings that are inlined in a view. 0: as many as in production.
    inline_settings_bytes: [0, 0, 0, 1, 300],
    /// Whether obstructed removals follow the chaos, with requests of `why`.
    obstructed: [0, 0, 0, 1],
    /// The rate per poll of the janitor, which is polled rarely. The janitor restarts, and so do the waits that it
    /// measures.
    janitor_crash: [0, 0, 20, 200],
    /// The rate of hooks that open or close a port.
    hook_changes_port: [100, 100, 100, 500],
    hook_sets_leader_settings: [0, 100, 300],
    /// The rate of operator actions that suspend or resume a relation, in addition to the few in every schedule.
    suspend_relation: [0, 0, 0, 0, 0, 0, 0, 300],
    /// The rate of slow messages, with seconds of transit in both directions.
    message_slow: [0, 0, 0, 20, 200],
    hook_uses_secrets: [0, 0, 300],
    /// Whether charms require storage; then also the rate of operator actions that change it.
    storage: [0, 0, 100],
    /// The rate of storage that a machine agent cannot provide, release or delete at first.
    storage_fails: [0, 0, 300],
    /// The rate of late messages that arrive after the lease of a leader has expired. Only the mix of a mutant has any:
    /// operators and providers rely on the time after which nothing of theirs is under way.
    message_after_lease: [0],
}

impl FaultProfile {
    /// The profile of a seed. Each kind of fault is absent in some seeds, so that others have more effect.
    pub fn of(seed: u64, mutant: Option<Mutant>) -> FaultProfile {
        let mut profile = FaultProfile::random(&mut SeededRng::new(seed ^ 0x6d69_7800), mutant);
        match mutant {
            Some(Mutant::Product(row)) => {
                for (name, value) in &mutants::table::mutants()[row].mix {
                    *profile.number(name).expect("the field mix of a mutant has the names of the profile") =
                        *value;
                }
            }
            Some(mutant) if mutant.is_in_disk_bytes() => (profile.byte_disk, profile.reboot) = (1, 200),
            Some(Mutant::FailedSyncIsAccepted) => profile.sync_fails = 10,
            Some(Mutant::StoreGenerationIsKept) => profile.restored = 1,
            Some(Mutant::NonceIsNotUnique) => (profile.provider_fails, profile.stale_listing) = (300, 300),
            Some(Mutant::TimersFollowWallClock) => profile.clock_jumps = 3,
            Some(Mutant::ReadsAreNotChecked | Mutant::SetsAreNotChecked) => profile.check_serializable = 1,
            Some(Mutant::CompactionIsSilent) => profile.changes_kept = 3,
            Some(Mutant::OmittedBagIsEmpty | Mutant::FetchesAgain) => profile.inline_settings_bytes = 1,
            // the outage is longer than a lease: a former leader has written, and another unit leads
            Some(Mutant::OlderLeaderWrites) => (profile.outage_minutes, profile.units) = (2, 2),
            _ => {}
        }
        // corruption requires the byte form of the disk
        profile.corrupted *= profile.byte_disk;
        profile
    }

    pub fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}
