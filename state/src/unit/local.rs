//! `Local`: what one unit's disk remembers, and its only transitions.
//!
//! `Local` is the fold of its events: the journal keeps the events, `state.yaml` the fold, and the controller's
//! replica is the same fold over the records it was sent. An event in an order that cannot be is our own bug and
//! ends the agent (an assertion, style 3).

use super::hook::ReportContent;
use super::record::{Outcome, Record, Said, Timer};
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::terms::position::Position;
use crate::terms::settings::{self, Bag, BagChange};
use crate::terms::version::Version;
use crate::unit::operation::{CharmRef, ConfigDigest, Hook, Operation, Place, RelationEvent};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A run that was interrupted this many times in a row (agent, machine or shim died under it) is a failure: it may
/// be what kills them (spec A.8).
pub const INTERRUPTIONS_MAX: u32 = 3;

/// Runs whose words are kept for the controller: while it is away, a hook may ask for one reboot after the other. Each
/// keeps as much as a record would, so this is four records more in `state.yaml`.
pub const UNRECORDED_RUNS_MAX: usize = 4;

/// What follows at once after what was just done (spec A.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FollowUp {
    Install,
    LeaderElected,
    Start,
    UpgradeCharm,
    ConfigChanged,
}

/// One attempt at an operation, written down before it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Counts the unit's runs; names the folder `hooks/000041`.
    pub number: u64,
    pub operation: Operation,
    /// 1 for the first; grows when the same run was interrupted.
    pub attempt: u32,
    /// Why it was chosen, in words; for people.
    pub cause: String,
    /// The view it was decided on, when there was one.
    pub position: Option<Position>,
    /// The generation of the leadership the unit held for it: what its tools were promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leads: Option<u64>,
    /// The failure it is a retry of, or that it does not touch (an action, an upgrade in error).
    pub episode: Option<Episode>,
}

/// A failure that lasts until success or a person ends it; retries happen inside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Episode {
    /// The run that failed first. Resolved marks name it, so one never hits another failure.
    pub id: u64,
    pub operation: Operation,
    pub reason: String,
    /// Wall clock of the first failure, for people only.
    pub since_ms: i64,
    /// Runs that failed in this episode.
    pub failures: u32,
    /// None: rests until `resolved`.
    pub retry: Option<Timer>,
}

/// How far the current operation is. What has succeeded and is not acknowledged stands in the outbox beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    #[default]
    Idle,
    /// Begun; found at a start of the agent it was interrupted.
    Started(Run),
    /// Its record holds a conditional write: nothing further begins until it is answered.
    AwaitingAnswer {
        sequence: u64,
        episode: Option<Episode>,
    },
    Failed(Episode),
}

/// The unit in one relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationLocal {
    pub uuid: Uuid,
    pub place: Place,
    /// relation-created has run.
    pub created: bool,
    /// Remote units for which joined was committed and departed was not, with the version last delivered.
    pub members: BTreeMap<UnitName, Version>,
    /// Last delivered counter of application bags.
    pub applications: BTreeMap<String, u64>,
    /// The unit whose changed must directly follow its joined.
    pub pending_changed: Option<UnitName>,
    /// This unit's own bag as it was last published: the agent is its only author.
    pub bag: Bag,
    /// The folder was lost, and with it the last copy of this bag: the relation was gone from the store already (force).
    /// A store restored from before has it, and it is taken from there ([`Event::Attached`]). What was set and unset
    /// since, to go over it; none = not lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_bag_changes: Option<BagChange>,
    /// Own application's bag: what this unit wrote as leader and the view may not show yet, and from which revision
    /// on it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_written: Option<(u64, BagChange)>,
}

/// What one run said, which no record will hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnrecordedReport {
    pub run: u64,
    pub said: Vec<Said>,
}

