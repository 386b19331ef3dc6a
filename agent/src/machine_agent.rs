//! The machine loop: watch what is assigned, plan, execute. Unit agents are processes of their own: this one may end
//! and start again beside them without touching them.

use crate::outage::{Call, Outage};
use crate::ports::{Clock, Deployments};
use anyhow::Result;
use api::error::{ApiError, ErrorCode};
use api::{
    Fate, MachineAgentRequests, MachineView, MachineWatchEvent, RemoveDeadUnit, ReportMachineDead,
    ReportPresence, ReportUninstalled, SetUnitToken, Stream, UnitFate, Watch, WatchMachine,
};
use host::backoff::Backoff;
use state::machine::plan::{Evidence, Step, evidence, is_leaving, plan};
use state::terms::life::Life;
use state::terms::names::Uuid;
use state::views::view;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

/// Between two tries to reach the controller, doubled to the most while it does not answer; and before something is
/// tried again that did not work.
const RETRY_FIRST_MS: u64 = 200;
const RETRY_MAX_MS: u64 = 5_000;
const BACKOFF: Backoff = Backoff::new(RETRY_FIRST_MS, RETRY_MAX_MS);

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

/// The machine agent.
pub struct Machiner<A, D, C> {
    api: A,
    deployments: D,
    clock: C,
    /// Units whose removal the controller refused.
    lived: RefCell<BTreeSet<Uuid>>,
    /// Units whose token the controller was told in this watch. 1. A unit's token is set, and that is noted in its
    /// folder. 2. The controller is restored from a copy that has the unit and not its token. 3. The unit's agent is
    /// let in nowhere, and nobody else knows the token. The restore ended the watch.
    introduced: RefCell<BTreeSet<Uuid>>,
    /// What does not work, as it was told.
    troubles: RefCell<BTreeMap<Step, String>>,
}

impl<A: MachineAgentRequests, D: Deployments, C: Clock> Machiner<A, D, C> {
    pub fn new(api: A, deployments: D, clock: C) -> Machiner<A, D, C> {
        let (lived, introduced, troubles) = Default::default();
        Machiner { api, deployments, clock, lived, introduced, troubles }
    }

