//! Mutants: the deliberate faults that the checks must detect.
//!
//! A mutant is either a fault of the simulator's own ports, listed here, or a change of the product, listed in the
//! crate `mutants`. Each mutant names the check that must detect it. Where a mutant repeats a known bug, it refers
//! to that bug.

use mutants::table;

/// One mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The disk acknowledges a write before the sync: a crash loses acknowledged events.
    AcknowledgesBeforeSync,
    /// A failed sync succeeds when it is repeated, although the data is lost (PostgreSQL, 2018).
    FailedSyncIsAccepted,
    /// The state file is rewritten in place: a crash leaves a part of it (consul#1221).
    RewritesInPlace,
    /// A rename whose folder was not synced is undone by a power loss.
    RenameIsNotSynced,
    /// A file that cannot be read is treated as missing (mycelium#122).
    UnreadableIsEmpty,
    /// An outcome is stored before its effects (k8s#84783).
    SavesInTwoSteps,
    /// After a restart, the pending relation-changed of a relation-joined is forgotten.
    ForgetsPendingChanged,
    /// After a restart, the joined members are forgotten.
    ForgetsMembers,
    /// After a restart, the last delivered configuration is forgotten: config-changed runs again (juju#9498).
    ForgetsConfig,
    /// After a restart, the boot in which start ran is forgotten (pebble#527).
    ForgetsStart,
    /// After a restart, the hook that was interrupted is forgotten.
    ForgetsInterrupted,
    /// After a restart, an action that had started is started again.
    ForgetsAction,
    /// A hook that outlived its agent is treated as ended, and does not inherit the hook lock.
    OrphanedRunIsIgnored,
    /// The machine's hook lock stays taken when the process that held it is killed (puppet#2888).
    LockOutlivesHook,
    /// The gate of a hook's process is open from the beginning: the hook runs before its start is stored.
    GateIsOpen,
    /// A hook's exit code is swallowed (LP#1854338).
    FailedHookPublishes,
    /// The values that a hook reads change while it runs.
    ContextMoves,
    /// A bag that was omitted from the view is read as empty.
    OmittedBagIsEmpty,
    /// A bag that a hook has read is fetched again for its next read.
    FetchesAgain,
    /// Timers follow the wall clock.
    TimersFollowWallClock,
    /// A commit is acknowledged without being applied.
    CommitIsLostButAnswered,
    /// A delta is lost, but its position is shown.
    DeltaIsLost,
    /// The first event of a watch is dropped (juju#21517).
    FirstEventIsDropped,
    /// A watch starts at the newest revision instead of the position of its client (juju#11530).
    SubscribesAfterState,
    /// A watch from a compacted position continues as if nothing was missing (gardener).
    CompactionIsSilent,
    /// A Dying unit may not attach (juju#21194).
    DyingMayNotAttach,
    /// A message that arrives twice is rejected as one of an older agent.
    DuplicateIsFenced,
    /// A restored store keeps its store generation (etcd#16028).
    StoreGenerationIsKept,
    /// The store does not check the documents that a transition read.
    ReadsAreNotChecked,
    /// The store does not check the sets that a transition read.
    SetsAreNotChecked,
    /// A Dying unit is Alive again.
    DyingBecomesAlive,
    /// A unit enters a scope without its initial settings.
    ScopeWithoutSettings,
    /// The status of a removed unit is not deleted.
    StatusOfRemovedStays,
    /// The controller forgets which records it has applied, and applies them again (foundationdb-rs).
    AppliesTwice,
    /// The controller forgets that a newer agent has attached.
    OlderEpochIsAccepted,
    /// A former leader continues to write (juju leadership).
    OlderLeaderWrites,
    /// The settings of a unit are written as those of another unit (CVE-2025-68153).
    WritesAnothersBag,
    /// The ports of a unit are stored as those of another unit.
    OpensAnothersPorts,
    /// The workload status of a unit is stored as that of another unit.
    SetsAnothersStatus,
    /// Unchanged settings get a new version.
    UnchangedBagGetsNewVersion,
    /// The archive of a refresh is accepted but not stored (LP#2053242).
    ArchiveIsMissing,
    /// The token of a unit is not sent to the controller (juju#13619).
    TokenIsNotSentToController,
    /// The provider creates a second instance under one nonce.
    NonceIsNotUnique,
    /// A mutant of the product: the index of its row in the table.
    Product(usize),
}

