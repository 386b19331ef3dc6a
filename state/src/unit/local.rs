//! The durable state of a unit agent, and its only transition function [`Local::apply`].
//!
//! `Local` is the fold of its events. The agent's journal stores the events and `state.yaml` the fold; the controller's
//! replica is the same fold over the records that it has received. `Local` never changes in another way.
//!
//! An impossible order of events is a defect of this program and ends the agent by an assertion (style 3).

use super::hook::ReportContent;
use super::record::{Outcome, Record, RunReport, Timer};
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::terms::position::Position;
use crate::terms::settings::{self, Bag, BagChange};
use crate::terms::version::Version;
use crate::unit::operation::{CharmRef, ConfigDigest, Hook, Operation, LocalEndpoint, RelationEvent};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A run that is interrupted this many times in a row (because the agent, the shim or the machine died) counts as failed:
/// the run itself may be the cause (spec A.8).
pub const INTERRUPTIONS_MAX: u32 = 3;

/// The most runs whose unrecorded reports are stored: while the controller is unreachable, a hook may request one reboot
/// after the other. The reports of a run are as large as a record, so this adds at most four records to `state.yaml`.
pub const UNRECORDED_RUNS_MAX: usize = 4;

/// The hook that follows the last operation immediately (spec A.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct Run {
    /// The number of the run, from 1 over the life of the unit. It names the folder `hooks/000041`.
    pub number: u64,
    /// What runs.
    pub operation: Operation,
    /// 1 for the first attempt; increases whenever the run is interrupted and starts again.
    pub attempt: u32,
    /// Why the agent chose it, as a text for operators.
    pub cause: String,
    /// The position of the view that the decision was based on, if there was a view.
    pub position: Option<Position>,
    /// The leadership generation that the unit held when the run started; `None`: it was not the leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_generation: Option<u64>,
    /// The failure episode that this run retries, or that it does not affect (an action, or a forced upgrade in error).
    pub episode: Option<Episode>,
}

/// A failure with its retries. It lasts until a retry succeeds or an operator ends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Episode {
    /// The number of the run that failed first. Resolved marks contain it, so that a mark never ends another episode.
    pub id: u64,
    /// The operation that failed.
    pub operation: Operation,
    /// The message of the last failure.
    pub reason: String,
    /// When the operation failed first: the wall clock in milliseconds since 1970, for display only.
    pub since_ms: i64,
    /// How many runs have failed in this episode.
    pub failures: u32,
    /// When the agent retries. `None`: the unit stays in error until an operator resolves it.
    pub retry: Option<Timer>,
}

/// The progress of the current operation. Records that are not acknowledged yet are in the outbox instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// No operation is in progress.
    #[default]
    Idle,
    /// The run has started. If an agent finds this when it starts, the run was interrupted.
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
pub struct RelationLocal {
    /// The relation's UUID.
    pub uuid: Uuid,
    /// The unit's own side of the relation.
    pub local_endpoint: LocalEndpoint,
    /// Whether relation-created has run.
    pub created: bool,
    /// The remote units for which joined was committed and departed was not, with the version delivered last.
    pub members: BTreeMap<UnitName, Version>,
    /// The counters of the application bags that were delivered last.
    pub applications: BTreeMap<String, u64>,
    /// The remote unit whose changed must directly follow its joined.
    pub pending_changed: Option<UnitName>,
    /// This unit's own settings as it has published them. No other program writes them.
    pub bag: Bag,
    /// Set if the last copy of `bag` was lost: the unit's folder was lost after a forced removal had deleted the relation
    /// from the store. A store that was restored from an earlier backup still has the bag, and [`Event::Attached`] recovers
    /// it. This field holds the changes since then, which are applied on top. `None`: the bag is not lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_bag_changes: Option<BagChange>,
    /// The changes that this unit made to its application's bag as the leader, and the revision from which on a view
    /// contains them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_application_writes: Option<(u64, BagChange)>,
}

/// The reports of a run that has no record, because it requested an immediate reboot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnrecordedReport {
    /// The number of the run.
    pub run: u64,
    /// The reports in the order of their calls.
    pub reports: Vec<RunReport>,
}

