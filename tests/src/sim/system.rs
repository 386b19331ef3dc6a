//! One run of a whole system from one seed: chaos, then calm, perhaps being stuck and calm again, then restarts with
//! nothing changed.

mod obstructed;

use crate::sim::checks::{Checks, Commit, End, Fact, Violation};
use crate::sim::faults::{self, strike};
use crate::sim::fleet::AgentFleet;
use crate::sim::machine::{self, Machine};
use crate::sim::mutants::{Mutant, MutantGuard};
use crate::sim::network::{SimController, Wire};
use crate::sim::operator::{HOOKS_MIN, MODEL, User};
use crate::sim::profile::FaultProfile;
use crate::sim::provider::{self, SimCloud};
use crate::sim::store::{SimEnvironment, SimStore};
use crate::sim::world::{
    Command, MEASURED_EVERY, StepResult, TaskId, Tasks, TimeSpent, World, finish, nanoseconds,
};
use controller::Controller;
use controller::store::map::Map;
use controller::store::{Changes, Position, Store};
use state::documents::draft::read;
use state::documents::keys::{Kind, Model};
use state::lifecycle::model;
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::sync::Arc;
use std::time::Instant;

/// Chaos lasts as long as its users act, and at most this long.
const CHAOS_MS: u64 = 200_000;
const MINUTE_MS: u64 = 60_000;
/// Without a change for so long, and with nothing to resolve, the system rests: longer than a leader's term (60 s),
/// a silent watch (15 s) and the longest pause of a loop (5 s) one after the other.
const QUIET_MS: u64 = 85_000;
/// Between two restarts of everything: a few tries of a link.
const BETWEEN_RESTARTS_MS: u64 = 10_000;
/// Rounds of "wait until quiet, resolve what failed" that suffice.
const ROUNDS_MAX: u64 = 40;
/// After so many rounds people remove what still fails, where the store was restored: a unit that had ended before.
const PATIENCE: u64 = 5;
/// Polls of one run: several times what an hour without a controller takes.
const POLLS_MAX: u64 = 2_000_000;
/// A standard schedule has as many applications, units, hooks and faults at least.
const STANDARD: (u64, u64, u64, u64) = (2, 3, HOOKS_MIN, 5);

/// How a run went.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub seed: u64,
    pub violations: Vec<Violation>,
    pub story: Vec<String>,
    pub hooks: u64,
    pub commits: u64,
    pub faults: u64,
    pub polls: u64,
    /// Applications that ever had a unit deployed, and those units.
    pub applications: u64,
    pub units: u64,
    /// How long chaos lasted, in polls.
    pub chaos_polls: u64,
    pub spent: TimeSpent,
}

impl Report {
    pub fn is_standard(&self) -> bool {
        let (applications, units, hooks, faults) = STANDARD;
        let sized = self.applications >= applications && self.units >= units && self.hooks >= hooks;
        sized && self.faults >= faults
    }
}

/// The system.
struct System {
    world: World,
    tasks: Tasks,
    store: SimStore,
    /// An older copy of the store, to be restored from.
    copy: Option<Map>,
    restored: bool,
    outside: SimEnvironment,
    wire: Wire,
    fleet: AgentFleet,
    cloud: SimCloud,
    /// The provisioner.
    provisioner: TaskId,
    /// Of the controller: it dies with it.
    janitor: TaskId,
    checks: Checks,
    seen: u64,
    commits: u64,
    /// Commits since all documents were looked at.
    unchecked: u64,
    changed_ms: u64,
    chaos_polls: u64,
}

/// Runs one seed with its own mix.
pub fn run(seed: u64, mutant: Option<Mutant>, tell: bool) -> Report {
    run_mixed(seed, FaultProfile::of(seed, mutant), tell)
}

/// Runs one seed with a mix of faults given.
pub fn run_mixed(seed: u64, mix: FaultProfile, tell: bool) -> Report {
    let _planting = MutantGuard::of(mix.mutant);
    let target = mix.mutant.map(Mutant::target);
    let world = World::new(seed, mix, tell);
    let mut system = System::new(world.clone());
    system.live(target);
    let report = Report {
        seed,
        violations: std::mem::take(&mut system.checks.violations),
        story: world.story(),
        hooks: world.hooks(),
        commits: system.commits,
        faults: world.faults(),
        polls: system.tasks.polls,
        applications: system.fleet.applications.len() as u64,
        units: system.fleet.units,
        chaos_polls: system.chaos_polls,
        spent: std::mem::take(&mut system.tasks.spent),
    };
    drop(system);
    report
}

