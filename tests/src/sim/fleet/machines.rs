//! The machines of the fleet: boot, power loss and end of each, with the agents on it.

use super::AgentFleet;
use crate::sim::identities::MODEL;
use crate::sim::machine::{Machine, folders};
use crate::sim::world::tasks::Tasks;
use state::documents::prelude::Model;
use state::terms::names::Uuid;

impl AgentFleet {
    /// Boots a machine: a new one, or one that was stopped.
    pub fn boot(&mut self, tasks: &mut Tasks, id: Uuid, instance: u64) {
        let now_ms = self.world.now_ms();
        let machine = match self.machines.get(&id) {
            Some((machine, _)) => {
                machine.reboot(now_ms);
                machine.clone()
            }
            None => Machine::new(id, instance, now_ms),
        };
        self.start_machine(tasks, machine);
    }

    /// Starts the agent of a machine, unless the machine is powered off.
    pub fn start_machine(&mut self, tasks: &mut Tasks, machine: Machine) {
        if machine.is_off() {
            return;
        }
        let id = machine.id;
        if let Some((_, task)) = self.machines.remove(&id) {
            tasks.drop_task(task);
            if self.stopped_agents.contains(&id) {
                self.machines.insert(id, (machine, task));
                return;
            }
        }
        let agent = folders::run_machine_agent(
            self.world.clone(),
            self.network.clone(),
            Model(MODEL),
            machine.clone(),
        );
        let task = tasks.start("machine agents", agent);
        self.machines.insert(id, (machine, task));
    }

    /// Removes a machine with its agent and with all folders and processes on it.
    pub fn terminate_machine(&mut self, tasks: &mut Tasks, id: Uuid) {
        let Some((_, task)) = self.machines.remove(&id) else { return };
        self.world.trace(|| format!("machine {id}: is terminated"));
        tasks.drop_task(task);
        for folder in self.folders_on(id) {
            self.damaged_units.extend(self.folders.get(&folder).map(|folder| folder.location.unit));
            self.recall(tasks, folder);
        }
    }

    fn folders_on(&self, machine: Uuid) -> Vec<Uuid> {
        let here = self.folders.values().filter(|folder| folder.location.machine.id == machine);
        here.map(|folder| folder.location.folder).collect()
    }

    pub fn reboot(&mut self, tasks: &mut Tasks, machine: &Machine) {
        if machine.is_off() {
            return;
        }
        self.world.trace(|| format!("machine {}: reboots", machine.id));
        self.cut_power(tasks, machine);
        machine.reboot(self.world.now_ms());
        self.start_machine(tasks, machine.clone());
    }

    /// Powers a machine off. Everything on it ends until it boots again.
    pub fn cut_power(&mut self, tasks: &mut Tasks, machine: &Machine) {
        machine.switch_off();
        if let Some((_, task)) = self.machines.get(&machine.id) {
            tasks.drop_task(*task);
        }
        for id in self.folders_on(machine.id) {
            self.crash(tasks, id);
            let folder = &self.folders[&id];
            folder.charms.kill_process();
            folder.disk.lose_power();
        }
    }
}