/// The durable state of one unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Local {
    /// The unit's UUID.
    pub unit: Uuid,
    /// The unit's name.
    pub name: UnitName,
    /// The store generation that this state belongs to. The agent does not act on a view of another generation before it
    /// has been reconciled with it (design 7).
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
    /// Whether the stored state was lost: the files were corrupt after hooks had run. No operation starts until the agent
    /// restores the state from the replica or an operator decides.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub state_lost: bool,
    /// The leadership generation for which leader-elected was queued. Whether the unit is the leader now depends on its
    /// lease, which is not stored.
    pub elected_generation: Option<u64>,
    /// Whether the charm has set its status since install (spec C.4).
    pub status_set: bool,
    /// The workload status and message that the charm set last.
    pub status: Option<(String, String)>,
    /// The hooks that an operator has skipped (`resolved --no-retry`) and that have not succeeded since. Status shows them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub skipped: BTreeSet<String>,
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
    pub ports: BTreeMap<String, BTreeSet<String>>,
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
    /// The agent is about to attach with this nonce. The nonce is stored first, so that the request can be repeated if its
    /// reply is lost.
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
        refusal: Option<String>,
        /// When the agent retries a refused operation.
        retry: Option<Timer>,
    },
    /// The unit has gained leadership in this generation. `None`: it lost leadership before leader-elected could run.
    LeadershipChanged(Option<u64>),
    /// The running hook requested an immediate reboot in the boot with this id, and was killed (`juju-reboot --now`).
    RebootRequested(String),
    /// The reports of that hook, which stand (spec/hook-tools.md 3) and are sent without a record.
    UnrecordedReport(UnrecordedReport),
    /// The controller has stored the unrecorded reports of a run.
    ReportAcknowledged {
        /// The number of the run.
        run: u64,
    },
}

/// The workflow state of seed 004, which the stored state determines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workflow {
    /// install has not succeeded yet.
    New,
    /// install has succeeded, and the unit has not started or has stopped.
    Ready,
    /// start has succeeded.
    Running,
    /// An operation before or including install is in error.
    InstallError,
    /// An operation before or including start is in error.
    StartError,
    /// stop, remove or the end of the unit is in error.
    StopError,
    /// A later hook is in error; its name.
    HookError(String),
}

impl std::fmt::Display for Workflow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Workflow::New => f.write_str("new"),
            Workflow::Ready => f.write_str("ready"),
            Workflow::Running => f.write_str("running"),
            Workflow::InstallError => f.write_str("install-error"),
            Workflow::StartError => f.write_str("start-error"),
            Workflow::StopError => f.write_str("stop-error"),
            Workflow::HookError(hook) => write!(f, "hook-error({hook})"),
        }
    }
}

impl Local {
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
            installed: false,
            started: false,
            stopped: false,
            removed: false,
            dead: false,
            state_lost: false,
            elected_generation: None,
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

    /// Returns the position of the unit in the workflow new -> ready -> running (seed 004; spec G.5).
    pub fn workflow(&self) -> Workflow {
        // retries, and operations that run while the unit is in error, do not change the error state
        if let Some(episode) = self.episode() {
            return match &episode.operation {
                Operation::Hook(Hook::Stop | Hook::Remove) | Operation::SetDead => Workflow::StopError,
                Operation::Hook(Hook::Relation { .. }) if self.started => {
                    Workflow::HookError(hook_name(&episode.operation))
                }
                _ if !self.installed => Workflow::InstallError,
                _ if !self.started => Workflow::StartError,
                operation => Workflow::HookError(hook_name(operation)),
            };
        }
        match (self.installed, self.started && !self.stopped) {
            (false, _) => Workflow::New,
            (true, false) => Workflow::Ready,
            (true, true) => Workflow::Running,
        }
    }