fn controller(store: &SimStore, outside: &SimEnvironment) -> Arc<SimController> {
    Controller::new(store.clone(), outside.clone(), Uuid(7))
}

impl System {
    fn new(world: World) -> System {
        let store_generation = Uuid(world.bits());
        let store =
            SimStore::new(Map::with_changes_kept(store_generation, world.mix().changes_kept), world.clone());
        let outside = SimEnvironment::new(world.clone());
        let wire = Wire::new(world.clone(), controller(&store, &outside));
        System {
            tasks: Tasks::new(world.clone()),
            store,
            copy: None,
            restored: false,
            outside,
            fleet: AgentFleet::new(world.clone(), wire.clone()),
            cloud: SimCloud::new(world.clone()),
            provisioner: 0,
            janitor: 0,
            wire,
            checks: Checks::default(),
            seen: 0,
            commits: 0,
            unchecked: 0,
            changed_ms: world.now_ms(),
            chaos_polls: 0,
            world,
        }
    }

    fn user(&self) -> User {
        User { world: self.world.clone(), wire: self.wire.clone(), model: MODEL.to_string() }
    }

    fn live(&mut self, target: Option<&'static str>) {
        let over = |system: &System| {
            let hit = |violation: &Violation| target.is_none_or(|target| violation.check == target);
            system.checks.violations.iter().any(hit)
        };
        let created = finish(self.store.run(|draft| model::create(draft, MODEL, "dev", 0)));
        created.map(drop).expect("the first model can be made");
        self.begin();
        let chaos = over(self) || !self.chaos(&over);
        self.chaos_polls = self.tasks.polls;
        if chaos || !self.calm(&over) {
            return;
        }
        if self.world.mix().stuck > 0 {
            self.get_stuck(&over);
            if over(self) || !self.calm(&over) {
                return;
            }
        }
        self.settle();
        if !over(self) {
            self.restart_everything(&over);
        }
    }

    fn begin(&mut self) {
        self.start_provisioner();
        self.start_janitor();
    }

    /// The one that may run dies, with what it had in mind.
    fn start_janitor(&mut self) {
        self.tasks.drop_task(self.janitor);
        let (world, controller) = (self.world.clone(), self.wire.clone());
        self.janitor = self.tasks.start("janitor", async move {
            let mut janitor = controller::janitor::Janitor::default();
            loop {
                let admin = controller.session(machine::admin());
                if janitor.sweep(&admin.controller).await.is_ok_and(|more| more) {
                    world.pause().await;
                    continue;
                }
                world.sleep(controller::janitor::SWEEP_INTERVAL_MS).await;
            }
        });
    }

    /// The one that may run dies.
    fn start_provisioner(&mut self) {
        self.tasks.drop_task(self.provisioner);
        let (world, wire) = (self.world.clone(), self.wire.clone());
        self.provisioner =
            self.tasks.start("provisioner", provider::run_provisioner(world, wire, self.cloud.clone()));
    }

    /// False: a violation ended the run.
    fn chaos(&mut self, over: &impl Fn(&System) -> bool) -> bool {
        self.world.set_calm(false);
        let (first, second) = (self.user(), self.user());
        let mut acting = vec![
            self.tasks.start("people", async move {
                first.found().await;
                first.act().await;
                first.destroy().await;
            }),
            self.tasks.start("people", async move {
                second.world.sleep(5_000).await;
                second.act().await;
                second.destroy().await;
            }),
        ];
        let until_ms = self.world.now_ms() + CHAOS_MS;
        let outage_ms = self.world.now_ms() + 10_000 + self.world.below(10_000);
        let mut outage = self.world.mix().outage;
        while !acting.is_empty() && self.world.now_ms() < until_ms {
            if outage > 0 && self.world.now_ms() >= outage_ms {
                let until_ms = self.world.now_ms() + outage * MINUTE_MS;
                self.world.tell(|| format!("network: {outage} minutes without the controller"));
                outage = 0;
                self.wire.cut_everybody_off(until_ms);
                self.pass(until_ms, over);
            }
            let stepped = self.step(until_ms);
            if let StepResult::Polled { task, done: true } = stepped {
                acting.retain(|acting| *acting != task);
            }
            if over(self) || self.tasks.polls > POLLS_MAX {
                return !over(self);
            }
            self.strike(stepped);
        }
        acting.into_iter().for_each(|task| self.tasks.drop_task(task));
        self.let_the_frozen_go_on(over);
        !over(self)
    }

