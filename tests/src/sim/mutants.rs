//! The mutants that a run can have: faults of the simulator's own ports, and the mutants of the product, which the crate
//! `mutants` lists. Each must be detected by the check that it names. Many repeat a known bug, which is then named.

use mutants::table;

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The disk says "synced" before it is: a crash loses what was acknowledged.
    AcknowledgesBeforeSync,
    /// A sync that failed counts as done when it is tried again (PostgreSQL, 2018).
    FailedSyncIsAccepted,
    /// The state file is rewritten in place: a crash leaves half of it (consul#1221).
    RewritesInPlace,
    /// A rename whose folder was not synced is undone when the power goes.
    RenameIsNotSynced,
    /// A file that cannot be read is taken for none (mycelium#122).
    UnreadableIsEmpty,
    /// An outcome is saved first and its effects after it (k8s#84783).
    SavesInTwoSteps,
    /// After a restart, the changed that a joined owes is forgotten.
    ForgetsPendingChanged,
    /// After a restart, what was joined is forgotten.
    ForgetsMembers,
    /// After a restart, the configuration last seen is forgotten: config-changed runs again (juju#9498).
    ForgetsConfig,
    /// After a restart, the boot in which start ran is forgotten (pebble#527).
    ForgetsStart,
    /// After a restart, the hook that was interrupted is forgotten.
    ForgetsInterrupted,
    /// After a restart, an action that had begun is begun again.
    ForgetsAction,
    /// The hook that outlived its agent is taken for dead, and does not hold the lock that would say otherwise.
    OrphanedRunIsIgnored,
    /// The machine's hook lock stays taken when the process that held it is killed (puppet#2888).
    LockOutlivesHook,
    /// A hook's exit code is swallowed (LP#1854338).
    FailedHookPublishes,
    /// What a hook reads moves while it runs.
    ContextMoves,
    /// A bag that did not come along is read as empty.
    OmittedBagIsEmpty,
    /// A bag that a hook has read is fetched again for its next read.
    FetchesAgain,
    /// Timers follow the wall clock.
    TimersFollowWallClock,
    /// A commit is answered and was never applied.
    CommitIsLostButAnswered,
    /// A delta is lost, its position shown all the same.
    DeltaIsLost,
    /// The first event of a watch is eaten by whoever opened it (juju#21517).
    FirstEventIsDropped,
    /// A watch begins at the newest revision, not where its reader is (juju#11530).
    SubscribesAfterState,
    /// A watch from before the log's beginning goes on as if nothing was missing (gardener).
    CompactionIsSilent,
    /// A unit that is going away may not attach (juju#21194).
    DyingMayNotAttach,
    /// What arrives twice is answered as what an older agent says.
    DuplicateIsFenced,
    /// A restored store keeps its history's name (etcd#16028).
    StoreGenerationIsKept,
    /// The store does not check what a transition read.
    ReadsAreNotChecked,
    /// The store does not check the sets that a transition read.
    SetsAreNotChecked,
    /// A Dying unit is Alive again.
    DyingBecomesAlive,
    /// A scope is entered without the unit's settings.
    ScopeWithoutSettings,
    /// A removed unit leaves a document behind.
    StatusOfRemovedStays,
    /// The controller forgets what it has applied, and applies it again (foundationdb-rs).
    AppliesTwice,
    /// The controller forgets that a newer agent has attached.
    OlderEpochIsAccepted,
    /// A leader of before writes on (juju leadership).
    OlderLeaderWrites,
    /// A unit's settings go to another unit (CVE-2025-68153).
    WritesAnothersBag,
    /// The ports of a unit are another unit's.
    OpensAnothersPorts,
    /// The status of a unit's workload is another unit's.
    SetsAnothersStatus,
    /// Settings that did not change get a new version.
    UnchangedBagGetsNewVersion,
    /// The archive of a refresh is announced and not kept (LP#2053242).
    ArchiveIsMissing,
    /// A unit has a token that the controller was not told (juju#13619).
    TokenIsNotSentToController,
    /// The provider makes another instance under a nonce that has one.
    NonceIsNotUnique,
    /// A row of the table of mutants of the product.
    Product(usize),
}

impl Mutant {
    /// Those of the simulator's own parts.
    pub const PORTS: [Mutant; 42] = [
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

    /// The check that must kill it.
    pub fn target(self) -> &'static str {
        match self {
            Mutant::AcknowledgesBeforeSync
            | Mutant::FailedSyncIsAccepted
            | Mutant::RewritesInPlace
            | Mutant::RenameIsNotSynced
            | Mutant::UnreadableIsEmpty => "durable",
            Mutant::ForgetsPendingChanged | Mutant::ForgetsMembers => "relations",
            Mutant::ForgetsConfig => "restart",
            Mutant::ForgetsStart => "hooks",
            Mutant::ForgetsInterrupted | Mutant::OrphanedRunIsIgnored => "intervals",
            Mutant::ForgetsAction => "actions",
            Mutant::FailedHookPublishes | Mutant::SavesInTwoSteps => "effects",
            Mutant::ContextMoves | Mutant::OmittedBagIsEmpty | Mutant::FetchesAgain => "snapshot",
            Mutant::DeltaIsLost
            | Mutant::FirstEventIsDropped
            | Mutant::SubscribesAfterState
            | Mutant::CompactionIsSilent
            | Mutant::StoreGenerationIsKept => "views",
            Mutant::ReadsAreNotChecked | Mutant::SetsAreNotChecked => "serial",
            Mutant::DyingBecomesAlive => "lives",
            Mutant::ScopeWithoutSettings | Mutant::StatusOfRemovedStays => "documents",
            Mutant::AppliesTwice => "once",
            Mutant::OlderEpochIsAccepted
            | Mutant::OlderLeaderWrites
            | Mutant::WritesAnothersBag
            | Mutant::OpensAnothersPorts
            | Mutant::SetsAnothersStatus => "authority",
            Mutant::TokenIsNotSentToController => "identities",
            Mutant::UnchangedBagGetsNewVersion => "versions",
            Mutant::NonceIsNotUnique => "doubles",
            Mutant::CommitIsLostButAnswered
            | Mutant::LockOutlivesHook
            | Mutant::TimersFollowWallClock
            | Mutant::DyingMayNotAttach
            | Mutant::DuplicateIsFenced
            | Mutant::ArchiveIsMissing => "settled",
            Mutant::Product(row) => &table::mutants()[row].killed_by,
        }
    }

    /// All mutants of this build: those of the product only in the generated tree.
    pub fn all() -> Vec<Mutant> {
        let rows = if mutants::GENERATED { table::mutants().len() } else { 0 };
        Mutant::PORTS.into_iter().chain((0..rows).map(Mutant::Product)).collect()
    }

    /// What people call it.
    pub fn name(self) -> String {
        match self {
            Mutant::Product(row) => table::mutants()[row].name.clone(),
            port => format!("{port:?}"),
        }
    }

    /// Planted in what a transaction reads or writes.
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

    /// Planted in what the disk does with bytes.
    pub fn is_in_disk_bytes(self) -> bool {
        matches!(self, Mutant::RewritesInPlace | Mutant::RenameIsNotSynced | Mutant::UnreadableIsEmpty)
    }
}

/// The product runs with its mutant, in this thread, for as long as this lives; a panic ends it too.
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
