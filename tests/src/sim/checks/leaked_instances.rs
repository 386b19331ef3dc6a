//! F.3: nothing leaks. At rest every instance of the model belongs to a machine of it that is not Dead, but those that
//! the harvest mode leaves to people, and those that no store knows of. One that its user keeps is handed over and not
//! taken away, unless it was made under another nonce.

use crate::sim::checks::foreign_instances::Known;
use crate::sim::checks::{Check, Commit, End, Fact, InstanceEvent, place};
use state::documents::draft::{Reader, read, read_all};
use state::documents::keys::{InstanceDoc, Kind, MachineDoc, Model, last_id};
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct LeakedInstances {
    known: Known,
    /// Instances of the model, by number.
    there: BTreeMap<u64, Uuid>,
    /// Machines whose instances are kept, or were when they went, and the nonces of these.
    kept: BTreeMap<Uuid, Uuid>,
    /// The same in any history.
    was_kept: BTreeMap<Uuid, Uuid>,
    /// Machines by name, the nonces that are recorded for them, and those whose instances people keep.
    names: BTreeMap<String, Uuid>,
    nonces: BTreeMap<Uuid, Uuid>,
    asked: BTreeMap<Uuid, Uuid>,
}

impl LeakedInstances {
    /// Whether this machine's instance is kept.
    fn look(&mut self, reader: &dyn Reader, model: Model, machine: Uuid) {
        let (doc, instance) =
            (read(reader, &model.machine(machine)), read(reader, &model.machine_instance(machine)));
        if let (Some(MachineDoc { kept: true, .. }), Some(InstanceDoc { nonce, .. })) = (doc, instance) {
            self.kept.insert(machine, nonce);
            self.was_kept.insert(machine, nonce);
        }
    }
}

impl Check for LeakedInstances {
    fn name(&self) -> &'static str {
        "leaks"
    }

    fn restored(&mut self, reader: &dyn Reader, model: Model) {
        self.known = Known::of(reader, model);
        self.kept.clear();
        self.asked.clear();
        for (key, _) in read_all::<MachineDoc>(reader, &model.all(Kind::Machine)) {
            last_id(&key).into_iter().for_each(|machine| self.look(reader, model, machine));
        }
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        if let Fact::KeepInstanceAccepted { machine } = fact {
            let known = self.names.get(machine);
            self.asked.extend(known.and_then(|id| Some((*id, *self.nonces.get(id)?))));
        }
        let Fact::Instance { number, model: crate::sim::operator::MODEL, machine, nonce, what } = fact else {
            return;
        };
        let is_kept = |kept: &BTreeMap<Uuid, Uuid>| kept.get(machine) == Some(nonce);
        match what {
            InstanceEvent::Taken if is_kept(&self.kept) || is_kept(&self.asked) => {
                found.push(format!(
                    "instance {number} of machine {machine} is taken away, which its user keeps"
                ));
            }
            // planned just before the store was restored, it is done all the same
            InstanceEvent::HandedOver if !is_kept(&self.was_kept) => {
                found.push(format!(
                    "instance {number} of machine {machine} is left behind, and nobody keeps it"
                ));
            }
            _ => {}
        }
        match what {
            InstanceEvent::WasThere | InstanceEvent::Made => drop(self.there.insert(*number, *machine)),
            InstanceEvent::Taken | InstanceEvent::HandedOver | InstanceEvent::Lost => {
                self.there.remove(number);
            }
            InstanceEvent::Failed(_) => {}
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, _found: &mut Vec<String>) {
        self.known.commit(commit);
        for change in commit.changes.entries.iter() {
            match (place(&change.key), change.value.as_ref()) {
                (("machine-name", name), Some(id)) => {
                    let id = id.parse().expect("documents are what was written");
                    self.names.insert(name.to_owned(), id);
                }
                (("machine-instance", _), Some(doc)) => {
                    let doc: InstanceDoc = doc.parse().expect("documents are what was written");
                    self.nonces.extend(last_id(&change.key).map(|id| (id, doc.nonce)));
                }
                _ => {}
            }
        }
        for change in commit.changes.entries.iter().filter(|change| place(&change.key).0 == "machine") {
            last_id(&change.key)
                .into_iter()
                .for_each(|machine| self.look(commit.reader, commit.model, machine));
        }
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        let destroyed = read(end.reader, &end.model.model_life()).is_none();
        for (number, machine) in &self.there {
            let life = read(end.reader, &end.model.machine_life(*machine));
            let left = match life {
                Some(Life::Alive | Life::Dying) => continue,
                Some(Life::Dead) => false,
                None if self.known.machines.contains(machine) => !self.known.takes_removed() && !destroyed,
                None => !self.known.takes_unknown() || destroyed,
            };
            if !left {
                found.push(format!("instance {number} of machine {machine} is left, whose life is {life:?}"));
            }
        }
    }
}
