//! Machines: hook lock, boot, unit folders and machine agent of each.
//!
//! The machine agent is the production one. What is stored on a machine outlives its agent.

use crate::sim::clock::SimClock;
use crate::sim::network::SimNetwork;
use crate::sim::network::machines::MachineLink;
use crate::sim::world::{Command, World};
use agent::machine_agent::{MachineAgent, MachineAgentEnd};
use agent::ports::{Deployments, UnitToken};
use state::documents::keys::{Model, TokenHolder, UserRole};
use state::terms::names::{UnitName, Uuid};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// The state that a machine agent stores for a unit beside the unit's own files.
struct DeployedUnit {
    unit: Uuid,
    token: String,
    token_set: bool,
    /// Whether the agent of the unit has finished.
    finished: bool,
    recalling: bool,
}

struct State {
    hook_lock: Arc<tokio::sync::Mutex<()>>,
    /// The number of its instance at the provider: another instance of the same machine has other boots.
    instance: u64,
    boots: u64,
    /// Whether it is powered off.
    is_powered_off: bool,
    booted_ms: u64,
    /// The disk is full until this time.
    full_ms: u64,
    /// The folders of unit agents on this machine.
    deployed: BTreeMap<UnitName, DeployedUnit>,
    /// The quarantined folders, by unit.
    quarantined: BTreeMap<Uuid, DeployedUnit>,
    /// Whether the agent has stored that the machine is Dead.
    dead: bool,
}

/// One machine. What is stored on it outlives its agent.
#[derive(Clone)]
pub struct Machine {
    pub id: Uuid,
    state: Arc<Mutex<State>>,
}

impl Machine {
    pub fn new(id: Uuid, instance: u64, now_ms: u64) -> Machine {
        let state = State {
            hook_lock: Arc::default(),
            instance,
            boots: 1,
            is_powered_off: false,
            booted_ms: now_ms,
            full_ms: 0,
            deployed: BTreeMap::new(),
            quarantined: BTreeMap::new(),
            dead: false,
        };
        Machine { id, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("one thread")
    }

    pub fn hook_lock(&self) -> Arc<tokio::sync::Mutex<()>> {
        self.state().hook_lock.clone()
    }

    pub fn boot(&self) -> String {
        let state = self.state();
        format!("boot-{}-{}", state.instance, state.boots)
    }

    pub fn booted_ms(&self) -> u64 {
        self.state().booted_ms
    }

    pub fn reboot(&self, now_ms: u64) {
        let mut state = self.state();
        state.boots += 1;
        state.booted_ms = now_ms;
        state.is_powered_off = false;
        state.hook_lock = Arc::default();
    }

    pub fn switch_off(&self) {
        self.state().is_powered_off = true;
    }

    pub fn is_off(&self) -> bool {
        self.state().is_powered_off
    }

    pub fn fill(&self, until_ms: u64) {
        self.state().full_ms = until_ms;
    }

    pub fn is_full(&self, now_ms: u64) -> bool {
        self.state().full_ms > now_ms
    }

    /// Forgets a folder that was deleted by an operator.
    pub fn forget(&self, unit: Uuid) {
        let mut state = self.state();
        state.deployed.retain(|_, deployed| deployed.unit != unit);
        state.quarantined.remove(&unit);
    }

    /// The token of a unit on this machine, once its agent may run.
    pub fn token_of(&self, unit: Uuid) -> Option<String> {
        let state = self.state();
        let own = state.deployed.values().find(|deployed| deployed.unit == unit && deployed.token_set);
        own.map(|deployed| deployed.token.clone())
    }

    /// Stores in the unit's folder whether its agent has finished.
    pub fn finish(&self, unit: Uuid, finished: bool) {
        let mut state = self.state();
        let own = state.deployed.values_mut().find(|deployed| deployed.unit == unit);
        own.into_iter().for_each(|deployed| deployed.finished = finished);
    }

    pub fn is_retired(&self) -> bool {
        self.state().dead
    }

    /// Lets the machine start again, after a repair or a restore.
    pub fn clear_dead(&self) {
        self.state().dead = false;
    }
}

/// Runs the machine agent: it supervises unit agents until the machine is Dead and then uninstalls them.
pub async fn run_machine_agent(world: World, network: SimNetwork, model: Model, machine: Machine) {
    let link = MachineLink::new(network, model, machine.id);
    let clock = SimClock { world: world.clone(), machine: machine.clone() };
    let deployments = Folders { world: world.clone(), machine: machine.clone() };
    let agent = MachineAgent::new(link, deployments, clock);
    if !machine.state().dead {
        let MachineAgentEnd::Dead = agent.run().await;
        world.pause().await;
        machine.state().dead = true;
    }
    world.pause().await;
    agent.uninstall_units().await.expect("nothing fails here but the network");
}

/// The folders of a machine's units. The fleet starts and stops the agents after the poll.
struct Folders {
    world: World,
    machine: Machine,
}

impl Folders {
    fn unit(&self, name: &UnitName) -> Option<Uuid> {
        self.machine.state().deployed.get(name).map(|deployed| deployed.unit)
    }
}

impl Deployments for Folders {
    type Folder = UnitName;

