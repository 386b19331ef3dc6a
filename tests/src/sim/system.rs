//! One run of the whole system from one seed.
//!
//! A run has phases: chaos with faults; calm until nothing changes; optionally obstructed removals and calm again;
//! the checks of the final state; and restart of everything with nothing changed. A run ends at its first
//! violation.
//!
//! `phases` has the phases, `obstructed` the optional one; `controller_faults` applies the faults of the controller and the
//! provider; `observation` passes facts and commits to the checks.

mod controller_faults;
mod observation;
mod obstructed;
mod phases;

use crate::sim::checks::{Checks, Violation};
use crate::sim::fact::Fact;
use crate::sim::fleet::AgentFleet;
use crate::sim::identities::{MODEL, admin};
use crate::sim::mutants::{Mutant, MutantGuard};
use crate::sim::network::{SimController, SimNetwork};
use crate::sim::operator::{HOOKS_MIN, SimOperator};
use crate::sim::profile::FaultProfile;
use crate::sim::provider::{self, SimCloud};
use crate::sim::store::{SimEnvironment, SimStore};
use crate::sim::world::tasks::{MEASURED_EVERY, StepResult, Tasks, TimeSpent, nanoseconds};
use crate::sim::world::{Command, TaskId, World};
use controller::Controller;
use controller::janitor::{Janitor, JanitorLimits};
use state::documents::draft::read;
use state::documents::keys::Model;
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::sync::Arc;
use std::time::Instant;
use test_support::memory_store::MemoryStore;

const MINUTE_MS: u64 = 60_000;
/// A run has some tens of removals and takes some minutes: with these limits tombstones and archives are deleted in it.
const JANITOR_LIMITS: JanitorLimits = JanitorLimits { archive_grace_ms: 30_000, tombstones_max: 2 };
/// The system rests when nothing has changed for this long. 85 s is longer than a leader's term (60 s), a
/// silent watch (15 s) and the longest pause of a loop (5 s) in sequence.
const REST_AFTER_MS: u64 = 85_000;
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

    fn start_supervisors(&mut self) {
        self.start_provisioner();
        self.start_janitor();
    }

    /// Starts the janitor. A running one dies and loses its state.
    fn start_janitor(&mut self) {
        self.tasks.drop_task(self.janitor);
        let (world, controller) = (self.world.clone(), self.network.clone());
        self.janitor = self.tasks.start("janitor", async move {
            let mut janitor = Janitor::with_limits(JANITOR_LIMITS);
            loop {
                let admin = controller.session(admin());
                if janitor.sweep(&admin.controller).await.is_ok_and(|more| more) {
                    world.pause().await;
                    continue;
                }
                world.sleep(janitor.interval_ms()).await;
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
}
