//! Planted faults, chosen at run time: each must be killed by the check it was planted for.

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The disk says "synced" before it is: a crash loses what was acknowledged.
    AcknowledgesBeforeSync,
    /// After a restart, the changed that a joined owes is forgotten.
    ForgetsOwedChanged,
    /// After a restart, what was joined is forgotten.
    ForgetsMembers,
    /// After a restart, the configuration last seen is forgotten.
    ForgetsConfig,
    /// After a restart, the boot in which start ran is forgotten.
    ForgetsStart,
    /// After a restart, the hook that was interrupted is forgotten.
    ForgetsInterrupted,
    /// The hook that outlived its agent is taken for dead, and does not hold the lock that would say otherwise.
    OrphanIsIgnored,
    /// A hook that fails publishes what it wrote.
    FailedHookPublishes,
    /// What a hook reads moves while it runs.
    ContextMoves,
    /// A commit is answered and was never applied.
    CommitIsLostButAnswered,
    /// A delta is lost, its position shown all the same.
    DeltaIsLost,
    /// The store does not check what a transition read.
    ReadsAreNotChecked,
    /// A Dying unit is Alive again.
    LifeGoesBack,
    /// A scope is entered without the unit's settings.
    ScopeWithoutSettings,
    /// A removed unit leaves a document behind.
    StatusOfRemovedStays,
    /// The controller forgets what it has applied, and applies it again.
    AppliesTwice,
    /// Machine agents take no Dead unit away.
    DeadAreNotRecalled,
}

impl Mutant {
    pub const ALL: [Mutant; 17] = [
        Mutant::AcknowledgesBeforeSync,
        Mutant::ForgetsOwedChanged,
        Mutant::ForgetsMembers,
        Mutant::ForgetsConfig,
        Mutant::ForgetsStart,
        Mutant::ForgetsInterrupted,
        Mutant::OrphanIsIgnored,
        Mutant::FailedHookPublishes,
        Mutant::ContextMoves,
        Mutant::CommitIsLostButAnswered,
        Mutant::DeltaIsLost,
        Mutant::ReadsAreNotChecked,
        Mutant::LifeGoesBack,
        Mutant::ScopeWithoutSettings,
        Mutant::StatusOfRemovedStays,
        Mutant::AppliesTwice,
        Mutant::DeadAreNotRecalled,
    ];

    /// The check that must kill it.
    pub fn target(self) -> &'static str {
        match self {
            Mutant::AcknowledgesBeforeSync => "durable",
            Mutant::ForgetsOwedChanged | Mutant::ForgetsMembers => "relations",
            Mutant::ForgetsConfig => "restart",
            Mutant::ForgetsStart => "hooks",
            Mutant::ForgetsInterrupted | Mutant::OrphanIsIgnored => "intervals",
            Mutant::FailedHookPublishes => "effects",
            Mutant::ContextMoves => "snapshot",
            Mutant::CommitIsLostButAnswered => "settled",
            Mutant::DeltaIsLost => "settled",
            Mutant::ReadsAreNotChecked => "documents",
            Mutant::LifeGoesBack => "lives",
            Mutant::ScopeWithoutSettings | Mutant::StatusOfRemovedStays => "documents",
            Mutant::AppliesTwice => "once",
            Mutant::DeadAreNotRecalled => "settled",
        }
    }

    /// Planted in what a transaction reads or writes.
    pub fn is_of_the_store(self) -> bool {
        matches!(
            self,
            Mutant::ReadsAreNotChecked
                | Mutant::LifeGoesBack
                | Mutant::ScopeWithoutSettings
                | Mutant::StatusOfRemovedStays
                | Mutant::AppliesTwice
        )
    }
}