    /// Who is frozen for much longer than chaos lasts is so to its end, and goes on among faults; others are thawed.
    fn let_the_frozen_go_on(&mut self, over: &impl Fn(&System) -> bool) {
        let until_ms = self.fleet.frozen_ms;
        if until_ms > self.world.now_ms() + CHAOS_MS {
            self.world.tell(|| "an hour passes for who is frozen");
            self.pass(until_ms + MINUTE_MS, over);
        }
    }

    /// Time passes, faults among it.
    fn pass(&mut self, until_ms: u64, over: &impl Fn(&System) -> bool) {
        loop {
            let stepped = self.step(until_ms);
            if stepped == StepResult::Quiet || over(self) || self.tasks.polls > POLLS_MAX {
                return;
            }
            if !self.world.is_calm() {
                self.strike(stepped);
            }
        }
    }

    /// Perhaps a fault, after a poll.
    fn strike(&mut self, stepped: StepResult) {
        let StepResult::Polled { task, done: false } = stepped else { return };
        if task == self.provisioner && self.world.strikes(self.world.mix().provisioner_crash) {
            self.world.tell(|| "provisioner: dies");
            return self.start_provisioner();
        }
        if task == self.janitor && self.world.strikes(self.world.mix().janitor_crash) {
            self.world.tell(|| "janitor: dies");
            return self.start_janitor();
        }
        match strike((&self.world, &self.wire), &mut self.tasks, &mut self.fleet, task) {
            Some(faults::Controller::Restarts) => self.restart_controller(),
            Some(faults::Controller::DiskFull(for_ms)) => {
                self.world.tell(|| "controller: the disk is full");
                self.store.fill(self.world.now_ms() + for_ms);
            }
            Some(faults::Controller::Copy) if !self.restored => {
                self.copy = Some(self.store.map().fork(self.store.store_generation()));
            }
            Some(faults::Controller::Restore) => self.restore(),
            Some(faults::Controller::InstanceEnds) => {
                if let Some(machine) = self.a_machine().filter(|machine| self.cloud.end(machine.id)) {
                    self.world.tell(|| format!("machine {}: its instance ends", machine.id));
                    self.fleet.cut_power(&mut self.tasks, &machine);
                }
            }
            Some(faults::Controller::InstanceIsLost) => {
                if let Some(machine) = self.a_machine().filter(|machine| self.cloud.lose(machine.id)) {
                    self.fleet.take_away(&mut self.tasks, machine.id);
                }
            }
            Some(faults::Controller::Copy) | None => {}
        }
    }

    fn a_machine(&self) -> Option<Machine> {
        let machines = self.fleet.machines();
        machines.get(self.world.below(machines.len() as u64) as usize).cloned()
    }

    /// Waits until nothing changes any more, resolving what failed. False: a violation ended the run.
    fn calm(&mut self, over: &impl Fn(&System) -> bool) -> bool {
        self.world.tell(|| "calm: no more faults");
        self.world.set_calm(true);
        self.world.note(Fact::FaultsEnded);
        self.wire.heal();
        self.tasks.resume_all();
        self.store.fill(0);
        self.fleet.machines().iter().for_each(|machine| machine.fill(0));
        for round in 0..ROUNDS_MAX {
            let (user, restored) = (self.user(), self.restored);
            self.tasks.start("people", async move {
                user.disable_timed_hooks(restored).await;
                if restored && round >= PATIENCE {
                    user.remove_failing().await;
                }
                user.resolve().await;
            });
            if !self.rest(over) {
                return !over(self) && self.tasks.polls > POLLS_MAX;
            }
            let (fleet, tasks) = (&mut self.fleet, &mut self.tasks);
            let repaired = self.store.map().look(|reader| fleet.repair(tasks, reader, restored));
            if !repaired && !self.fleet.has_failed_unit() && !self.is_troubled() {
                break;
            }
        }
        true
    }

