//! I9, I11: the controller applies each record of a unit once, in the journal's order, as it was journaled.

use crate::sim::checks::{Check, Commit, Fact, place};
use state::documents::draft::{Reader, read_all};
use state::documents::keys::{Kind, Model, ReplicaDoc, last_id};
use state::terms::names::Uuid;
use state::unit::local::Event;
use state::unit::operation::Operation;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct AppliedOnce {
    applied: BTreeMap<Uuid, u64>,
    /// By unit and sequence: digests that some folder of the unit journaled, and whether it restates.
    journaled: BTreeMap<(Uuid, u64), BTreeSet<String>>,
    restated: BTreeSet<(Uuid, u64)>,
}

impl Check for AppliedOnce {
    fn name(&self) -> &'static str {
        "once"
    }

    fn see(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        let Fact::Recorded { of, events, .. } = fact else { return };
        for event in events.iter() {
            if let Event::Finished(record) = event {
                self.journaled.entry((*of, record.sequence)).or_default().insert(record.digest());
                if record.operation == Operation::Resync {
                    self.restated.insert((*of, record.sequence));
                }
            }
        }
    }

    fn restored(&mut self, reader: &dyn Reader, model: Model) {
        let replicas = read_all::<ReplicaDoc>(reader, &model.all(Kind::Replica));
        let applied = replicas.iter().filter_map(|(key, replica)| Some((last_id(key)?, replica.sequence)));
        self.applied = applied.collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter() {
            let ("replica", unit) = place(&change.key) else { continue };
            let Some(stored) = commit.reader.get(&change.key) else { continue };
            let unit: Uuid = unit.parse().expect("a replica's key ends in a uuid");
            let replica: ReplicaDoc = stored.value.parse().expect("documents are what was written");
            let (sequence, before) = (replica.sequence, self.applied.get(&unit).copied().unwrap_or(0));
            self.applied.insert(unit, sequence);
            // a restatement stands for all that a restored store has lost
            let restated = self.restated.contains(&(unit, sequence)) && sequence > before;
            if sequence != before + 1 && !restated {
                found.push(format!("{unit}: record {sequence} is applied after record {before}"));
            }
            if !self.journaled.get(&(unit, sequence)).is_some_and(|known| known.contains(&replica.digest)) {
                found.push(format!("{unit}: record {sequence} is applied and was not journaled like this"));
            }
        }
    }
}
