//! Planted faults of the core, for the simulator: one may be chosen in a thread, and its place then does wrong.
//! Ordinary builds hold none: without the feature `mutants`, [`is`] is a constant.

#[cfg(feature = "mutants")]
use std::cell::Cell;

/// One fault. Where it is planted says what is done instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A relation breaks before its members have departed (juju#20214).
    BrokenBeforeDeparted,
    /// A member's joined is left out: its first hook is changed.
    ChangedBeforeJoined,
    /// A member that left is never said to have departed.
    DepartedIsSkipped,
    /// A unit that comes to others is never said to have joined.
    JoinedIsSkipped,
    /// The settings of the other application change, and nobody is told.
    ApplicationChangeIsMissed,
    /// A relation between the units of one application is broken like any other.
    PeerBreaks,
    /// A hook of a relation is run again on older news than it began with.
    SetBackIsIgnored,
    /// What is settled without a run has the number of the last run, which has ended.
    RunEndsTwice,
    /// What a removal left behind is cleared, and is said to be left.
    CleanupStays,
    /// How long somebody has waited for force is asked of the wall clock.
    WaitFollowsWallClock,
    /// A configuration that changes is not noticed.
    ConfigChangeIsMissed,
    /// A reboot is not noticed: start does not run again.
    RebootIsMissed,
    /// A hook that failed counts as done.
    FailedHookAdvances,
    /// The last one out of a Dying relation does not remove it (I18).
    LastOutLeavesRelation,
    /// The last unit of a Dying application does not remove it (I19).
    LastUnitLeavesApplication,
    /// A relation is not removed when an application of it is going away (juju#23352).
    RemovalNeedsAliveEnds,
    /// A unit enters the scope of a relation that is Dying (I21).
    EntersDyingRelation,
    /// A unit's settings go when it leaves, not when the relation does (I14).
    SettingsGoWithUnit,
    /// The name of an application that is gone stays taken (I26).
    NameStaysTaken,
    /// A record is applied whatever its sequence is, again too (I9).
    SequenceIsNotChecked,
    /// Who leads writes as leader, also what it began to write in an earlier grant.
    GenerationIsNotChecked,
    /// A delta leaves out who came and who left.
    DeltaForgetsMembers,
    /// Whoever is going is a member to others until its own agent has left (spec E.2, *departing*).
    DyingStays,
    /// A delta leaves out that a relation is gone.
    DeltaForgetsRemoval,
    /// A subordinate is Alive while its principal is not (I23).
    SubordinateOutlivesPrincipal,
    /// The last relation of a subordinate to its principal's application goes, and it stays (spec A.12).
    SubordinateOutlivesRelations,
    /// A unit is shown the members of other principals' containers (I31).
    ContainersAreOne,
    /// A unit enters the scope of a relation that is suspended.
    SuspensionIsMissed,
    /// A unit that is forced is Dead and gone without having left its scopes (juju#22814).
    ForceDeletesWithoutDeparting,
    /// The controller acts for a unit whose agent it has not fenced: one that comes back writes on.
    ForceDoesNotFence,
    /// A principal that is forced is Dead before its subordinates are gone.
    ForceSkipsSubordinates,
    /// What a teardown budget marks is forced at once.
    BudgetIsOverAtOnce,
    /// A model that has no teardown budget has one all the same.
    BudgetIsNotNeeded,
    /// A model that is destroyed keeps its applications.
    DestructionSkipsApplications,
    /// Something new comes into a model that is going.
    DyingModelTakesMore,
    /// A model that was destroyed leaves its rest behind.
    DestroyedModelLeavesRest,
    /// The record of a Dead machine goes, its instance does not.
    DeadInstanceStays,
    /// An instance that its user keeps is taken away.
    KeptIsTakenAway,
    /// An instance whose start was not recorded is taken for another's.
    UnrecordedInstanceIsTaken,
    /// What nothing is known of is harvested as if it had been removed.
    UnknownIsHarvested,
    /// An instance that was lost is not replaced, though units are to come to their end on its machine.
    LostInstanceStaysLost,
    /// An instance that another history started under a machine's name is taken for its own.
    OtherStartIsOwn,
    /// Why a machine's instance could not be made is not said.
    TroubleIsNotSaid,
    /// What failed once is not tried again.
    TroubleIsNotRetried,
    /// What was said in a run that no record will hold is not told.
    UnheardIsForgotten,
    /// A status that comes late stands over a newer one.
    OlderStatusWins,
    /// Machine agents take no Dead unit away.
    DeadAreNotRecalled,
    /// Machine agents take units away that the controller does not know.
    AbsenceIsDeath,
    /// And those of them whose name another unit has.
    DisplacedIsRecalled,
    /// A relation that is Dying is said to wait for nobody in its scope.
    BlockersForgetScopes,
    /// Nothing is said to hold a machine that is Dying.
    MachineIsNotExplained,
    /// An action that its unit began is failed again, as long as it is shown as running (LP#1694734).
    ActionFailsForEver,
    /// An action that failed, or whose agent died, is not said to have ended (LP#2012861).
    ActionStaysRunning,
    /// The last document of a journal counts though it was cut off.
    TornTailIsTaken,
    /// A journal grows for ever (I42).
    JournalIsNotFolded,
    /// A hook counts as done that was never run (I51).
    RecordWithoutRun,
    /// A hook reads its own settings as they were before it wrote (I5).
    OwnWritesAreNotRead,
    /// The number of a removed unit is given to the next one.
    UnitNumberIsGivenAgain,
    /// The token of a removed unit still lets in whoever has it (CVE-2016-9639).
    TokenOutlivesUnit,
    /// The units of an application that is forced are not.
    ForcedApplicationKeepsUnits,
    /// The units of a machine that is forced are not.
    ForcedMachineKeepsUnits,
    /// Whoever is in the scope of a relation that is forced stays there.
    ForcedRelationKeepsMembers,
    /// What a leader sets for its application is not stored.
    LeadersSettingsStay,
    /// Ports that were opened are not stored.
    PortsStay,
    /// A unit ends without having run remove.
    RemoveIsSkipped,
    /// A unit that is going leaves its relations without broken.
    DyingDoesNotBreak,
    /// Of the configuration only the charm is looked at, not the settings.
    SettingsAreNotSeen,
    /// A relation that is there at the beginning is told of after the first config-changed.
    CreatedComesLate,
    /// leader-elected is not run.
    NobodyIsElected,
    /// What fails is not retried by itself.
    RetryIsDropped,
    /// A retry is never due.
    RetryIsNeverDue,
    /// What people want run again is given up, and the other way round.
    ResolvedIsSwapped,
    /// A unit that leaves and comes back has not left.
    ReturnIsMissed,
    /// Who stays is said to depart, and not who goes.
    DepartingIsSwapped,
    /// Two units of a machine open the same port.
    PortsMeet,
    /// A machine without units stays Alive.
    EmptyMachineStays,
    /// An agent takes over from one that lives.
    CopyTakesOver,
    /// Leadership passes on when half its term is over.
    TermIsHalf,
    /// A controller that starts takes the terms of all leaders to be over.
    TermsBeginAtZero,
    /// An action fails without having run.
    ActionsFailUnrun,
    /// An action that succeeded is shown to have failed.
    ActionResultIsSwapped,
    /// A unit is shown the settings of its application's other units in a relation with another application.
    OwnUnitsAreShown,
    /// Hooks of relations begin however long ago the controller was heard.
    SilentLinkIsFresh,
    /// Force does not wait, though people have not said that it should not.
    ForceDoesNotWait,
    /// Force that waits is said to be due when it is asked for.
    ForceIsDueAtOnce,
    /// What an older agent says beside its records is taken.
    OlderEpochReports,
    /// Who leads no longer says how the application is.
    AnybodySpeaksForAll,
    /// The agent of a unit in error is not shown to be in error.
    ErrorIsNotSaid,
    /// A charm that was replaced is not told of it: upgrade-charm does not run.
    UpgradeIsNotTold,
    /// A refresh that nobody forced replaces the charm of a unit in error.
    RefreshEntersErrors,
    /// What the user had set is forgotten at a refresh.
    RefreshForgetsSettings,
    /// A hook reads the defaults of its charm, whatever is set.
    ConfigIsDefault,
    /// A unit enters one relation of an endpoint, and no further one.
    EndpointIsEnteredOnce,
    /// What changed while a hook ran about it counts as shown to it.
    NewerThanShownIsDelivered,
    /// A bag that was fetched for an earlier hook stands for its newer version.
    StaleFetchIsUsed,
    /// A unit that is going is not told that its peers depart from it.
    DyingKeepsPeers,
    /// Each grant has the number of the first.
    GenerationStays,
    /// Of several actions that wait the newest is run, and the others count as passed.
    NewestActionFirst,
    /// What a removed unit did not run is shown as waiting for ever.
    CancelledStaysPending,
    /// What a hook said that failed is not told.
    FailedHookIsMute,
    /// That an instance is to be kept is not written down.
    KeepIsForgotten,
    /// What fails again and again at the provider is tried again as soon as the first time.
    FailuresAreNotCounted,
    /// A unit that says all again leaves out how it is.
    LastWordIsLost,
    /// A first attach that comes late is taken for that of an empty folder.
    LateAttachFences,
    /// A model that is destroyed by force is destroyed without.
    DestructionForgetsForce,
    /// A hook that is interrupted again and again is never taken for what ends its agent.
    InterruptedForEver,
    /// That a hook asked for a reboot is forgotten.
    RebootIsForgotten,
    /// A subordinate lives by the relation it came with, and by no later one.
    LineIsNotContinued,
    /// The record of a unit that was forced goes at once, its machine's agent has no time to recall it.
    DeadIsNotWaitedFor,
    /// Units stay in the scope of a relation that is suspended.
    SuspendedIsNotLeft,
    /// What people said of an earlier failure is taken for what they say of this one.
    AnyMarkResolves,
    /// A principal enters a container relation, and no subordinate comes with it.
    SubordinateDoesNotCome,
    /// A restored store gives out numbers of actions that units have passed.
    ActionNumberIsGivenAgain,
}

