//! Agents and folders: the machines with their agents, the folders of the units, and at most one unit agent per
//! folder.
//!
//! The fleet starts agents, restarts them after they end, and executes the requests of machine agents. `machines` boots
//! and ends machines, `agent_faults` damages agents and folders, and `repair` contains the repairs by operators.

mod agent_faults;
mod machines;
mod repair;

use crate::sim::charms::SimCharms;
use crate::sim::checks::running_agent::RunningAgent;
use crate::sim::clock::SimClock;
use crate::sim::disk::{Disk, FolderLocation, SimStorage};
use crate::sim::identities::MODEL;
use crate::sim::machine::Machine;
use crate::sim::network::SimNetwork;
use crate::sim::network::units::Link;
use crate::sim::world::tasks::{StepResult, Tasks};
use crate::sim::world::{TaskId, World};
use agent::unit_agent::{self, UnitAgent};
use state::documents::draft::{Reader, read};
use state::documents::prelude::Model;
use state::terms::names::{UnitName, Uuid};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// An agent restarts after `RESTART_MS` plus up to `RESTART_SPREAD_MS`.
const RESTART_MS: u64 = 200;
const RESTART_SPREAD_MS: u64 = 1_000;

type SimUnitAgent = UnitAgent<SimStorage, Link, SimCharms, SimClock>;

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

    /// The units in error that the store contains. Nobody can resolve the failure of a folder's copy whose unit was
    /// removed while the agent of the copy was stopped (seed 1795705519200 of commit 1fc4fb3c).
    pub fn failed_units(&self, reader: &dyn Reader) -> Vec<UnitName> {
        let is_stored = |folder: &Folder| read(reader, &Model(MODEL).unit(folder.location.unit)).is_some();
        let failed = self.agents().filter(|(_, agent)| agent.shared.local().episode().is_some());
        failed
            .filter(|(folder, _)| is_stored(folder))
            .map(|(folder, _)| folder.location.name.clone())
            .collect()
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
                local: agent.shared.local(),
                view: agent.shared.view(),
                waits: agent.shared.wait_causes(),
            });
        running.collect()
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
                Ok((storage, local, view)) => {
                    let clock = SimClock { world, machine };
                    let view = view.filter(|view| view.unit.uuid == unit);
                    let running_agent = Rc::new(UnitAgent::new((storage, link, charms, clock), local, view));
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
            | unit_agent::UnitAgentEnd::Fenced(_)
            | unit_agent::UnitAgentEnd::OlderState(_)
            | unit_agent::UnitAgentEnd::Diverged(_) => folder.has_finished = true,
            unit_agent::UnitAgentEnd::Disk(_) | unit_agent::UnitAgentEnd::AttachAgain(_) => {
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
