//! Machines: hook lock, boot and unit folders of each. The state of a machine outlives its agent.

pub mod folders;

use state::terms::names::{UnitName, Uuid};
use state::terms::run_lock::RunLock;
use state::terms::storage::StorageId;
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
    /// The locks of the machine and of its execution groups.
    run_locks: BTreeMap<RunLock, Arc<tokio::sync::Mutex<()>>>,
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
    /// The content of storage, by instance.
    storage: BTreeMap<Uuid, ProvidedStorage>,
    /// Whether the agent has stored that the machine is Dead.
    dead: bool,
}

/// The content of an instance of storage.
struct ProvidedStorage {
    id: StorageId,
    /// The unit that can use it.
    unit: Option<Uuid>,
}

/// One machine. Its state outlives its agent.
#[derive(Clone)]
pub struct Machine {
    pub id: Uuid,
    state: Arc<Mutex<State>>,
}

impl Machine {
    pub fn new(id: Uuid, instance: u64, now_ms: u64) -> Machine {
        let state = State {
            run_locks: BTreeMap::new(),
            instance,
            boots: 1,
            is_powered_off: false,
            booted_ms: now_ms,
            full_ms: 0,
            deployed: BTreeMap::new(),
            quarantined: BTreeMap::new(),
            storage: BTreeMap::new(),
            dead: false,
        };
        Machine { id, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("one thread")
    }

    /// The lock under which a hook or an action runs. That of a unit is taken by its agent only.
    pub fn run_lock(&self, lock: &RunLock) -> Arc<tokio::sync::Mutex<()>> {
        match lock {
            RunLock::Unit => Arc::default(),
            RunLock::Machine | RunLock::Group(_) => {
                self.state().run_locks.entry(lock.clone()).or_default().clone()
            }
        }
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
        state.run_locks.clear();
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

    /// The instance that a unit can use under this id.
    pub fn storage_of(&self, unit: Uuid, id: &StorageId) -> Option<Uuid> {
        let state = self.state();
        let mut provided = state.storage.iter();
        let own = provided.find(|(_, storage)| storage.id == *id && storage.unit == Some(unit));
        own.map(|(instance, _)| *instance)
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