    /// Whether the unit has run stop or remove. Such a unit does not start again, even if the view has it Alive (I1).
    pub fn is_tearing_down(&self) -> bool {
        self.stopped || self.removed
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

    /// Applies one event. This is the only way in which the state changes.
    ///
    /// # Panics
    /// If the event cannot occur in this state, for example if a run starts before the controller has replied to a
    /// conditional record.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Attaching { nonce } => self.nonce = Some(*nonce),
            Event::Attached { store_generation, epoch, sequence, recovered_bags } => {
                self.store_generation = Some(*store_generation);
                for (number, bag) in recovered_bags {
                    let known =
                        self.relations.get_mut(number).expect("recovered bags belong to entered relations");
                    known.bag = bag.clone();
                    settings::apply(&mut known.bag, &known.lost_bag_changes.take().unwrap_or_default());
                }
                self.epoch = *epoch;
                self.nonce = None;
                // a record whose reply was lost is sent again to obtain the reply
                let waiting = match self.step {
                    Step::AwaitingAnswer { sequence, .. } => Some(sequence),
                    Step::Idle | Step::Started(_) | Step::Failed(_) => None,
                };
                self.outbox.retain(|r| r.sequence > *sequence || Some(r.sequence) == waiting);
            }
            Event::ReplicaTaken { replica } => {
                // runs that this disk has started stay counted: a number must never name two runs
                let (nonce, run) = (self.nonce, self.run);
                *self = (**replica).clone();
                self.nonce = nonce;
                self.run = self.run.max(run);
            }
            Event::Started(run) => self.start(run),
            Event::Finished(record) => self.finish(record),
            Event::Acknowledged { sequence, revision, refusal, retry } => {
                self.acknowledge(*sequence, *revision, refusal.as_deref(), retry.clone());
            }
            Event::LeadershipChanged(leader) => {
                self.elected_generation = *leader;
                self.follow_up = leader.map(|_| FollowUp::LeaderElected);
            }
            Event::RebootRequested(boot) => {
                self.reboot = Some(boot.clone());
                if let Step::Started(run) = &mut self.step {
                    // the hook requested this interruption, so that it does not count as one
                    run.attempt = 0;
                }
            }
            Event::UnrecordedReport(unrecorded) => {
                unrecorded.reports.iter().for_each(|report| self.store_status(&report.what));
                self.unrecorded_reports.push(unrecorded.clone());
                let excess = self.unrecorded_reports.len().saturating_sub(UNRECORDED_RUNS_MAX);
                self.unrecorded_reports.drain(..excess);
            }
            Event::ReportAcknowledged { run } => {
                self.unrecorded_reports.retain(|unrecorded| unrecorded.run != *run);
            }
        }
    }

    fn start(&mut self, run: &Run) {
        assert_eq!(run.number, self.run + 1, "run numbers are consecutive");
        assert!(!matches!(self.step, Step::AwaitingAnswer { .. }), "no run starts before the reply");
        self.run = run.number;
        self.reboot = None;
        self.step = Step::Started(run.clone());
    }

    fn finish(&mut self, record: &Record) {
        assert_eq!(record.sequence, self.sequence + 1, "sequence numbers are consecutive");
        self.sequence = record.sequence;
        self.digest = record.digest();
        self.run = self.run.max(record.run);
        for report in &record.reports {
            self.store_status(&report.what);
        }
        if record.operation == Operation::Resync {
            // A resync publishes the effects of earlier operations, those of unsent records included, and has no effect
            // on this state. An operation that awaited a reply is decided again: its store is gone, and so is the reply.
            self.last_action = self.newest_action();
            if let Step::AwaitingAnswer { episode, .. } = &mut self.step {
                self.step = episode.take().map_or(Step::Idle, Step::Failed);
            }
            self.outbox = vec![record.clone()];
            return;
        }
        self.note_skipped(record);
        self.reboot = record.reboot.clone();
        let episode = match std::mem::take(&mut self.step) {
            Step::Started(run) => run.episode,
            Step::Failed(episode) => Some(episode),
            Step::Idle => None,
            Step::AwaitingAnswer { .. } => panic!("no run finishes before the reply"),
        };
        // 1. A hook is retried, and its unit resyncs: in the replica, that run has started.
        // 2. An operator ends the failure, and another run succeeds.
        // The replica does not receive the start of that run. It must conclude from the record alone that the failure
        // has ended (cargo sim 66111392).
        let episode = episode.filter(|episode| record.episode == Some(episode.id));
        if record.is_conditional() {
            self.step = Step::AwaitingAnswer { sequence: record.sequence, episode };
        } else {
            self.apply_outcome(record, episode);
        }
        self.outbox.push(record.clone());
    }

    fn acknowledge(&mut self, sequence: u64, revision: u64, refusal: Option<&str>, retry: Option<Timer>) {
        let pending = self.outbox.iter().find(|record| record.sequence == sequence).cloned();
        self.outbox.retain(|record| record.sequence > sequence);
        let episode = match &mut self.step {
            Step::AwaitingAnswer { sequence: waiting, episode } if *waiting == sequence => episode.take(),
            Step::AwaitingAnswer { .. } | Step::Idle | Step::Started(_) | Step::Failed(_) => return,
        };
        let record = pending.expect("an unacknowledged record is in the outbox");
        match refusal {
            None => {
                self.apply_outcome(&record, episode);
                self.overlay_application_bags(&record, revision);
            }
            // this is not a failure: the relation is being removed, and the view is about to show it
            Some(_) if matches!(record.operation, Operation::EnterScope { .. }) => {
                self.step = episode.map_or(Step::Idle, Step::Failed);
            }
            // a refusal ends the action and does not put the unit into error (spec A.16)
            Some(_) if matches!(record.operation, Operation::Action { .. }) => {
                self.advance(&record, None);
                self.step = episode.map_or(Step::Idle, Step::Failed);
            }
            Some(reason) => {
                self.reboot = None;
                self.fail(&record, reason, retry, episode);
            }
        }
    }

    /// Stores what the leader wrote into its application's bag, so that its next hooks read it before a view contains it.
    fn overlay_application_bags(&mut self, record: &Record, revision: u64) {
        for (relation, writes) in &record.writes.bags {
            if writes.application.is_empty() {
                continue;
            }
            if let Some(local) = self.relations.get_mut(relation) {
                let mut change = local.pending_application_writes.take().map_or(BagChange::new(), |(_, c)| c);
                change.extend(writes.application.clone());
                local.pending_application_writes = Some((revision, change));
            }
        }
    }

    /// Applies the outcome of a record. `episode` is the failure that the run retried, or that it did not affect.
    fn apply_outcome(&mut self, record: &Record, episode: Option<Episode>) {
        match &record.outcome {
            // the failure of an action does not put the unit into error (spec A.16)
            _ if matches!(record.operation, Operation::Action { .. }) => {
                if record.outcome == Outcome::Ok {
                    self.publish(record);
                }
                self.advance(record, None);
                self.step = episode.map_or(Step::Idle, Step::Failed);
            }
            Outcome::Failed { reason, retry } => self.fail(record, reason, retry.clone(), episode),
            Outcome::Ok | Outcome::Missing | Outcome::Skipped => {
                let other = episode.filter(|episode| !episode.operation.is_same_as(&record.operation));
                if let (Operation::Hook(hook), false) =
                    (&record.operation, record.outcome == Outcome::Skipped)
                {
                    self.skipped.remove(&hook.name().to_string());
                }
                self.publish(record);
                self.advance(record, other.as_ref());
                self.step = other.map_or(Step::Idle, Step::Failed);
            }
        }
    }

    /// Stores that an operator has skipped a hook: the record is skipped and does not continue the open failure.
    fn note_skipped(&mut self, record: &Record) {
        let Step::Failed(episode) = &self.step else { return };
        let ended = record.episode.is_none() && episode.operation.is_same_as(&record.operation);
        if let (true, Outcome::Skipped, Operation::Hook(hook)) = (ended, &record.outcome, &record.operation) {
            self.skipped.insert(hook.name().to_string());
        }
    }

    fn fail(&mut self, record: &Record, reason: &str, retry: Option<Timer>, episode: Option<Episode>) {
        let before = episode.filter(|episode| episode.operation.is_same_as(&record.operation));
        let (id, since_ms, failures) =
            before.map_or((record.run, record.at_ms, 0), |e| (e.id, e.since_ms, e.failures));
        self.step = Step::Failed(Episode {
            id,
            operation: record.operation.clone(),
            reason: reason.to_owned(),
            since_ms,
            failures: failures + 1,
            retry,
        });
    }

    fn store_status(&mut self, content: &ReportContent) {
        match content {
            ReportContent::UnitStatus { status, message } => {
                self.status_set = true;
                self.status = Some((status.clone(), message.clone()));
            }
            ReportContent::WorkloadVersion(version) => self.workload_version = version.clone(),
            ReportContent::ApplicationStatus { .. }
            | ReportContent::Log { .. }
            | ReportContent::ActionLog(_)
            | ReportContent::Output { .. } => {}
        }
    }

    /// Applies the writes of a successful hook to the state that this unit has published.
    fn publish(&mut self, record: &Record) {
        for (relation, writes) in &record.writes.bags {
            if let Some(local) = self.relations.get_mut(relation) {
                settings::apply(&mut local.bag, &writes.unit);
                if let Some(since) = &mut local.lost_bag_changes {
                    since.extend(writes.unit.clone());
                }
            }
        }
        for (key, value) in &record.writes.state {
            match value {
                Some(value) => self.charm_state.insert(key.clone(), value.clone()),
                None => self.charm_state.remove(key),
            };
        }
        self.ports = record.writes.ports.applied_to(&self.ports);
    }

    /// Applies a completed operation, and queues the hook that follows it immediately (spec A.4). `other` is an open
    /// failure of another operation.
    fn advance(&mut self, record: &Record, other: Option<&Episode>) {
        match &record.operation {
            Operation::InstallCharm(charm) => {
                self.charm = Some(charm.clone());
                match other.map(|episode| &episode.operation) {
                    None if !self.installed => self.follow_up = Some(FollowUp::Install),
                    None => {
                        if self.follow_up == Some(FollowUp::LeaderElected) {
                            // the charm was lost before leader-elected ran: the agent queues the hook again
                            self.elected_generation = None;
                        }
                        self.follow_up = Some(FollowUp::UpgradeCharm);
                    }
                    // the failed hook runs again from the new charm, which expects no further upgrade-charm
                    Some(Operation::Hook(Hook::Install | Hook::UpgradeCharm)) => {}
                    Some(_) => self.upgrade_pending = true,
                }
            }
            Operation::EnterScope { relation, uuid, local_endpoint, settings } => {
                let local = RelationLocal {
                    uuid: *uuid,
                    local_endpoint: local_endpoint.clone(),
                    created: local_endpoint.implicit,
                    members: BTreeMap::new(),
                    applications: BTreeMap::new(),
                    pending_changed: None,
                    bag: settings.clone(),
                    lost_bag_changes: None,
                    pending_application_writes: None,
                };
                self.relations.insert(*relation, local);
            }
            Operation::LeaveScope { relation, .. } => {
                self.relations.remove(relation);
            }
            Operation::Resync => {}
            Operation::Action { id, .. } => self.last_action = self.last_action.max(Some(*id)),
            Operation::SetDead => self.dead = true,
            Operation::Hook(hook) => self.advance_hook(hook),
        }
    }

    fn advance_hook(&mut self, hook: &Hook) {
        match hook {
            Hook::Install => {
                self.installed = true;
                self.follow_up = None;
            }
            Hook::LeaderElected { generation } => {
                self.elected_generation = *generation;
                self.follow_up = None;
            }
            Hook::ConfigChanged(seen) => {
                self.config = Some(seen.clone());
                self.follow_up = (!self.started).then_some(FollowUp::Start);
            }
            Hook::Start { boot } => {
                self.started = true;
                self.stopped = false;
                self.boot = Some(boot.clone());
                if self.follow_up == Some(FollowUp::Start) {
                    self.follow_up = None;
                }
            }
            Hook::UpgradeCharm => {
                self.upgrade_pending = false;
                self.follow_up = Some(FollowUp::ConfigChanged);
            }
            Hook::UpdateStatus => {}
            Hook::Stop => self.stopped = true,
            Hook::Remove => self.removed = true,
            Hook::Relation { relation, event, .. } => self.advance_relation(*relation, event),
        }
    }

    fn advance_relation(&mut self, relation: RelationNumber, event: &RelationEvent) {
        let local = self.relations.get_mut(&relation);
        let local = local.expect("hooks run only for relations whose scope was entered");
        match event {
            RelationEvent::Created => local.created = true,
            RelationEvent::Joined { unit, version } => {
                local.members.insert(unit.clone(), *version);
                local.pending_changed = Some(unit.clone());
            }
            RelationEvent::Changed { unit, version } => {
                local.members.insert(unit.clone(), *version);
                if local.pending_changed.as_ref() == Some(unit) {
                    local.pending_changed = None;
                }
            }
            RelationEvent::ApplicationChanged { application, counter } => {
                local.applications.insert(application.clone(), *counter);
            }
            RelationEvent::Departed { unit, .. } => {
                local.members.remove(unit);
                // an agent runs a pending changed before departed; a record that violates this does no harm here
                local.pending_changed.take_if(|pending| pending == unit);
            }
            RelationEvent::Broken => {
                let prefix = format!("{}-relation-", local.local_endpoint.endpoint);
                self.relations.remove(&relation);
                // the skipped hooks of the endpoint's last relation can no longer succeed
                let is_same =
                    |other: &RelationLocal| prefix == format!("{}-relation-", other.local_endpoint.endpoint);
                if !self.relations.values().any(is_same) {
                    self.skipped.retain(|hook| !hook.starts_with(&prefix));
                }
            }
        }
    }
}

fn hook_name(operation: &Operation) -> String {
    match operation {
        Operation::Hook(hook) => hook.name().to_string(),
        Operation::InstallCharm(_)
        | Operation::EnterScope { .. }
        | Operation::LeaveScope { .. }
        | Operation::Action { .. }
        | Operation::Resync
        | Operation::SetDead => operation.to_string(),
    }
}