    /// Some machine waits for its provider to try again.
    fn is_troubled(&self) -> bool {
        let prefix = Model(MODEL).all(Kind::MachineTrouble);
        self.store.map().look(|reader| !reader.scan(&prefix, "", 1).is_empty())
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
            if stepped == StepResult::Quiet && self.world.now_ms() >= self.changed_ms + QUIET_MS {
                return true;
            }
        }
    }

    fn settle(&mut self) {
        let recorded = self.store.recorded();
        let rests = self.tasks.polls <= POLLS_MAX && !self.fleet.has_failed_unit();
        let (fleet, checks) = (&self.fleet, &mut self.checks);
        self.store.map().look(|reader| {
            let agents = fleet.living(reader);
            checks.settle(&End { model: Model(MODEL), reader, agents, rests, recorded: &recorded });
        });
    }

    /// Every process once more, and nothing else.
    fn restart_everything(&mut self, over: &impl Fn(&System) -> bool) {
        self.world.tell(|| "restarts of everything");
        self.world.note(Fact::OnlyRestarts);
        for _ in 0..2 {
            for folder in self.fleet.ids() {
                self.fleet.crash(&mut self.tasks, folder);
            }
            self.restart_controller();
            self.start_provisioner();
            self.pass(self.world.now_ms() + BETWEEN_RESTARTS_MS, over);
        }
        self.rest(over);
    }

    fn restart_controller(&mut self) {
        self.world.tell(|| "controller: restarts");
        self.world.note(Fact::ControllerStarted);
        self.tasks.drop_messages();
        self.wire.restart(controller(&self.store, &self.outside));
        self.start_janitor();
        for machine in self.fleet.machines() {
            self.fleet.start_machine(&mut self.tasks, machine);
        }
    }

    /// The store is put back to what it was at an earlier time, once a run.
    fn restore(&mut self) {
        let Some(copy) = self.copy.take().filter(|_| !self.restored) else { return };
        self.restored = true;
        let store_generation = match self.world.mix().has(Mutant::StoreGenerationIsKept) {
            true => copy.store_generation(),
            false => Uuid(self.world.bits()),
        };
        self.store = SimStore::new(copy.fork(store_generation), self.world.clone());
        self.world.tell(|| format!("controller: restored from revision {}", self.store.newest()));
        self.seen = self.store.newest();
        self.cloud.expire_stale_listings();
        if let Some(machine) = self.a_machine().filter(|machine| self.cloud.start_elsewhere(machine.id)) {
            self.fleet.take_away(&mut self.tasks, machine.id);
            // no provisioner is at work on the machines that another one starts
            self.start_provisioner();
        }
        let checks = &mut self.checks;
        self.store.map().look(|reader| checks.restored(reader, Model(MODEL)));
        self.restart_controller();
    }

    /// One poll, or a jump in time, and what follows from it.
    fn step(&mut self, until_ms: u64) -> StepResult {
        let stepped = self.tasks.step(until_ms);
        let begun = self.tasks.polls.is_multiple_of(MEASURED_EVERY).then(Instant::now);
        let (commands, facts) = self.world.take_events();
        for command in commands {
            self.obey(command);
        }
        self.fleet.restart_ended(&mut self.tasks, stepped);
        for fact in facts {
            self.see(fact);
        }
        self.see_commits();
        if let Some(begun) = begun {
            *self.tasks.spent.entry("checks").or_default() += nanoseconds(begun);
        }
        stepped
    }

    fn obey(&mut self, command: Command) {
        let (fleet, tasks) = (&mut self.fleet, &mut self.tasks);
        match command {
            Command::StartMachine { machine, instance } => fleet.boot(tasks, machine, instance),
            Command::TakeAway(id) => fleet.take_away(tasks, id),
            Command::Keep { machine, unit, name } => fleet.deploy(tasks, machine, unit, name),
            Command::SetAside(unit) => fleet.set_aside(tasks, unit),
            Command::Reboot(id) => {
                fleet.machines().iter().filter(|m| m.id == id).for_each(|m| fleet.reboot(tasks, m));
            }
            Command::Recall(unit) => {
                // none was made: no agent has begun there
                let Some(machine) = fleet.folder(unit).map(|folder| folder.at.machine.id) else { return };
                let (life, buried) = self.store.map().look(|reader| {
                    let buried = |id| read(reader, &Model(MODEL).tombstone(id)).is_some();
                    (read(reader, &Model(MODEL).unit_life(unit)), buried(unit) || buried(machine))
                });
                let evidence = buried || life == Some(Life::Dead);
                self.world.note(Fact::Recalled { unit, evidence, known: life.is_some() });
                fleet.recall(tasks, unit);
            }
        }
    }

    fn see(&mut self, fact: Fact) {
        if let Fact::Recorded { folder, events, .. } = &fact {
            self.changed_ms = self.world.now_ms();
            let name = |at| self.fleet.folder(at).map_or(String::new(), |folder| folder.at.name.to_string());
            self.world.tell(|| format!("{}: on disk: {}", name(*folder), told(events)));
        }
        self.checks.time(self.world.now_ms());
        self.checks.see(&fact);
    }

    fn see_commits(&mut self) {
        let newest = self.store.newest();
        if newest == self.seen {
            return;
        }
        self.changed_ms = self.world.now_ms();
        let after = Position { store_generation: self.store.store_generation(), revision: self.seen };
        let changes = finish(self.store.map().changes_after(after, usize::MAX));
        let changes = changes.expect("one poll makes few commits");
        for changes in &changes {
            self.commits += 1;
            self.world.tell(|| {
                let keys: Vec<&str> = changes.entries.iter().map(|entry| kind(&entry.key)).collect();
                format!("store: revision {}: {}", changes.revision, keys.join(" "))
            });
            self.unchecked += u64::from(is_structural(changes));
            let whole = self.unchecked >= self.world.mix().checked_every;
            if whole {
                self.unchecked = 0;
            }
            let (checks, now_ms) = (&mut self.checks, self.world.now_ms());
            self.store.map().look(|reader| {
                checks.commit(&Commit { model: Model(MODEL), changes, reader, whole, now_ms });
            });
        }
        self.seen = newest;
    }
}

