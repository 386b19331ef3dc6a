//! One run of a whole system from one seed: chaos, then calm, then restarts with nothing changed.

use crate::sim::charms::SimCharms;
use crate::sim::checks::{Checks, Commit, End, Fact, Violation};
use crate::sim::clock::SimClock;
use crate::sim::disk::{Disk, SimMemory};
use crate::sim::machine::{self, Machine};
use crate::sim::mix::Mix;
use crate::sim::mutants::Mutant;
use crate::sim::network::{Link, SimController, Wire};
use crate::sim::store::{SimOutside, SimStore};
use crate::sim::user::{MODEL, User};
use crate::sim::world::{Command, Stepped, TaskId, Tasks, World, finish};
use agent::uniter::{self, Uniter};
use controller::Controller;
use controller::store::map::Map;
use controller::store::{Change, Changes, Position, Store};
use state::model::draft::{Reader, Stored};
use state::model::keys::Model;
use state::model::model;
use state::names::{UnitName, Uuid};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Chaos lasts as long as its users act, and at most this long.
const CHAOS_MS: u64 = 200_000;
/// An hour without the controller.
const OUTAGE_MS: u64 = 3_600_000;
/// Without a change for so long, and with nothing to resolve, the system rests: longer than a leader's term (60 s),
/// a silent watch (15 s) and the longest pause of a loop (5 s) one after the other.
const QUIET_MS: u64 = 85_000;
/// Rounds of "wait until quiet, resolve what failed" that suffice.
const ROUNDS_MAX: u64 = 40;
/// Polls of one run: some hundred times what a large one takes.
const POLLS_MAX: u64 = 3_000_000;

type Agent = Uniter<SimMemory, Link, SimCharms, SimClock>;

struct Unit {
    name: UnitName,
    machine: Uuid,
    disk: Disk,
    charms: SimCharms,
    /// Its agent's task; none = not running.
    task: Option<TaskId>,
    /// The agent itself, once its memory is read.
    agent: Rc<RefCell<Option<Rc<Agent>>>>,
    ended: Rc<RefCell<Option<uniter::End>>>,
    finished: bool,
    /// Not started again before.
    start_ms: u64,
}

/// How a run went.
#[derive(Clone, Debug)]
pub struct Report {
    pub seed: u64,
    pub violations: Vec<Violation>,
    pub story: Vec<String>,
    pub hooks: u64,
    pub commits: u64,
    pub faults: u64,
    pub polls: u64,
    pub units: usize,
}

/// The documents as of the last commit seen.
#[derive(Default)]
struct Mirror {
    revision: u64,
    by_key: BTreeMap<String, Stored>,
}

impl Mirror {
    fn take(&mut self, changes: &Changes) {
        self.revision = changes.revision;
        for Change { key, value } in &changes.entries {
            match value {
                Some(value) => {
                    let stored =
                        Stored { key: key.clone(), revision: changes.revision, value: value.clone() };
                    self.by_key.insert(key.clone(), stored);
                }
                None => drop(self.by_key.remove(key)),
            }
        }
    }
}

impl Reader for Mirror {
    fn revision(&self) -> u64 {
        self.revision
    }
    fn get(&self, key: &str) -> Option<Stored> {
        self.by_key.get(key).cloned()
    }
    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<Stored> {
        let from = prefix.max(after).to_owned();
        let below = self.by_key.range(from..).take_while(|(key, _)| key.starts_with(prefix));
        below.filter(|(key, _)| key.as_str() > after).take(limit).map(|(_, stored)| stored.clone()).collect()
    }
}

/// The system.
struct System {
    world: World,
    tasks: Tasks,
    store: SimStore,
    outside: SimOutside,
    wire: Wire,
    machines: BTreeMap<Uuid, (Machine, TaskId)>,
    units: BTreeMap<Uuid, Unit>,
    checks: Checks,
    seen: u64,
    changed_ms: u64,
    hooks: u64,
    /// Agents that ended and were not finished: why.
    ended: Vec<String>,
    mirror: Mirror,
}