impl Planted {
    pub const ALL: [Planted; 113] = [
        Planted::BrokenBeforeDeparted,
        Planted::ChangedBeforeJoined,
        Planted::DepartedIsSkipped,
        Planted::JoinedIsSkipped,
        Planted::ApplicationChangeIsMissed,
        Planted::PeerBreaks,
        Planted::SetBackIsIgnored,
        Planted::RunEndsTwice,
        Planted::CleanupStays,
        Planted::WaitFollowsWallClock,
        Planted::ConfigChangeIsMissed,
        Planted::RebootIsMissed,
        Planted::FailedHookAdvances,
        Planted::LastOutLeavesRelation,
        Planted::LastUnitLeavesApplication,
        Planted::RemovalNeedsAliveEnds,
        Planted::EntersDyingRelation,
        Planted::SettingsGoWithUnit,
        Planted::NameStaysTaken,
        Planted::SequenceIsNotChecked,
        Planted::GenerationIsNotChecked,
        Planted::DeltaForgetsMembers,
        Planted::DyingStays,
        Planted::DeltaForgetsRemoval,
        Planted::SubordinateOutlivesPrincipal,
        Planted::SubordinateOutlivesRelations,
        Planted::ContainersAreOne,
        Planted::SuspensionIsMissed,
        Planted::ForceDeletesWithoutDeparting,
        Planted::ForceDoesNotFence,
        Planted::ForceSkipsSubordinates,
        Planted::BudgetIsOverAtOnce,
        Planted::BudgetIsNotNeeded,
        Planted::DestructionSkipsApplications,
        Planted::DyingModelTakesMore,
        Planted::DestroyedModelLeavesRest,
        Planted::DeadInstanceStays,
        Planted::KeptIsTakenAway,
        Planted::UnrecordedInstanceIsTaken,
        Planted::UnknownIsHarvested,
        Planted::LostInstanceStaysLost,
        Planted::OtherStartIsOwn,
        Planted::TroubleIsNotSaid,
        Planted::TroubleIsNotRetried,
        Planted::UnheardIsForgotten,
        Planted::OlderStatusWins,
        Planted::DeadAreNotRecalled,
        Planted::AbsenceIsDeath,
        Planted::DisplacedIsRecalled,
        Planted::BlockersForgetScopes,
        Planted::MachineIsNotExplained,
        Planted::ActionFailsForEver,
        Planted::ActionStaysRunning,
        Planted::TornTailIsTaken,
        Planted::JournalIsNotFolded,
        Planted::RecordWithoutRun,
        Planted::OwnWritesAreNotRead,
        Planted::UnitNumberIsGivenAgain,
        Planted::TokenOutlivesUnit,
        Planted::ForcedApplicationKeepsUnits,
        Planted::ForcedMachineKeepsUnits,
        Planted::ForcedRelationKeepsMembers,
        Planted::LeadersSettingsStay,
        Planted::PortsStay,
        Planted::RemoveIsSkipped,
        Planted::DyingDoesNotBreak,
        Planted::SettingsAreNotSeen,
        Planted::CreatedComesLate,
        Planted::NobodyIsElected,
        Planted::RetryIsDropped,
        Planted::RetryIsNeverDue,
        Planted::ResolvedIsSwapped,
        Planted::ReturnIsMissed,
        Planted::DepartingIsSwapped,
        Planted::PortsMeet,
        Planted::EmptyMachineStays,
        Planted::CopyTakesOver,
        Planted::TermIsHalf,
        Planted::TermsBeginAtZero,
        Planted::ActionsFailUnrun,
        Planted::ActionResultIsSwapped,
        Planted::OwnUnitsAreShown,
        Planted::SilentLinkIsFresh,
        Planted::ForceDoesNotWait,
        Planted::ForceIsDueAtOnce,
        Planted::OlderEpochReports,
        Planted::AnybodySpeaksForAll,
        Planted::ErrorIsNotSaid,
        Planted::UpgradeIsNotTold,
        Planted::RefreshEntersErrors,
        Planted::RefreshForgetsSettings,
        Planted::ConfigIsDefault,
        Planted::EndpointIsEnteredOnce,
        Planted::NewerThanShownIsDelivered,
        Planted::StaleFetchIsUsed,
        Planted::DyingKeepsPeers,
        Planted::GenerationStays,
        Planted::NewestActionFirst,
        Planted::CancelledStaysPending,
        Planted::FailedHookIsMute,
        Planted::KeepIsForgotten,
        Planted::FailuresAreNotCounted,
        Planted::LastWordIsLost,
        Planted::LateAttachFences,
        Planted::DestructionForgetsForce,
        Planted::InterruptedForEver,
        Planted::RebootIsForgotten,
        Planted::LineIsNotContinued,
        Planted::DeadIsNotWaitedFor,
        Planted::SuspendedIsNotLeft,
        Planted::AnyMarkResolves,
        Planted::SubordinateDoesNotCome,
        Planted::ActionNumberIsGivenAgain,
    ];
}

#[cfg(feature = "mutants")]
thread_local! {
    static CHOSEN: Cell<Option<Planted>> = const { Cell::new(None) };
}

/// This fault is the chosen one of this thread.
#[cfg(feature = "mutants")]
pub fn is(planted: Planted) -> bool {
    CHOSEN.get() == Some(planted)
}

/// No build without the feature has a fault.
#[cfg(not(feature = "mutants"))]
pub const fn is(_: Planted) -> bool {
    false
}

/// From here on this thread's core has this fault; none: it has none.
#[cfg(feature = "mutants")]
pub fn choose(planted: Option<Planted>) {
    CHOSEN.set(planted);
}
