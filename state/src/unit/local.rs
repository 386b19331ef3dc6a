//! The durable state of a unit agent, and its only transition function [`Local::apply`].
//!
//! `Local` is the fold of its events. The agent's journal stores the events and `state.yaml` the fold; the
//! controller's replica is the same fold over the records that it has received. `Local` never changes in another way.
//!
//! An impossible order of events is a defect of this program and ends the agent by an assertion.

mod apply;

use super::hook_log::HookLog;
use super::writes::{RunReport, Writes};
use crate::terms::failure_reason::FailureReason;
use crate::terms::hook_name::HookName;
use crate::terms::member_version::MemberVersion;
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::terms::operation::{CharmRef, ConfigDigest, LocalEndpoint, Operation};
use crate::terms::outcome::{Outcome, Timer};
use crate::terms::port_range::Ports;
use crate::terms::position::Position;
use crate::terms::refusal::RefusalReason;
use crate::terms::required_file::RequiredFile;
use crate::terms::settings::{Bag, BagChange};
use crate::terms::start_reason::StartReason;
use crate::terms::status::WorkloadStatus;
use crate::terms::storage::{AttachedStorage, StorageId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A run that is interrupted this many times in a row (because the agent, the shim or the machine died) counts as
/// failed: the run itself may be the cause (spec A.8).
pub const INTERRUPTIONS_MAX: u32 = 3;

/// The most runs whose unrecorded reports are stored: while the controller is unreachable, hooks may request one reboot
/// after another. The reports of a run are as large as a record, so this adds at most four records to
/// `state.yaml`.
pub const UNRECORDED_RUNS_MAX: usize = 4;

/// The hook that follows the last operation immediately (spec A.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FollowUp {
    /// install, after the first charm was unpacked
    Install,
    /// leader-elected, after the unit has gained leadership
    LeaderElected,
    /// start, after the first config-changed
    Start,
    /// upgrade-charm, after another charm was unpacked
    UpgradeCharm,
    /// config-changed, after upgrade-charm
    ConfigChanged,
}

/// One attempt at an operation. The agent stores it before it starts the operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "OperationRun"))]
pub struct Run {
    /// The number of the run, from 1 over the life of the unit. It names the folder `hooks/000041`.
    pub number: u64,
    /// What runs.
    pub operation: Operation,
    /// 1 for the first attempt; increases whenever the run is interrupted and starts again.
    pub attempt: u32,
    /// Why the agent chose it.
    pub reason: StartReason,
    /// The position of the view that the decision was based on, if there was a view.
    pub position: Option<Position>,
    /// The leadership generation that the unit held when the run started; `None`: it was not the leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_generation: Option<u64>,
    /// The failure episode that this run retries, or that it does not affect (an action, or a forced upgrade in
    /// error).
    pub episode: Option<Episode>,
}

impl Run {
    /// The first attempt at an operation, without a view, by a unit that neither leads nor is in error.
    pub fn new(number: u64, operation: Operation, reason: StartReason) -> Run {
        Run { number, operation, attempt: 1, reason, position: None, leader_generation: None, episode: None }
    }
}

/// A failure with its retries. It lasts until a retry succeeds or an operator ends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Episode {
    /// The number of the run that failed first. Resolved marks contain it, so that a mark never ends another episode.
    pub id: u64,
    /// The operation that failed.
    pub operation: Operation,
    /// Why it failed last.
    pub reason: FailureReason,
    /// When the operation failed first: the wall clock in milliseconds since 1970, for display only.
    pub since_ms: i64,
    /// How many runs have failed in this episode.
    pub failures: u32,
    /// When the agent retries. `None`: the unit stays in error until an operator resolves it.
    pub retry: Option<Timer>,
}

/// The progress of the current operation. Records that are not acknowledged yet are in the outbox instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// No operation is in progress.
    #[default]
    Idle,
    /// The run has started. An agent that finds this when it starts re-attaches the hook, or else treats the run as
    /// interrupted.
    Started(Run),
    /// The last record contains a conditional write, and no operation starts before the controller replies.
    AwaitingAnswer {
        /// The sequence number of that record.
        sequence: u64,
        /// The failure episode that was open during the run.
        episode: Option<Episode>,
    },
    /// The unit is in error.
    Failed(Episode),
}

