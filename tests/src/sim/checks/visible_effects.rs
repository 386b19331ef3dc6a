//! The writes of a failed hook never become visible, and the writes of a successful hook become visible exactly once
//! (I8, I9, I11, from the point of view of charms).
//!
//! The counter in the own state of each charm increases by one with each successful hook that writes it. In the settings
//! that other units read it never decreases, and at rest it is the last published value.

use super::check::{Check, Commit, FinalState};
use crate::sim::fact::Fact;
use crate::sim::script::{COUNTER, FAILED_HOOK_KEY};
use state::documents::draft::{Reader, read};
use state::documents::prelude::{BagDoc, Kind, Model, last_id};
use state::terms::names::{RelationNumber, Uuid};
use state::terms::operation::Operation;
use state::terms::owner::Owner;
use state::unit::local::Local;
use state::unit::record::{Outcome, Record};
use std::collections::BTreeMap;

#[derive(Clone, Default)]
struct Unit {
    /// The counter in the state of the charm.
    counted: u64,
    /// The newest run that exited by itself: whether it succeeded, and the counter that it wrote.
    exited: Option<(u64, bool, Option<u64>)>,
    /// The counter in the unit's own settings.
    published: BTreeMap<RelationNumber, u64>,
}

#[derive(Default)]
pub struct VisibleEffects {
    /// By the folder of a unit, of which a copy has its own.
    by_folder: BTreeMap<Uuid, Unit>,
    /// By document key of a bag: the newest counter that other units can read.
    shown: BTreeMap<String, u64>,
    was_restored: bool,
}

fn number(text: &str) -> u64 {
    text.parse().expect("a script writes a number")
}

impl Check for VisibleEffects {
    fn name(&self) -> &'static str {
        "visible-effects"
    }

    fn observe(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        if let Fact::HookExited { folder, run, ok, counted } = fact {
            self.by_folder.entry(*folder).or_default().exited = Some((*run, *ok, *counted));
        }
    }

    fn record_done(&mut self, folder: Uuid, record: &Record, found: &mut Vec<String>) {
        if record.outcome != Outcome::Ok {
            return;
        }
        let progress = self.by_folder.entry(folder).or_default();
        if let Operation::EnterScope { relation, .. } = &record.operation {
            // a restored store may assign the number of a lost relation to another one, whose bag is new
            progress.published.remove(relation);
        }
        for (relation, writes) in &record.writes.bags {
            if let Some(value) = writes.unit.get(COUNTER) {
                progress.published.insert(*relation, number(value));
            }
        }
        if let Some((_, ok, counted)) =
            progress.exited.filter(|(run, ..)| *run == record.run && record.operation.runs_charm())
        {
            let recorded = record.writes.state.get(COUNTER).cloned().flatten().map(|value| number(&value));
            if !ok || recorded != counted {
                let run = record.run;
                found.push(format!(
                    "folder {folder}: run {run} exited (success: {ok}) with counter {counted:?}, recorded {recorded:?}"
                ));
            }
        }
        if let Some(Some(value)) = record.writes.state.get(COUNTER) {
            let (value, before) = (number(value), progress.counted);
            progress.counted = value;
            if value != before + 1 {
                found.push(format!(
                    "folder {folder}: record {} has counter {value} after {before}",
                    record.sequence
                ));
            }
        }
    }

    fn journal_started(&mut self, folder: Uuid, stored: &Local) {
        let counted = stored.charm_state.get(COUNTER).map_or(0, |value| number(value));
        let published = stored.relations.iter();
        let published =
            published.filter_map(|(id, local)| Some((*id, number(local.bag.get(COUNTER)?)))).collect();
        self.by_folder.insert(folder, Unit { counted, published, exited: None });
        // 1. The store is restored. 2. The unit resynchronises in batches, and the first batch is applied. 3.
        // The disk of the unit is lost: its counter since the backup exists nowhere except in that batch.
        if self.was_restored {
            self.shown.retain(|key, _| last_id(key) != Some(stored.unit));
        }
    }

    fn folder_copied(&mut self, from: Uuid, to: Uuid) {
        if let Some(unit) = self.by_folder.get(&from).cloned() {
            self.by_folder.insert(to, unit);
        }
    }

    fn store_restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.shown.clear();
        self.was_restored = true;
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes_of(Kind::Bag) {
            let Some(stored) = commit.reader.get(&change.key) else { continue };
            let bag: BagDoc = stored.value.parse().expect("documents are what was written");
            if bag.values.contains_key(FAILED_HOOK_KEY) {
                found.push(format!("{}: a write of a failed hook is visible", bag.owner));
            }
            if let Some(value) = bag.values.get(COUNTER).filter(|_| matches!(bag.owner, Owner::Unit(_))) {
                let value = number(value);
                let before = self.shown.insert(change.key.clone(), value).unwrap_or(0);
                if value < before {
                    found.push(format!("{}: counter {value} becomes visible after {before}", bag.owner));
                }
            }
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        for agent in end.agents.iter().filter(|_| end.is_at_rest) {
            for (relation, progress) in &agent.local.relations {
                let bag = read(end.reader, &end.model.bag(progress.uuid, agent.unit));
                let shown = bag.and_then(|bag| bag.values.get(COUNTER).map(|value| number(value)));
                let published =
                    self.by_folder.get(&agent.folder).and_then(|unit| unit.published.get(relation)).copied();
                if shown != published {
                    let name = &agent.name;
                    found.push(format!(
                        "{name}: published {published:?} in relation {relation}, but {shown:?} is visible"
                    ));
                }
            }
        }
    }
}