    /// Tends this machine's units until the machine is Dead. The units that are deployed run whether the controller
    /// answers or not.
    pub async fn run(&self) -> End {
        let mut backoff = BACKOFF;
        let mut outage = Outage::default();
        loop {
            self.tend(None).await;
            let error = match self.api.watch(WatchMachine).await {
                Ok(watch) => {
                    backoff.reset();
                    if let Some(told) = outage.ended(Call::Watch, self.clock.since_boot_ms()) {
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
            if let Some(told) = outage.failed(Call::Watch, &error, self.clock.since_boot_ms()) {
                tracing::warn!("{told}");
            }
            tokio::select! {
                biased;
                () = self.sleep(backoff.delay_ms()) => {}
                () = self.deployments.changed() => {}
            }
            backoff.increase();
        }
    }

    /// Of a machine that is Dead: takes away what it brought, and tells the controller (`retirement`, steps 2 and 3).
    pub async fn leave(&self) -> Result<()> {
        for (unit, folder) in self.deployments.deployed() {
            self.deployments.stop(&folder).await?;
            self.deployments.forget(unit, &folder).await?;
        }
        while let Err(error) = self.api.handle(ReportUninstalled).await {
            // its record, and its token with it, went before
            if matches!(error.code, ErrorCode::Unauthorised | ErrorCode::NotFound | ErrorCode::Removed) {
                break;
            }
            tracing::warn!("{}", error.message);
            self.sleep(RETRY_MAX_MS).await;
        }
        Ok(())
    }

    async fn sleep(&self, ms: u64) {
        self.clock.sleep_until(self.clock.since_boot_ms() + ms).await;
    }

    /// What is done about the units may take long: presence is told beside it.
    async fn follow(&self, watch: <A as Watch<WatchMachine>>::Stream) -> Result<End, ApiError> {
        tokio::select! {
            biased;
            never = self.keep_here() => match never {},
            end = self.attend(watch) => end,
        }
    }

    async fn attend(&self, mut watch: <A as Watch<WatchMachine>>::Stream) -> Result<End, ApiError> {
        self.introduced.borrow_mut().clear();
        let (mut view, mut backoff) = (None, BACKOFF);
        loop {
            // not done yet, for whatever reason: looked at again
            let again = self.tend(view.as_ref()).await;
            if !again {
                backoff.reset();
            }
            if let Some(view) = &view
                && self.is_dead(view).await?
            {
                return Ok(End::Dead);
            }
            tokio::select! {
                biased;
                shown = watch.next() => match shown? {
                    MachineWatchEvent::View(newest) => view = Some(newest),
                    MachineWatchEvent::Heartbeat(_) => {}
                },
                () = self.deployments.changed() => {}
                () = self.sleep(backoff.delay_ms()), if again => backoff.increase(),
            }
        }
    }

    /// Beside the watch, so that neither waits for the other on a connection that is dead: said at every heartbeat, so
    /// that the controller calls this agent late when three of them did not come.
    async fn keep_here(&self) -> Infallible {
        loop {
            let next_ms = self.clock.since_boot_ms() + api::HEARTBEAT_MS;
            // one that is lost is made good by the next; an outage ends the watch
            self.api.handle(ReportPresence).await.ok();
            self.clock.sleep_until(next_ms).await;
        }
    }

    /// A Dying machine without units says that it is Dead (spec E.5).
    async fn is_dead(&self, view: &MachineView) -> Result<bool, ApiError> {
        let empty = view.units.is_empty() && self.deployments.deployed().is_empty();
        if view.life == Life::Dying && empty {
            self.api.handle(ReportMachineDead).await?;
        }
        // a machine that was forced may be Dead before what ran on it was recalled
        Ok(view.life == Life::Dead && self.deployments.deployed().is_empty())
    }

    /// Executes the plan; true when something is left to be done again.
    async fn tend(&self, view: Option<&MachineView>) -> bool {
        let deployed = self.deployments.deployed();
        self.introduced.borrow_mut().retain(|unit| deployed.contains_key(unit));
        let assigned = view.map(|view| view.units.iter().map(|(uuid, unit)| (*uuid, unit.life)).collect());
        let assigned: BTreeMap<Uuid, Life> = assigned.unwrap_or_default();
        let lived = self.lived.borrow().iter().map(|unit| (*unit, Evidence::WasAttached)).collect();
        let mut found: BTreeMap<Uuid, Evidence> = lived;
        if let Some(shown) = view {
            let leaving = is_leaving(shown.life, shown.units.len());
            for (unit, folder) in deployed.iter().filter(|(unit, _)| !assigned.contains_key(unit)) {
                let told = self.api.handle(UnitFate { unit: *unit }).await.ok().map(|fate| match fate {
                    Fate::Known(life) => view::Fate::Known(life),
                    Fate::Tombstone => view::Fate::Tombstone,
                    Fate::Unknown => view::Fate::Unknown,
                });
                let finished = self.deployments.is_finished(folder);
                let in_the_way = leaving || self.is_wanted(shown, folder);
                found.insert(*unit, evidence(told, finished, in_the_way));
            }
        }
        let mut left = false;
        let keys: BTreeSet<Uuid> = deployed.keys().copied().collect();
        let steps = plan(&assigned, &keys, &found);
        if view.is_some() {
            self.troubles.borrow_mut().retain(|step, _| steps.contains(step));
        }
        for step in steps {
            let trouble = self.execute(step, view, &deployed).await.err().map(|error| format!("{error:#}"));
            left |= trouble.is_some();
            self.tell(step, trouble);
        }
        left
    }

    /// Each trouble once, until it is another or over: what does not work is planned again and again.
    fn tell(&self, step: Step, trouble: Option<String>) {
        let mut troubles = self.troubles.borrow_mut();
        let known = match &trouble {
            Some(text) => troubles.insert(step, text.clone()),
            None => troubles.remove(&step),
        };
        if let Some(text) = trouble.filter(|text| known.as_ref() != Some(text)) {
            tracing::warn!("{step:?}: {text}");
        }
    }

    /// Another unit that is assigned here is to have this folder.
    fn is_wanted(&self, view: &MachineView, folder: &D::Folder) -> bool {
        view.units.values().any(|unit| self.deployments.folder(&unit.name) == *folder)
    }

    async fn execute(
        &self,
        step: Step,
        view: Option<&MachineView>,
        deployed: &BTreeMap<Uuid, D::Folder>,
    ) -> Result<()> {
        match step {
            Step::Deploy(unit) => self.deploy(unit, view).await,
            Step::Keep(unit) => {
                let folder = &deployed[&unit];
                let assigned = view.is_some_and(|view| view.units.contains_key(&unit));
                let token = self.deployments.token(folder)?;
                if !token.is_acknowledged {
                    self.introduce(unit, folder, &token.text).await?;
                }
                self.deployments.keep(unit, folder, assigned)?;
                // it runs, whether the controller takes its token again or not
                if assigned && !self.introduced.borrow().contains(&unit) {
                    self.api.handle(SetUnitToken { unit, token: token.text }).await?;
                    self.introduced.borrow_mut().insert(unit);
                }
                Ok(())
            }
            Step::Recall(unit) => {
                let folder = &deployed[&unit];
                self.deployments.stop(folder).await?;
                // the controller is told before the folder goes: a crash in between recalls again; of a unit that is
                // not assigned here it has nothing to remove, and would not take our word
                if view.is_some_and(|view| view.units.contains_key(&unit)) {
                    self.removed(unit).await?;
                }
                self.deployments.forget(unit, folder).await?;
                self.lived.borrow_mut().remove(&unit);
                tracing::info!("recalled {folder}");
                Ok(())
            }
            Step::SetAside(unit) => {
                let folder = &deployed[&unit];
                let kept = self.deployments.set_aside(unit, folder).await?;
                tracing::warn!(
                    "{folder} of unit {unit}, which the controller does not know, is kept as {kept}: delete it if \
                     nobody needs it"
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
        let folder = self.deployments.folder(name);
        // looked at anew: what made room went in this round
        let deployed = self.deployments.deployed();
        if deployed.iter().any(|(other, its)| *other != unit && *its == folder) {
            // the name's older holder could not be recalled, or set aside, or nothing is known against it
            anyhow::bail!("{folder} is still another unit's folder");
        }
        let token = self.deployments.prepare(unit, name).await?;
        self.introduce(unit, &folder, &token).await?;
        self.deployments.keep(unit, &folder, true)
    }

    async fn introduce(&self, unit: Uuid, folder: &D::Folder, token: &str) -> Result<()> {
        self.api.handle(SetUnitToken { unit, token: token.to_owned() }).await?;
        self.introduced.borrow_mut().insert(unit);
        self.deployments.note_token_set(folder).await
    }

    async fn removed(&self, unit: Uuid) -> Result<()> {
        match self.api.handle(RemoveDeadUnit { unit }).await {
            Err(error) if matches!(error.code, ErrorCode::Removed | ErrorCode::NotFound) => Ok(()),
            other => Ok(other?),
        }
    }
}