/// The state of the unit in one relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RelationLocal {
    /// The relation's UUID.
    pub uuid: Uuid,
    /// The unit's own side of the relation.
    pub local_endpoint: LocalEndpoint,
    /// Whether relation-created has run.
    pub created: bool,
    /// The remote units for which joined was committed and departed was not, with the version delivered last.
    pub members: BTreeMap<UnitName, MemberVersion>,
    /// The counters of the application bags that were delivered last.
    pub applications: BTreeMap<String, u64>,
    /// The remote unit whose changed must directly follow its joined.
    pub pending_changed: Option<UnitName>,
    /// This unit's own settings as it has published them. No other program writes them.
    pub bag: Bag,
    /// Set if the last copy of `bag` was lost: the unit's folder was lost after a forced removal had deleted the
    /// relation from the store. A store that was restored from an earlier backup still has the bag, and
    /// [`Event::Attached`] recovers it. This field holds the changes since then, which are applied on top. `None`:
    /// the bag is not lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_bag_changes: Option<BagChange>,
    /// The changes that this unit made to its application's bag as the leader, and the revision from which on a view
    /// contains them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_application_writes: Option<(u64, BagChange)>,
}

/// The reports of a run that has no record, because it requested an immediate reboot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnrecordedReport {
    /// The number of the run.
    pub run: u64,
    /// The reports in the order of their calls.
    pub reports: Vec<RunReport>,
}

/// The outcome of one operation with all its effects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// The number of the record, from 1 without gaps over the life of the unit.
    pub sequence: u64,
    /// The digest of the record before this one, empty for the first. It prevents the records of two copies of a
    /// unit's folder from being mixed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub previous_digest: String,
    /// The number of the run that ended; runs without a process, such as entering a scope, have one too.
    pub run: u64,
    /// The operation that ended.
    pub operation: Operation,
    /// How it ended.
    pub outcome: Outcome,
    /// The failure episode that was open during the run: the one it retried, or one that it does not affect. `None`:
    /// there was none, or an operator had ended it. The controller's replica needs this, because it is folded from
    /// records alone and does not receive the event that started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episode: Option<u64>,
    /// The hook's buffered writes; default if the operation failed or has none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub writes: Writes,
    /// The reports that this record delivers, in the order of their calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<RunReport>,
    /// What the debug log states about the end of a hook, besides the outcome; none if the hook did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_log: Option<HookLog>,
    /// When the operation ended: the wall clock in milliseconds since 1970, for display only.
    pub at_ms: i64,
    /// The files that its hooks need and have deleted, if this run shows more of them (`required_files`).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub deleted_files: BTreeSet<RequiredFile>,
    /// The leadership generation in which the hook made its leader-only writes. The controller refuses them if
    /// another generation has started since, even one of the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_generation: Option<u64>,
    /// The boot id of the machine, if the hook requested a reboot when it succeeds: no operation starts in this boot
    /// after this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<String>,
    /// In a resync record: the unit's whole stored state without its outbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resync_local: Option<Box<Local>>,
}

