//! An instance is not terminated while its machine is Alive or has units (F.3).
//!
//! The exception is an instance that was created under another nonce than the recorded one.

use super::check::{Check, Commit, kind_of, parts};
use crate::sim::fact::{Fact, InstanceEvent};
use state::documents::draft::{Reader, read_all};
use state::documents::prelude::{InstanceDoc, Kind, Model, last_id};
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct InstanceTermination {
    lives: BTreeMap<Uuid, Life>,
    nonces: BTreeMap<Uuid, Uuid>,
    /// Machines and the units assigned to them.
    assigned: BTreeSet<(Uuid, Uuid)>,
    /// Machines that were Dying or Dead before the restore: a provisioner that saw that may still terminate
    /// them.
    ending: BTreeSet<Uuid>,
}

fn assigned(key: &str) -> Option<(Uuid, Uuid)> {
    let [machine, unit] = parts(key).ids()[..] else { return None };
    Some((machine, unit))
}

impl Check for InstanceTermination {
    fn name(&self) -> &'static str {
        "instance-termination"
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        let before = std::mem::take(self);
        let lives = read_all::<Life>(reader, &model.prefix(Kind::MachineLife)).into_iter();
        self.lives = lives.filter_map(|(key, life)| Some((last_id(&key)?, life))).collect();
        let instances = read_all::<InstanceDoc>(reader, &model.prefix(Kind::MachineInstance)).into_iter();
        self.nonces = instances.filter_map(|(key, doc)| Some((last_id(&key)?, doc.nonce))).collect();
        let on = read_all::<()>(reader, &model.prefix(Kind::UnitOn));
        self.assigned = on.iter().filter_map(|(key, ())| assigned(key)).collect();
        let ended = self.lives.keys().filter(|id| before.lives.get(id) != Some(&Life::Alive));
        self.ending = ended.copied().collect();
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let Fact::Instance { machine, nonce, what: InstanceEvent::Terminated, .. } = fact else { return };
        let other = self.nonces.get(machine).is_some_and(|known| known != nonce);
        if other || self.ending.contains(machine) {
            return;
        }
        if self.lives.get(machine) == Some(&Life::Alive) {
            found.push(format!("the instance of machine {machine} is terminated while the machine is Alive"));
        }
        if let Some((_, unit)) = self.assigned.iter().find(|(at, _)| at == machine) {
            found.push(format!(
                "the instance of machine {machine} is terminated while {unit} is assigned to it"
            ));
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, _found: &mut Vec<String>) {
        for change in commit.changes.entries.iter() {
            let (kind, value) = (kind_of(&change.key), change.value.as_ref());
            let Some(id) = last_id(&change.key) else { continue };
            match (kind, value) {
                (Kind::MachineLife, Some(life)) => {
                    self.lives.insert(id, life.parse().expect("documents are what was written"));
                }
                (Kind::MachineLife, None) => drop(self.lives.remove(&id)),
                (Kind::MachineInstance, Some(doc)) => {
                    let doc: InstanceDoc = doc.parse().expect("documents are what was written");
                    self.nonces.insert(id, doc.nonce);
                }
                (Kind::MachineInstance, None) => drop(self.nonces.remove(&id)),
                (Kind::UnitOn, Some(_)) => self.assigned.extend(assigned(&change.key)),
                (Kind::UnitOn, None) => {
                    let removed = assigned(&change.key);
                    self.assigned.retain(|entry| Some(*entry) != removed);
                }
                _ => {}
            }
        }
    }
}
