//! A failed hook is retried automatically after 5 s, then after twice as long each time (spec A.8).
//!
//! Once faults are over the retry starts soon after it is due. Only an operator resolves the failure otherwise: the
//! hook is retried or skipped.

use super::check::{Check, Commit, kind_of};
use crate::sim::fact::Fact;
use state::documents::draft::{Reader, read};
use state::documents::prelude::{Kind, Model, last_id};
use state::terms::names::Uuid;
use state::terms::operation::{Hook, Operation};
use state::unit::local::{Event, Local, Run};
use state::unit::record::{Outcome, Record, Timer};
use std::collections::{BTreeMap, BTreeSet};

/// The delay of the first retry, and the longest delay.
const FIRST_DELAY_MS: u64 = 5_000;
const DELAY_MS_MAX: u64 = 300_000;
/// The number of retries unless the model configuration sets another one.
const RETRIES: u32 = 10;
/// How long after it is due a retry may start once faults are over: other units on the machine run their hooks
/// first.
const LATE_MS: u64 = 60_000;

/// A failed operation that has not succeeded since.
#[derive(Clone)]
struct FailedRun {
    operation: Operation,
    /// The number of the run that failed first.
    id: u64,
    times: u32,
    /// When it runs again according to its record. `None`: it is not retried automatically.
    due_ms: Option<u64>,
}

#[derive(Default)]
pub struct Retries {
    now_ms: u64,
    faults_ended_ms: Option<u64>,
    failed_runs: BTreeMap<Uuid, FailedRun>,
    /// The record that waits for its acknowledgement, by folder.
    unanswered: BTreeMap<Uuid, Record>,
    /// The resolved marks of operators, by unit and failure: true to retry the hook, false to skip it.
    marks: BTreeMap<(Uuid, u64), BTreeSet<bool>>,
    /// Whether the model configuration sets the number of retries.
    is_retry_limit_set: bool,
    was_restored: bool,
    /// The application of each unit, and the applications whose refresh was forced at some time.
    applications: BTreeMap<Uuid, Uuid>,
    forced: BTreeSet<Uuid>,
}

impl Retries {
    fn run_failed(&mut self, folder: Uuid, record: &Record, retry: Option<&Timer>) -> Option<String> {
        let before = self.failed_runs.remove(&folder);
        let before =
            before.filter(|f| f.operation.is_same_as(&record.operation) && record.episode == Some(f.id));
        let (id, times) = before.map_or((record.run, 1), |before| (before.id, before.times + 1));
        let due_ms = retry.map(|timer| self.now_ms + timer.delay_ms);
        let operation = record.operation.clone();
        self.failed_runs.insert(folder, FailedRun { operation, id, times, due_ms });
        let least_ms = (FIRST_DELAY_MS << (times - 1).min(16)).min(DELAY_MS_MAX);
        let is_valid = match retry {
            Some(timer) => (least_ms..least_ms + least_ms / 10).contains(&timer.delay_ms) && times <= RETRIES,
            None => times > RETRIES,
        };
        (!is_valid && !self.is_retry_limit_set).then(|| {
            format!("{folder}: {} has failed {times} times, and its retry is {retry:?}", record.operation)
        })
    }

    fn run_started(&mut self, (folder, unit): (Uuid, Uuid), run: &Run) -> Option<String> {
        let failure = self.failed_runs.get_mut(&folder)?;
        let refreshes = matches!(run.operation, Operation::InstallCharm(_)) && run.episode.is_some();
        let forced = self.applications.get(&unit).is_none_or(|id| self.forced.contains(id));
        if refreshes
            && !matches!(failure.operation, Operation::InstallCharm(_))
            && !forced
            && !self.was_restored
        {
            return Some(format!(
                "{folder}: a refresh that was not forced starts while {} has failed",
                failure.operation
            ));
        }
        if !failure.operation.is_same_as(&run.operation) || run.attempt > 1 {
            return None;
        }
        let due_ms = failure
            .due_ms
            .take()
            .zip(self.faults_ended_ms)
            .map(|(due_ms, faults_ended_ms)| due_ms.max(faults_ended_ms));
        let late_ms = due_ms.and_then(|due_ms| self.now_ms.checked_sub(due_ms + LATE_MS));
        // a retry that was switched off for a time is late
        if let Some(late_ms) = late_ms.filter(|_| !self.is_retry_limit_set) {
            let late_ms = late_ms + LATE_MS;
            return Some(format!("{folder}: the retry of {} starts {late_ms} ms late", run.operation));
        }
        let marks = self.marks.get(&(unit, failure.id)).cloned().unwrap_or_default();
        let installs_charm = matches!(run.operation, Operation::InstallCharm(_)) && !marks.is_empty();
        let is_requested = marks.contains(&true) || installs_charm || self.was_restored;
        (run.episode.is_none() && !is_requested)
            .then(|| format!("{folder}: {} runs again without a retry mark: {marks:?}", run.operation))
    }

