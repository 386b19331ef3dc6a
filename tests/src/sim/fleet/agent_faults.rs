//! Faults of agents and of folders: copies, losses, corruption, frozen and stopped agents, failing hooks.
//!
//! `faults` injects them at random; an obstructed removal places some of them.

use super::AgentFleet;
use crate::sim::disk::FolderLocation;
use crate::sim::fact::Fact;
use crate::sim::world::tasks::Tasks;
use state::terms::names::Uuid;

impl AgentFleet {
    /// Copies a folder and starts an agent on the copy. False if a copy exists already.
    pub fn copy(&mut self, tasks: &mut Tasks, id: Uuid) -> bool {
        let folder = &self.folders[&id];
        let unit = folder.location.unit;
        if folder.agent.borrow().is_none()
            || self.folders.values().filter(|folder| folder.location.unit == unit).count() > 1
        {
            return false;
        }
        let copy = Uuid(self.world.random_u128());
        let location = FolderLocation { folder: copy, ..folder.location.clone() };
        let (disk, charms) = (folder.disk.copy(copy), folder.charms.copy(copy));
        self.damaged_units.insert(unit);
        self.world.note(Fact::Copied { folder: id, copy });
        self.world
            .trace(|| format!("{}: the folder is copied, and an agent starts on the copy", location.name));
        self.insert(location, disk, charms);
        self.start(tasks, copy);
        true
    }

    /// Stops the agent of this unit or machine until it is released.
    pub fn stop_until_released(&mut self, tasks: &mut Tasks, id: Uuid) {
        self.stopped_agents.insert(id);
        for folder in self.folders_of(id) {
            self.crash(tasks, folder);
        }
        if let Some((_, task)) = self.machines.get(&id) {
            tasks.drop_task(*task);
        }
    }

    pub fn release(&mut self, tasks: &mut Tasks, id: Uuid) {
        self.stopped_agents.remove(&id);
        for folder in self.folders_of(id) {
            self.start(tasks, folder);
        }
        if let Some((machine, _)) = self.machines.get(&id) {
            self.start_machine(tasks, machine.clone());
        }
    }

    /// Makes every hook of this unit fail, or ends that.
    pub fn fail_hooks(&self, unit: Uuid, fail: bool) {
        let own = self.folders.values().filter(|folder| folder.location.unit == unit);
        own.for_each(|folder| folder.charms.fail(fail));
    }

    fn folders_of(&self, unit: Uuid) -> Vec<Uuid> {
        let own = self.folders.values().filter(|folder| folder.location.unit == unit);
        own.map(|folder| folder.location.folder).collect()
    }

    pub fn kill_process(&self, id: Uuid) {
        self.folders[&id].charms.kill_process();
    }

    /// Deletes the folder. Its next agent starts without state.
    pub fn lose_folder(&mut self, tasks: &mut Tasks, id: Uuid) {
        self.crash(tasks, id);
        let Some(folder) = self.folders.get_mut(&id) else { return };
        self.damaged_units.insert(folder.location.unit);
        self.world.trace(|| format!("{}: the folder is lost", folder.location.name));
        folder.charms.delete();
        folder.disk.delete_all();
        folder.has_finished = false;
        folder.location.machine.finish(folder.location.unit, false);
    }

    pub fn corrupt(&mut self, tasks: &mut Tasks, id: Uuid) {
        self.crash(tasks, id);
        let folder = &self.folders[&id];
        self.damaged_units.insert(folder.location.unit);
        self.world.trace(|| format!("{}: a byte of its files is corrupted", folder.location.name));
        folder.charms.kill_process();
        folder.disk.corrupt();
    }

    pub fn freeze(&mut self, tasks: &mut Tasks, id: Uuid, until_ms: u64) {
        if let Some(task) = self.folders[&id].task {
            tasks.freeze(task, until_ms);
            self.world.note(Fact::Frozen { folder: id });
            self.frozen_ms = self.frozen_ms.max(until_ms);
        }
    }
}