/// The durable memory of one unit. Plain data; see the module's head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Local {
    pub unit: Uuid,
    pub name: UnitName,
    /// The store's history this memory belongs to; another one is not acted on before it is agreed on (design 7).
    pub store_generation: Option<Uuid>,
    /// Fencing epoch of the last session, and the nonce of the attach under way.
    pub epoch: u64,
    pub nonce: Option<Uuid>,
    /// Of the last record made, and its digest.
    pub sequence: u64,
    pub digest: String,
    /// Last run begun.
    pub run: u64,
    pub step: Step,
    pub follow_up: Option<FollowUp>,
    pub charm: Option<CharmRef>,
    pub installed: bool,
    pub started: bool,
    pub stopped: bool,
    pub removed: bool,
    pub dead: bool,
    /// The files were corrupt and hooks had run: nothing runs until the replica was taken or a person decides.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// The leadership generation for which leader-elected was queued; whether the unit leads *now* is the grant's
    /// to say, in memory.
    pub leader: Option<u64>,
    /// The charm set its status at least once since install (spec C.4).
    pub status_set: bool,
    pub status: Option<(String, String)>,
    /// Hooks that a person gave up on (`resolved --no-retry`) and that have not succeeded since: people are told.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub skipped: BTreeSet<String>,
    /// upgrade-charm is owed since a forced upgrade out of an error.
    pub upgrade_owed: bool,
    pub config: Option<ConfigDigest>,
    /// The boot in which start last ran.
    pub boot: Option<String>,
    /// The boot that a hook wants ended: nothing begins in it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<String>,
    /// What was said by runs that have no record, the newest of them, until the controller has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unheard: Vec<UnrecordedReport>,
    pub relations: BTreeMap<RelationNumber, RelationLocal>,
    /// The charm's own key/value state, and open ports by endpoint (`*` = all).
    pub charm_state: BTreeMap<String, String>,
    pub ports: BTreeMap<String, BTreeSet<String>>,
    pub workload_version: String,
    /// The newest action that has ended: the view may still show it.
    pub last_action: Option<u64>,
    pub outbox: Vec<Record>,
}

/// What changed. The journal is a list of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// About to attach with this nonce, so that a lost reply is repeatable.
    Attaching {
        nonce: Uuid,
    },
    /// The controller granted a session; every record up to `sequence` is applied there.
    Attached {
        store_generation: Uuid,
        epoch: u64,
        sequence: u64,
        /// Own bags that were lost here and are in the store: what was changed since goes over them.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        found: BTreeMap<RelationNumber, Bag>,
    },
    /// The controller's replica was ahead of this disk (or the disk was empty): go on from there.
    ReplicaTaken {
        replica: Box<Local>,
    },
    Started(Run),
    Finished(Record),
    /// Records up to `sequence` were applied. `refusal`: the last one's conditional writes were refused, `retry` as
    /// for a failure. `revision`: of the commit.
    Acknowledged {
        sequence: u64,
        revision: u64,
        refusal: Option<String>,
        retry: Option<Timer>,
    },
    /// This generation's leadership was noticed, or lost before leader-elected could run.
    LeadershipChanged(Option<u64>),
    /// The hook that runs asked for the end of this boot, and was ended for it (`juju-reboot --now`).
    RebootRequested(String),
    /// What that hook said stands (spec/hook-tools.md 3), and is told apart from any record.
    UnrecordedReport(UnrecordedReport),
    /// The controller has what this run said.
    ReportAcknowledged {
        run: u64,
    },
}

