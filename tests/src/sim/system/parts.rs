//! The parts of the simulated system, and how they are started.

use crate::sim::checks::Checks;
use crate::sim::fact::Fact;
use crate::sim::fleet::AgentFleet;
use crate::sim::identities::{MODEL, admin};
use crate::sim::network::{SimController, SimNetwork};
use crate::sim::operator::SimOperator;
use crate::sim::provider::{self, SimCloud};
use crate::sim::store::{Backup, SimEnvironment, SimStore};
use crate::sim::world::tasks::Tasks;
use crate::sim::world::{TaskId, World};
use controller::Controller;
use controller::janitor::{Janitor, JanitorLimits};
use state::terms::names::Uuid;
use std::sync::Arc;
use test_support::memory_store::MemoryStore;

/// A schedule has some tens of removals and takes some minutes: with these limits tombstones and archives are
/// deleted in it.
const JANITOR_LIMITS: JanitorLimits =
    JanitorLimits { archive_grace_ms: 30_000, tombstones_max: 2, retired_tokens_max: 1_000 };

/// The simulated system.
pub struct System {
    pub(super) world: World,
    pub(super) tasks: Tasks,
    pub(super) store: SimStore,
    /// The backup of the controller's data folder.
    pub(super) backup: Option<Backup>,
    /// Whether the backup was restored: at most once in a schedule.
    pub(super) restored: bool,
    pub(super) environment: SimEnvironment,
    pub(super) network: SimNetwork,
    pub(super) fleet: AgentFleet,
    pub(super) cloud: SimCloud,
    /// The task of the provisioner; 0, which no task has, before its start.
    pub(super) provisioner: TaskId,
    /// The task of the janitor, which is part of the controller and dies with it; 0 before its start.
    pub(super) janitor: TaskId,
    pub(super) checks: Checks,
    /// The newest revision that was passed to the checks.
    pub(super) observed_revision: u64,
    /// The number of commits.
    pub(super) commits: u64,
    /// The number of commits since the last check of all documents, without those that cannot affect it (`is_structural`).
    pub(super) structural_commits_since_full_check: u64,
    /// When a commit or an event was persisted last: decides when the system is at rest.
    pub(super) changed_ms: u64,
    /// The number of polls until chaos ended.
    pub(super) chaos_polls: u64,
}

fn controller(store: &SimStore, environment: &SimEnvironment) -> Arc<SimController> {
    Controller::new(store.clone(), environment.clone(), Uuid(7))
}

impl System {
    pub(super) fn new(world: World) -> System {
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
            observed_revision: 0,
            commits: 0,
            structural_commits_since_full_check: 0,
            changed_ms: world.now_ms(),
            chaos_polls: 0,
            world,
        }
    }

    pub(super) fn operator(&self) -> SimOperator {
        SimOperator { world: self.world.clone(), network: self.network.clone(), model: MODEL.to_string() }
    }

    pub(super) fn start_provisioner_and_janitor(&mut self) {
        self.start_provisioner();
        self.start_janitor();
    }

    /// Starts the janitor. A running one dies and loses its state.
    pub(super) fn start_janitor(&mut self) {
        self.tasks.drop_task(self.janitor);
        let (world, controller) = (self.world.clone(), self.network.clone());
        self.janitor = self.tasks.start("janitor", async move {
            let mut janitor = Janitor::new(JANITOR_LIMITS);
            loop {
                let admin = controller.caller(admin());
                if janitor.sweep(&admin.controller).await.is_ok_and(|more| more) {
                    world.pause().await;
                    continue;
                }
                world.sleep(janitor.interval_ms()).await;
            }
        });
    }

    /// Starts the provisioner. A running one dies.
    pub(super) fn start_provisioner(&mut self) {
        self.tasks.drop_task(self.provisioner);
        let (world, network) = (self.world.clone(), self.network.clone());
        self.provisioner =
            self.tasks.start("provisioner", provider::run_provisioner(world, network, self.cloud.clone()));
    }

    /// Restarts the controller, and the agents of the machines that are on, unless these were stopped.
    pub(super) fn restart_controller(&mut self) {
        self.world.trace(|| "controller: restarts");
        self.world.note(Fact::ControllerStarted);
        self.tasks.drop_messages();
        self.network.restart(controller(&self.store, &self.environment));
        self.start_janitor();
        for machine in self.fleet.machines() {
            self.fleet.start_machine(&mut self.tasks, machine);
        }
    }
}
