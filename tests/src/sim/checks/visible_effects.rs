//! I8, I9, I11 as a charm sees them: what failed hooks wrote never shows; what successful ones wrote counts up by
//! one, in the unit's own state and in what others see, and the last of it arrives.

use crate::sim::checks::{Check, Commit, End, Fact, place};
use crate::sim::script::{COUNTER, FAILED_HOOK_KEY};
use state::documents::draft::{Reader, read};
use state::documents::keys::{BagDoc, Model, last_id};
use state::terms::names::{RelationNumber, Uuid};
use state::unit::local::Local;
use state::unit::operation::Operation;
use state::unit::record::{Outcome, Record};
use std::collections::BTreeMap;

#[derive(Clone, Default)]
struct Unit {
    counted: u64,
    /// The newest run that ended by itself: how, and what it counted.
    exited: Option<(u64, bool, Option<u64>)>,
    said: BTreeMap<RelationNumber, u64>,
}

#[derive(Default)]
pub struct VisibleEffects {
    by_unit: BTreeMap<Uuid, Unit>,
    shown: BTreeMap<String, u64>,
    was_restored: bool,
}

fn number(text: &str) -> u64 {
    text.parse().expect("scripts count")
}

impl Check for VisibleEffects {
    fn name(&self) -> &'static str {
        "effects"
    }

    fn see(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        if let Fact::HookExited { folder, run, ok, counted } = fact {
            self.by_unit.entry(*folder).or_default().exited = Some((*run, *ok, *counted));
        }
    }

    fn done(&mut self, unit: Uuid, record: &Record, found: &mut Vec<String>) {
        if record.outcome != Outcome::Ok {
            return;
        }
        let known = self.by_unit.entry(unit).or_default();
        if let Operation::EnterScope { relation, .. } = &record.operation {
            // a restored store gives a number that it has forgotten to another relation: its bag is new
            known.said.remove(relation);
        }
        for (relation, writes) in &record.writes.bags {
            if let Some(value) = writes.unit.get(COUNTER) {
                known.said.insert(*relation, number(value));
            }
        }
        if let Some((_, ok, counted)) =
            known.exited.filter(|(run, ..)| *run == record.run && record.operation.runs_charm())
        {
            let told = record.writes.state.get(COUNTER).cloned().flatten().map(|value| number(&value));
            if !ok || told != counted {
                let run = record.run;
                found.push(format!(
                    "{unit}: run {run} ended (well: {ok}) and counted {counted:?}, recorded {told:?}"
                ));
            }
        }
        if let Some(Some(value)) = record.writes.state.get(COUNTER) {
            let (value, before) = (number(value), known.counted);
            known.counted = value;
            if value != before + 1 {
                found.push(format!("{unit}: record {} counts {value} after {before}", record.sequence));
            }
        }
    }

    fn begin(&mut self, unit: Uuid, memory: &Local) {
        let counted = memory.charm_state.get(COUNTER).map_or(0, |value| number(value));
        let said = memory.relations.iter();
        let said = said.filter_map(|(id, local)| Some((*id, number(local.bag.get(COUNTER)?)))).collect();
        self.by_unit.insert(unit, Unit { counted, said, exited: None });
        // 1. The store is restored. 2. The unit says again what it has published, in bites; the first is taken. 3. Its
        // disk is lost: what it had counted since the copy was made is nowhere any more, but for that bite.
        if self.was_restored {
            self.shown.retain(|key, _| last_id(key) != Some(memory.unit));
        }
    }

    fn copy(&mut self, from: Uuid, to: Uuid) {
        if let Some(unit) = self.by_unit.get(&from).cloned() {
            self.by_unit.insert(to, unit);
        }
    }

    fn restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.shown.clear();
        self.was_restored = true;
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter().filter(|change| place(&change.key).0 == "bag") {
            let Some(stored) = commit.reader.get(&change.key) else { continue };
            let bag: BagDoc = stored.value.parse().expect("documents are what was written");
            if bag.values.contains_key(FAILED_HOOK_KEY) {
                found.push(format!("{} shows what a failed hook wrote", bag.owner));
            }
            if let Some(value) = bag.values.get(COUNTER).filter(|_| bag.owner.contains('/')) {
                let value = number(value);
                let before = self.shown.insert(change.key.clone(), value).unwrap_or(0);
                if value < before {
                    found.push(format!("{}: {value} becomes visible after {before}", bag.owner));
                }
            }
        }
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        for agent in end.agents.iter().filter(|_| end.rests) {
            for (relation, known) in &agent.local.relations {
                let bag = read(end.reader, &end.model.bag(known.uuid, agent.unit));
                let shown = bag.and_then(|bag| bag.values.get(COUNTER).map(|value| number(value)));
                let said = self.by_unit.get(&agent.folder).and_then(|unit| unit.said.get(relation)).copied();
                if shown != said {
                    let name = &agent.name;
                    found
                        .push(format!("{name} said {said:?} in relation {relation}, and {shown:?} is there"));
                }
            }
        }
    }
}