    fn run_finished(&mut self, (folder, unit): (Uuid, Uuid), record: &Record) -> Option<String> {
        let action = matches!(record.operation, Operation::Action { .. });
        if action || record.operation == Operation::Resync {
            return None;
        }
        if let Outcome::Failed { retry, .. } = &record.outcome {
            return self.run_failed(folder, record, retry.as_ref());
        }
        if record.is_conditional() {
            self.unanswered.insert(folder, record.clone());
        } else {
            self.run_succeeded(folder, record);
        }
        // a hook about something that no longer exists counts as done
        let plain = match &record.operation {
            Operation::Hook(
                Hook::Relation { .. }
                | Hook::LeaderElected { .. }
                | Hook::Secret { .. }
                | Hook::Storage { .. },
            ) => false,
            operation => matches!(operation, Operation::Hook(_)),
        };
        let skipped = record.outcome == Outcome::Skipped && plain && !self.was_restored;
        let given_up = || self.marks.iter().any(|((of, _), marks)| *of == unit && marks.contains(&false));
        (skipped && !given_up())
            .then(|| format!("{folder}: {} is skipped without a resolved mark", record.operation))
    }

    fn run_succeeded(&mut self, folder: Uuid, record: &Record) {
        let over =
            |failure: &FailedRun| record.episode.is_none() || failure.operation.is_same_as(&record.operation);
        if self.failed_runs.get(&folder).is_some_and(over) {
            self.failed_runs.remove(&folder);
        }
    }

    fn event(&mut self, (folder, unit): (Uuid, Uuid), event: &Event) -> Option<String> {
        match event {
            Event::Started(run) => self.run_started((folder, unit), run),
            Event::Finished(record) => self.run_finished((folder, unit), record),
            Event::Acknowledged { sequence, refusal, retry, .. } => {
                let waiting = self.unanswered.get(&folder)?.sequence == *sequence;
                let record = waiting.then(|| self.unanswered.remove(&folder)).flatten()?;
                if refusal.is_some() && !matches!(record.operation, Operation::EnterScope { .. }) {
                    return self.run_failed(folder, &record, retry.as_ref());
                }
                self.run_succeeded(folder, &record);
                None
            }
            _ => None,
        }
    }
}

impl Check for Retries {
    fn name(&self) -> &'static str {
        "retries"
    }

    fn advance_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::FaultsEnded => self.faults_ended_ms = Some(self.now_ms),
            Fact::OnlyRestarts => self.faults_ended_ms = None,
            Fact::Loaded { folder, .. } => {
                // after a reboot the delay starts again with the agent
                let now_ms = self.now_ms;
                let failed_runs =
                    self.failed_runs.get_mut(folder).and_then(|failure| failure.due_ms.as_mut());
                failed_runs.into_iter().for_each(|due_ms| *due_ms = (*due_ms).max(now_ms + DELAY_MS_MAX));
            }
            Fact::EventsPersisted { folder, unit, events } => {
                found.extend(events.iter().filter_map(|event| self.event((*folder, *unit), event)));
            }
            _ => {}
        }
    }

    fn journal_started(&mut self, folder: Uuid, stored: &Local) {
        self.unanswered.remove(&folder);
        self.failed_runs.remove(&folder);
        self.failed_runs.extend(stored.episode().map(|episode| {
            let (id, times, operation) = (episode.id, episode.failures, episode.operation.clone());
            (folder, FailedRun { operation, id, times, due_ms: None })
        }));
    }

    fn folder_copied(&mut self, folder: Uuid, copy: Uuid) {
        self.failed_runs.extend(self.failed_runs.get(&folder).cloned().map(|failure| (copy, failure)));
        self.unanswered.extend(self.unanswered.get(&folder).cloned().map(|record| (copy, record)));
    }

    fn store_restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.was_restored = true;
    }

    fn commit(&mut self, commit: &Commit<'_>, _found: &mut Vec<String>) {
        for change in commit.changes.entries.iter() {
            let id = last_id(&change.key).unwrap_or_default();
            match kind_of(&change.key) {
                Kind::Unit => {
                    let doc = read(commit.reader, &commit.model.unit(id));
                    self.applications.extend(doc.map(|doc| (id, doc.application)));
                }
                Kind::ApplicationCharm => {
                    let charm = read(commit.reader, &commit.model.application_charm(id));
                    self.forced.extend(charm.filter(|charm| charm.forced).map(|_| id));
                }
                _ => {}
            }
            if change.key == commit.model.model_config().text() {
                let config = read(commit.reader, &commit.model.model_config()).unwrap_or_default();
                let about = ["automatically-retry-hooks", "max-hook-retries"];
                self.is_retry_limit_set |= about.iter().any(|name| config.contains_key(*name));
            }
            let Some(unit) = last_id(&change.key).filter(|_| kind_of(&change.key) == Kind::Resolved) else {
                continue;
            };
            if let Some(mark) = read(commit.reader, &commit.model.resolved(unit)) {
                self.marks.entry((unit, mark.episode)).or_default().insert(mark.retry);
            }
        }
    }
}
