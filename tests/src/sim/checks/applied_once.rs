//! The controller applies each record of a unit exactly once, in the order of the journal and as it was journaled
//! (I9, I11).

use super::check::{Check, Commit};
use crate::sim::fact::Fact;
use state::documents::draft::{Reader, read_all};
use state::documents::prelude::{Kind, Model, ReplicaDoc, last_id};
use state::terms::names::Uuid;
use state::terms::operation::Operation;
use state::unit::local::Event;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct AppliedOnce {
    applied: BTreeMap<Uuid, u64>,
    /// Digests of the records that some folder of the unit journaled, by unit and sequence.
    journaled: BTreeMap<(Uuid, u64), BTreeSet<String>>,
    /// Records that are a resync, by unit and sequence.
    resynced: BTreeSet<(Uuid, u64)>,
}

impl Check for AppliedOnce {
    fn name(&self) -> &'static str {
        "applied-once"
    }

    fn observe(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        let Fact::EventsPersisted { unit, events, .. } = fact else { return };
        for event in events.iter() {
            if let Event::Finished(record) = event {
                self.journaled.entry((*unit, record.sequence)).or_default().insert(record.digest());
                if record.operation == Operation::Resync {
                    self.resynced.insert((*unit, record.sequence));
                }
            }
        }
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        let replicas = read_all::<ReplicaDoc>(reader, &model.prefix(Kind::Replica));
        let applied =
            replicas.iter().filter_map(|(key, replica)| Some((last_id(key)?, replica.local.sequence)));
        self.applied = applied.collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes_of(Kind::Replica) {
            let Some(stored) = commit.reader.get(&change.key) else { continue };
            let unit = last_id(&change.key).expect("a replica's key ends in a uuid");
            let replica: ReplicaDoc = stored.value.parse().expect("documents are what was written");
            let local = &replica.local;
            let (sequence, before) = (local.sequence, self.applied.get(&unit).copied().unwrap_or(0));
            self.applied.insert(unit, sequence);
            // a resync replaces all records that a restored store lacks
            let is_resync = self.resynced.contains(&(unit, sequence)) && sequence > before;
            if sequence != before + 1 && !is_resync {
                found.push(format!("{unit}: record {sequence} is applied directly after record {before}"));
            }
            if !self.journaled.get(&(unit, sequence)).is_some_and(|known| known.contains(&local.digest)) {
                found.push(format!(
                    "{unit}: record {sequence} is applied with a content that was not journaled"
                ));
            }
        }
    }
}
