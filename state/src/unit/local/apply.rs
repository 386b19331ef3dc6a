//! The transitions of [`Local`]: how each event changes the stored state of a unit agent.
//!
//! [`Local::apply`] is the only way in which the state changes. The agent applies an event after its journal has stored
//! it; the controller's replica applies the same events for the records that it receives. An impossible order of events
//! is a defect of this program and panics.

use super::{Episode, Event, FollowUp, Local, RelationLocal, Run, Step, UNRECORDED_RUNS_MAX};
use crate::terms::failure_reason::FailureReason;
use crate::terms::hook_name::HookName;
use crate::terms::names::RelationNumber;
use crate::terms::operation::{Hook, Operation, RelationEvent};
use crate::terms::refusal::RefusalReason;
use crate::terms::settings::{self, BagChange};
use crate::terms::storage::StorageEvent;
use crate::unit::hook_context::ReportContent;
use crate::unit::record::{Outcome, Record, Timer};
use std::collections::BTreeMap;

impl Local {
    /// Whether the record of a run was applied: the run has ended.
    ///
    /// 1. A hook runs, and the store is restored.
    /// 2. Its unit resynchronises, so the replica contains the run.
    /// 3. The hook calls juju-reboot --now, and its reports are in no record (cargo sim 61500700). They are not ignored,
    ///    because the replica contains the run as started.
    pub fn has_recorded(&self, run: u64) -> bool {
        let runs = matches!(&self.step, Step::Started(running) if running.number == run);
        self.run >= run && !runs
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
                if self.store_generation != Some(*store_generation) {
                    self.secrets_revision = 0;
                }
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
                // runs that were started on this disk stay counted: a number must never name two runs
                let (nonce, run) = (self.nonce, self.run);
                *self = (**replica).clone();
                self.nonce = nonce;
                self.run = self.run.max(run);
            }
            Event::Started(run) => self.start(run),
            Event::Finished(record) => self.finish(record),
            Event::Acknowledged { sequence, revision, refusal, retry } => {
                self.acknowledge(*sequence, *revision, refusal.as_ref(), retry.clone());
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
            // A resync publishes the effects of earlier operations, those of unsent records included, and has no
            // effect on this state. An operation that awaited a reply is decided again: its store is gone, and so is
            // the reply.
            self.last_action = self.newest_action();
            if let Step::AwaitingAnswer { episode, .. } = &mut self.step {
                self.step = episode.take().map_or(Step::Idle, Step::Failed);
            }
            self.outbox = vec![record.clone()];
            return;
        }
        self.record_skipped(record);
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

