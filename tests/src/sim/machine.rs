//! Machines: the hook lock and the boot of each, and a stand-in for the machine agent over the production plan.

use crate::sim::mutants::Mutant;
use crate::sim::network::{SimSession, Way, Wire};
use crate::sim::world::{Command, World};
use api::error::{ApiError, ErrorCode};
use api::machine::{Fate, MachineApi, MachineShown, MachineView, MachineWatch};
use state::life::Life;
use state::machine::plan::{Evidence, Step, plan};
use state::model::keys::{Model, Principal, UserRole};
use state::names::{UnitName, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// Between two tries of a link that is down.
const RETRY_MS: u64 = 2_000;

struct State {
    hook_lock: Arc<tokio::sync::Mutex<()>>,
    /// What the provider calls it: another one made for the same machine has other boots.
    instance: u64,
    boots: u64,
    /// It has no power.
    off: bool,
    booted_ms: u64,
    /// Its disk is full until then.
    full_ms: u64,
    /// Folders of unit agents that are here.
    deployed: BTreeMap<Uuid, UnitName>,
    /// Those of them whose agent has finished, or that are being recalled.
    finished: BTreeSet<Uuid>,
    /// Units whose removal was refused since they have lived. Its agent forgets them when it dies, and asks again.
    lived: BTreeSet<Uuid>,
}

/// One machine; what is in it outlives its agent.
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
            off: false,
            booted_ms: now_ms,
            full_ms: 0,
            deployed: BTreeMap::new(),
            finished: BTreeSet::new(),
            lived: BTreeSet::new(),
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
        state.off = false;
        state.hook_lock = Arc::default();
    }

    pub fn switch_off(&self) {
        self.state().off = true;
    }

    pub fn is_off(&self) -> bool {
        self.state().off
    }

    pub fn fill(&self, until_ms: u64) {
        self.state().full_ms = until_ms;
    }

    pub fn is_full(&self, now_ms: u64) -> bool {
        self.state().full_ms > now_ms
    }

    /// A folder was taken away by hand.
    pub fn forget(&self, unit: Uuid) {
        self.state().deployed.remove(&unit);
        self.state().lived.remove(&unit);
        self.begin_anew(unit);
    }

    /// Written down in the unit's folder.
    pub fn finish(&self, unit: Uuid) {
        self.state().finished.insert(unit);
    }

    pub fn begin_anew(&self, unit: Uuid) {
        self.state().finished.remove(&unit);
    }

    pub fn deployed(&self) -> BTreeMap<Uuid, UnitName> {
        self.state().deployed.clone()
    }
}

/// The machine agent: watches, plans, executes; until the machine is Dead.
pub async fn tend(world: World, wire: Wire, model: Model, machine: Machine) {
    let principal = Principal::Machine { model, machine: machine.id };
    let asks = Asks { wire, principal };
    let work = async {
        loop {
            let session = asks.wire.session(asks.principal.clone());
            match follow(&world, &asks, &session, &machine).await {
                Followed::Dead => return,
                Followed::Broken => world.sleep(200).await,
                Followed::Unreachable => world.sleep(RETRY_MS).await,
            }
        }
    };
    tokio::select! {
        biased;
        () = work => {}
        () = beat(&world, &asks, &machine) => {}
    }
}

/// Says again and again that the agent is here: in those runs in which somebody asks who is.
async fn beat(world: &World, asks: &Asks, machine: &Machine) {
    if world.mix().stuck == 0 {
        return std::future::pending().await;
    }
    loop {
        if !asks.wire.is_cut_off(machine.id, Way::ToController) {
            let here = |session: SimSession| async move { session.here().await };
            asks.wire.ask(here, asks.principal.clone()).await;
        }
        world.sleep(api::HEARTBEAT_MS).await;
    }
}

/// How following the controller ended.
enum Followed {
    Dead,
    Broken,
    Unreachable,
}

/// What the machine agent asks beside its watch.
struct Asks {
    wire: Wire,
    principal: Principal,
}

