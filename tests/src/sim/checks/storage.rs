//! A hook finds the storage that its unit has attached, and the content of storage is deleted only after a request to
//! remove it; at rest every storage hook has run, and no unit is still to detach storage (spec/uniter.md A.13).

use super::check::{Check, Commit, FinalState};
use crate::sim::fact::{Fact, InstanceEvent};
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{KeyParts, Kind, Model, StorageDoc};
use state::terms::life::Life;
use state::terms::names::Uuid;
use state::terms::storage::StorageId;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct Storage {
    all: BTreeMap<StorageId, StorageDoc>,
    /// The instances whose document was removed: their content may be deleted.
    removed: BTreeSet<Uuid>,
    /// Whether documents may show what a machine does not have: a backup is older, and a lost instance takes its disk.
    is_outdated: bool,
}

fn id_of(key: &str) -> StorageId {
    KeyParts::of(key).and_then(|parts| parts.rest.parse().ok()).expect("keys are what was written")
}

impl Check for Storage {
    fn name(&self) -> &'static str {
        "storage"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::HookFoundStorage { unit, run, id, instance } if !self.is_outdated => {
                let Some(doc) = self.all.get(id) else { return };
                let is_attached = doc
                    .attachment
                    .as_ref()
                    .is_some_and(|attachment| attachment.unit == *unit && attachment.attached);
                if is_attached && *instance != Some(doc.uuid) {
                    found.push(format!("{unit}: run {run} does not find {id}, which the unit has attached"));
                }
            }
            Fact::StorageDeleted { id, instance } if !self.is_outdated => {
                let doc = self.all.get(id).filter(|doc| doc.uuid == *instance);
                let is_removed = doc.is_none() && self.removed.contains(instance)
                    || doc.is_some_and(|doc| doc.life != Life::Alive && doc.attachment.is_none());
                if !is_removed {
                    found.push(format!("the content of {id} is deleted, and it is not removed: {doc:?}"));
                }
            }
            Fact::Instance { what: InstanceEvent::Lost, .. } => self.is_outdated = true,
            _ => {}
        }
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        self.is_outdated = true;
        let all = read_all::<StorageDoc>(reader, &model.prefix(Kind::Storage)).into_iter();
        self.all = all.map(|(key, doc)| (id_of(&key), doc)).collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, _: &mut Vec<String>) {
        for change in commit.changes_of(Kind::Storage) {
            let id = id_of(&change.key);
            match read(commit.reader, &commit.model.storage(&id)) {
                Some(doc) => drop(self.all.insert(id, doc)),
                None => self.removed.extend(self.all.remove(&id).map(|doc| doc.uuid)),
            }
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        let is_alive = |unit: Uuid| read(end.reader, &end.model.unit_life(unit)) == Some(Life::Alive);
        for agent in end.agents.iter().filter(|agent| end.is_at_rest && is_alive(agent.unit)) {
            let ids = read(end.reader, &end.model.unit_storage(agent.unit)).unwrap_or_default();
            let doc = |id: StorageId| Some((id.clone(), read(end.reader, &end.model.storage(&id))?));
            let shown: BTreeMap<_, _> = ids.into_iter().filter_map(doc).collect();
            let detaching = shown.iter().filter(|(_, doc)| doc.is_detaching());
            found.extend(detaching.map(|(id, _)| format!("{}: is still to detach {id}", agent.name)));
            let attached = shown.iter().filter(|(_, doc)| !doc.is_detaching());
            let attached: BTreeMap<_, _> = attached.map(|(id, doc)| (id.clone(), doc.uuid)).collect();
            let known = agent.local.storage.iter().map(|(id, known)| (id.clone(), known.instance));
            let known: BTreeMap<_, _> = known.collect();
            if known != attached {
                found.push(format!("{}: has attached {known:?}, is to have {attached:?}", agent.name));
            }
        }
    }
}
