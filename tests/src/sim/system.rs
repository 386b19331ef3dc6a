//! One run of the whole system from one seed.
//!
//! A run has phases: chaos with faults; calm until nothing changes; optionally obstructed removals and calm again;
//! the checks of the final state; and restart of everything with nothing changed. A run ends at its first
//! violation.

mod obstructed;

use crate::sim::checks::check::{Commit, FinalState};
use crate::sim::checks::{Checks, Violation};
use crate::sim::fact::Fact;
use crate::sim::faults::{ControllerFault, inject};
use crate::sim::fleet::AgentFleet;
use crate::sim::identities::{MODEL, admin};
use crate::sim::machine::Machine;
use crate::sim::mutants::{Mutant, MutantGuard};
use crate::sim::network::{SimController, SimNetwork};
use crate::sim::operator::{HOOKS_MIN, SimOperator};
use crate::sim::profile::FaultProfile;
use crate::sim::provider::{self, SimCloud};
use crate::sim::store::{SimEnvironment, SimStore};
use crate::sim::world::{
    Command, MEASURED_EVERY, StepResult, TaskId, Tasks, TimeSpent, World, block_on, nanoseconds,
};
use controller::Controller;
use controller::store::{CommitChanges, Position, Store};
use state::documents::draft::read;
use state::documents::keys::{Kind, Model};
use state::lifecycle::model;
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::sync::Arc;
use std::time::Instant;
use test_support::memory_store::MemoryStore;

/// Chaos lasts until the operators have finished their actions, and at most this long.
const CHAOS_MS: u64 = 200_000;
const MINUTE_MS: u64 = 60_000;
/// The system rests when nothing has changed for this long. 85 s is longer than a leader's term (60 s), a
/// silent watch (15 s) and the longest pause of a loop (5 s) in sequence.
const REST_AFTER_MS: u64 = 85_000;
/// The time between two restart of everything: a few connection attempts.
const BETWEEN_RESTARTS_MS: u64 = 10_000;
/// The number of rounds of "wait until the system rests, resolve failures" after which it must have converged.
const ROUNDS_MAX: u64 = 40;
/// After this many rounds following a restore, operators remove the units that still fail: they may have ended
/// before the restore.
const ROUNDS_BEFORE_REMOVAL: u64 = 5;
/// The largest number of polls of one run: several times what an hour without a controller takes.
const POLLS_MAX: u64 = 2_000_000;
/// The smallest numbers of applications, units, hooks and faults of a standard schedule.
const STANDARD: (u64, u64, u64, u64) = (2, 3, HOOKS_MIN, 5);

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub seed: u64,
    pub violations: Vec<Violation>,
    pub trace: Vec<String>,
    pub hooks: u64,
    pub commits: u64,
    pub faults: u64,
    pub polls: u64,
    /// Applications that ever had a unit deployed, and those units.
    pub applications: u64,
    pub units: u64,
    /// The duration of chaos in polls.
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

/// The simulated system.
struct System {
    world: World,
    tasks: Tasks,
    store: SimStore,
    /// The backup of the store.
    backup: Option<MemoryStore>,
    restored: bool,
    environment: SimEnvironment,
    network: SimNetwork,
    fleet: AgentFleet,
    cloud: SimCloud,
    /// The provisioner.
    provisioner: TaskId,
    /// The janitor, which is part of the controller and dies with it.
    janitor: TaskId,
    checks: Checks,
    seen: u64,
    commits: u64,
    /// The number of commits since all documents were checked.
    unchecked: u64,
    changed_ms: u64,
    chaos_polls: u64,
}

/// Runs one seed with its own profile.
pub fn run(seed: u64, mutant: Option<Mutant>, traced: bool) -> Report {
    run_mixed(seed, FaultProfile::of(seed, mutant), traced)
}

