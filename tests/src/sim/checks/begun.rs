//! Spec A.16: an action that a unit says has failed had begun, unless an agent before had begun it and its memory is
//! lost.

use super::{Check, Fact};
use state::model::draft::Reader;
use state::model::keys::Model;
use state::names::Uuid;
use state::unit::local::Event;
use state::unit::operation::Operation;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct Begun {
    begun: BTreeSet<(Uuid, u64)>,
    /// Whose folder it is.
    units: BTreeMap<Uuid, Uuid>,
    /// How often the memory of a unit began, in whatever folder: the first time it is new.
    begins: BTreeMap<Uuid, u32>,
    was_restored: bool,
}

impl Check for Begun {
    fn name(&self) -> &'static str {
        "begun"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::Begins { folder, local } => {
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
                        Event::Began(run) => {
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

    fn restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.was_restored = true;
    }
}