/// Runs one seed.
pub fn run(seed: u64, mutant: Option<Mutant>, tell: bool) -> Report {
    let world = World::new(seed, Mix::of(seed, mutant), tell);
    let mut system = System::new(world.clone());
    system.live(mutant);
    let report = Report {
        seed,
        violations: std::mem::take(&mut system.checks.violations),
        story: world.story(),
        hooks: system.hooks,
        commits: system.store.newest(),
        faults: world.faults(),
        polls: system.tasks.polls,
        units: system.units.len(),
    };
    drop(system);
    report
}

fn controller(store: &SimStore, outside: &SimOutside) -> Arc<SimController> {
    Controller::new(store.clone(), outside.clone(), Uuid(7))
}

impl System {
    fn new(world: World) -> System {
        let store = SimStore::new(Map::keeping(Uuid(0xbeef), world.mix().changes_kept), world.clone());
        let outside = SimOutside::new(world.clone());
        let wire = Wire::new(world.clone(), controller(&store, &outside));
        System {
            tasks: Tasks::new(world.clone()),
            store,
            outside,
            wire,
            machines: BTreeMap::new(),
            units: BTreeMap::new(),
            checks: Checks::default(),
            seen: 0,
            changed_ms: world.now_ms(),
            hooks: 0,
            ended: Vec::new(),
            mirror: Mirror::default(),
            world,
        }
    }

    fn user(&self) -> User {
        User { world: self.world.clone(), wire: self.wire.clone(), model: MODEL.to_string() }
    }

    fn live(&mut self, mutant: Option<Mutant>) {
        let target = mutant.map(Mutant::target);
        let over = |system: &System| {
            let hit = |violation: &Violation| target.is_none_or(|target| violation.check == target);
            system.checks.violations.iter().any(hit)
        };
        let created = finish(self.store.run(|draft| model::create(draft, MODEL, "dev", 0)));
        created.map(drop).expect("the first model can be made");
        self.begin();
        if over(self) || !self.chaos(&over) || !self.calm(&over) {
            return;
        }
        self.settle();
        if !over(self) {
            self.restart_everything(&over);
        }
    }

    fn begin(&mut self) {
        let (world, wire) = (self.world.clone(), self.wire.clone());
        self.tasks.start(machine::provide(world, wire, Model(MODEL)));
        let (world, controller) = (self.world.clone(), self.wire.clone());
        self.tasks.start(async move {
            loop {
                let admin = controller.session(machine::admin());
                controller::janitor::sweep(&admin.controller).await.ok();
                world.sleep(controller::janitor::SWEEP_EVERY_MS).await;
            }
        });
    }

    /// False: a violation ended the run.
    fn chaos(&mut self, over: &impl Fn(&System) -> bool) -> bool {
        self.world.set_calm(false);
        let (first, second) = (self.user(), self.user());
        let mut acting = vec![
            self.tasks.start(async move {
                first.found().await;
                first.act().await;
            }),
            self.tasks.start(async move {
                second.world.sleep(5_000).await;
                second.act().await;
            }),
        ];
        let until_ms = self.world.now_ms() + CHAOS_MS;
        let outage_ms = self.world.now_ms() + 10_000 + self.world.below(10_000);
        let mut outage = self.world.mix().outage;
        while !acting.is_empty() && self.world.now_ms() < until_ms {
            if outage && self.world.now_ms() >= outage_ms {
                outage = false;
                self.world.tell(|| "network: an hour without the controller");
                self.wire.cut_everybody_off(self.world.now_ms() + OUTAGE_MS);
                self.pass(self.world.now_ms() + OUTAGE_MS, over);
            }
            let stepped = self.step(until_ms);
            if let Stepped::Polled { task, done: true } = stepped {
                acting.retain(|acting| *acting != task);
            }
            if over(self) || self.tasks.polls > POLLS_MAX {
                return !over(self);
            }
            self.strike(stepped);
        }
        acting.into_iter().for_each(|task| self.tasks.drop_task(task));
        true
    }

    /// Time passes, faults among it.
    fn pass(&mut self, until_ms: u64, over: &impl Fn(&System) -> bool) {
        loop {
            let stepped = self.step(until_ms);
            if stepped == Stepped::Quiet || over(self) || self.tasks.polls > POLLS_MAX {
                return;
            }
            if !self.world.is_calm() {
                self.strike(stepped);
            }
        }
    }

