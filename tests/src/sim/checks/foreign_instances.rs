//! F.3: nothing of another controller is ever touched; of this model an instance that nothing is known of only goes
//! where the model's harvest mode says so.

use crate::sim::checks::{Check, Commit, Fact, InstanceEvent, place};
use serde_json::Value;
use state::documents::draft::{Reader, read, read_all};
use state::documents::keys::{Kind, MachineDoc, Model, TombstoneDoc, last_id};
use state::machine::provision::HarvestMode;
use state::terms::names::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// What a store's history knows of machines, and its harvest mode.
#[derive(Default)]
pub(super) struct Known {
    pub machines: BTreeSet<Uuid>,
    pub mode: HarvestMode,
}

impl Known {
    pub fn of(reader: &dyn Reader, model: Model) -> Known {
        let there = read_all::<MachineDoc>(reader, &model.all(Kind::Machine)).into_iter().map(|(key, _)| key);
        let gone = read_all::<TombstoneDoc>(reader, &model.all(Kind::Tombstone)).into_iter();
        let gone = gone.filter(|(_, tombstone)| tombstone.kind == "machine").map(|(key, _)| key);
        let machines = there.chain(gone).filter_map(|key| last_id(&key)).collect();
        let config = read(reader, &model.model_config()).unwrap_or_default();
        Known { machines, mode: mode(&config) }
    }

    pub fn commit(&mut self, commit: &Commit<'_>) {
        for change in commit.changes.entries.iter() {
            if place(&change.key).0 == "machine" {
                self.machines.extend(last_id(&change.key));
            }
            if change.key == commit.model.model_config().text() {
                let config = change.value.as_ref();
                let config = config.map(|text| text.parse().expect("documents are what was written"));
                self.mode = mode(&config.unwrap_or_default());
            }
        }
    }

    /// Instances of machines that nothing is known of are taken away.
    pub fn takes_unknown(&self) -> bool {
        matches!(self.mode, HarvestMode::Unknown | HarvestMode::All)
    }

    /// Those of machines that were removed are.
    pub fn takes_removed(&self) -> bool {
        matches!(self.mode, HarvestMode::Destroyed | HarvestMode::All)
    }
}

fn mode(config: &BTreeMap<String, Value>) -> HarvestMode {
    let mode = config.get("provisioner-harvest-mode").and_then(Value::as_str);
    mode.and_then(HarvestMode::parse).unwrap_or_default()
}

#[derive(Default)]
pub struct ForeignInstances {
    known: Known,
    /// The mode was such a moment ago: a round under way may have read it.
    harvested_unknown: bool,
    /// Machines of before the store was put back: who saw them may still act on that.
    before: BTreeSet<Uuid>,
}

impl Check for ForeignInstances {
    fn name(&self) -> &'static str {
        "strangers"
    }

    fn restored(&mut self, reader: &dyn Reader, model: Model) {
        let before = std::mem::replace(&mut self.known, Known::of(reader, model));
        self.harvested_unknown |= before.takes_unknown();
        self.before.extend(before.machines);
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let Fact::Instance { number, model, machine, what: InstanceEvent::Taken, .. } = fact else { return };
        if *model != crate::sim::operator::MODEL {
            found.push(format!("instance {number} is taken away, which is of model {model}"));
            return;
        }
        let known = self.known.machines.contains(machine) || self.before.contains(machine);
        if !known && !self.known.takes_unknown() && !self.harvested_unknown {
            let mode = self.known.mode;
            found.push(format!(
                "instance {number} of an unknown machine is taken away, harvest mode {mode:?}"
            ));
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, _found: &mut Vec<String>) {
        self.harvested_unknown |= self.known.takes_unknown();
        self.known.commit(commit);
    }
}
