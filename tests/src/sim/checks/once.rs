//! I9, I11: the controller applies each record of a unit once, in the journal's order, as it was journaled.

use super::{Check, Commit, Fact, place};
use state::model::keys::ReplicaDoc;
use state::names::Uuid;
use state::unit::local::Event;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Once {
    applied: BTreeMap<Uuid, u64>,
    journaled: BTreeMap<(Uuid, u64), String>,
}

impl Check for Once {
    fn name(&self) -> &'static str {
        "once"
    }

    fn see(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        let Fact::Recorded { unit, events } = fact else { return };
        for event in events {
            if let Event::Finished(record) = event {
                self.journaled.insert((*unit, record.sequence), record.digest());
            }
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in &commit.changes.entries {
            let (("replica", unit), Some(value)) = (place(&change.key), &change.value) else { continue };
            let unit: Uuid = unit.parse().expect("a replica's key ends in a uuid");
            let replica: ReplicaDoc = serde_json::from_str(value).expect("documents are what was written");
            let before = self.applied.insert(unit, replica.sequence).unwrap_or(0);
            if replica.sequence != before + 1 {
                found.push(format!("{unit}: record {} is applied after record {before}", replica.sequence));
            }
            if self.journaled.get(&(unit, replica.sequence)) != Some(&replica.digest) {
                found.push(format!(
                    "{unit}: record {} is applied and was not journaled like this",
                    replica.sequence
                ));
            }
        }
    }
}
