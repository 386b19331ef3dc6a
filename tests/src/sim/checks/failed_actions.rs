//! An action that is reported as failed had started (spec A.16).
//!
//! The exception is an action that an earlier agent may have started whose state was lost.

use super::check::{Check, Commit, kind_of, parts};
use crate::sim::fact::Fact;
use state::documents::draft::{Reader, read};
use state::documents::prelude::{Kind, Model};
use state::terms::names::Uuid;
use state::terms::operation::Operation;
use state::terms::status::ActionStatus;
use state::unit::local::Event;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct FailedActions {
    started: BTreeSet<(Uuid, u64)>,
    /// The unit of each folder.
    units: BTreeMap<Uuid, Uuid>,
    /// How often a journal of the unit started, in any folder. More than once: its state was lost or copied.
    journal_starts: BTreeMap<Uuid, u32>,
    was_restored: bool,
}

impl Check for FailedActions {
    fn name(&self) -> &'static str {
        "failed-actions"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::JournalStarted { folder, local } => {
                self.units.insert(*folder, local.unit);
                *self.journal_starts.entry(local.unit).or_default() += 1;
            }
            Fact::Copied { folder, copy } => {
                if let Some(unit) = self.units.get(folder).copied() {
                    self.units.insert(*copy, unit);
                    self.journal_starts.insert(unit, u32::MAX / 2);
                }
            }
            Fact::EventsPersisted { folder, events, .. } => {
                for event in events.iter() {
                    match event {
                        Event::Started(run) => {
                            if let Operation::Action { id, .. } = run.operation {
                                self.started.insert((*folder, id));
                            }
                        }
                        Event::Finished(record) => {
                            let Operation::Action { id, .. } = record.operation else { continue };
                            let is_complete =
                                self.units.get(folder).is_some_and(|unit| self.journal_starts[unit] <= 1);
                            if is_complete && !self.was_restored && !self.started.contains(&(*folder, id)) {
                                let outcome = &record.outcome;
                                found.push(format!(
                                    "{folder}: action {id} never started, but its record has the outcome {outcome:?}"
                                ));
                            }
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        let ended = commit.changes.entries.iter().filter(|change| change.value.is_none());
        for change in ended.filter(|change| kind_of(&change.key) == Kind::ActionOf && !self.was_restored) {
            let parts = parts(&change.key);
            let ([unit], Some(id)) = (&parts.ids()[..], parts.number()) else { continue };
            let unit = *unit;
            if read(commit.reader, &commit.model.action(id))
                .is_some_and(|doc| doc.status == ActionStatus::Cancelled)
            {
                continue;
            }
            let exists = read(commit.reader, &commit.model.unit(unit)).is_some();
            let is_complete = self.journal_starts.get(&unit).is_some_and(|starts| *starts <= 1);
            let was_started =
                self.started.iter().any(|(folder, of)| *of == id && self.units.get(folder) == Some(&unit));
            if exists && is_complete && !was_started {
                found.push(format!("{unit}: action {id} never started, but is no longer pending"));
            }
        }
    }

    fn store_restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.was_restored = true;
    }
}