impl Mutant {
    /// The mutants of the simulator's own ports.
    pub const SIMULATOR_MUTANTS: [Mutant; 43] = [
        Mutant::AcknowledgesBeforeSync,
        Mutant::FailedSyncIsAccepted,
        Mutant::RewritesInPlace,
        Mutant::RenameIsNotSynced,
        Mutant::UnreadableIsEmpty,
        Mutant::SavesInTwoSteps,
        Mutant::ForgetsPendingChanged,
        Mutant::ForgetsMembers,
        Mutant::ForgetsConfig,
        Mutant::ForgetsStart,
        Mutant::ForgetsInterrupted,
        Mutant::ForgetsAction,
        Mutant::OrphanedRunIsIgnored,
        Mutant::LockOutlivesHook,
        Mutant::GateIsOpen,
        Mutant::FailedHookPublishes,
        Mutant::ContextMoves,
        Mutant::OmittedBagIsEmpty,
        Mutant::FetchesAgain,
        Mutant::TimersFollowWallClock,
        Mutant::CommitIsLostButAnswered,
        Mutant::DeltaIsLost,
        Mutant::FirstEventIsDropped,
        Mutant::SubscribesAfterState,
        Mutant::CompactionIsSilent,
        Mutant::DyingMayNotAttach,
        Mutant::DuplicateIsFenced,
        Mutant::StoreGenerationIsKept,
        Mutant::ReadsAreNotChecked,
        Mutant::SetsAreNotChecked,
        Mutant::DyingBecomesAlive,
        Mutant::ScopeWithoutSettings,
        Mutant::StatusOfRemovedStays,
        Mutant::AppliesTwice,
        Mutant::OlderEpochIsAccepted,
        Mutant::OlderLeaderWrites,
        Mutant::WritesAnothersBag,
        Mutant::OpensAnothersPorts,
        Mutant::SetsAnothersStatus,
        Mutant::UnchangedBagGetsNewVersion,
        Mutant::ArchiveIsMissing,
        Mutant::TokenIsNotSentToController,
        Mutant::NonceIsNotUnique,
    ];

    /// The name of the check that must detect it.
    pub fn target(self) -> &'static str {
        match self {
            Mutant::AcknowledgesBeforeSync
            | Mutant::FailedSyncIsAccepted
            | Mutant::RewritesInPlace
            | Mutant::RenameIsNotSynced
            | Mutant::UnreadableIsEmpty => "durable-events",
            Mutant::ForgetsPendingChanged | Mutant::ForgetsMembers => "relations",
            Mutant::ForgetsConfig => "restart",
            Mutant::ForgetsStart => "hooks",
            Mutant::ForgetsInterrupted | Mutant::OrphanedRunIsIgnored | Mutant::GateIsOpen => "run-intervals",
            Mutant::ForgetsAction => "actions",
            Mutant::FailedHookPublishes | Mutant::SavesInTwoSteps => "visible-effects",
            Mutant::ContextMoves | Mutant::OmittedBagIsEmpty | Mutant::FetchesAgain => "stable-reads",
            Mutant::DeltaIsLost
            | Mutant::FirstEventIsDropped
            | Mutant::SubscribesAfterState
            | Mutant::CompactionIsSilent
            | Mutant::StoreGenerationIsKept => "view-fold",
            Mutant::ReadsAreNotChecked | Mutant::SetsAreNotChecked => "serializable",
            Mutant::DyingBecomesAlive => "life-order",
            Mutant::ScopeWithoutSettings | Mutant::StatusOfRemovedStays => "documents",
            Mutant::AppliesTwice => "applied-once",
            Mutant::OlderEpochIsAccepted
            | Mutant::OlderLeaderWrites
            | Mutant::WritesAnothersBag
            | Mutant::OpensAnothersPorts
            | Mutant::SetsAnothersStatus => "authority",
            Mutant::TokenIsNotSentToController => "names-and-tokens",
            Mutant::UnchangedBagGetsNewVersion => "bag-counters",
            Mutant::NonceIsNotUnique => "duplicate-instances",
            Mutant::CommitIsLostButAnswered
            | Mutant::LockOutlivesHook
            | Mutant::TimersFollowWallClock
            | Mutant::DyingMayNotAttach
            | Mutant::DuplicateIsFenced
            | Mutant::ArchiveIsMissing => "converged",
            Mutant::Product(row) => &table::mutants()[row].killed_by,
        }
    }

    /// All mutants of this build. Those of the product exist only in the generated tree.
    pub fn all() -> Vec<Mutant> {
        let rows = if mutants::GENERATED { table::mutants().len() } else { 0 };
        Mutant::SIMULATOR_MUTANTS.into_iter().chain((0..rows).map(Mutant::Product)).collect()
    }

    /// Its name on the command line.
    pub fn name(self) -> String {
        match self {
            Mutant::Product(row) => table::mutants()[row].name.clone(),
            port => format!("{port:?}"),
        }
    }

    /// Whether it is implemented in the simulated store.
    pub fn is_in_store(self) -> bool {
        matches!(
            self,
            Mutant::ReadsAreNotChecked
                | Mutant::SetsAreNotChecked
                | Mutant::DyingBecomesAlive
                | Mutant::ScopeWithoutSettings
                | Mutant::StatusOfRemovedStays
                | Mutant::AppliesTwice
                | Mutant::OlderEpochIsAccepted
                | Mutant::OlderLeaderWrites
                | Mutant::WritesAnothersBag
                | Mutant::OpensAnothersPorts
                | Mutant::SetsAnothersStatus
                | Mutant::UnchangedBagGetsNewVersion
        )
    }

    /// Whether it is implemented in the byte form of the disk.
    pub fn is_in_disk_bytes(self) -> bool {
        matches!(self, Mutant::RewritesInPlace | Mutant::RenameIsNotSynced | Mutant::UnreadableIsEmpty)
    }
}

/// Activates a mutant of the product in this thread until it is dropped, also by a panic.
pub struct MutantGuard;

impl MutantGuard {
    pub fn of(mutant: Option<Mutant>) -> MutantGuard {
        mutants::choose(match mutant {
            Some(Mutant::Product(row)) => Some(row),
            _ => None,
        });
        MutantGuard
    }
}

impl Drop for MutantGuard {
    fn drop(&mut self) {
        mutants::choose(None);
    }
}