/// Runs one seed with the given profile.
pub fn run_mixed(seed: u64, profile: FaultProfile, traced: bool) -> Report {
    let _guard = MutantGuard::of(profile.mutant);
    let target = profile.mutant.map(Mutant::target);
    let world = World::new(seed, profile, traced);
    let mut system = System::new(world.clone());
    system.run_phases(target);
    let report = Report {
        seed,
        violations: std::mem::take(&mut system.checks.violations),
        trace: world.trace_lines(),
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

fn controller(store: &SimStore, environment: &SimEnvironment) -> Arc<SimController> {
    Controller::new(store.clone(), environment.clone(), Uuid(7))
}

impl System {
    fn new(world: World) -> System {
        let store_generation = Uuid(world.random_u128());
        let store = SimStore::new(
            MemoryStore::with_changes_kept(store_generation, world.profile().changes_kept),
            world.clone(),
        );
        let environment = SimEnvironment::new(world.clone());
        let network = SimNetwork::new(world.clone(), controller(&store, &environment));
        System {
            tasks: Tasks::new(world.clone()),
            store,
            backup: None,
            restored: false,
            environment,
            fleet: AgentFleet::new(world.clone(), network.clone()),
            cloud: SimCloud::new(world.clone()),
            provisioner: 0,
            janitor: 0,
            network,
            checks: Checks::default(),
            seen: 0,
            commits: 0,
            unchecked: 0,
            changed_ms: world.now_ms(),
            chaos_polls: 0,
            world,
        }
    }

    fn operator(&self) -> SimOperator {
        SimOperator { world: self.world.clone(), network: self.network.clone(), model: MODEL.to_string() }
    }

    fn run_phases(&mut self, target: Option<&'static str>) {
        let is_over = |system: &System| {
            let hit = |violation: &Violation| target.is_none_or(|target| violation.check == target);
            system.checks.violations.iter().any(hit)
        };
        let created = block_on(self.store.run(|draft| model::create(draft, MODEL, "dev", 0)));
        created.map(drop).expect("the first model can be made");
        self.start_supervisors();
        let chaos = is_over(self) || !self.run_chaos(&is_over);
        self.chaos_polls = self.tasks.polls;
        if chaos || !self.run_calm(&is_over) {
            return;
        }
        if self.world.profile().obstructed > 0 {
            self.run_obstructed(&is_over);
            if is_over(self) || !self.run_calm(&is_over) {
                return;
            }
        }
        self.check_final_state();
        if !is_over(self) {
            self.restart_everything(&is_over);
        }
    }

    fn start_supervisors(&mut self) {
        self.start_provisioner();
        self.start_janitor();
    }

    /// Starts the janitor. A running one dies and loses its state.
    fn start_janitor(&mut self) {
        self.tasks.drop_task(self.janitor);
        let (world, controller) = (self.world.clone(), self.network.clone());
        self.janitor = self.tasks.start("janitor", async move {
            let mut janitor = controller::janitor::Janitor::default();
            loop {
                let admin = controller.session(admin());
                if janitor.sweep(&admin.controller).await.is_ok_and(|more| more) {
                    world.pause().await;
                    continue;
                }
                world.sleep(controller::janitor::SWEEP_INTERVAL_MS).await;
            }
        });
    }

    /// Starts the provisioner. A running one dies.
    fn start_provisioner(&mut self) {
        self.tasks.drop_task(self.provisioner);
        let (world, network) = (self.world.clone(), self.network.clone());
        self.provisioner =
            self.tasks.start("provisioner", provider::run_provisioner(world, network, self.cloud.clone()));
    }

    /// Runs the operators under faults. False: a violation ended the run.
    fn run_chaos(&mut self, is_over: &impl Fn(&System) -> bool) -> bool {
        self.world.set_calm(false);
        let (first, second) = (self.operator(), self.operator());
        let mut acting = vec![
            self.tasks.start("operators", async move {
                first.create_applications().await;
                first.act().await;
                first.destroy().await;
            }),
            self.tasks.start("operators", async move {
                second.world.sleep(5_000).await;
                second.act().await;
                second.destroy().await;
            }),
        ];
        let until_ms = self.world.now_ms() + CHAOS_MS;
        let outage_ms = self.world.now_ms() + 10_000 + self.world.below(10_000);
        let mut outage = self.world.profile().outage_minutes;
        while !acting.is_empty() && self.world.now_ms() < until_ms {
            if outage > 0 && self.world.now_ms() >= outage_ms {
                let until_ms = self.world.now_ms() + outage * MINUTE_MS;
                self.world.trace(|| format!("network: {outage} minutes without the controller"));
                outage = 0;
                self.network.start_outage(until_ms);
                self.pass_time(until_ms, is_over);
            }
            let stepped = self.step(until_ms);
            if let StepResult::Polled { task, done: true } = stepped {
                acting.retain(|acting| *acting != task);
            }
            if is_over(self) || self.tasks.polls > POLLS_MAX {
                return !is_over(self);
            }
            self.inject_fault(stepped);
        }
        acting.into_iter().for_each(|task| self.tasks.drop_task(task));
        self.pass_frozen_time(is_over);
        !is_over(self)
    }

    /// Waits for agents that are frozen for much longer than chaos lasts, so that they resume among faults. All
    /// other agents resume when faults end.
    fn pass_frozen_time(&mut self, is_over: &impl Fn(&System) -> bool) {
        let until_ms = self.fleet.frozen_ms;
        if until_ms > self.world.now_ms() + CHAOS_MS {
            self.world.trace(|| "time passes until the frozen agents resume");
            self.pass_time(until_ms + MINUTE_MS, is_over);
        }
    }

    /// Lets time pass, with faults unless the system is calm.
    fn pass_time(&mut self, until_ms: u64, is_over: &impl Fn(&System) -> bool) {
        loop {
            let stepped = self.step(until_ms);
            if stepped == StepResult::Quiet || is_over(self) || self.tasks.polls > POLLS_MAX {
                return;
            }
            if !self.world.is_calm() {
                self.inject_fault(stepped);
            }
        }
    }

    /// Injects a fault at random after a poll.
    fn inject_fault(&mut self, stepped: StepResult) {
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
                self.backup = Some(self.store.map().fork(self.store.store_generation()));
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

    fn random_machine(&self) -> Option<Machine> {
        let machines = self.fleet.machines();
        machines.get(self.world.below(machines.len() as u64) as usize).cloned()
    }

    /// Ends all faults and waits until nothing changes, resolving failures. False: a violation ended the run.
    fn run_calm(&mut self, is_over: &impl Fn(&System) -> bool) -> bool {
        self.world.trace(|| "calm: faults are over");
        self.world.set_calm(true);
        self.world.note(Fact::FaultsEnded);
        self.network.heal();
        self.tasks.resume_all();
        self.store.fill(0);
        self.fleet.machines().iter().for_each(|machine| machine.fill(0));
        for round in 0..ROUNDS_MAX {
            let (operator, restored) = (self.operator(), self.restored);
            self.tasks.start("operators", async move {
                operator.disable_timed_hooks(restored).await;
                if restored && round >= ROUNDS_BEFORE_REMOVAL {
                    operator.remove_failed_units().await;
                }
                operator.resolve().await;
            });
            if !self.wait_for_rest(is_over) {
                return !is_over(self) && self.tasks.polls > POLLS_MAX;
            }
            let (fleet, tasks) = (&mut self.fleet, &mut self.tasks);
            let repaired = self.store.map().read_now(|reader| fleet.repair(tasks, reader, restored));
            if !repaired && !self.fleet.has_failed_unit() && !self.has_provisioning_error() {
                break;
            }
        }
        true
    }

    /// Whether a machine has a provisioning error.
    fn has_provisioning_error(&self) -> bool {
        let prefix = Model(MODEL).all(Kind::MachineTrouble);
        self.store.map().read_now(|reader| !reader.scan(&prefix, "", 1).is_empty())
    }

    /// True once nothing has changed for [`REST_AFTER_MS`].
    fn wait_for_rest(&mut self, is_over: &impl Fn(&System) -> bool) -> bool {
        self.changed_ms = self.world.now_ms();
        loop {
            let until_ms = self.changed_ms + REST_AFTER_MS;
            let stepped = self.step(until_ms);
            if is_over(self) || self.tasks.polls > POLLS_MAX {
                return false;
            }
            if stepped == StepResult::Quiet && self.world.now_ms() >= self.changed_ms + REST_AFTER_MS {
                return true;
            }
        }
    }

    fn check_final_state(&mut self) {
        let recorded = self.store.recorded();
        let is_at_rest = self.tasks.polls <= POLLS_MAX && !self.fleet.has_failed_unit();
        let (fleet, checks) = (&self.fleet, &mut self.checks);
        self.store.map().read_now(|reader| {
            let agents = fleet.running_agents(reader);
            checks.at_rest(&FinalState {
                model: Model(MODEL),
                reader,
                agents,
                is_at_rest,
                recorded: &recorded,
            });
        });
    }

    /// Restarts every process, with nothing else changed.
    fn restart_everything(&mut self, is_over: &impl Fn(&System) -> bool) {
        self.world.trace(|| "restart of everything");
        self.world.note(Fact::OnlyRestarts);
        for _ in 0..2 {
            for folder in self.fleet.ids() {
                self.fleet.crash(&mut self.tasks, folder);
            }
            self.restart_controller();
            self.start_provisioner();
            self.pass_time(self.world.now_ms() + BETWEEN_RESTARTS_MS, is_over);
        }
        self.wait_for_rest(is_over);
    }

    fn restart_controller(&mut self) {
        self.world.trace(|| "controller: restarts");
        self.world.note(Fact::ControllerStarted);
        self.tasks.drop_messages();
        self.network.restart(controller(&self.store, &self.environment));
        self.start_janitor();
        for machine in self.fleet.machines() {
            self.fleet.start_machine(&mut self.tasks, machine);
        }
    }

    /// Restores the store from its backup, once per run.
    fn restore(&mut self) {
        let Some(backup) = self.backup.take().filter(|_| !self.restored) else { return };
        self.restored = true;
        let store_generation = match self.world.profile().has(Mutant::StoreGenerationIsKept) {
            true => backup.store_generation(),
            false => Uuid(self.world.random_u128()),
        };
        self.store = SimStore::new(backup.fork(store_generation), self.world.clone());
        self.world.trace(|| format!("controller: restored from revision {}", self.store.newest()));
        self.seen = self.store.newest();
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

    /// Performs one poll or one jump in time, then its commands, facts and commits.
    fn step(&mut self, until_ms: u64) -> StepResult {
        let stepped = self.tasks.step(until_ms);
        let started = self.tasks.polls.is_multiple_of(MEASURED_EVERY).then(Instant::now);
        let (commands, facts) = self.world.take_events();
        for command in commands {
            self.execute(command);
        }
        self.fleet.restart_ended(&mut self.tasks, stepped);
        for fact in facts {
            self.observe(fact);
        }
        self.observe_commits();
        if let Some(started) = started {
            *self.tasks.spent.entry("checks").or_default() += nanoseconds(started);
        }
        stepped
    }

    fn execute(&mut self, command: Command) {
        let (fleet, tasks) = (&mut self.fleet, &mut self.tasks);
        match command {
            Command::StartMachine { machine, instance } => fleet.boot(tasks, machine, instance),
            Command::TerminateMachine(id) => fleet.terminate_machine(tasks, id),
            Command::EnsureRunning { machine, unit, name } => fleet.deploy(tasks, machine, unit, name),
            Command::Quarantine(unit) => fleet.quarantine(tasks, unit),
            Command::Reboot(id) => {
                fleet.machines().iter().filter(|m| m.id == id).for_each(|m| fleet.reboot(tasks, m));
            }
            Command::Recall(unit) => {
                // the folder was never created, so no agent has run
                let Some(machine) = fleet.folder(unit).map(|folder| folder.location.machine.id) else {
                    return;
                };
                let (life, buried) = self.store.map().read_now(|reader| {
                    let buried = |id| read(reader, &Model(MODEL).tombstone(id)).is_some();
                    (read(reader, &Model(MODEL).unit_life(unit)), buried(unit) || buried(machine))
                });
                let evidence = buried || life == Some(Life::Dead);
                self.world.note(Fact::Recalled { unit, evidence, known: life.is_some() });
                fleet.recall(tasks, unit);
            }
        }
    }

    fn observe(&mut self, fact: Fact) {
        if let Fact::Recorded { folder, events, .. } = &fact {
            self.changed_ms = self.world.now_ms();
            let name =
                |at| self.fleet.folder(at).map_or(String::new(), |folder| folder.location.name.to_string());
            self.world.trace(|| format!("{}: on disk: {}", name(*folder), event_text(events)));
        }
        self.checks.advance_time(self.world.now_ms());
        self.checks.observe(&fact);
    }

    fn observe_commits(&mut self) {
        let newest = self.store.newest();
        if newest == self.seen {
            return;
        }
        self.changed_ms = self.world.now_ms();
        let after = Position { store_generation: self.store.store_generation(), revision: self.seen };
        let changes = block_on(self.store.map().changes_after(after, usize::MAX));
        let changes = changes.expect("the change log contains the commits of one poll");
        for changes in &changes {
            self.commits += 1;
            self.world.trace(|| {
                let keys: Vec<&str> = changes.entries.iter().map(|entry| kind(&entry.key)).collect();
                format!("store: revision {}: {}", changes.revision, keys.join(" "))
            });
            self.unchecked += u64::from(is_structural(changes));
            let is_full_check = self.unchecked >= self.world.profile().commits_per_full_check;
            if is_full_check {
                self.unchecked = 0;
            }
            let (checks, now_ms) = (&mut self.checks, self.world.now_ms());
            self.store.map().read_now(|reader| {
                checks.commit(&Commit { model: Model(MODEL), changes, reader, is_full_check, now_ms });
            });
        }
        self.seen = newest;
    }
}

/// Kinds of documents that do not affect the checks of all documents.
const UNCHECKED_KINDS: [&str; 8] = [
    "replica",
    "unit-status",
    "agent-status",
    "log",
    "session",
    "workload-version",
    "application-status",
    "sequence",
];

/// Whether documents other than the reports of units have changed.
fn is_structural(changes: &CommitChanges) -> bool {
    changes.entries.iter().any(|entry| !UNCHECKED_KINDS.contains(&kind(&entry.key)))
}

/// The events of a journal as text for the trace.
fn event_text(events: &[state::unit::local::Event]) -> String {
    use state::unit::local::Event;
    let line = |event: &Event| match event {
        Event::Started(run) => {
            format!("started {} (run {}, attempt {}: {})", run.operation, run.number, run.attempt, run.cause)
        }
        Event::Finished(record) => {
            format!("record {}: {} {:?}", record.sequence, record.operation, record.outcome)
        }
        Event::Acknowledged { sequence, refusal, .. } => {
            format!("record {sequence} acknowledged, refusal {refusal:?}")
        }
        Event::Attaching { .. } => "attaching".to_owned(),
        Event::Attached { epoch, sequence, .. } => {
            format!("attached, epoch {epoch}, applied record {sequence}")
        }
        Event::ReplicaTaken { replica } => {
            format!("restored from the replica of record {}", replica.sequence)
        }
        Event::LeadershipChanged(generation) => format!("leader {generation:?}"),
        Event::RebootRequested(boot) => format!("requests a reboot of {boot}"),
        Event::UnrecordedReport(unrecorded) => {
            format!("run {} has {} unrecorded reports", unrecorded.run, unrecorded.reports.len())
        }
        Event::ReportAcknowledged { run } => format!("the reports of run {run} are acknowledged"),
    };
    events.iter().map(line).collect::<Vec<_>>().join("; ")
}

fn kind(key: &str) -> &str {
    key.split('/').nth(1).unwrap_or_default()
}
