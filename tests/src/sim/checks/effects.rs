//! I8, I9, I11 as a charm sees them: what failed hooks wrote never shows; what successful ones wrote counts up by
//! one, in the unit's own state and in what others see, and the last of it arrives.

use super::{Check, Commit, End, Fact, place};
use crate::sim::script::{COUNTER, POISON};
use state::model::draft::read;
use state::model::keys::BagDoc;
use state::names::{RelationNumber, Uuid};
use state::unit::local::Event;
use state::unit::record::{Outcome, Record};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Effects {
    counted: BTreeMap<Uuid, u64>,
    said: BTreeMap<(Uuid, RelationNumber), u64>,
    shown: BTreeMap<String, u64>,
    /// What was counted and said before the newest record of each unit: a refused one never happened.
    before: BTreeMap<Uuid, Before>,
}

struct Before {
    sequence: u64,
    counted: Option<u64>,
    said: BTreeMap<(Uuid, RelationNumber), u64>,
}

fn number(text: &str) -> u64 {
    text.parse().expect("scripts count")
}

impl Effects {
    fn refused(&mut self, unit: Uuid, sequence: u64) {
        let Some(before) = self.before.remove(&unit).filter(|before| before.sequence == sequence) else {
            return;
        };
        match before.counted {
            Some(counted) => self.counted.insert(unit, counted),
            None => self.counted.remove(&unit),
        };
        self.said.retain(|(of, _), _| *of != unit);
        self.said.extend(before.said);
    }

    fn record(&mut self, unit: Uuid, record: &Record) -> Option<String> {
        let said = self.said.iter().filter(|((of, _), _)| *of == unit).map(|(key, value)| (*key, *value));
        let counted = self.counted.get(&unit).copied();
        let before = Before { sequence: record.sequence, counted, said: said.collect() };
        self.before.insert(unit, before);
        if record.outcome != Outcome::Ok {
            return None;
        }
        for (relation, writes) in &record.writes.bags {
            if let Some(value) = writes.unit.get(COUNTER) {
                self.said.insert((unit, *relation), number(value));
            }
        }
        let value = number(record.writes.state.get(COUNTER)?.as_ref()?);
        let before = self.counted.insert(unit, value).unwrap_or(0);
        (value != before + 1)
            .then(|| format!("{unit}: record {} counts {value} after {before}", record.sequence))
    }
}

impl Check for Effects {
    fn name(&self) -> &'static str {
        "effects"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let Fact::Recorded { unit, events } = fact else { return };
        for event in events {
            if let Event::Answered { sequence, refusal: Some(_), .. } = event {
                self.refused(*unit, *sequence);
            }
            if let Event::Finished(record) = event {
                found.extend(self.record(*unit, record));
            }
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in &commit.changes.entries {
            let (("bag", _), Some(value)) = (place(&change.key), &change.value) else { continue };
            let bag: BagDoc = serde_json::from_str(value).expect("documents are what was written");
            if bag.values.contains_key(POISON) {
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
        for (unit, (name, local, _)) in &end.agents {
            for (relation, known) in &local.relations {
                let bag = read(end.reader, &end.model.bag(known.uuid, *unit));
                let shown = bag.and_then(|bag| bag.values.get(COUNTER).map(|value| number(value)));
                let said = self.said.get(&(*unit, *relation)).copied();
                if end.rests && shown != said {
                    found
                        .push(format!("{name} said {said:?} in relation {relation}, and {shown:?} is there"));
                }
            }
        }
    }
}
