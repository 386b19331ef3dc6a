//! F.3: a machine whose instance could not be made says why before anything more is tried for it; at rest every
//! machine has its instance, recorded under the nonce it was made with and at its address, and no trouble is left; and
//! restarts of everything make and take away none.

use super::{Check, Commit, End, Fact, InstanceEvent, place};
use crate::sim::provider::address;
use state::documents::draft::{Reader, read, read_all};
use state::documents::keys::{Kind, Model, ProvisioningErrorDoc, last_id};
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Provisioning {
    /// Why the last try for a machine failed, until it is said.
    unsaid: BTreeMap<Uuid, String>,
    /// Machines with an instance: its nonce, and its number.
    there: BTreeMap<Uuid, (Uuid, u64)>,
    only_restarts: bool,
    /// What was said last of each machine's trouble.
    troubles: BTreeMap<Uuid, ProvisioningErrorDoc>,
}

impl Check for Provisioning {
    fn name(&self) -> &'static str {
        "provisioning"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::OnlyRestarts => self.only_restarts = true,
            // it died before it could say it, or nobody heard it
            Fact::ProvisionerStarted => self.unsaid.clear(),
            Fact::Instance { machine, nonce, what, number, .. } => {
                if self.only_restarts {
                    found.push(format!("only processes restart, and instance {number} is {what:?}"));
                }
                if let (Some(reason), InstanceEvent::Made | InstanceEvent::Failed(_)) =
                    (self.unsaid.remove(machine), what)
                {
                    found.push(format!("machine {machine} is tried again, and nobody was told {reason:?}"));
                }
                match what {
                    InstanceEvent::WasThere | InstanceEvent::Made => {
                        self.there.insert(*machine, (*nonce, *number));
                    }
                    InstanceEvent::Taken | InstanceEvent::HandedOver | InstanceEvent::Lost => {
                        self.there.remove(machine);
                    }
                    InstanceEvent::Failed(reason) => drop(self.unsaid.insert(*machine, reason.clone())),
                }
            }
            _ => {}
        }
    }

    fn restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.troubles.clear();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter().filter(|change| place(&change.key).0 == "machine-trouble")
        {
            let machine = last_id(&change.key).expect("it is of a machine");
            let trouble = change.value.as_ref();
            let trouble = trouble.map(|text| text.parse::<ProvisioningErrorDoc>().expect("what was written"));
            let before = self.troubles.remove(&machine);
            if let Some(now) = &trouble {
                let again = before
                    .is_some_and(|before| before.failures >= now.failures && before.last_ms != now.last_ms);
                if again && now.failures < 1_000 {
                    found.push(format!("machine {machine} has failed again, and it is said: {now:?}"));
                }
                self.troubles.insert(machine, now.clone());
            }
            if self.unsaid.get(&machine) == trouble.map(|trouble| trouble.message).as_ref() {
                self.unsaid.remove(&machine);
            }
        }
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        for (machine, reason) in &self.unsaid {
            if read(end.reader, &end.model.machine(*machine)).is_some() {
                found.push(format!("machine {machine} failed, and nobody was told {reason:?}"));
            }
        }
        for (key, error) in read_all::<ProvisioningErrorDoc>(end.reader, &end.model.all(Kind::MachineTrouble))
        {
            found.push(format!("{key} is still there: {error:?}"));
        }
        for (key, life) in read_all::<Life>(end.reader, &end.model.all(Kind::MachineLife)) {
            let machine = last_id(&key).expect("it is of a machine");
            let recorded = read(end.reader, &end.model.machine_instance(machine));
            let recorded = recorded.filter(|doc| doc.id.is_some()).map(|doc| doc.nonce);
            let address = self.there.get(&machine).map(|(_, number)| address(*number));
            let known = read(end.reader, &end.model.machine(machine)).map(|doc| doc.address);
            if life == Life::Alive && address.is_some() && address != known {
                found.push(format!("machine {machine} is at {address:?}, recorded is {known:?}"));
            }
            let there = self.there.get(&machine).map(|(nonce, _)| *nonce);
            if life == Life::Alive && (there.is_none() || there != recorded) {
                found.push(format!("machine {machine} has instance {there:?}, recorded is {recorded:?}"));
            }
        }
    }
}