    /// Perhaps a fault, after a poll.
    fn strike(&mut self, stepped: Stepped) {
        let Stepped::Polled { task, done: false } = stepped else { return };
        let mix = self.world.mix().clone();
        let unit = self.units.iter().find(|(_, unit)| unit.task == Some(task)).map(|(id, _)| *id);
        if let Some(unit) = unit {
            if self.world.strikes(mix.agent_crash) {
                self.crash(unit);
            } else if self.world.strikes(mix.partition) {
                let until_ms = self.world.now_ms() + self.world.below(40_000);
                self.world
                    .tell(|| format!("network: {} is cut off until {until_ms}", self.units[&unit].name));
                self.wire.cut_off(unit, until_ms);
            }
        } else if self.tasks.is_message(task) && self.world.strikes(mix.message_crash) {
            self.world.tell(|| "controller: a request is dropped half way");
            self.tasks.drop_task(task);
        }
        if mix.controller_crash > 0 && self.world.below(3) == 0 && self.world.strikes(mix.controller_crash) {
            self.restart_controller();
        }
        // about once in ten thousand polls, where reboots happen at all
        if mix.reboot > 0 && self.world.below(1_000) == 0 && self.world.strikes(mix.reboot) {
            self.reboot();
        }
    }

    fn crash(&mut self, id: Uuid) {
        let unit = self.units.get_mut(&id).expect("a known unit");
        let Some(task) = unit.task.take() else { return };
        self.tasks.drop_task(task);
        unit.agent.borrow_mut().take();
        unit.charms.kill_with_agent();
        unit.start_ms = self.world.now_ms() + 200 + self.world.below(1_000);
        let start_ms = unit.start_ms;
        self.world.tell(|| format!("{}: its agent dies", unit.name));
        self.wake_at(start_ms);
    }

    fn wake_at(&mut self, at_ms: u64) {
        let world = self.world.clone();
        self.tasks.start(async move { world.sleep_until(at_ms).await });
    }

    /// Waits until nothing changes any more, resolving what failed. False: a violation ended the run.
    fn calm(&mut self, over: &impl Fn(&System) -> bool) -> bool {
        self.world.tell(|| "calm: no more faults");
        self.world.set_calm(true);
        self.wire.heal();
        for _ in 0..ROUNDS_MAX {
            let user = self.user();
            self.tasks.start(async move {
                user.quieten().await;
                user.resolve().await;
            });
            if !self.rest(over) {
                return !over(self) && self.tasks.polls > POLLS_MAX;
            }
            if !self.errs() {
                break;
            }
        }
        true
    }

    /// True once nothing has changed for [`QUIET_MS`].
    fn rest(&mut self, over: &impl Fn(&System) -> bool) -> bool {
        self.changed_ms = self.world.now_ms();
        loop {
            let until_ms = self.changed_ms + QUIET_MS;
            let stepped = self.step(until_ms);
            if over(self) || self.tasks.polls > POLLS_MAX {
                return false;
            }
            if stepped == Stepped::Quiet && self.world.now_ms() >= self.changed_ms + QUIET_MS {
                return true;
            }
        }
    }

    fn agents(&self) -> impl Iterator<Item = (&Uuid, &Unit, Rc<Agent>)> {
        self.units.iter().filter_map(|(id, unit)| Some((id, unit, unit.agent.borrow().clone()?)))
    }

    /// Somebody rests in an error.
    fn errs(&self) -> bool {
        self.agents().any(|(_, _, agent)| agent.with_local(|local| local.episode().is_some()))
    }

    fn settle(&mut self) {
        let agents = self.agents().map(|(id, unit, agent)| {
            let local = agent.with_local(Clone::clone);
            (*id, (unit.name.clone(), local, agent.explained()))
        });
        let end = End {
            model: Model(MODEL),
            reader: &self.mirror,
            agents: agents.collect(),
            ended: std::mem::take(&mut self.ended),
            rests: self.tasks.polls <= POLLS_MAX && !self.errs(),
        };
        self.checks.settle(&end);
    }

