//! Agents and folders: the machines with their agents, the folders of the units, and at most one unit agent per
//! folder.
//!
//! The fleet starts agents, restarts them after they end, and applies to them what faults and machine agents
//! request.

use crate::sim::charms::SimCharms;
use crate::sim::checks::running_agent::RunningAgent;
use crate::sim::clock::SimClock;
use crate::sim::disk::{Disk, FolderLocation, SimMemory};
use crate::sim::fact::Fact;
use crate::sim::identities::MODEL;
use crate::sim::machine::{Machine, folders};
use crate::sim::network::{Link, SimNetwork};
use crate::sim::world::{StepResult, TaskId, Tasks, World};
use agent::unit_agent::{self, UnitAgent};
use state::documents::draft::{Reader, read, read_all};
use state::documents::keys::{Kind, Model, UnitDoc};
use state::terms::names::{UnitName, Uuid};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// An agent restarts after `RESTART_MS` plus up to `RESTART_SPREAD_MS`.
const RESTART_MS: u64 = 200;
const RESTART_SPREAD_MS: u64 = 1_000;

type SimUnitAgent = UnitAgent<SimMemory, Link, SimCharms, SimClock>;

/// A folder of a unit and its agent.
pub struct Folder {
    pub location: FolderLocation,
    disk: Disk,
    charms: SimCharms,
    /// The task of its agent. `None`: not running.
    task: Option<TaskId>,
    /// The agent, once its state is loaded.
    agent: Rc<RefCell<Option<Rc<SimUnitAgent>>>>,
    ended: Rc<RefCell<Option<unit_agent::UnitAgentEnd>>>,
    /// Whether the agent has ended permanently: it finished, or the folder is a copy.
    has_finished: bool,
    /// Whether the folder is quarantined: no agent runs in it.
    is_quarantined: bool,
    /// The agent is not started before this time.
    start_ms: u64,
}

/// All machines, folders and agents.
pub struct AgentFleet {
    world: World,
    network: SimNetwork,
    machines: BTreeMap<Uuid, (Machine, TaskId)>,
    folders: BTreeMap<Uuid, Folder>,
    by_task: BTreeMap<TaskId, Uuid>,
    /// Units and machines whose agent stays stopped until it is released.
    stopped_agents: BTreeSet<Uuid>,
    /// Units with a folder that was lost, corrupted or copied: only these may need a repair by an operator.
    damaged_units: BTreeSet<Uuid>,
    /// The latest time until which an agent is frozen.
    pub frozen_ms: u64,
    /// Applications that ever had a unit deployed.
    pub applications: BTreeSet<String>,
    /// Units ever deployed.
    pub units: u64,
}

impl AgentFleet {
    pub fn new(world: World, network: SimNetwork) -> AgentFleet {
        let (machines, folders, by_task, stopped_agents, damaged_units, applications) = Default::default();
        AgentFleet {
            world,
            network,
            machines,
            folders,
            by_task,
            stopped_agents,
            damaged_units,
            frozen_ms: 0,
            applications,
            units: 0,
        }
    }

    pub fn ids(&self) -> Vec<Uuid> {
        self.folders.keys().copied().collect()
    }

    pub fn machines(&self) -> Vec<Machine> {
        self.machines.values().map(|(machine, _)| machine.clone()).collect()
    }

    pub fn folder(&self, id: Uuid) -> Option<&Folder> {
        self.folders.get(&id)
    }

    /// The folder whose agent this task is.
    pub fn folder_of(&self, task: TaskId) -> Option<Uuid> {
        self.by_task.get(&task).copied()
    }

    /// The machine whose agent this task is.
    pub fn machine_of(&self, task: TaskId) -> Option<Machine> {
        self.machines.values().find(|(_, of)| *of == task).map(|(machine, _)| machine.clone())
    }

    fn agents(&self) -> impl Iterator<Item = (&Folder, Rc<SimUnitAgent>)> {
        self.folders.values().filter_map(|folder| Some((folder, folder.agent.borrow().clone()?)))
    }

