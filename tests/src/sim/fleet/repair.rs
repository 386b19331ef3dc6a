//! The repairs by operators after folders were lost or copied, and after a restore of the store.

use super::{AgentFleet, Folder};
use crate::sim::disk::FolderLocation;
use crate::sim::fact::Fact;
use crate::sim::identities::MODEL;
use crate::sim::machine::Machine;
use crate::sim::world::TaskId;
use crate::sim::world::tasks::Tasks;
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{Kind, Model, UnitDoc};
use state::terms::names::Uuid;

impl AgentFleet {
    /// Repairs what an operator must repair: recreates folders that no agent serves and folders whose state is
    /// lost (design 6, 11). After a restore it also removes folders of units that the store does not contain,
    /// and creates missing ones. Returns whether there was anything to repair. Without a damaged folder or a
    /// restore, an agent that ended although its unit exists is a violation: operators must not repair what the
    /// product broke.
    pub fn repair(&mut self, tasks: &mut Tasks, reader: &dyn Reader, restored: bool) -> bool {
        let is_stored = |unit: Uuid| read(reader, &Model(MODEL).unit(unit)).is_some();
        let served = |unit: Uuid| {
            self.folders.values().any(|folder| folder.location.unit == unit && folder.task.is_some())
        };
        let lost = |folder: &Folder| {
            folder.agent.borrow().as_ref().is_some_and(|agent| agent.shared.local().state_lost)
        };
        let broken = self.folders.values().filter(|folder| {
            // a copy may be the folder that serves the unit and may lose its state
            let own = folder.location.folder == folder.location.unit;
            is_stored(folder.location.unit)
                && (lost(folder) || (own && folder.has_finished && !served(folder.location.unit)))
        });
        let broken: Vec<Uuid> = broken.map(|folder| folder.location.folder).collect();
        let unknown = self.folders.values().filter(|folder| restored && !is_stored(folder.location.unit));
        let unknown: Vec<Uuid> = unknown.map(|folder| folder.location.folder).collect();
        let absent = read_all::<Uuid>(reader, &Model(MODEL).prefix(Kind::UnitName)).into_iter().filter_map(
            |(_, unit)| {
                let doc = read(reader, &Model(MODEL).unit(unit))
                    .filter(|_| restored && !self.folders.contains_key(&unit))?;
                self.machines.contains_key(&doc.machine).then_some((unit, doc))
            },
        );
        let absent: Vec<(Uuid, UnitDoc)> = absent.collect();
        for (unit, doc) in &absent {
            // the restored store contains the unit again as Dying, and a machine agent creates no folder only
            // to remove it
            self.deploy(tasks, doc.machine, *unit, doc.name.clone());
        }
        for id in &broken {
            let FolderLocation { unit, name, .. } = &self.folders[id].location;
            if !restored && !self.damaged_units.contains(unit) {
                let what =
                    format!("{name}: the agent ended or lost its state although its folder was not damaged");
                self.world.note(Fact::InvariantViolated("converged", what));
            }
            self.lose_folder(tasks, *id);
            self.start(tasks, *id);
        }
        for id in &unknown {
            self.forget(tasks, *id);
        }
        // an agent that saw its machine Dead has ended or only reports that, but the restored store contains
        // the machine again
        let retired = self.machines.values().filter(|(machine, _)| {
            let is_stored = read(reader, &Model(MODEL).machine_life(machine.id)).is_some();
            restored && is_stored && machine.is_retired()
        });
        let retired: Vec<(Machine, TaskId)> = retired.cloned().collect();
        for (machine, task) in &retired {
            tasks.drop_task(*task);
            machine.clear_dead();
            self.start_machine(tasks, machine.clone());
        }
        !broken.is_empty() || !unknown.is_empty() || !absent.is_empty() || !retired.is_empty()
    }

    /// An operator deletes a folder whose unit the store does not contain.
    fn forget(&mut self, tasks: &mut Tasks, id: Uuid) {
        let Some(machine) = self.folders.get(&id).map(|folder| folder.location.machine.clone()) else {
            return;
        };
        self.recall(tasks, id);
        machine.forget(id);
        self.start_machine(tasks, machine);
    }
}