/// The workflow of seed 004, as people see it: a function of what is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workflow {
    New,
    Ready,
    Running,
    InstallError,
    StartError,
    StopError,
    /// A later hook is in error.
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
    /// The memory of a unit that has done nothing yet.
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
            lost: false,
            leader: None,
            status_set: false,
            status: None,
            skipped: BTreeSet::new(),
            upgrade_owed: false,
            config: None,
            boot: None,
            reboot: None,
            unheard: Vec::new(),
            relations: BTreeMap::new(),
            charm_state: BTreeMap::new(),
            ports: BTreeMap::new(),
            workload_version: String::new(),
            last_action: None,
            outbox: Vec::new(),
        }
    }

    /// Where the unit stands in new -> ready -> running (seed 004; spec G.5).
    pub fn workflow(&self) -> Workflow {
        // retries, and what runs beside a failure, leave the error state as it is
        if let Some(episode) = self.episode() {
            return match &episode.operation {
                Operation::Hook(Hook::Stop | Hook::Remove) | Operation::SetDead => Workflow::StopError,
                Operation::Hook(Hook::Relation { .. }) if self.started => {
                    Workflow::HookError(name_of(&episode.operation))
                }
                _ if !self.installed => Workflow::InstallError,
                _ if !self.started => Workflow::StartError,
                operation => Workflow::HookError(name_of(operation)),
            };
        }
        match (self.installed, self.started && !self.stopped) {
            (false, _) => Workflow::New,
            (true, false) => Workflow::Ready,
            (true, true) => Workflow::Running,
        }
    }

    /// It has run stop or remove: whatever a controller says, nothing begins anew (I1).
    pub fn is_tearing_down(&self) -> bool {
        self.stopped || self.removed
    }

    /// The failure the unit rests or retries in.
    pub fn episode(&self) -> Option<&Episode> {
        match &self.step {
            Step::Failed(episode) => Some(episode),
            Step::Started(run) => run.episode.as_ref(),
            Step::AwaitingAnswer { episode, .. } => episode.as_ref(),
            Step::Idle => None,
        }
    }

    /// The next record of this unit, of an operation that needs no process or has ended.
    pub fn record(&self, operation: Operation, outcome: Outcome, at_ms: i64) -> Record {
        let (run, generation) = match &self.step {
            Step::Started(run) => (run.number, run.leads),
            Step::Idle | Step::AwaitingAnswer { .. } | Step::Failed(_) => (self.run + 1, None),
        };
        Record {
            sequence: self.sequence + 1,
            after: self.digest.clone(),
            run,
            operation,
            outcome,
            episode: self.episode().map(|episode| episode.id),
            writes: Default::default(),
            said: Vec::new(),
            at_ms,
            generation,
            reboot: None,
            memory: None,
        }
    }

    /// The newest action that has run, whether its record is answered or not.
    pub fn newest_action(&self) -> Option<u64> {
        let unsent = self.outbox.iter().filter_map(|record| match &record.operation {
            Operation::Action { id, .. } => Some(*id),
            _ => None,
        });
        unsent.chain(self.last_action).max()
    }

    /// The one way `Local` changes.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Attaching { nonce } => self.nonce = Some(*nonce),
            Event::Attached { store_generation, epoch, sequence, found } => {
                self.store_generation = Some(*store_generation);
                for (number, bag) in found {
                    let known =
                        self.relations.get_mut(number).expect("a found bag is of a relation it is in");
                    known.bag = bag.clone();
                    settings::apply(&mut known.bag, &known.lost_bag_changes.take().unwrap_or_default());
                }
                self.epoch = *epoch;
                self.nonce = None;
                // a record whose answer was lost is sent again for its answer
                let waiting = match self.step {
                    Step::AwaitingAnswer { sequence, .. } => Some(sequence),
                    Step::Idle | Step::Started(_) | Step::Failed(_) => None,
                };
                self.outbox.retain(|r| r.sequence > *sequence || Some(r.sequence) == waiting);
            }
            Event::ReplicaTaken { replica } => {
                // runs this disk began stay counted: a number names one run only
                let (nonce, run) = (self.nonce, self.run);
                *self = (**replica).clone();
                self.nonce = nonce;
                self.run = self.run.max(run);
            }
            Event::Started(run) => self.begin(run),
            Event::Finished(record) => self.finish(record),
            Event::Acknowledged { sequence, revision, refusal, retry } => {
                self.answer(*sequence, *revision, refusal.as_deref(), retry.clone());
            }
            Event::LeadershipChanged(leader) => {
                self.leader = *leader;
                self.follow_up = leader.map(|_| FollowUp::LeaderElected);
            }
            Event::RebootRequested(boot) => {
                self.reboot = Some(boot.clone());
                if let Step::Started(run) = &mut self.step {
                    // asked for, and so no interruption to be counted
                    run.attempt = 0;
                }
            }
            Event::UnrecordedReport(unheard) => {
                unheard.said.iter().for_each(|said| self.remember(&said.what));
                self.unheard.push(unheard.clone());
                let over = self.unheard.len().saturating_sub(UNRECORDED_RUNS_MAX);
                self.unheard.drain(..over);
            }
            Event::ReportAcknowledged { run } => self.unheard.retain(|unheard| unheard.run != *run),
        }
    }

    fn begin(&mut self, run: &Run) {
        assert_eq!(run.number, self.run + 1, "runs are counted");
        assert!(!matches!(self.step, Step::AwaitingAnswer { .. }), "nothing begins before the answer");
        self.run = run.number;
        self.reboot = None;
        self.step = Step::Started(run.clone());
    }

    fn finish(&mut self, record: &Record) {
        assert_eq!(record.sequence, self.sequence + 1, "records are counted");
        self.sequence = record.sequence;
        self.digest = record.digest();
        self.run = self.run.max(record.run);
        for said in &record.said {
            self.remember(&said.what);
        }
        if record.operation == Operation::Resync {
            // It says what was done before, the unsent records included; nothing is done by it. What waited for an
            // answer is decided anew: its store is gone, and the answer with it.
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
            Step::AwaitingAnswer { .. } => panic!("nothing ends before the answer"),
        };
        // 1. A hook is retried, and its unit restates: the replica takes that run for begun. 2. The run is given up, and
        // another ends well. The replica, which hears of no beginning, knows by the record alone that the failure is
        // no more (cargo sim 66111392).
        let episode = episode.filter(|episode| record.episode == Some(episode.id));
        if record.is_conditional() {
            self.step = Step::AwaitingAnswer { sequence: record.sequence, episode };
        } else {
            self.conclude(record, episode);
        }
        self.outbox.push(record.clone());
    }

    fn answer(&mut self, sequence: u64, revision: u64, refusal: Option<&str>, retry: Option<Timer>) {
        let pending = self.outbox.iter().find(|record| record.sequence == sequence).cloned();
        self.outbox.retain(|record| record.sequence > sequence);
        let episode = match &mut self.step {
            Step::AwaitingAnswer { sequence: waiting, episode } if *waiting == sequence => episode.take(),
            Step::AwaitingAnswer { .. } | Step::Idle | Step::Started(_) | Step::Failed(_) => return,
        };
        let record = pending.expect("an unanswered record is in the outbox");
        match refusal {
            None => {
                self.conclude(&record, episode);
                self.overlay_application_bags(&record, revision);
            }
            // no failure of anybody's: the relation is going away, and the view is about to say so
            Some(_) if matches!(record.operation, Operation::EnterScope { .. }) => {
                self.step = episode.map_or(Step::Idle, Step::Failed);
            }
            // an action's refusal is the action's: it is over, and the unit goes on (spec A.16)
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

    /// What the leader wrote stays readable to its own hooks until the view shows it.
    fn overlay_application_bags(&mut self, record: &Record, revision: u64) {
        for (relation, writes) in &record.writes.bags {
            if writes.application.is_empty() {
                continue;
            }
            if let Some(local) = self.relations.get_mut(relation) {
                let mut change = local.application_written.take().map_or(BagChange::new(), |(_, c)| c);
                change.extend(writes.application.clone());
                local.application_written = Some((revision, change));
            }
        }
    }

    /// `episode` is the failure this run was a retry of, or that it did not touch.
    fn conclude(&mut self, record: &Record, episode: Option<Episode>) {
        match &record.outcome {
            // an action's failure is the action's: the unit goes on (spec A.16)
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

    /// A skipped record that does not go on with the failure it follows was a person's decision.
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

    fn remember(&mut self, said: &ReportContent) {
        match said {
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

    /// Takes a successful hook's writes into what this unit has published.
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

    /// What the unit has done now, and what follows at once (spec A.4).
    fn advance(&mut self, record: &Record, other: Option<&Episode>) {
        match &record.operation {
            Operation::InstallCharm(charm) => {
                self.charm = Some(charm.clone());
                match other.map(|episode| &episode.operation) {
                    None if !self.installed => self.follow_up = Some(FollowUp::Install),
                    None => {
                        if self.follow_up == Some(FollowUp::LeaderElected) {
                            // the charm was lost before it heard that it leads: it is noted and told anew
                            self.leader = None;
                        }
                        self.follow_up = Some(FollowUp::UpgradeCharm);
                    }
                    // the failed hook runs again from the new charm; its own success is what the charm expects
                    Some(Operation::Hook(Hook::Install | Hook::UpgradeCharm)) => {}
                    Some(_) => self.upgrade_owed = true,
                }
            }
            Operation::EnterScope { relation, uuid, place, settings } => {
                let local = RelationLocal {
                    uuid: *uuid,
                    place: place.clone(),
                    created: place.implicit,
                    members: BTreeMap::new(),
                    applications: BTreeMap::new(),
                    pending_changed: None,
                    bag: settings.clone(),
                    lost_bag_changes: None,
                    application_written: None,
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
                self.leader = *generation;
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
                self.upgrade_owed = false;
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
                // no agent departs from whom it still owes a changed; a record that says so breaks nothing here
                local.pending_changed.take_if(|owed| owed == unit);
            }
            RelationEvent::Broken => {
                let prefix = format!("{}-relation-", local.place.endpoint);
                self.relations.remove(&relation);
                // whatever was given up on there will not come again
                if !self
                    .relations
                    .values()
                    .any(|other| prefix == format!("{}-relation-", other.place.endpoint))
                {
                    self.skipped.retain(|hook| !hook.starts_with(&prefix));
                }
            }
        }
    }
}

fn name_of(operation: &Operation) -> String {
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
