//! Spec A.16: an action that a unit says has failed had begun, unless an agent before had begun it and its memory is
//! lost.

use crate::sim::checks::{Check, Commit, Fact, place};
use state::documents::draft::{Reader, read};
use state::documents::keys::Model;
use state::terms::names::Uuid;
use state::unit::local::Event;
use state::unit::operation::Operation;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct FailedActions {
    begun: BTreeSet<(Uuid, u64)>,
    /// Whose folder it is.
    units: BTreeMap<Uuid, Uuid>,
    /// How often the memory of a unit began, in whatever folder: the first time it is new.
    begins: BTreeMap<Uuid, u32>,
    was_restored: bool,
}

impl Check for FailedActions {
    fn name(&self) -> &'static str {
        "begun"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::JournalStarted { folder, local } => {
                self.units.insert(*folder, local.unit);
                *self.begins.entry(local.unit).or_default() += 1;
            }
            Fact::Copied { folder, copy } => {
                if let Some(unit) = self.units.get(folder).copied() {
                    self.units.insert(*copy, unit);
                    self.begins.insert(unit, u32::MAX / 2);
                }
            }
            Fact::Recorded { folder, events, .. } => {
                for event in events.iter() {
                    match event {
                        Event::Started(run) => {
                            if let Operation::Action { id, .. } = run.operation {
                                self.begun.insert((*folder, id));
                            }
                        }
                        Event::Finished(record) => {
                            let Operation::Action { id, .. } = record.operation else { continue };
                            let whole = self.units.get(folder).is_some_and(|unit| self.begins[unit] <= 1);
                            if whole && !self.was_restored && !self.begun.contains(&(*folder, id)) {
                                let outcome = &record.outcome;
                                found.push(format!(
                                    "{folder}: action {id} was never begun, and is {outcome:?}"
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
        for change in ended.filter(|change| place(&change.key).0 == "action-of" && !self.was_restored) {
            let mut parts = place(&change.key).1.split('/');
            let unit: Option<Uuid> = parts.next().and_then(|unit| unit.parse().ok());
            let id: Option<u64> = parts.next().and_then(|id| id.parse().ok());
            let (Some(unit), Some(id)) = (unit, id) else { continue };
            let there = read(commit.reader, &commit.model.unit(unit)).is_some();
            let whole = self.begins.get(&unit).is_some_and(|begins| *begins <= 1);
            let began =
                self.begun.iter().any(|(folder, of)| *of == id && self.units.get(folder) == Some(&unit));
            if there && whole && !began {
                found.push(format!("{unit}: action {id} was never begun, and waits no more"));
            }
        }
    }

    fn restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.was_restored = true;
    }
}