/// The durable state of one unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Local {
    /// The unit's UUID.
    pub unit: Uuid,
    /// The unit's name.
    pub name: UnitName,
    /// The store generation that this state belongs to. The agent does not act on a view of another generation before
    /// it has been reconciled with it (design 7).
    pub store_generation: Option<Uuid>,
    /// The fencing epoch of the last session.
    pub epoch: u64,
    /// The nonce of the attach request in progress.
    pub nonce: Option<Uuid>,
    /// The sequence number of the last record.
    pub sequence: u64,
    /// The digest of the last record.
    pub digest: String,
    /// The number of the last run that started.
    pub run: u64,
    /// The progress of the current operation.
    pub step: Step,
    /// The hook that follows the last operation immediately.
    pub follow_up: Option<FollowUp>,
    /// The deployed charm.
    pub charm: Option<CharmRef>,
    /// The files that its hooks need and have deleted themselves (`required_files`).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub deleted_files: BTreeSet<RequiredFile>,
    /// Whether install has succeeded.
    pub installed: bool,
    /// Whether start has succeeded.
    pub started: bool,
    /// Whether stop has succeeded since the last start.
    pub stopped: bool,
    /// Whether the hook remove has succeeded.
    pub removed: bool,
    /// Whether the unit has recorded that it is Dead.
    pub dead: bool,
    /// Whether the stored state was lost: the files were corrupt after hooks had run. No operation starts until the
    /// agent restores the state from the replica or an operator decides.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub state_lost: bool,
    /// The leadership generation for which leader-elected was queued. Whether the unit is the leader now depends on
    /// its lease, which is not stored.
    pub elected_generation: Option<u64>,
    /// The version of the leader settings that leader-settings-changed delivered last.
    pub leader_settings_version: u64,
    /// The revision in which the controller stored the last secret hook or the last change of secrets: an older view
    /// still shows that hook as due, and does not show what was changed. No operation starts on it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub secrets_revision: u64,
    /// The storage for which storage-attached has run and storage-detaching has not.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub storage: BTreeMap<StorageId, AttachedStorage>,
    /// Whether the charm has set its status since install (spec C.4).
    pub status_set: bool,
    /// The workload status and message that the charm set last.
    pub status: Option<(WorkloadStatus, String)>,
    /// The hooks that an operator has skipped (`resolved --no-retry`) and that have not succeeded since. Status shows
    /// them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub skipped: BTreeSet<HookName>,
    /// Whether upgrade-charm is pending since a forced upgrade in error.
    pub upgrade_pending: bool,
    /// The inputs of the last config-changed.
    pub config: Option<ConfigDigest>,
    /// The boot id of the machine when start ran last.
    pub boot: Option<String>,
    /// The boot id of the machine when a hook requested a reboot: no operation starts in this boot any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<String>,
    /// The reports of the newest runs without a record, until the controller has stored them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unrecorded_reports: Vec<UnrecordedReport>,
    /// The relations whose scope the unit has entered.
    pub relations: BTreeMap<RelationNumber, RelationLocal>,
    /// The charm's stored key/value state.
    pub charm_state: BTreeMap<String, String>,
    /// The open port ranges by endpoint (`*` = all endpoints).
    pub ports: Ports,
    /// The version that the charm has reported for its workload.
    pub workload_version: String,
    /// The newest action that has ended. The view may still contain it.
    pub last_action: Option<u64>,
    /// The records that the controller has not acknowledged, the oldest first.
    pub outbox: Vec<Record>,
}

/// A change of the state. The journal is a list of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The agent is about to attach with this nonce. The nonce is stored first, so that the request can be repeated
    /// if its reply is lost.
    Attaching {
        /// The nonce.
        nonce: Uuid,
    },
    /// The controller has opened a session.
    Attached {
        /// The store generation of the controller.
        store_generation: Uuid,
        /// The fencing epoch of the session.
        epoch: u64,
        /// The controller has applied every record up to this sequence number.
        sequence: u64,
        /// The unit's own bags that were lost here and that the store still has (see
        /// [`RelationLocal::lost_bag_changes`]).
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        recovered_bags: BTreeMap<RelationNumber, Bag>,
    },
    /// The agent continues from the controller's replica, because the replica was ahead of this disk or the disk was
    /// empty.
    ReplicaTaken {
        /// The replica.
        replica: Box<Local>,
    },
    /// A run has started.
    Started(Run),
    /// A run has finished, or an operation without a process was recorded.
    Finished(Record),
    /// The controller has applied the records up to `sequence`.
    Acknowledged {
        /// The sequence number of the last applied record.
        sequence: u64,
        /// The revision of its commit.
        revision: u64,
        /// Why the controller refused the conditional writes of that record, if it did.
        refusal: Option<RefusalReason>,
        /// When the agent retries a refused operation.
        retry: Option<Timer>,
    },
    /// The unit has gained leadership in this generation. `None`: it lost leadership before leader-elected could run.
    LeadershipChanged(Option<u64>),
    /// The running hook requested an immediate reboot in the boot with this id, and was killed (`juju-reboot --now`).
    RebootRequested(String),
    /// The reports of a hook that was killed for an immediate reboot. They take effect without a record
    /// (spec/hook-tools.md 3).
    UnrecordedReport(UnrecordedReport),
    /// The controller has stored the unrecorded reports of a run.
    ReportAcknowledged {
        /// The number of the run.
        run: u64,
    },
}

