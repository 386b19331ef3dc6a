//! Machines: the hook lock and the boot of each, a stand-in for the machine agent over the production plan, and one
//! for the provider that makes and takes machines.

use crate::sim::mutants::Mutant;
use crate::sim::network::{SimSession, Wire};
use crate::sim::world::{Command, World};
use api::error::{ApiError, ErrorCode};
use api::machine::{Fate, MachineApi, MachineShown, MachineView, MachineWatch};
use api::operator::OperatorApi;
use state::life::Life;
use state::machine::plan::{Evidence, Step, plan};
use state::model::keys::{Model, Principal, UserRole};
use state::names::{UnitName, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

struct State {
    hook_lock: Arc<tokio::sync::Mutex<()>>,
    boots: u64,
    booted_ms: u64,
    /// Folders of unit agents that are here.
    deployed: BTreeMap<Uuid, UnitName>,
}

/// One machine; what is in it outlives its agent.
#[derive(Clone)]
pub struct Machine {
    pub id: Uuid,
    state: Arc<Mutex<State>>,
}

impl Machine {
    pub fn new(id: Uuid, now_ms: u64) -> Machine {
        let state =
            State { hook_lock: Arc::default(), boots: 1, booted_ms: now_ms, deployed: BTreeMap::new() };
        Machine { id, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("one thread")
    }

    pub fn hook_lock(&self) -> Arc<tokio::sync::Mutex<()>> {
        self.state().hook_lock.clone()
    }

    pub fn boot(&self) -> (String, u64) {
        let state = self.state();
        (format!("boot-{}", state.boots), state.booted_ms)
    }

    pub fn reboot(&self, now_ms: u64) {
        let mut state = self.state();
        state.boots += 1;
        state.booted_ms = now_ms;
        state.hook_lock = Arc::default();
    }

    pub fn deployed(&self) -> BTreeMap<Uuid, UnitName> {
        self.state().deployed.clone()
    }
}

/// The machine agent: watches, plans, executes; until the machine is Dead.
pub async fn tend(world: World, wire: Wire, model: Model, machine: Machine) {
    loop {
        let session = wire.session(Principal::Machine { model, machine: machine.id });
        if follow(&world, &wire, &session, &machine).await {
            return;
        }
        world.sleep(200).await;
    }
}

/// True: the machine is Dead. False: the link broke.
async fn follow(world: &World, wire: &Wire, session: &SimSession, machine: &Machine) -> bool {
    for unit in machine.deployed().into_keys() {
        world.command(Command::Keep(unit));
    }
    world.pause().await;
    if wire.is_cut_off(machine.id) {
        return false;
    }
    let Ok(mut watch) = session.watch_machine().await else { return false };
    loop {
        let Ok(shown) = watch.next().await else { return false };
        if wire.is_cut_off(machine.id) || world.strikes(world.mix().watch_broken) {
            return false;
        }
        let MachineShown::View(view) = shown else { continue };
        let tended = execute(world, session, machine, &view).await;
        if tended.is_err() || (view.life == Life::Dying && retire(session, machine, &view).await.is_err()) {
            return false;
        }
        if view.life == Life::Dead {
            return true;
        }
    }
}

async fn retire(session: &SimSession, machine: &Machine, view: &MachineView) -> Result<(), ApiError> {
    if view.units.is_empty() && machine.deployed().is_empty() {
        session.machine_dead().await?;
    }
    Ok(())
}

async fn execute(
    world: &World,
    session: &SimSession,
    machine: &Machine,
    view: &MachineView,
) -> Result<(), ApiError> {
    let assigned: BTreeMap<Uuid, Life> = view.units.iter().map(|(id, unit)| (*id, unit.life)).collect();
    let deployed: BTreeSet<Uuid> = machine.deployed().into_keys().collect();
    let mut evidence = BTreeMap::new();
    for unit in deployed.iter().filter(|unit| !assigned.contains_key(unit)) {
        let gone = session.fate(*unit).await? == Fate::Tombstone;
        evidence.insert(*unit, if gone { Evidence::Removed } else { Evidence::None });
    }
    for step in plan(&assigned, &deployed, &evidence) {
        world.pause().await;
        match step {
            Step::Deploy(unit) => {
                let name = view.units[&unit].name.clone();
                machine.state().deployed.insert(unit, name.clone());
                world.command(Command::Deploy { machine: machine.id, unit, name });
            }
            Step::Keep(unit) => world.command(Command::Keep(unit)),
            Step::Recall(_) if world.mix().has(Mutant::DeadAreNotRecalled) => {}
            Step::Recall(unit) => {
                world.command(Command::Recall(unit));
                world.pause().await;
                remove(session, unit).await?;
                machine.state().deployed.remove(&unit);
            }
            Step::Remove(unit) => remove(session, unit).await?,
        }
    }
    Ok(())
}

async fn remove(session: &SimSession, unit: Uuid) -> Result<(), ApiError> {
    match MachineApi::remove_unit(session, unit).await {
        Err(error) if matches!(error.code, ErrorCode::Removed | ErrorCode::NotFound) => Ok(()),
        other => other,
    }
}

/// Whom the provider and the users of the simulation act as.
pub fn admin() -> Principal {
    Principal::User { name: "admin".to_owned(), role: UserRole::Admin }
}

/// The provider: an agent for every machine, and Dead machines taken away.
pub async fn provide(world: World, wire: Wire, model: Model) {
    let (mut started, mut after) = (BTreeSet::new(), None);
    let text = model.0.to_string();
    loop {
        let session = wire.session(admin());
        let Ok(position) = session.changes(&text, after).await else {
            world.sleep(200).await;
            continue;
        };
        after = Some(position);
        for machine in session.machines(&text).await.unwrap_or_default() {
            if machine.life == Life::Dead {
                session.machine_removed(&text, machine.uuid).await.ok();
            } else if started.insert(machine.uuid) {
                world.command(Command::StartMachine(machine.uuid));
            }
        }
    }
}
