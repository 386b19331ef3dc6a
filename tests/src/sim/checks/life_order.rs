//! I17: life only moves on, for every uuid, in every transaction.

use crate::sim::checks::{Check, Commit, place};
use state::documents::draft::{Reader, read_all};
use state::documents::keys::{Kind, Model};
use state::terms::life::Life;
use std::collections::BTreeMap;

/// By key: the life last seen; none = removed.
#[derive(Default)]
pub struct Lives(BTreeMap<String, Option<Life>>);

impl Check for Lives {
    fn name(&self) -> &'static str {
        "lives"
    }

    fn restored(&mut self, reader: &dyn Reader, model: Model) {
        let kinds = [Kind::UnitLife, Kind::ApplicationLife, Kind::RelationLife, Kind::MachineLife];
        let lives = kinds.iter().flat_map(|kind| read_all::<Life>(reader, &model.all(*kind)));
        self.0 = lives.map(|(key, life)| (key, Some(life))).collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter() {
            if !place(&change.key).0.ends_with("-life") {
                continue;
            }
            let life = change.value.as_ref();
            let life: Option<Life> = life.map(|text| text.parse().expect("documents are what was written"));
            let before = self.0.insert(change.key.clone(), life);
            let on = match (before, life) {
                (None, _) | (Some(Some(_)), None) => true,
                (Some(Some(before)), Some(life)) => before <= life,
                (Some(None), life) => life.is_none(),
            };
            if !on {
                found.push(format!("{} goes from {before:?} to {life:?}", change.key));
            }
        }
    }
}