    /// Whether a unit is in error.
    pub fn has_failed_unit(&self) -> bool {
        !self.failed_units().is_empty()
    }

    /// The units in error.
    pub fn failed_units(&self) -> Vec<UnitName> {
        let failed = self.agents().filter(|(_, agent)| agent.with_local(|local| local.episode().is_some()));
        failed.map(|(folder, _)| folder.location.name.clone()).collect()
    }

    /// The running agents of units that the store contains.
    pub fn running_agents(&self, reader: &dyn Reader) -> Vec<RunningAgent> {
        let is_stored = |folder: &Folder| read(reader, &Model(MODEL).unit(folder.location.unit)).is_some();
        let running =
            self.agents().filter(|(folder, _)| is_stored(folder)).map(|(folder, agent)| RunningAgent {
                unit: folder.location.unit,
                folder: folder.location.folder,
                name: folder.location.name.clone(),
                boot: folder.location.machine.boot(),
                token: folder.location.machine.token_of(folder.location.unit),
                local: agent.with_local(Clone::clone),
                view: agent.with_view(|view| view.cloned()),
                waits: agent.wait_reasons(),
            });
        running.collect()
    }

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

    /// Creates the folder of a unit unless it exists: an operator may have created it before the machine agent.
    pub fn deploy(&mut self, tasks: &mut Tasks, machine: Uuid, unit: Uuid, name: UnitName) {
        if let Some(folder) = self.folders.get_mut(&unit) {
            folder.is_quarantined = false;
            return self.start(tasks, unit);
        }
        let Some((machine, _)) = self.machines.get(&machine) else { return };
        let location = FolderLocation { folder: unit, unit, name, machine: machine.clone() };
        let disk = Disk::new(self.world.clone(), location.clone());
        let charms = SimCharms::new(self.world.clone(), location.clone());
        self.applications.insert(location.name.application.clone());
        self.units += 1;
        self.insert(location, disk, charms);
        self.start(tasks, unit);
    }

    fn insert(&mut self, location: FolderLocation, disk: Disk, charms: SimCharms) {
        let (agent, ended) = Default::default();
        let (folder, has_finished, start_ms) = (location.folder, false, 0);
        let is_quarantined = false;
        let inserted = Folder {
            location,
            disk,
            charms,
            task: None,
            agent,
            ended,
            has_finished,
            is_quarantined,
            start_ms,
        };
        self.folders.insert(folder, inserted);
    }

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

    pub fn quarantine(&mut self, tasks: &mut Tasks, unit: Uuid) {
        self.crash(tasks, unit);
        let Some(folder) = self.folders.get_mut(&unit) else { return };
        self.world.trace(|| format!("{}: the folder is quarantined", folder.location.name));
        folder.charms.kill_process();
        folder.is_quarantined = true;
    }

    pub fn recall(&mut self, tasks: &mut Tasks, unit: Uuid) {
        if let Some(mut folder) = self.folders.remove(&unit) {
            self.stop(tasks, &mut folder);
            folder.charms.kill_process();
        }
    }

    fn stop(&mut self, tasks: &mut Tasks, folder: &mut Folder) -> bool {
        let Some(task) = folder.task.take() else { return false };
        tasks.drop_task(task);
        self.by_task.remove(&task);
        folder.agent.borrow_mut().take();
        true
    }

