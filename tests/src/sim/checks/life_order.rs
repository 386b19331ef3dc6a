//! Life only advances, for every uuid and in every transaction (I17).

use super::check::{Check, Commit, is_life};
use state::documents::draft::{Reader, read_all};
use state::documents::prelude::{Kind, Model};
use state::terms::life::Life;
use std::collections::BTreeMap;

/// The last observed life, by key of the document. `None`: the document was deleted.
#[derive(Default)]
pub struct LifeOrder(BTreeMap<String, Option<Life>>);

impl Check for LifeOrder {
    fn name(&self) -> &'static str {
        "life-order"
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        let kinds = [Kind::UnitLife, Kind::ApplicationLife, Kind::RelationLife, Kind::MachineLife];
        let lives = kinds.iter().flat_map(|kind| read_all::<Life>(reader, &model.prefix(*kind)));
        self.0 = lives.map(|(key, life)| (key, Some(life))).collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter() {
            if !is_life(&change.key) {
                continue;
            }
            let life = change.value.as_ref();
            let life: Option<Life> = life.map(|text| text.parse().expect("documents are what was written"));
            let before = self.0.insert(change.key.clone(), life);
            let advances = match (before, life) {
                (None, _) | (Some(Some(_)), None) => true,
                (Some(Some(before)), Some(life)) => before <= life,
                (Some(None), life) => life.is_none(),
            };
            if !advances {
                found.push(format!("{} changed from {before:?} to {life:?}", change.key));
            }
        }
    }
}