fn is_default(writes: &Writes) -> bool {
    *writes == Writes::default()
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Local {
    /// The run that has started and has not ended.
    pub fn started_run(&self) -> Option<&Run> {
        match &self.step {
            Step::Started(run) => Some(run),
            Step::Idle | Step::AwaitingAnswer { .. } | Step::Failed(_) => None,
        }
    }

    /// Whether this state lacks a run whose hook was started: its start was stored before, so that the state is older.
    ///
    /// 1. The agent runs hooks 2 to 5, which are in the journal only.
    /// 2. The journal is deleted or emptied. What is left of the state looks complete, and hook 2 would run again.
    pub fn lacks_run(&self, started: u64) -> bool {
        started > self.run
    }

    /// Creates the state of a unit that has done nothing yet.
    pub fn new(unit: Uuid, name: UnitName) -> Local {
        Local {
            unit,
            name,
            store_generation: None,
            epoch: 0,
            nonce: None,
            sequence: 0,
            digest: String::new(),
            run: 0,
            step: Step::Idle,
            follow_up: None,
            charm: None,
            deleted_files: BTreeSet::new(),
            installed: false,
            started: false,
            stopped: false,
            removed: false,
            dead: false,
            state_lost: false,
            elected_generation: None,
            leader_settings_version: 0,
            secrets_revision: 0,
            storage: BTreeMap::new(),
            status_set: false,
            status: None,
            skipped: BTreeSet::new(),
            upgrade_pending: false,
            config: None,
            boot: None,
            reboot: None,
            unrecorded_reports: Vec::new(),
            relations: BTreeMap::new(),
            charm_state: BTreeMap::new(),
            ports: BTreeMap::new(),
            workload_version: String::new(),
            last_action: None,
            outbox: Vec::new(),
        }
    }

    /// Whether the unit has run stop or remove. Such a unit does not start again, even if it is Alive in the view (I1).
    pub fn is_tearing_down(&self) -> bool {
        self.stopped || self.removed
    }

    /// Whether the unit has started to end: it has run stop or remove or set itself Dead, or does so now, or such an
    /// attempt has failed. A correct unit starts this only after a view has shown it as not Alive.
    pub fn has_started_teardown(&self) -> bool {
        let in_progress = match &self.step {
            Step::Started(run) => Some(&run.operation),
            Step::AwaitingAnswer { sequence, .. } => {
                let awaited = self.outbox.iter().find(|record| record.sequence == *sequence);
                awaited.map(|record| &record.operation)
            }
            Step::Failed(_) | Step::Idle => None,
        };
        let failed = self.episode().map(|episode| &episode.operation);
        self.is_tearing_down()
            || self.dead
            || in_progress.into_iter().chain(failed).any(Operation::is_teardown)
    }

    /// The record whose answer by the controller the unit waits for, before it starts anything.
    pub fn awaited(&self) -> Option<u64> {
        match &self.step {
            Step::AwaitingAnswer { sequence, .. } => Some(*sequence),
            Step::Idle | Step::Started(_) | Step::Failed(_) => None,
        }
    }

    /// Returns the failure episode that is open.
    pub fn episode(&self) -> Option<&Episode> {
        match &self.step {
            Step::Failed(episode) => Some(episode),
            Step::Started(run) => run.episode.as_ref(),
            Step::AwaitingAnswer { episode, .. } => episode.as_ref(),
            Step::Idle => None,
        }
    }

    /// Creates the next record of this unit, for an operation that needs no process or whose process has ended. The
    /// record has no writes and reports; the caller adds them.
    pub fn record(&self, operation: Operation, outcome: Outcome, at_ms: i64) -> Record {
        let (run, generation) = match &self.step {
            Step::Started(run) => (run.number, run.leader_generation),
            Step::Idle | Step::AwaitingAnswer { .. } | Step::Failed(_) => (self.run + 1, None),
        };
        Record {
            sequence: self.sequence + 1,
            previous_digest: self.digest.clone(),
            run,
            operation,
            outcome,
            episode: self.episode().map(|episode| episode.id),
            writes: Default::default(),
            reports: Vec::new(),
            hook_log: None,
            deleted_files: BTreeSet::new(),
            at_ms,
            leader_generation: generation,
            reboot: None,
            resync_local: None,
        }
    }

    /// Returns the newest action that has run, whether its record is acknowledged or not.
    pub fn newest_action(&self) -> Option<u64> {
        let unsent = self.outbox.iter().filter_map(|record| match &record.operation {
            Operation::Action { id, .. } => Some(*id),
            _ => None,
        });
        unsent.chain(self.last_action).max()
    }
}