/// Kinds of documents that no promise about all documents is about.
const PLAIN: [&str; 8] = [
    "replica",
    "unit-status",
    "agent-status",
    "log",
    "session",
    "workload-version",
    "application-status",
    "sequence",
];

/// Something else than what a unit says of itself has changed.
fn is_structural(changes: &Changes) -> bool {
    changes.entries.iter().any(|entry| !PLAIN.contains(&kind(&entry.key)))
}

/// What a journal's events say, for the story.
fn told(events: &[state::unit::local::Event]) -> String {
    use state::unit::local::Event;
    let line = |event: &Event| match event {
        Event::Started(run) => {
            format!("began {} (run {}, attempt {}: {})", run.operation, run.number, run.attempt, run.cause)
        }
        Event::Finished(record) => {
            format!("record {}: {} {:?}", record.sequence, record.operation, record.outcome)
        }
        Event::Acknowledged { sequence, refusal, .. } => {
            format!("record {sequence} answered, refusal {refusal:?}")
        }
        Event::Attaching { .. } => "attaching".to_owned(),
        Event::Attached { epoch, sequence, .. } => {
            format!("attached, epoch {epoch}, record {sequence} is there")
        }
        Event::ReplicaTaken { replica } => {
            format!("restored from the replica of record {}", replica.sequence)
        }
        Event::LeadershipChanged(generation) => format!("leader {generation:?}"),
        Event::RebootRequested(boot) => format!("asks for the end of {boot}"),
        Event::UnrecordedReport(unheard) => format!("run {} said {} things", unheard.run, unheard.said.len()),
        Event::ReportAcknowledged { run } => format!("what run {run} said is told"),
    };
    events.iter().map(line).collect::<Vec<_>>().join("; ")
}

fn kind(key: &str) -> &str {
    key.split('/').nth(1).unwrap_or_default()
}
