//! Spec A.8: what failed is retried by itself, after 5 s and then twice as long each time; once faults are over, soon
//! after that; and ended by nobody but a person, who says whether it runs again or is given up.

use super::{Check, Commit, Fact, place};
use state::documents::draft::{Reader, read};
use state::documents::keys::{Model, last_id};
use state::terms::names::Uuid;
use state::unit::local::{Event, Local, Run};
use state::unit::operation::{Hook, Operation};
use state::unit::record::{Outcome, Record, Timer};
use std::collections::{BTreeMap, BTreeSet};

const FIRST_MS: u64 = 5_000;
const LONGEST_MS: u64 = 300_000;
/// As long as nobody sets another number.
const RETRIES: u32 = 10;
/// After it is due, where nothing fails any more: others on the machine run their hooks first.
const LATE_MS: u64 = 60_000;

/// What failed and has not succeeded.
#[derive(Clone)]
struct Failure {
    operation: Operation,
    /// The run that failed first.
    id: u64,
    times: u32,
    /// When it is to run again, as its record says; none: not by itself.
    due_ms: Option<u64>,
}

#[derive(Default)]
pub struct Retries {
    now_ms: u64,
    calm_ms: Option<u64>,
    failing: BTreeMap<Uuid, Failure>,
    /// The record that waits for its answer.
    asked: BTreeMap<Uuid, Record>,
    /// By unit and failure, what people have said of it: it is to run again, or it is given up.
    marks: BTreeMap<(Uuid, u64), BTreeSet<bool>>,
    /// Somebody has set how often hooks are retried.
    is_retry_limit_set: bool,
    was_restored: bool,
    /// Applications of units, and those whose refresh was forced at some time.
    applications: BTreeMap<Uuid, Uuid>,
    forced: BTreeSet<Uuid>,
}

impl Retries {
    fn fails(&mut self, folder: Uuid, record: &Record, retry: Option<&Timer>) -> Option<String> {
        let before = self.failing.remove(&folder);
        let before =
            before.filter(|f| f.operation.is_same_as(&record.operation) && record.episode == Some(f.id));
        let (id, times) = before.map_or((record.run, 1), |before| (before.id, before.times + 1));
        let due_ms = retry.map(|timer| self.now_ms + timer.delay_ms);
        let operation = record.operation.clone();
        self.failing.insert(folder, Failure { operation, id, times, due_ms });
        let least_ms = (FIRST_MS << (times - 1).min(16)).min(LONGEST_MS);
        let well = match retry {
            Some(timer) => (least_ms..least_ms + least_ms / 10).contains(&timer.delay_ms) && times <= RETRIES,
            None => times > RETRIES,
        };
        (!well && !self.is_retry_limit_set).then(|| {
            format!("{folder}: {} has failed {times} times, and is retried by {retry:?}", record.operation)
        })
    }

    fn begins(&mut self, (folder, unit): (Uuid, Uuid), run: &Run) -> Option<String> {
        let failure = self.failing.get_mut(&folder)?;
        let refreshes = matches!(run.operation, Operation::InstallCharm(_)) && run.episode.is_some();
        let forced = self.applications.get(&unit).is_none_or(|id| self.forced.contains(id));
        if refreshes
            && !matches!(failure.operation, Operation::InstallCharm(_))
            && !forced
            && !self.was_restored
        {
            return Some(format!(
                "{folder}: a refresh that nobody forced begins beside {}",
                failure.operation
            ));
        }
        if !failure.operation.is_same_as(&run.operation) || run.attempt > 1 {
            return None;
        }
        let due_ms = failure.due_ms.take().zip(self.calm_ms).map(|(due_ms, calm_ms)| due_ms.max(calm_ms));
        if let Some(late_ms) = due_ms.and_then(|due_ms| self.now_ms.checked_sub(due_ms + LATE_MS)) {
            let late_ms = late_ms + LATE_MS;
            return Some(format!("{folder}: the retry of {} begins {late_ms} ms late", run.operation));
        }
        let said = self.marks.get(&(unit, failure.id)).cloned().unwrap_or_default();
        let deploys = matches!(run.operation, Operation::InstallCharm(_)) && !said.is_empty();
        let asked = said.contains(&true) || deploys || self.was_restored;
        (run.episode.is_none() && !asked)
            .then(|| format!("{folder}: {} runs again, and people have said {said:?}", run.operation))
    }