    /// Every process once more, and nothing else.
    fn restart_everything(&mut self, over: &impl Fn(&System) -> bool) {
        self.world.tell(|| "restarts of everything");
        self.world.note(Fact::OnlyRestarts);
        for _ in 0..2 {
            let units: Vec<Uuid> = self.units.keys().copied().collect();
            units.into_iter().for_each(|unit| self.crash(unit));
            self.restart_controller();
            if !self.rest(over) {
                return;
            }
        }
    }

    fn restart_controller(&mut self) {
        self.world.tell(|| "controller: restarts");
        self.tasks.drop_messages();
        self.wire.restart(controller(&self.store, &self.outside));
        let machines: Vec<Machine> = self.machines.values().map(|(machine, _)| machine.clone()).collect();
        for machine in machines {
            self.start_machine(machine);
        }
    }

    fn reboot(&mut self) {
        let ids: Vec<Uuid> = self.machines.keys().copied().collect();
        let Some(id) = ids.get(self.world.below(ids.len() as u64) as usize) else { return };
        let (machine, _) = &self.machines[id];
        let machine = machine.clone();
        self.world.tell(|| format!("machine {id}: reboots"));
        let units: Vec<Uuid> =
            self.units.iter().filter(|(_, unit)| unit.machine == *id).map(|(id, _)| *id).collect();
        for unit in units {
            self.crash(unit);
            let unit = &self.units[&unit];
            unit.charms.kill_process();
            unit.disk.lose_power();
        }
        machine.reboot(self.world.now_ms());
        self.start_machine(machine);
    }

    fn start_machine(&mut self, machine: Machine) {
        let id = machine.id;
        if let Some((_, task)) = self.machines.remove(&id) {
            self.tasks.drop_task(task);
        }
        let tend = machine::tend(self.world.clone(), self.wire.clone(), Model(MODEL), machine.clone());
        let task = self.tasks.start(tend);
        self.machines.insert(id, (machine, task));
    }

