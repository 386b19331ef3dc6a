//! No instance leaks (F.3).
//!
//! At rest every instance of the model belongs to a machine of the model that is not Dead. Exceptions are instances
//! that the harvest mode leaves to the operators and instances that no store ever recorded. An instance that the
//! user keeps is handed over and not terminated, unless it was created under another nonce.

use super::check::{Check, Commit, FinalState, kind_of, parts};
use super::foreign_instances::KnownMachines;
use crate::sim::fact::{Fact, InstanceEvent};
use crate::sim::identities::MODEL;
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{InstanceDoc, Kind, MachineDoc, Model, last_id};
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct LeakedInstances {
    known: KnownMachines,
    /// Instances of the model, by number.
    instances: BTreeMap<u64, Uuid>,
    /// Machines whose instances are kept, or were kept when the machine was removed, with the nonces of the
    /// instances.
    kept: BTreeMap<Uuid, Uuid>,
    /// Like `kept`, for all store generations.
    was_kept: BTreeMap<Uuid, Uuid>,
    /// Machines by name, the nonces recorded for them, and the requests to keep an instance that were accepted.
    names: BTreeMap<String, Uuid>,
    nonces: BTreeMap<Uuid, Uuid>,
    accepted: BTreeMap<Uuid, Uuid>,
}

impl LeakedInstances {
    /// Records whether this machine's instance is kept.
    fn note_kept(&mut self, reader: &dyn Reader, model: Model, machine: Uuid) {
        let (doc, instance) =
            (read(reader, &model.machine(machine)), read(reader, &model.machine_instance(machine)));
        if let (Some(MachineDoc { keep_instance: true, .. }), Some(InstanceDoc { nonce, .. })) =
            (doc, instance)
        {
            self.kept.insert(machine, nonce);
            self.was_kept.insert(machine, nonce);
        }
    }
}

impl Check for LeakedInstances {
    fn name(&self) -> &'static str {
        "leaked-instances"
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        self.known = KnownMachines::of(reader, model);
        self.kept.clear();
        self.accepted.clear();
        for (key, _) in read_all::<MachineDoc>(reader, &model.prefix(Kind::Machine)) {
            last_id(&key).into_iter().for_each(|machine| self.note_kept(reader, model, machine));
        }
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        if let Fact::KeepInstanceAccepted { machine } = fact {
            let known = self.names.get(machine);
            self.accepted.extend(known.and_then(|id| Some((*id, *self.nonces.get(id)?))));
        }
        let Fact::Instance { number, model: MODEL, machine, nonce, what } = fact else {
            return;
        };
        let is_kept = |kept: &BTreeMap<Uuid, Uuid>| kept.get(machine) == Some(nonce);
        match what {
            InstanceEvent::Terminated if is_kept(&self.kept) || is_kept(&self.accepted) => {
                found.push(format!(
                    "instance {number} of machine {machine} is terminated although its user keeps it"
                ));
            }
            // a handover that was planned just before the restore still happens
            InstanceEvent::HandedOver if !is_kept(&self.was_kept) => {
                found.push(format!(
                    "instance {number} of machine {machine} is handed over although its user does not keep it"
                ));
            }
            _ => {}
        }
        match what {
            InstanceEvent::Existed | InstanceEvent::Created => drop(self.instances.insert(*number, *machine)),
            InstanceEvent::Terminated | InstanceEvent::HandedOver | InstanceEvent::Lost => {
                self.instances.remove(number);
            }
            InstanceEvent::Failed(_) => {}
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, _found: &mut Vec<String>) {
        self.known.commit(commit);
        for change in commit.changes.entries.iter() {
            match (kind_of(&change.key), change.value.as_ref()) {
                (Kind::MachineName, Some(id)) => {
                    let id = id.parse().expect("documents are what was written");
                    self.names.insert(parts(&change.key).rest.to_owned(), id);
                }
                (Kind::MachineInstance, Some(doc)) => {
                    let doc: InstanceDoc = doc.parse().expect("documents are what was written");
                    self.nonces.extend(last_id(&change.key).map(|id| (id, doc.nonce)));
                }
                _ => {}
            }
        }
        for change in commit.changes_of(Kind::Machine) {
            last_id(&change.key)
                .into_iter()
                .for_each(|machine| self.note_kept(commit.reader, commit.model, machine));
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        let destroyed = read(end.reader, &end.model.model_life()).is_none();
        for (number, machine) in &self.instances {
            let life = read(end.reader, &end.model.machine_life(*machine));
            let is_allowed = match life {
                Some(Life::Alive | Life::Dying) => continue,
                Some(Life::Dead) => false,
                None if self.known.machines.contains(machine) => !self.known.harvests_removed() && !destroyed,
                None => !self.known.harvests_unknown() || destroyed,
            };
            if !is_allowed {
                found
                    .push(format!("instance {number} leaked: the life of its machine {machine} is {life:?}"));
            }
        }
    }
}
