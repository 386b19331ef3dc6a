//! An instance of another controller is never terminated (F.3).
//!
//! An instance of this model whose machine is unknown is terminated only if the harvest mode of the model allows
//! it.

use super::check::{Check, Commit, kind_of};
use crate::sim::fact::{Fact, InstanceEvent};
use crate::sim::identities::MODEL;
use serde_json::Value;
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{Kind, MachineDoc, Model, TombstoneDoc, TombstoneKind, last_id};
use state::machine::provision::HarvestMode;
use state::terms::names::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// The machines that a store generation has recorded, and its harvest mode.
#[derive(Default)]
pub(super) struct KnownMachines {
    pub machines: BTreeSet<Uuid>,
    pub mode: HarvestMode,
}

impl KnownMachines {
    pub fn of(reader: &dyn Reader, model: Model) -> KnownMachines {
        let existing =
            read_all::<MachineDoc>(reader, &model.prefix(Kind::Machine)).into_iter().map(|(key, _)| key);
        let removed = read_all::<TombstoneDoc>(reader, &model.prefix(Kind::Tombstone)).into_iter();
        let removed =
            removed.filter(|(_, tombstone)| tombstone.kind == TombstoneKind::Machine).map(|(key, _)| key);
        let machines = existing.chain(removed).filter_map(|key| last_id(&key)).collect();
        let config = read(reader, &model.model_config()).unwrap_or_default();
        KnownMachines { machines, mode: mode(&config) }
    }

    pub fn commit(&mut self, commit: &Commit<'_>) {
        for change in commit.changes.entries.iter() {
            if kind_of(&change.key) == Kind::Machine {
                self.machines.extend(last_id(&change.key));
            }
            if change.key == commit.model.model_config().text() {
                let config = change.value.as_ref();
                let config = config.map(|text| text.parse().expect("documents are what was written"));
                self.mode = mode(&config.unwrap_or_default());
            }
        }
    }

    /// Whether instances of unknown machines are terminated.
    pub fn harvests_unknown(&self) -> bool {
        matches!(self.mode, HarvestMode::Unknown | HarvestMode::All)
    }

    /// Whether instances of removed machines are terminated.
    pub fn harvests_removed(&self) -> bool {
        matches!(self.mode, HarvestMode::Destroyed | HarvestMode::All)
    }
}

fn mode(config: &BTreeMap<String, Value>) -> HarvestMode {
    let mode = config.get("provisioner-harvest-mode").and_then(Value::as_str);
    mode.and_then(HarvestMode::parse).unwrap_or_default()
}

#[derive(Default)]
pub struct ForeignInstances {
    known: KnownMachines,
    /// Whether the mode allowed unknown machines before: a round in progress may have read it.
    harvested_unknown: bool,
    /// Machines recorded before the restore: a provisioner that saw them may still act on them.
    before: BTreeSet<Uuid>,
}

impl Check for ForeignInstances {
    fn name(&self) -> &'static str {
        "foreign-instances"
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        let before = std::mem::replace(&mut self.known, KnownMachines::of(reader, model));
        self.harvested_unknown |= before.harvests_unknown();
        self.before.extend(before.machines);
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let Fact::Instance { number, model, machine, what: InstanceEvent::Terminated, .. } = fact else {
            return;
        };
        if *model != MODEL {
            found.push(format!("instance {number} of another model ({model}) is terminated"));
            return;
        }
        let known = self.known.machines.contains(machine) || self.before.contains(machine);
        if !known && !self.known.harvests_unknown() && !self.harvested_unknown {
            let mode = self.known.mode;
            found.push(format!(
                "instance {number} of an unknown machine is terminated in harvest mode {mode:?}"
            ));
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, _found: &mut Vec<String>) {
        self.harvested_unknown |= self.known.harvests_unknown();
        self.known.commit(commit);
    }
}
