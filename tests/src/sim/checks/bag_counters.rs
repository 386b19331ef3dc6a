//! The counter of a bag increases when the content of the bag changes or its unit enters the scope again, and at no other
//! time (I7).

use super::check::{Check, Commit};
use state::documents::draft::{Reader, read_all};
use state::documents::prelude::{BagDoc, KeyParts, Kind, Model};
use state::terms::names::Uuid;
use std::collections::BTreeMap;

/// The relation and the owner of a bag, or the relation and the unit of an entry of a scope.
fn relation_and_owner(key: &str) -> Option<(Uuid, Uuid)> {
    let ids = KeyParts::of(key)?.ids();
    Some((*ids.first()?, *ids.last()?))
}

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
            let has_increased = bag.counter > before.counter;
            if bag.counter < before.counter {
                found.push(format!(
                    "{}: the counter decreased: {} after {}",
                    bag.owner, bag.counter, before.counter
                ));
            }
            // A unit that enters a scope again is a new member with a new version.
            let enters = commit.changes_of(Kind::Scope).any(|scope| {
                let is_entered = commit.reader.get(&scope.key).is_some();
                is_entered && relation_and_owner(&scope.key) == relation_and_owner(&change.key)
            });
            if (bag.values != before.values) != has_increased && !(has_increased && enters) {
                let (old, new) = (before.counter, bag.counter);
                found.push(format!(
                    "{}: counter {old} became {new}, which does not match the change of the content",
                    bag.owner
                ));
            }
        }
    }
}