    /// Crashes the agent.
    pub fn crash(&mut self, tasks: &mut Tasks, id: Uuid) {
        let Some(mut folder) = self.folders.remove(&id) else { return };
        if self.stop(tasks, &mut folder) {
            folder.charms.kill_with_agent();
            folder.start_ms = self.world.now_ms() + RESTART_MS + self.world.below(RESTART_SPREAD_MS);
            self.world.trace(|| format!("{}: the agent crashes", folder.location.name));
            wake_at(&self.world, tasks, folder.start_ms);
        }
        self.folders.insert(id, folder);
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
            folder.agent.borrow().as_ref().is_some_and(|agent| agent.with_local(|local| local.state_lost))
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
        let absent = read_all::<Uuid>(reader, &Model(MODEL).all(Kind::UnitName)).into_iter().filter_map(
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

    /// Starts the agent of a folder that has none.
    pub fn start(&mut self, tasks: &mut Tasks, id: Uuid) {
        let Some(folder) = self.folders.get_mut(&id) else { return };
        let not_yet = folder.start_ms > self.world.now_ms() || folder.location.machine.is_off();
        if folder.task.is_some()
            || folder.has_finished
            || folder.is_quarantined
            || not_yet
            || self.stopped_agents.contains(&folder.location.unit)
        {
            return;
        }
        let (world, machine, unit) =
            (self.world.clone(), folder.location.machine.clone(), folder.location.unit);
        let (disk, charms) = (folder.disk.clone(), folder.charms.clone());
        let link = Link::new(self.network.clone(), Model(MODEL), unit, id);
        let (agent, ended) = (folder.agent.clone(), folder.ended.clone());
        self.world.trace(|| format!("{}: the agent starts", folder.location.name));
        let task = tasks.start("unit agents", async move {
            let end = match disk.open().await {
                Ok((memory, local, view)) => {
                    let clock = SimClock { world, machine };
                    let view = view.filter(|view| view.unit.uuid == unit);
                    let running_agent = Rc::new(UnitAgent::new((memory, link, charms, clock), local, view));
                    *agent.borrow_mut() = Some(running_agent.clone());
                    running_agent.run().await
                }
                Err(failed) => unit_agent::UnitAgentEnd::Disk(failed),
            };
            *ended.borrow_mut() = Some(end);
        });
        folder.task = Some(task);
        self.by_task.insert(task, id);
    }

    /// Handles an agent that ended and restarts the agents that are due.
    pub fn restart_ended(&mut self, tasks: &mut Tasks, stepped: StepResult) {
        let StepResult::Polled { task, done: true } = stepped else { return };
        if let Some(id) = self.by_task.remove(&task) {
            self.ended(tasks, id);
            return;
        }
        let now_ms = self.world.now_ms();
        let due =
            |folder: &&Folder| folder.task.is_none() && !folder.has_finished && folder.start_ms <= now_ms;
        let due: Vec<Uuid> = self.folders.values().filter(due).map(|folder| folder.location.folder).collect();
        due.into_iter().for_each(|id| self.start(tasks, id));
    }

    fn ended(&mut self, tasks: &mut Tasks, id: Uuid) {
        let folder = self.folders.get_mut(&id).expect("the agent ran in this folder");
        folder.task = None;
        folder.agent.borrow_mut().take();
        let end = folder.ended.borrow_mut().take().expect("an agent that ended stored its result");
        self.world.trace(|| format!("{}: the agent ends: {end:?}", folder.location.name));
        if matches!(end, unit_agent::UnitAgentEnd::Finished) && folder.location.folder == folder.location.unit
        {
            folder.location.machine.finish(folder.location.unit, true);
        }
        match end {
            unit_agent::UnitAgentEnd::Finished
            | unit_agent::UnitAgentEnd::Copy(_)
            | unit_agent::UnitAgentEnd::Forked(_) => folder.has_finished = true,
            unit_agent::UnitAgentEnd::Disk(_) | unit_agent::UnitAgentEnd::Reattach(_) => {
                folder.start_ms = self.world.now_ms() + RESTART_MS + self.world.below(RESTART_SPREAD_MS);
                wake_at(&self.world, tasks, folder.start_ms);
            }
        }
    }
}

/// Finishes a task at that time, so that agents that are due are restarted.
fn wake_at(world: &World, tasks: &mut Tasks, at_ms: u64) {
    let world = world.clone();
    tasks.start("time", async move { world.sleep_until(at_ms).await });
}
