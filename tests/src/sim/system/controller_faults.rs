//! Faults of the controller and of the provider, applied between two polls.

use super::parts::System;
use crate::sim::faults::{ControllerFault, inject};
use crate::sim::identities::MODEL;
use crate::sim::machine::Machine;
use crate::sim::mutants::Mutant;
use crate::sim::store::{Backup, SimStore};
use crate::sim::world::tasks::StepResult;
use controller::store::Store;
use state::documents::prelude::Model;
use state::terms::names::Uuid;

impl System {
    /// Injects a fault at random after a poll.
    pub(super) fn inject_fault(&mut self, stepped: StepResult) {
        let StepResult::Polled { task, done: false } = stepped else { return };
        if task == self.provisioner && self.world.draws_fault(self.world.profile().provisioner_crash) {
            self.world.trace(|| "provisioner: crashes");
            return self.start_provisioner();
        }
        if task == self.janitor && self.world.draws_fault(self.world.profile().janitor_crash) {
            self.world.trace(|| "janitor: crashes");
            return self.start_janitor();
        }
        match inject((&self.world, &self.network), &mut self.tasks, &mut self.fleet, task) {
            Some(ControllerFault::Restarts) => self.restart_controller(),
            Some(ControllerFault::DiskFull(for_ms)) => {
                self.world.trace(|| "controller: the disk is full");
                self.store.fill(self.world.now_ms() + for_ms);
            }
            Some(ControllerFault::Backup) if !self.restored => {
                let store = self.store.map().fork(self.store.store_generation());
                self.backup = Some(Backup { store, archives: self.environment.archive_files() });
            }
            Some(ControllerFault::Restore) => self.restore(),
            Some(ControllerFault::InstanceEnds) => {
                if let Some(machine) = self.random_machine().filter(|machine| self.cloud.end(machine.id)) {
                    self.world.trace(|| format!("machine {}: the instance stops", machine.id));
                    self.fleet.cut_power(&mut self.tasks, &machine);
                }
            }
            Some(ControllerFault::InstanceIsLost) => {
                if let Some(machine) = self.random_machine().filter(|machine| self.cloud.lose(machine.id)) {
                    self.fleet.terminate_machine(&mut self.tasks, machine.id);
                }
            }
            Some(ControllerFault::Backup) | None => {}
        }
    }

    pub(super) fn random_machine(&self) -> Option<Machine> {
        let machines = self.fleet.machines();
        machines.get(self.world.below(machines.len() as u64) as usize).cloned()
    }

    /// Restores the data folder of the controller from its backup, once per run.
    pub(super) fn restore(&mut self) {
        let Some(backup) = self.backup.take().filter(|_| !self.restored) else { return };
        self.restored = true;
        let store_generation = match self.world.profile().has(Mutant::StoreGenerationIsKept) {
            true => backup.store.store_generation(),
            false => Uuid(self.world.random_u128()),
        };
        self.store = SimStore::new(backup.store.fork(store_generation), self.world.clone());
        self.environment.restore_archive_files(backup.archives);
        self.world.trace(|| format!("controller: restored from revision {}", self.store.newest_revision()));
        self.observed_revision = self.store.newest_revision();
        self.cloud.expire_stale_listings();
        if let Some(machine) = self.random_machine().filter(|machine| self.cloud.start_elsewhere(machine.id))
        {
            self.fleet.terminate_machine(&mut self.tasks, machine.id);
            // the other controller's machine starts without a provisioner in progress
            self.start_provisioner();
        }
        let checks = &mut self.checks;
        self.store.map().read_now(|reader| checks.store_restored(reader, Model(MODEL)));
        self.restart_controller();
    }
}
