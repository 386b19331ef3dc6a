//! The counter of a bag increases when the content of the bag changes, and only then (I7).

use super::check::{Check, Commit, kind_of};
use state::documents::draft::{Reader, read_all};
use state::documents::prelude::{BagDoc, Kind, Model, last_id};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct BagCounters(BTreeMap<String, BagDoc>);

impl Check for BagCounters {
    fn name(&self) -> &'static str {
        "bag-counters"
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        self.0 = read_all(reader, &model.prefix(Kind::Bag)).into_iter().collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes_of(Kind::Bag) {
            let Some(stored) = commit.reader.get(&change.key) else {
                self.0.remove(&change.key);
                continue;
            };
            let bag: BagDoc = stored.value.parse().expect("documents are what was written");
            let Some(before) = self.0.insert(change.key.clone(), bag.clone()) else { continue };
            let moved = bag.counter > before.counter;
            if bag.counter < before.counter {
                found.push(format!(
                    "{}: the counter decreased: {} after {}",
                    bag.owner, bag.counter, before.counter
                ));
            }
            // a unit that re-enters a scope is a new member with a new version
            let entered = last_id(&change.key).is_some_and(|owner| {
                let enters = |key: &str| kind_of(key) == Kind::Scope && last_id(key) == Some(owner);
                commit.changes.entries.iter().any(|entry| enters(&entry.key))
            });
            if (bag.values != before.values) != moved && !(moved && entered) {
                let (old, new) = (before.counter, bag.counter);
                found.push(format!(
                    "{}: counter {old} became {new}, which does not match the change of the content",
                    bag.owner
                ));
            }
        }
    }
}
