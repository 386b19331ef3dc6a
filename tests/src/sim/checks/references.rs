//! A new document refers only to entities that are Alive, and no unit enters a suspended relation (I21).
//!
//! A resync may enter a suspended relation, because it reports that the unit was already in it; the entities must be
//! Alive in this case, too.

use super::check::{Check, Commit, is_life, kind_of, parts};
use crate::sim::fact::Fact;
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{Kind, Model, SuspendedDoc, last_id};
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// Lives at the examined commit, by key of the document; the reader may be at a later revision.
#[derive(Default)]
pub struct References {
    lives: BTreeMap<String, Life>,
    suspended: BTreeSet<Uuid>,
    /// The newest resync, by unit.
    resyncing: BTreeMap<Uuid, u64>,
}

/// Keys of the lives that must be Alive when a document of this kind is created.
fn lives_that_must_be_alive(commit: &Commit<'_>, kind: Kind, ids: &[Uuid]) -> Vec<String> {
    let model = commit.model;
    match (kind, ids) {
        (Kind::Scope, [relation, _, unit]) => {
            let doc = read(commit.reader, &model.relation(*relation));
            let ends = doc.into_iter().flat_map(|doc| doc.ends);
            let ends = ends.map(|end| model.application_life(end.application));
            ends.chain([model.relation_life(*relation), model.unit_life(*unit)])
                .map(|key| key.text().to_owned())
                .collect()
        }
        (Kind::UnitOf | Kind::RelationOf, [application, _]) => {
            vec![model.application_life(*application).text().to_owned()]
        }
        (Kind::UnitOn, [machine, _]) => vec![model.machine_life(*machine).text().to_owned()],
        _ => Vec::new(),
    }
}

impl Check for References {
    fn name(&self) -> &'static str {
        "references"
    }

    fn observe(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        if let Fact::RecordReceived { unit, sequence, is_resync: true, .. } = fact {
            self.resyncing.insert(*unit, *sequence);
        }
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        let kinds = [Kind::UnitLife, Kind::ApplicationLife, Kind::RelationLife, Kind::MachineLife];
        self.lives = kinds.iter().flat_map(|kind| read_all::<Life>(reader, &model.prefix(*kind))).collect();
        let suspended = read_all::<SuspendedDoc>(reader, &model.prefix(Kind::RelationSuspended));
        self.suspended = suspended.iter().filter_map(|(key, _)| last_id(key)).collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter().filter(|change| is_life(&change.key)) {
            match &change.value {
                Some(life) => {
                    let life = life.parse().expect("the store returns what was written");
                    self.lives.insert(change.key.clone(), life);
                }
                None => drop(self.lives.remove(&change.key)),
            }
        }
        for change in commit.changes_of(Kind::RelationSuspended) {
            let relation = last_id(&change.key).expect("the key ends in the id of a relation");
            match change.value {
                Some(_) => drop(self.suspended.insert(relation)),
                None => drop(self.suspended.remove(&relation)),
            }
        }
        for written in commit.changes.entries.iter().filter(|change| change.value.is_some()) {
            let (kind, ids) = (kind_of(&written.key), parts(&written.key).ids());
            let entered = (kind == Kind::Scope).then(|| ids.first().zip(ids.last())).flatten();
            let is_resyncing = |unit: &Uuid| {
                let applied =
                    read(commit.reader, &commit.model.replica(*unit)).map_or(0, |r| r.local.sequence);
                self.resyncing.get(unit).is_some_and(|sequence| *sequence >= applied)
            };
            if entered
                .is_some_and(|(relation, unit)| self.suspended.contains(relation) && !is_resyncing(unit))
            {
                found.push(format!("{} was created while the relation is suspended", written.key));
            }
            for key in lives_that_must_be_alive(commit, kind, &ids) {
                let life = self.lives.get(&key);
                if life != Some(&Life::Alive) {
                    found.push(format!("{} was created while {key} is {life:?}", written.key));
                }
            }
        }
    }
}