    fn acknowledge(
        &mut self,
        sequence: u64,
        revision: u64,
        refusal: Option<&RefusalReason>,
        retry: Option<Timer>,
    ) {
        let pending = self.outbox.iter().find(|record| record.sequence == sequence).cloned();
        self.outbox.retain(|record| record.sequence > sequence);
        let episode = match &mut self.step {
            Step::AwaitingAnswer { sequence: waiting, episode } if *waiting == sequence => episode.take(),
            Step::AwaitingAnswer { .. } | Step::Idle | Step::Started(_) | Step::Failed(_) => return,
        };
        let record = pending.expect("an unacknowledged record is in the outbox");
        let is_secret_hook = matches!(record.operation, Operation::Hook(Hook::Secret { .. }));
        if is_secret_hook && record.outcome != Outcome::Skipped || !record.writes.secrets.is_empty() {
            self.secrets_revision = revision;
        }
        if refusal.is_some() {
            self.reboot = None;
        }
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
            Some(_) if record.operation.runs_once() => {
                self.advance(&record, None);
                self.step = episode.map_or(Step::Idle, Step::Failed);
            }
            Some(refusal) => {
                self.fail(&record, FailureReason::refused(refusal.clone()), retry, episode);
            }
        }
    }

    /// Stores what the leader wrote into its application's bag, so that its next hooks read it before a view contains
    /// it.
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
            _ if record.operation.runs_once() => {
                if record.outcome == Outcome::Ok {
                    self.publish(record);
                }
                self.advance(record, None);
                self.step = episode.map_or(Step::Idle, Step::Failed);
            }
            Outcome::Failed { reason, retry } => {
                self.fail(record, reason.clone(), retry.clone(), episode);
            }
            Outcome::Ok | Outcome::Missing | Outcome::Skipped => {
                let other = episode.filter(|episode| !episode.operation.is_same_as(&record.operation));
                if let (Operation::Hook(hook), false) =
                    (&record.operation, record.outcome == Outcome::Skipped)
                {
                    self.skipped.remove(&hook.name());
                }
                if !record.deleted_files.is_empty() {
                    self.deleted_files = record.deleted_files.clone();
                }
                self.publish(record);
                self.advance(record, other.as_ref());
                self.step = other.map_or(Step::Idle, Step::Failed);
            }
        }
    }

    /// Stores that an operator has skipped a hook: the record is skipped and does not continue the open failure.
    fn record_skipped(&mut self, record: &Record) {
        let Step::Failed(episode) = &self.step else { return };
        let ended = record.episode.is_none() && episode.operation.is_same_as(&record.operation);
        if let (true, Outcome::Skipped, Operation::Hook(hook)) = (ended, &record.outcome, &record.operation) {
            self.skipped.insert(hook.name());
        }
    }

    fn fail(
        &mut self,
        record: &Record,
        reason: FailureReason,
        retry: Option<Timer>,
        episode: Option<Episode>,
    ) {
        let before = episode.filter(|episode| episode.operation.is_same_as(&record.operation));
        let (id, since_ms, failures) =
            before.map_or((record.run, record.at_ms, 0), |e| (e.id, e.since_ms, e.failures));
        self.step = Step::Failed(Episode {
            id,
            operation: record.operation.clone(),
            reason,
            since_ms,
            failures: failures.saturating_add(1),
            retry,
        });
    }

    fn store_status(&mut self, content: &ReportContent) {
        match content {
            ReportContent::UnitStatus { status, message } => {
                self.status_set = true;
                self.status = Some((*status, message.clone()));
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
                self.deleted_files.clear();
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
            Operation::Resync | Operation::Commands(_) => {}
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
            Hook::LeaderSettingsChanged { version } => self.leader_settings_version = *version,
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
            Hook::Secret { .. } => {}
            Hook::Storage { id, storage, event: StorageEvent::Attached } => {
                self.storage.insert(id.clone(), storage.clone());
            }
            Hook::Storage { id, event: StorageEvent::Detaching, .. } => drop(self.storage.remove(id)),
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
                let broken = local.local_endpoint.endpoint.clone();
                self.relations.remove(&relation);
                // the skipped hooks of the endpoint's last relation can no longer succeed
                if !self.relations.values().any(|other| other.local_endpoint.endpoint == broken) {
                    self.skipped.retain(|hook| match hook {
                        HookName::Relation { endpoint, .. } => *endpoint != broken,
                        _ => true,
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::hook_name::RelationEventName;
    use crate::terms::names::{UnitName, Uuid};
    use crate::terms::operation::LocalEndpoint;
    use std::collections::BTreeSet;

    #[test]
    fn the_failures_of_an_episode_are_counted_up_to_the_greatest_number() {
        let mut local = Local::new(Uuid(2), UnitName::new("web", 0));
        let operation = Operation::Hook(Hook::UpdateStatus);
        let outcome = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
        for (before, after) in [(1, 2), (u32::MAX, u32::MAX)] {
            local.step = Step::Failed(Episode {
                id: 1,
                operation: operation.clone(),
                reason: FailureReason::exit(1),
                since_ms: 1,
                failures: before,
                retry: None,
            });
            let record = local.record(operation.clone(), outcome.clone(), 2);
            local.apply(&Event::Finished(record));
            assert_eq!(local.episode().map(|episode| episode.failures), Some(after));
        }
    }

    #[test]
    fn the_end_of_a_relation_forgets_the_skipped_hooks_of_its_endpoint_only() {
        let relation = |endpoint: &str| RelationLocal {
            uuid: Uuid(1),
            local_endpoint: LocalEndpoint {
                endpoint: endpoint.to_owned(),
                interface: "sql".to_owned(),
                peer: false,
                implicit: false,
                remote_application: "db".to_owned(),
            },
            created: true,
            members: BTreeMap::new(),
            applications: BTreeMap::new(),
            pending_changed: None,
            bag: BTreeMap::new(),
            lost_bag_changes: None,
            pending_application_writes: None,
        };
        let joined = |endpoint: &str| HookName::Relation {
            endpoint: endpoint.to_owned(),
            event: RelationEventName::Joined,
        };
        let mut local = Local::new(Uuid(2), UnitName::new("web", 0));
        local.relations = [(1, relation("a")), (2, relation("a-relation-b"))].into();
        local.skipped = [joined("a"), joined("a-relation-b"), HookName::Start].into();
        local.advance_relation(1, &RelationEvent::Broken);
        assert_eq!(local.skipped, BTreeSet::from([joined("a-relation-b"), HookName::Start]));
    }
}
