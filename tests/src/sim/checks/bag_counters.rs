//! I7: a bag's counter moves by one when its content changes, and only then.

use crate::sim::checks::{Check, Commit, place};
use state::documents::draft::{Reader, read_all};
use state::documents::keys::{BagDoc, Kind, Model, last_id};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct BagCounters(BTreeMap<String, BagDoc>);

impl Check for BagCounters {
    fn name(&self) -> &'static str {
        "versions"
    }

    fn restored(&mut self, reader: &dyn Reader, model: Model) {
        self.0 = read_all(reader, &model.all(Kind::Bag)).into_iter().collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter().filter(|change| place(&change.key).0 == "bag") {
            let Some(stored) = commit.reader.get(&change.key) else {
                self.0.remove(&change.key);
                continue;
            };
            let bag: BagDoc = stored.value.parse().expect("documents are what was written");
            let Some(before) = self.0.insert(change.key.clone(), bag.clone()) else { continue };
            let moved = bag.counter > before.counter;
            if bag.counter < before.counter {
                found.push(format!("{}: version {} after {}", bag.owner, bag.counter, before.counter));
            }
            // who enters a scope again is another member, with a version of its own
            let entered = last_id(&change.key).is_some_and(|owner| {
                let enters = |key: &str| place(key).0 == "scope" && last_id(key) == Some(owner);
                commit.changes.entries.iter().any(|entry| enters(&entry.key))
            });
            if (bag.values != before.values) != moved && !(moved && entered) {
                let (old, new) = (before.counter, bag.counter);
                found.push(format!("{}: versions {old} and {new} and the content says otherwise", bag.owner));
            }
        }
    }
}