    /// One poll, or a jump in time, and what follows from it.
    fn step(&mut self, until_ms: u64) -> Stepped {
        let stepped = self.tasks.step(until_ms);
        for command in self.world.commands() {
            self.obey(command);
        }
        self.look_after_agents(stepped);
        for fact in self.world.facts() {
            self.see(fact);
        }
        self.see_commits();
        stepped
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::StartMachine(id) => {
                let machine = Machine::new(id, self.world.now_ms());
                self.start_machine(machine);
            }
            Command::Deploy { machine, unit, name } => {
                let (at, _) = &self.machines[&machine];
                let charms = SimCharms::new(self.world.clone(), unit, name.clone(), at.clone());
                let disk = Disk::new(self.world.clone(), unit, name.clone());
                let unit_here = Unit {
                    name,
                    machine,
                    disk,
                    charms,
                    task: None,
                    agent: Rc::default(),
                    ended: Rc::default(),
                    finished: false,
                    start_ms: 0,
                };
                self.units.insert(unit, unit_here);
                self.start(unit);
            }
            Command::Keep(unit) => self.start(unit),
            Command::Recall(unit) => {
                if let Some(recalled) = self.units.remove(&unit) {
                    recalled.task.into_iter().for_each(|task| self.tasks.drop_task(task));
                    recalled.charms.kill_process();
                }
            }
        }
    }

    /// Starts the agent of a unit that has none.
    fn start(&mut self, id: Uuid) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        if unit.task.is_some() || unit.finished || unit.start_ms > self.world.now_ms() {
            return;
        }
        let (machine, _) = &self.machines[&unit.machine];
        let (world, machine) = (self.world.clone(), machine.clone());
        let (disk, charms) = (unit.disk.clone(), unit.charms.clone());
        let link = Link::new(self.wire.clone(), Model(MODEL), id);
        let (agent, ended) = (unit.agent.clone(), unit.ended.clone());
        self.world.tell(|| format!("{}: its agent starts", unit.name));
        unit.task = Some(self.tasks.start(async move {
            let end = match disk.open().await {
                Ok((memory, local, view)) => {
                    let clock = SimClock { world, machine };
                    let view = view.filter(|view| view.unit.uuid == id);
                    let uniter = Rc::new(Uniter::new((memory, link, charms, clock), local, view));
                    *agent.borrow_mut() = Some(uniter.clone());
                    uniter.run().await
                }
                Err(failed) => uniter::End::Disk(failed),
            };
            *ended.borrow_mut() = Some(end);
        }));
    }

    /// Ended agents, and those that are due again.
    fn look_after_agents(&mut self, stepped: Stepped) {
        if let Stepped::Polled { task, done: true } = stepped {
            let id = self.units.iter().find(|(_, unit)| unit.task == Some(task)).map(|(id, _)| *id);
            if let Some(id) = id {
                self.ended(id);
            } else {
                let now_ms = self.world.now_ms();
                let due = |unit: &Unit| unit.task.is_none() && !unit.finished && unit.start_ms <= now_ms;
                let due: Vec<Uuid> =
                    self.units.iter().filter(|(_, unit)| due(unit)).map(|(id, _)| *id).collect();
                due.into_iter().for_each(|id| self.start(id));
            }
        }
    }

    fn ended(&mut self, id: Uuid) {
        let unit = self.units.get_mut(&id).expect("a known unit");
        unit.task = None;
        unit.agent.borrow_mut().take();
        let end = unit.ended.borrow_mut().take();
        let end = end.expect("an agent that ended says how");
        self.world.tell(|| format!("{}: its agent ends: {end:?}", unit.name));
        match end {
            uniter::End::Finished => unit.finished = true,
            uniter::End::Disk(_) | uniter::End::Reattach(_) => {
                unit.start_ms = self.world.now_ms() + 200;
                self.wake_at(self.units[&id].start_ms);
            }
            uniter::End::Copy(why) | uniter::End::Forked(why) => {
                unit.finished = true;
                self.ended.push(format!("the agent of {} has ended: {why}", unit.name));
            }
        }
    }

    fn see(&mut self, fact: Fact) {
        match &fact {
            Fact::HookBegan { .. } => self.hooks += 1,
            Fact::Recorded { unit, events } => {
                self.changed_ms = self.world.now_ms();
                let name = self.units.get(unit).map_or(String::new(), |unit| unit.name.to_string());
                self.world.tell(|| format!("{name}: on disk: {}", told(events)));
            }
            Fact::HookEnded { .. } | Fact::Loaded { .. } | Fact::OnlyRestarts | Fact::Broken(..) => {}
        }
        self.checks.see(&fact);
    }

    fn see_commits(&mut self) {
        let newest = self.store.newest();
        if newest == self.seen {
            return;
        }
        self.changed_ms = self.world.now_ms();
        let after = Position { history: self.store.history(), revision: self.seen };
        let changes =
            finish(self.store.changes_after(after, usize::MAX)).expect("one poll makes few commits");
        for changes in &changes {
            self.mirror.take(changes);
            self.world.tell(|| {
                let keys: Vec<&str> = changes.entries.iter().map(|entry| kind(&entry.key)).collect();
                format!("store: revision {}: {}", changes.revision, keys.join(" "))
            });
            let whole = self.world.mix().every_commit || changes.revision.is_multiple_of(16);
            self.checks.commit(&Commit { model: Model(MODEL), changes, reader: &self.mirror, whole });
        }
        self.seen = newest;
    }
}

/// What a journal's events say, for the story.
fn told(events: &[state::unit::local::Event]) -> String {
    use state::unit::local::Event;
    let line = |event: &Event| match event {
        Event::Began(run) => {
            format!("began {} (run {}, attempt {}: {})", run.operation, run.number, run.attempt, run.cause)
        }
        Event::Finished(record) => {
            format!("record {}: {} {:?}", record.sequence, record.operation, record.outcome)
        }
        Event::Answered { sequence, refusal, .. } => {
            format!("record {sequence} answered, refusal {refusal:?}")
        }
        Event::Attaching { .. } => "attaching".to_owned(),
        Event::Attached { epoch, sequence, .. } => {
            format!("attached, epoch {epoch}, record {sequence} is there")
        }
        Event::Restored { .. } => "restored from the replica".to_owned(),
        Event::Leader(generation) => format!("leader {generation:?}"),
    };
    events.iter().map(line).collect::<Vec<_>>().join("; ")
}

fn kind(key: &str) -> &str {
    key.split('/').nth(1).unwrap_or_default()
}
