//! The machine loop: watch what is assigned, plan, execute. Unit agents are processes of their own: this one may end
//! and start again beside them without touching them.

use crate::deployer::Deployer;
use crate::folder::Folder;
use crate::outage::{Call, Outage};
use crate::service;
use anyhow::Result;
use api::error::{ApiError, ErrorCode};
use api::machine::{Fate, MachineApi, MachineShown, MachineView, MachineWatch};
use state::life::Life;
use state::machine::plan::{Evidence, Step, evidence, plan};
use state::model::view;
use state::names::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// A unit agent that dies is started again after this, doubled to the most while it keeps dying young.
const RESTART_FIRST: Duration = Duration::from_millis(200);
const RESTART_MAX: Duration = Duration::from_secs(30);
/// An agent that lived this long did not die young.
const GREW_UP: Duration = Duration::from_secs(60);
/// Between two signs of life: the controller calls this agent late when three of them did not come.
const HERE_EVERY: Duration = Duration::from_millis(api::HEARTBEAT_MS);

/// How the loop ended.
#[derive(Debug)]
pub enum End {
    /// The machine is Dead, or was removed: this agent is never started again.
    Dead,
}

/// The controller could not be asked, or asks to be asked again.
fn is_passing(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ApiError>().is_some_and(ApiError::is_passing)
}

/// Another unit that is assigned here is to have this folder.
fn is_wanted(view: Option<&MachineView>, folder: &Folder) -> bool {
    view.is_some_and(|view| view.units.values().any(|unit| unit.name.tag() == folder.tag()))
}

/// A unit agent's starts, for the back-off.
#[derive(Clone, Copy, Debug)]
struct Tended {
    started: Instant,
    delay: Duration,
    /// Its end was not seen yet.
    running: bool,
}

/// The machine agent.
pub struct Machiner<A> {
    api: A,
    deployer: Deployer,
    tended: std::cell::RefCell<BTreeMap<Uuid, Tended>>,
    /// Units whose removal the controller refused.
    lived: std::cell::RefCell<BTreeSet<Uuid>>,
    /// A unit agent ended.
    ended: Arc<Notify>,
}

impl<A: MachineApi> Machiner<A> {
    pub fn new(api: A, deployer: Deployer) -> Machiner<A> {
        Machiner {
            api,
            deployer,
            tended: Default::default(),
            lived: Default::default(),
            ended: Arc::new(Notify::new()),
        }
    }

