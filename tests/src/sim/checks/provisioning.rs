//! A machine whose instance cannot be created reports the reason before the next attempt (F.3).
//!
//! At rest every machine has its instance, recorded with its nonce and address, and no provisioning error is left.
//! Restarts alone neither create nor terminate instances.

use super::check::{Check, Commit, FinalState};
use crate::sim::fact::{Fact, InstanceEvent};
use crate::sim::provider::address;
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{Kind, Model, ProvisioningErrorDoc, last_id};
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Provisioning {
    /// The reason why the last attempt for a machine failed, until it is reported.
    unreported: BTreeMap<Uuid, String>,
    /// Machines with an instance: its nonce and its number.
    instances: BTreeMap<Uuid, (Uuid, u64)>,
    only_restarts: bool,
    /// The last reported provisioning error, by machine.
    errors: BTreeMap<Uuid, ProvisioningErrorDoc>,
}

impl Check for Provisioning {
    fn name(&self) -> &'static str {
        "provisioning"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::OnlyRestarts => self.only_restarts = true,
            // the provisioner died before it reported the reason, or the report was lost
            Fact::ProvisionerStarted => self.unreported.clear(),
            Fact::Instance { machine, nonce, what, number, .. } => {
                if self.only_restarts {
                    found.push(format!("only processes restart, but instance {number}: {what:?}"));
                }
                if let (Some(reason), InstanceEvent::Created | InstanceEvent::Failed(_)) =
                    (self.unreported.remove(machine), what)
                {
                    found.push(format!(
                        "machine {machine}: a new attempt was made before {reason:?} was reported"
                    ));
                }
                match what {
                    InstanceEvent::Existed | InstanceEvent::Created => {
                        self.instances.insert(*machine, (*nonce, *number));
                    }
                    InstanceEvent::Terminated | InstanceEvent::HandedOver | InstanceEvent::Lost => {
                        self.instances.remove(machine);
                    }
                    InstanceEvent::Failed(reason) => drop(self.unreported.insert(*machine, reason.clone())),
                }
            }
            _ => {}
        }
    }

    fn store_restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.errors.clear();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes_of(Kind::ProvisioningError) {
            let machine = last_id(&change.key).expect("the key ends in the id of a machine");
            let error = change.value.as_ref();
            let error = error.map(|text| text.parse::<ProvisioningErrorDoc>().expect("what was written"));
            let before = self.errors.remove(&machine);
            if let Some(now) = &error {
                let again = before
                    .is_some_and(|before| before.failures >= now.failures && before.last_ms != now.last_ms);
                if again && now.failures < 1_000 {
                    found.push(format!(
                        "machine {machine}: failed again, but the failures are not counted: {now:?}"
                    ));
                }
                self.errors.insert(machine, now.clone());
            }
            if self.unreported.get(&machine) == error.map(|error| error.message).as_ref() {
                self.unreported.remove(&machine);
            }
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        for (machine, reason) in &self.unreported {
            if read(end.reader, &end.model.machine(*machine)).is_some() {
                found.push(format!("machine {machine}: the failure was not reported: {reason:?}"));
            }
        }
        for (key, error) in
            read_all::<ProvisioningErrorDoc>(end.reader, &end.model.prefix(Kind::ProvisioningError))
        {
            found.push(format!("{key} remains at the end: {error:?}"));
        }
        for (key, life) in read_all::<Life>(end.reader, &end.model.prefix(Kind::MachineLife)) {
            let machine = last_id(&key).expect("the key ends in the id of a machine");
            let recorded = read(end.reader, &end.model.machine_instance(machine));
            let recorded = recorded.filter(|doc| doc.id.is_some()).map(|doc| doc.nonce);
            let address = self.instances.get(&machine).map(|(_, number)| address(*number));
            let known = read(end.reader, &end.model.machine(machine)).map(|doc| doc.address);
            if life == Life::Alive && address.is_some() && address != known {
                found.push(format!("machine {machine}: its address is {address:?}, recorded is {known:?}"));
            }
            let actual = self.instances.get(&machine).map(|(nonce, _)| *nonce);
            if life == Life::Alive && (actual.is_none() || actual != recorded) {
                found
                    .push(format!("machine {machine}: its instance is {actual:?}, recorded is {recorded:?}"));
            }
        }
    }
}