impl Asks {
    async fn fate(&self, unit: Uuid) -> Result<Fate, ApiError> {
        let ask = |session: SimSession| async move { session.fate(unit).await };
        self.wire.ask(ask, self.principal.clone()).await.unwrap_or_else(lost)
    }

    async fn remove(&self, unit: Uuid) -> Result<(), ApiError> {
        let ask = |session: SimSession| async move { MachineApi::remove_unit(&session, unit).await };
        match self.wire.ask(ask, self.principal.clone()).await.unwrap_or_else(lost) {
            Err(error) if matches!(error.code, ErrorCode::Removed | ErrorCode::NotFound) => Ok(()),
            other => other,
        }
    }

    async fn dead(&self) -> Result<(), ApiError> {
        let ask = |session: SimSession| async move { session.machine_dead().await };
        self.wire.ask(ask, self.principal.clone()).await.unwrap_or_else(lost)
    }
}

fn lost<T>() -> Result<T, ApiError> {
    Err(ApiError::new(ErrorCode::Unreachable, "no answer"))
}

async fn follow(world: &World, asks: &Asks, session: &SimSession, machine: &Machine) -> Followed {
    for unit in machine.deployed().into_keys() {
        world.command(Command::Keep(unit));
    }
    world.pause().await;
    if Way::ALL.iter().any(|way| asks.wire.is_cut_off(machine.id, *way)) {
        return Followed::Unreachable;
    }
    let Ok(mut watch) = session.watch_machine().await else { return Followed::Unreachable };
    loop {
        let shown = match watch.next().await {
            Ok(shown) => shown,
            Err(_) => return Followed::Unreachable,
        };
        if asks.wire.is_cut_off(machine.id, Way::FromController) || world.strikes(world.mix().watch_broken) {
            return Followed::Broken;
        }
        let MachineShown::View(view) = shown else { continue };
        let tended = execute(world, asks, machine, &view).await;
        if tended.is_err() || (view.life == Life::Dying && retire(asks, machine, &view).await.is_err()) {
            return Followed::Broken;
        }
        if view.life == Life::Dead {
            return Followed::Dead;
        }
    }
}

async fn retire(asks: &Asks, machine: &Machine, view: &MachineView) -> Result<(), ApiError> {
    if view.units.is_empty() && machine.deployed().is_empty() {
        asks.dead().await?;
    }
    Ok(())
}

async fn execute(world: &World, asks: &Asks, machine: &Machine, view: &MachineView) -> Result<(), ApiError> {
    let assigned: BTreeMap<Uuid, Life> = view.units.iter().map(|(id, unit)| (*id, unit.life)).collect();
    let deployed: BTreeSet<Uuid> = machine.deployed().into_keys().collect();
    let lived = machine.state().lived.clone();
    let mut evidence: BTreeMap<Uuid, Evidence> =
        lived.into_iter().map(|unit| (unit, Evidence::Lived)).collect();
    for unit in deployed.iter().filter(|unit| !assigned.contains_key(unit)) {
        let gone = asks.fate(*unit).await? == Fate::Tombstone || world.mix().has(Mutant::AbsenceIsDeath);
        let found = match machine.state().finished.contains(unit) {
            _ if gone => Evidence::Removed,
            true => Evidence::Finished,
            false => Evidence::None,
        };
        evidence.insert(*unit, found);
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
                machine.finish(unit);
                world.command(Command::Recall(unit));
                world.pause().await;
                if assigned.contains_key(&unit) {
                    asks.remove(unit).await?;
                }
                machine.forget(unit);
            }
            Step::Remove(unit) => {
                let removed = asks.remove(unit).await;
                if removed.as_ref().is_err_and(|error| !error.is_passing()) {
                    machine.state().lived.insert(unit);
                }
                removed?;
            }
            Step::SetAside(_) => unreachable!("nobody here says that a unit is displaced"),
        }
    }
    Ok(())
}

/// Whom the provider and the users of the simulation act as.
pub fn admin() -> Principal {
    Principal::User { name: "admin".to_owned(), role: UserRole::Admin }
}