    fn ends(&mut self, (folder, unit): (Uuid, Uuid), record: &Record) -> Option<String> {
        let action = matches!(record.operation, Operation::Action { .. });
        if action || record.operation == Operation::Resync {
            return None;
        }
        if let Outcome::Failed { retry, .. } = &record.outcome {
            return self.fails(folder, record, retry.as_ref());
        }
        if record.is_conditional() {
            self.asked.insert(folder, record.clone());
        } else {
            self.succeeds(folder, record);
        }
        // one that was about something which has gone counts as done
        let plain = match &record.operation {
            Operation::Hook(Hook::Relation { .. } | Hook::LeaderElected { .. }) => false,
            operation => matches!(operation, Operation::Hook(_)),
        };
        let skipped = record.outcome == Outcome::Skipped && plain && !self.was_restored;
        let given_up = || self.marks.iter().any(|((of, _), said)| *of == unit && said.contains(&false));
        (skipped && !given_up())
            .then(|| format!("{folder}: {} is given up, and nobody has said so", record.operation))
    }

    fn succeeds(&mut self, folder: Uuid, record: &Record) {
        let over =
            |failure: &Failure| record.episode.is_none() || failure.operation.is_same_as(&record.operation);
        if self.failing.get(&folder).is_some_and(over) {
            self.failing.remove(&folder);
        }
    }

    fn event(&mut self, (folder, unit): (Uuid, Uuid), event: &Event) -> Option<String> {
        match event {
            Event::Started(run) => self.begins((folder, unit), run),
            Event::Finished(record) => self.ends((folder, unit), record),
            Event::Acknowledged { sequence, refusal, retry, .. } => {
                let waiting = self.asked.get(&folder)?.sequence == *sequence;
                let record = waiting.then(|| self.asked.remove(&folder)).flatten()?;
                if refusal.is_some() && !matches!(record.operation, Operation::EnterScope { .. }) {
                    return self.fails(folder, &record, retry.as_ref());
                }
                self.succeeds(folder, &record);
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

    fn time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::FaultsEnded => self.calm_ms = Some(self.now_ms),
            Fact::OnlyRestarts => self.calm_ms = None,
            Fact::Loaded { folder, .. } => {
                // in another boot, so long after the agent's start
                let now_ms = self.now_ms;
                let failing = self.failing.get_mut(folder).and_then(|failure| failure.due_ms.as_mut());
                failing.into_iter().for_each(|due_ms| *due_ms = (*due_ms).max(now_ms + LONGEST_MS));
            }
            Fact::Recorded { folder, of, events } => {
                found.extend(events.iter().filter_map(|event| self.event((*folder, *of), event)));
            }
            _ => {}
        }
    }

    fn begin(&mut self, folder: Uuid, memory: &Local) {
        self.asked.remove(&folder);
        self.failing.remove(&folder);
        self.failing.extend(memory.episode().map(|episode| {
            let (id, times, operation) = (episode.id, episode.failures, episode.operation.clone());
            (folder, Failure { operation, id, times, due_ms: None })
        }));
    }

    fn copy(&mut self, folder: Uuid, copy: Uuid) {
        self.failing.extend(self.failing.get(&folder).cloned().map(|failure| (copy, failure)));
        self.asked.extend(self.asked.get(&folder).cloned().map(|record| (copy, record)));
    }

    fn restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.was_restored = true;
    }

    fn commit(&mut self, commit: &Commit<'_>, _found: &mut Vec<String>) {
        for change in commit.changes.entries.iter() {
            let id = last_id(&change.key).unwrap_or_default();
            match place(&change.key).0 {
                "unit" => {
                    let doc = read(commit.reader, &commit.model.unit(id));
                    self.applications.extend(doc.map(|doc| (id, doc.application)));
                }
                "application-charm" => {
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
            let Some(unit) = last_id(&change.key).filter(|_| place(&change.key).0 == "resolved") else {
                continue;
            };
            if let Some(mark) = read(commit.reader, &commit.model.resolved(unit)) {
                self.marks.entry((unit, mark.episode)).or_default().insert(mark.retry);
            }
        }
    }
}