    fn folder(&self, name: &UnitName) -> UnitName {
        name.clone()
    }

    fn deployed(&self) -> BTreeMap<Uuid, UnitName> {
        let state = self.machine.state();
        state.deployed.iter().map(|(name, deployed)| (deployed.unit, name.clone())).collect()
    }

    fn is_finished(&self, name: &UnitName) -> bool {
        let is_active = |entry: &DeployedUnit| entry.token_set && !entry.finished && !entry.recalling;
        self.machine.state().deployed.get(name).is_some_and(|entry| !is_active(entry))
    }

    async fn prepare(&self, unit: Uuid, name: &UnitName) -> anyhow::Result<String> {
        self.world.pause().await;
        let token = {
            let mut state = self.machine.state();
            let quarantined = state.quarantined.remove(&unit);
            let made = || DeployedUnit {
                unit,
                token: format!("{:032x}{:032x}", self.world.random_u128(), self.world.random_u128()),
                token_set: false,
                finished: false,
                recalling: false,
            };
            let deployed =
                state.deployed.entry(name.clone()).or_insert_with(|| quarantined.unwrap_or_else(made));
            assert_eq!(deployed.unit, unit, "{name}: the folder belongs to another unit");
            deployed.token.clone()
        };
        self.world.pause().await;
        Ok(token)
    }

    fn token(&self, name: &UnitName) -> anyhow::Result<UnitToken> {
        let state = self.machine.state();
        let deployed =
            state.deployed.get(name).ok_or_else(|| anyhow::anyhow!("{name}: the folder does not exist"))?;
        Ok(UnitToken { text: deployed.token.clone(), is_acknowledged: deployed.token_set })
    }

    async fn note_token_set(&self, name: &UnitName) -> anyhow::Result<()> {
        self.world.pause().await;
        self.machine.state().deployed.get_mut(name).into_iter().for_each(|entry| entry.token_set = true);
        Ok(())
    }

    fn ensure_running(&self, unit: Uuid, name: &UnitName, assigned: bool) -> anyhow::Result<()> {
        if assigned {
            self.machine.state().deployed.get_mut(name).into_iter().for_each(|entry| entry.recalling = false);
        }
        if !self.is_finished(name) {
            self.world.command(Command::EnsureRunning { machine: self.machine.id, unit, name: name.clone() });
        }
        Ok(())
    }

    async fn stop(&self, name: &UnitName) -> anyhow::Result<()> {
        let Some(unit) = self.unit(name) else { return Ok(()) };
        self.machine.state().deployed.get_mut(name).into_iter().for_each(|entry| entry.recalling = true);
        self.world.pause().await;
        self.world.command(Command::Recall(unit));
        self.world.pause().await;
        Ok(())
    }

    async fn delete(&self, unit: Uuid, _: &UnitName) -> anyhow::Result<()> {
        self.world.pause().await;
        self.machine.forget(unit);
        Ok(())
    }

    async fn quarantine(&self, unit: Uuid, name: &UnitName) -> anyhow::Result<String> {
        self.world.command(Command::Quarantine(unit));
        self.world.pause().await;
        let mut state = self.machine.state();
        let deployed = state.deployed.remove(name).filter(|deployed| deployed.unit == unit);
        deployed.into_iter().for_each(|deployed| drop(state.quarantined.insert(unit, deployed)));
        Ok(format!("unknown/{name}"))
    }

    /// Never returns: the fleet restarts agents that end.
    async fn changed(&self) {
        std::future::pending().await
    }
}

/// The user as which the provisioner and the operators of the simulator authenticate.
pub fn admin() -> TokenHolder {
    TokenHolder::User { name: "admin".to_owned(), role: UserRole::Admin }
}