    /// Tends this machine's units until the machine is Dead. The units that are deployed run whether the controller
    /// answers or not.
    pub async fn run(&self) -> End {
        let mut pause = RETRY_FIRST;
        let mut outage = Outage::default();
        loop {
            self.tend(None).await;
            let error = match self.api.watch_machine().await {
                Ok(watch) => {
                    pause = RETRY_FIRST;
                    if let Some(told) = outage.ended(Call::Watch, crate::clock::since_boot_ms()) {
                        tracing::info!("{told}");
                    }
                    match self.follow(watch).await {
                        Ok(end) => return end,
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            // its own token says so: it was removed by force while it was away
            if error.code == ErrorCode::Removed {
                return End::Dead;
            }
            if let Some(told) = outage.failed(Call::Watch, &error, crate::clock::since_boot_ms()) {
                tracing::warn!("{told}");
            }
            let ended = self.ended.notified();
            tokio::select! { () = tokio::time::sleep(pause) => {}, () = ended => {} }
            pause = (pause * 2).min(RETRY_MAX);
        }
    }

    async fn follow(&self, mut watch: A::Watch) -> Result<End, ApiError> {
        let mut view = None;
        let mut here = pin!(self.keep_here());
        loop {
            // not done yet, for whatever reason: looked at again
            let again = self.tend(view.as_ref()).await;
            if let Some(view) = &view
                && self.is_dead(view).await?
            {
                return Ok(End::Dead);
            }
            tokio::select! {
                shown = watch.next() => match shown? {
                    MachineShown::View(newest) => view = Some(newest),
                    MachineShown::Heartbeat(_) => {}
                },
                () = self.ended.notified() => {}
                never = &mut here => match never {},
                () = tokio::time::sleep(RETRY_FIRST), if again => {}
            }
        }
    }

    /// Beside the watch, so that neither waits for the other on a connection that is dead.
    async fn keep_here(&self) -> Infallible {
        let mut every = tokio::time::interval(HERE_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            // one that is lost is made good by the next; an outage ends the watch
            self.api.here().await.ok();
        }
    }

    /// A Dying machine without units says that it is Dead (spec E.5).
    async fn is_dead(&self, view: &MachineView) -> Result<bool, ApiError> {
        let empty = view.units.is_empty() && self.deployer.deployed().is_empty();
        if view.life == Life::Dying && empty {
            self.api.machine_dead().await?;
        }
        // a machine that was forced may be Dead before what ran on it was recalled
        Ok(view.life == Life::Dead && self.deployer.deployed().is_empty())
    }

    /// Executes the plan; true when something is left to be done again.
    async fn tend(&self, view: Option<&MachineView>) -> bool {
        let deployed = self.deployer.deployed();
        let assigned = view.map(|view| view.units.iter().map(|(uuid, unit)| (*uuid, unit.life)).collect());
        let assigned: BTreeMap<Uuid, Life> = assigned.unwrap_or_default();
        let lived = self.lived.borrow().iter().map(|unit| (*unit, Evidence::Lived)).collect();
        let mut found: BTreeMap<Uuid, Evidence> = lived;
        if view.is_some() {
            for (unit, folder) in deployed.iter().filter(|(unit, _)| !assigned.contains_key(unit)) {
                let told = self.api.fate(*unit).await.ok().map(|fate| match fate {
                    Fate::Known(life) => view::Fate::Known(life),
                    Fate::Tombstone => view::Fate::Tombstone,
                    Fate::Unknown => view::Fate::Unknown,
                });
                let (finished, wanted) = (self.deployer.is_finished(folder), is_wanted(view, folder));
                found.insert(*unit, evidence(told, finished, wanted));
            }
        }
        let mut left = false;
        let keys: BTreeSet<Uuid> = deployed.keys().copied().collect();
        for step in plan(&assigned, &keys, &found) {
            if let Err(error) = self.execute(step, view, &deployed).await {
                tracing::warn!("{step:?}: {error:#}");
                left = true;
            }
        }
        left
    }

    async fn execute(
        &self,
        step: Step,
        view: Option<&MachineView>,
        deployed: &BTreeMap<Uuid, Folder>,
    ) -> Result<()> {
        match step {
            Step::Deploy(unit) => self.deploy(unit, view).await,
            Step::Keep(unit) => {
                let folder = &deployed[&unit];
                self.deployer.lead(folder)?;
                if !self.deployer.token_is_set(folder) {
                    let config = crate::config::Config::read(folder.root())?;
                    self.api.set_token(unit, &config.token).await?;
                    self.deployer.note_token_set(folder)?;
                }
                self.keep(unit, folder)
            }
            Step::Recall(unit) => {
                let folder = &deployed[&unit];
                self.deployer.stop(folder).await?;
                // the controller is told before the folder goes: a crash in between recalls again; of a unit that is
                // not assigned here it has nothing to remove, and would not take our word
                if view.is_some_and(|view| view.units.contains_key(&unit)) {
                    self.removed(unit).await?;
                }
                self.deployer.forget(folder)?;
                self.tended.borrow_mut().remove(&unit);
                self.lived.borrow_mut().remove(&unit);
                tracing::info!("recalled {}", folder.tag());
                Ok(())
            }
            Step::SetAside(unit) => {
                let folder = &deployed[&unit];
                let kept = self.deployer.set_aside(folder, unit).await?;
                self.tended.borrow_mut().remove(&unit);
                tracing::warn!(
                    "{} of unit {unit}, which the controller does not know, is kept as {}: delete it if nobody needs it",
                    folder.tag(),
                    kept.display()
                );
                Ok(())
            }
            Step::Remove(unit) => {
                let removed = self.removed(unit).await;
                if removed.as_ref().is_err_and(|error| !is_passing(error)) {
                    self.lived.borrow_mut().insert(unit);
                }
                removed
            }
        }
    }

    async fn deploy(&self, unit: Uuid, view: Option<&MachineView>) -> Result<()> {
        let assigned = view.and_then(|view| view.units.get(&unit));
        let name = &assigned.expect("units are deployed when they are assigned").name;
        let folder = self.deployer.folder(name);
        // looked at anew: what made room went in this round
        let deployed = self.deployer.deployed();
        if deployed.iter().any(|(other, its)| *other != unit && its.root() == folder.root()) {
            // the name's older holder could not be recalled, or set aside, or nothing is known against it
            anyhow::bail!("{} is still another unit's folder", folder.root().display());
        }
        let config = self.deployer.prepare(unit, name)?;
        self.api.set_token(unit, &config.token).await?;
        self.deployer.note_token_set(&folder)?;
        self.keep(unit, &folder)
    }

    async fn removed(&self, unit: Uuid) -> Result<()> {
        match self.api.remove_unit(unit).await {
            Err(error) if matches!(error.code, ErrorCode::Removed | ErrorCode::NotFound) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Sees that the unit's agent runs, after its back-off.
    fn keep(&self, unit: Uuid, folder: &Folder) -> Result<()> {
        if !self.deployer.may_run(folder) {
            return Ok(());
        }
        let mut all = self.tended.borrow_mut();
        let known = all.get(&unit).copied();
        if let Some(process) = service::running(folder) {
            if known.is_none_or(|known| !known.running) {
                // started by an earlier machine agent: watched, not touched
                let ended = Arc::clone(&self.ended);
                tokio::spawn(async move {
                    service::ended(process).await;
                    ended.notify_one();
                });
                let tended = Tended { started: Instant::now(), delay: RESTART_FIRST, running: true };
                all.insert(unit, tended);
            }
            return Ok(());
        }
        let delay = match known {
            None => RESTART_FIRST,
            Some(known) if known.started.elapsed() < known.delay => return self.look_again(known),
            Some(known) if known.started.elapsed() > GREW_UP => RESTART_FIRST,
            Some(known) => (known.delay * 2).min(RESTART_MAX),
        };
        let over = self.deployer.start(folder)?;
        tracing::info!("started the agent of {}", folder.tag());
        all.insert(unit, Tended { started: Instant::now(), delay, running: true });
        let ended = Arc::clone(&self.ended);
        tokio::spawn(async move {
            over.await;
            ended.notify_one();
        });
        Ok(())
    }

    fn look_again(&self, known: Tended) -> Result<()> {
        let (left, ended) = (known.delay.saturating_sub(known.started.elapsed()), Arc::clone(&self.ended));
        tokio::spawn(async move {
            tokio::time::sleep(left).await;
            ended.notify_one();
        });
        Ok(())
    }
}
