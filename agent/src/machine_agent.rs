//! The machine agent's loop: it watches the units assigned to this machine, plans, and executes the plan.
//!
//! Unit agents are separate processes: the machine agent may end and restart without affecting them.
//! `state::machine::plan` decides what is done. Deployed units keep running while the controller is unreachable.
//!
//! Started by `pintle-agent machine`, and by the simulator.

mod controller_answers;
mod obstructed_recalls;
mod ssh_keys;
mod steps;
mod storage;
mod storage_restoration;
mod watch_contact;

use crate::fault;
use crate::outage::{Channel, LINK_BACKOFF, LINK_RETRY_MAX_MS, Outage, jittered_delay_ms};
use crate::ports::{AuthorizedKeys, Clock, Deployments, StorageHost};
use anyhow::Result;
use api::error::{ApiError, ErrorCode};
use api::{
    GetUnitExistence, MachineAgentRequests, MachineView, ReportDiskUsage, ReportMachineDead,
    ReportObstructedRecalls, ReportUninstalled, ReportUnitHealth, Stream, Watch, WatchMachine,
};
use controller_answers::is_temporary;
use obstructed_recalls::ObstructedRecalls;
use ssh_keys::SshKeysProgress;
use state::machine::claims::{Claim, IdentifiedFolders, identify};
use state::machine::plan::{
    DeployStep, Evidence, MachineStep, confirmations, evidence, is_dying_and_empty, machine_step, plan,
    recalled, waits_for_storage,
};
use state::terms::health::UnitHealth;
use state::terms::names::{UnitName, Uuid};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use steps::{Attempt, StepExecutor};
use storage::{StorageExecutor, StorageProgress};
use storage_restoration::StorageRestoration;
use watch_contact::WatchContact;

/// The pause between two measurements of the units' disk usage: 2,000 units with 5,000 files each are 5,600
/// files a second, one hundredth of a core.
const DISK_USAGE_INTERVAL_MS: u64 = 30 * 60 * 1000;
/// The upper bound of the random delay that is added to that pause, so that machines whose agents were started at the
/// same time do not always report at the same time.
const DISK_USAGE_JITTER_MS: u64 = 5 * 60 * 1000;

/// The agent of one machine. See the module.
pub struct MachineAgent<A, D, C> {
    api: A,
    deployments: D,
    clock: C,
    /// Units whose agent has to run the last hooks, as the controller answered when their removal was requested.
    unfinished_units: RefCell<BTreeSet<Uuid>>,
    /// The tokens that were sent to the controller during this watch. They are sent again in each watch:
    /// 1. A unit's token is set, and its folder stores that.
    /// 2. The controller is restored from a backup that has the unit and not its token.
    /// 3. The unit's agent is refused, and no other process has the token. The restore ended the watch.
    ///
    /// Another token in the folder is sent as well: the controller refuses an agent whose token it did not receive.
    sent_tokens: RefCell<BTreeMap<Uuid, String>>,
    /// The names of the units that the controller has assigned to this machine, and of earlier ones that a folder claims.
    /// A uuid never gets another name, so they are kept without a connection.
    names: RefCell<BTreeMap<Uuid, UnitName>>,
    /// The last logged error of each attempt that fails.
    logged_errors: RefCell<BTreeMap<Attempt, String>>,
    restoration: StorageRestoration,
    /// When the disk usage is measured next, in milliseconds since boot.
    next_disk_usage_ms: Cell<u64>,
    /// The last deployment of each unit without a folder: its error, or nothing if it succeeded or is only delayed.
    failed_deployments: RefCell<BTreeMap<Uuid, UnitHealth>>,
    /// What the controller has received about unit agents in this watch.
    reported_health: RefCell<BTreeMap<Uuid, UnitHealth>>,
    /// Held while a report about health is sent, and the same for recalls.
    health_report: tokio::sync::Mutex<()>,
    recall_report: tokio::sync::Mutex<()>,
    /// Recalls that cannot be completed until a person deletes or releases a folder.
    obstructed: RefCell<ObstructedRecalls>,
    /// What was done with the storage of the machine.
    storage: StorageProgress,
    ssh_keys: SshKeysProgress,
    contact: WatchContact,
}

impl<A: MachineAgentRequests, D: Deployments + StorageHost + AuthorizedKeys, C: Clock> MachineAgent<A, D, C> {
    /// An agent that has not started yet.
    pub fn new(api: A, deployments: D, clock: C) -> MachineAgent<A, D, C> {
        let (unfinished_units, sent_tokens, names, logged_errors) = Default::default();
        let (failed_deployments, reported_health) = Default::default();
        let next_disk_usage_ms = Cell::new(clock.since_boot_ms());
        MachineAgent {
            api,
            deployments,
            clock,
            unfinished_units,
            sent_tokens,
            names,
            logged_errors,
            restoration: StorageRestoration::new(),
            next_disk_usage_ms,
            failed_deployments,
            health_report: tokio::sync::Mutex::default(),
            recall_report: tokio::sync::Mutex::default(),
            reported_health,
            obstructed: RefCell::new(ObstructedRecalls::new()),
            storage: StorageProgress::default(),
            ssh_keys: SshKeysProgress::default(),
            contact: WatchContact::default(),
        }
    }

    /// Runs the units of this machine, whether or not the controller is reachable. Returns when the machine is Dead or was
    /// removed; the caller then uninstalls the machine agent.
    pub async fn run(&self) {
        let mut backoff = LINK_BACKOFF;
        let (mut outage, mut was_connected) = (Outage::default(), false);
        loop {
            self.apply_plan(None).await;
            let error = match self.api.watch(WatchMachine).await {
                Ok(watch) => {
                    backoff.reset();
                    if !std::mem::replace(&mut was_connected, true) {
                        tracing::info!("connected to the controller");
                    }
                    if let Some(line) = outage.record_success(Channel::Watch, self.clock.since_boot_ms()) {
                        tracing::info!("{line}");
                    }
                    match self.run_watch(watch).await {
                        Ok(()) => return,
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            // the machine was removed by force while its agent was not connected
            if error.code == ErrorCode::Removed {
                return;
            }
            if let Some(line) = outage.record_failure(Channel::Watch, &error, self.clock.since_boot_ms()) {
                tracing::warn!("{line}");
            }
            tokio::select! {
                biased;
                () = self.sleep(jittered_delay_ms(&backoff, &self.clock)) => {}
                () = self.deployments.changed() => {}
            }
            backoff.increase();
        }
    }

    /// Uninstalls the units of a Dead machine, and reports that to the controller (`uninstall`, steps 2 to 5). Nothing is
    /// deleted while a process may use it.
    ///
    /// # Errors
    /// If an agent or a hook cannot be stopped, storage cannot be released, or a folder cannot be deleted. The report is
    /// repeated until the controller accepts it, or has no record of the machine.
    pub async fn uninstall_units(&self) -> Result<()> {
        self.deployments.stop_all().await?;
        self.deployments.release_all_storage().await?;
        self.deployments.set_ssh_keys(&[]).await?;
        for claim in self.deployments.claims()? {
            self.deployments.delete(claim.unit, &claim.folder).await?;
        }
        self.deployments.wait_until_deleted().await;
        let mut outage = Outage::default();
        while let Err(error) = self.api.handle(ReportUninstalled).await {
            // the record of the machine is removed already, and its token with it
            if matches!(error.code, ErrorCode::Unauthorised | ErrorCode::NotFound | ErrorCode::Removed) {
                break;
            }
            if let Some(line) = outage.record_failure(Channel::Send, &error, self.clock.since_boot_ms()) {
                tracing::warn!("{line}");
            }
            self.sleep(LINK_RETRY_MAX_MS).await;
        }
        Ok(())
    }

    async fn sleep(&self, ms: u64) {
        self.clock.sleep_until(self.clock.since_boot_ms() + ms).await;
    }

    /// Applying the plan and measuring the disk may take long: presence and health are reported concurrently.
    async fn run_watch(&self, watch: <A as Watch<WatchMachine>>::Stream) -> Result<(), ApiError> {
        tokio::select! {
            biased;
            never = self.report_presence() => match never {},
            never = self.send_disk_usage() => match never {},
            result = self.serve_watch(watch) => result,
        }
    }

    /// Applies the plan whenever the view or the deployments change, until the machine is Dead or the watch
    /// fails.
    async fn serve_watch(&self, mut watch: <A as Watch<WatchMachine>>::Stream) -> Result<(), ApiError> {
        self.sent_tokens.borrow_mut().clear();
        self.reported_health.borrow_mut().clear();
        self.obstructed.borrow_mut().set_reported(BTreeMap::new());
        self.storage.forget_reports();
        self.contact.note_opened(self.clock.since_boot_ms());
        let (mut view, mut backoff) = (None, LINK_BACKOFF);
        loop {
            // a step failed: the plan is applied again after a delay
            let mut is_incomplete = self.apply_plan(view.as_ref()).await;
            if let Some(view) = &view {
                let (api, host, progress) = (&self.api, &self.deployments, &self.storage);
                is_incomplete |= StorageExecutor { api, host, progress }.apply(view).await;
                is_incomplete |= self.ssh_keys.apply(host, &view.ssh_keys).await;
            }
            self.report_health().await;
            self.report_obstructed_recalls().await;
            if !is_incomplete {
                backoff.reset();
            }
            if let Some(view) = &view
                && self.end_if_empty(view).await?
            {
                return Ok(());
            }
            let recall_ms = self.obstructed.borrow().next_attempt_ms(self.clock.since_boot_ms());
            tokio::select! {
                biased;
                newest = self.contact.next_view(&mut watch, &self.clock) => view = Some(newest?),
                () = self.deployments.changed() => {}
                () = self.sleep(backoff.delay_ms()), if is_incomplete => backoff.increase(),
                () = self.clock.sleep_until(recall_ms.unwrap_or(u64::MAX)), if recall_ms.is_some() => {}
                () = self.contact.silence(&self.clock) => return Err(watch.give_up()),
            }
        }
    }

    /// Reports presence and health, concurrently with the watch. The controller reports this agent as late when its presence
    /// is overdue by [`api::EXAMINATION_INTERVAL_MS`].
    async fn report_presence(&self) -> Infallible {
        let mut due_ms = 0;
        loop {
            let now_ms = self.clock.since_boot_ms();
            // a report that is lost is repeated soon, and an outage ends the watch
            if now_ms >= due_ms
                && let Ok(response) = self.api.handle(self.contact.report(self.clock.machine_boot())).await
            {
                due_ms = now_ms + api::PRESENCE_INTERVAL_MS;
                self.contact.note_response(response, now_ms);
            }
            self.report_health().await;
            self.report_obstructed_recalls().await;
            self.clock.sleep_until(now_ms + api::EXAMINATION_INTERVAL_MS).await;
        }
    }

    /// Reports what has changed in the health of the unit agents. A report that is lost is repeated with the next one.
    async fn report_health(&self) {
        // Two concurrent reports could arrive in the other order. The one that is being sent is followed by another soon.
        let Ok(_turn) = self.health_report.try_lock() else { return };
        let mut found = self.failed_deployments.borrow().clone();
        // what prevents the listing is logged when the plan is applied
        let deployed = self.identify().map(|identified| identified.deployed).unwrap_or_default();
        found.extend(deployed.iter().map(|(unit, folder)| (*unit, self.deployments.health(*unit, folder))));
        for (unit, exit) in self.restoration.held_back() {
            if deployed.get(&unit).is_none_or(|folder| self.deployments.is_to_be_started(folder)) {
                found.entry(unit).or_default().exit = Some(exit);
            }
        }
        {
            let reported = self.reported_health.borrow();
            found.retain(|unit, health| reported.get(unit).unwrap_or(&UnitHealth::default()) != health);
        }
        if !found.is_empty() && self.api.handle(ReportUnitHealth { units: found.clone() }).await.is_ok() {
            self.reported_health.borrow_mut().extend(found);
        }
    }

    /// Reports which recalls are obstructed, if that has changed. A report that is lost is repeated with the next one.
    async fn report_obstructed_recalls(&self) {
        let Ok(_turn) = self.recall_report.try_lock() else { return };
        let unreported = self.obstructed.borrow().unreported();
        if let Some(recalls) = unreported
            && self.api.handle(ReportObstructedRecalls { recalls: recalls.clone() }).await.is_ok()
        {
            self.obstructed.borrow_mut().set_reported(recalls);
        }
    }

    /// Reports the disk usage of the units, at an interval that is kept across watches.
    async fn send_disk_usage(&self) -> Infallible {
        loop {
            self.clock.sleep_until(self.next_disk_usage_ms.get()).await;
            // set before the measurement, so that the next watch does not repeat it if this watch ends during it
            let jitter_ms = self.jitter_ms(DISK_USAGE_JITTER_MS);
            self.next_disk_usage_ms.set(self.clock.since_boot_ms() + DISK_USAGE_INTERVAL_MS + jitter_ms);
            self.report_disk_usage().await;
        }
    }

    /// A random delay below `max_ms`.
    fn jitter_ms(&self, max_ms: u64) -> u64 {
        u64::try_from(self.clock.random_uuid().0 % u128::from(max_ms)).unwrap_or_default()
    }

    /// Reports the disk usage of each unit. A report that is lost is replaced by the next one.
    async fn report_disk_usage(&self) {
        let mut units = BTreeMap::new();
        let deployed = self.identify().map(|identified| identified.deployed).unwrap_or_default();
        for (unit, folder) in deployed {
            units.insert(unit, self.deployments.disk_usage(&folder).await);
        }
        let quarantined_bytes = self.deployments.quarantined_bytes().await;
        self.api.handle(ReportDiskUsage { units, quarantined_bytes }).await.ok();
    }

    /// Reports that a Dying machine without units is Dead. Returns true if it is Dead already and no folder of a unit is left.
    ///
    /// # Errors
    /// If the report fails.
    async fn end_if_empty(&self, view: &MachineView) -> Result<bool, ApiError> {
        // folders that cannot be listed may exist
        let has_folders = self.identify().map_or(true, |identified| !identified.deployed.is_empty());
        match machine_step(view.life, view.units.len(), has_folders) {
            Some(MachineStep::ReportDead) => self.api.handle(ReportMachineDead).await.map(|()| false),
            Some(MachineStep::End) => Ok(true),
            None => Ok(false),
        }
    }

    /// Which folder belongs to which unit, as far as the names of the units are known.
    ///
    /// # Errors
    /// If the folders cannot be listed.
    fn identify(&self) -> Result<IdentifiedFolders<D::Folder>> {
        Ok(identify(self.deployments.claims()?, &self.names.borrow()))
    }

    /// Names the folders whose claims are not believed, for the log.
    fn disbelieved_text(&self, disbelieved: &[Claim<D::Folder>]) -> Option<String> {
        let names = self.names.borrow();
        let text = |claim: &Claim<D::Folder>| match names.get(&claim.unit) {
            Some(name) => format!("the agent.yaml of {} has the uuid of {name}", claim.folder),
            None => format!("the agent.yaml of {} has a uuid that another one has, too", claim.folder),
        };
        (!disbelieved.is_empty()).then(|| disbelieved.iter().map(text).collect::<Vec<_>>().join("; "))
    }

    /// Executes the plan. Returns true if it must be repeated: a step failed, or no answer states whether a unit
    /// exists, or a recall is still to be confirmed.
    async fn apply_plan(&self, view: Option<&MachineView>) -> bool {
        let unrestored = self.restoration.attempt(&self.deployments, self.clock.wall_ms()).await;
        let mut is_incomplete = unrestored.is_some();
        self.log_once(Attempt::RestoreStorage, unrestored);
        if let Some(view) = view {
            let named = view.units.iter().map(|(unit, assigned)| (*unit, assigned.name.clone()));
            self.names.borrow_mut().extend(named);
        }
        let IdentifiedFolders { deployed, disbelieved } = match self.identify() {
            Ok(identified) => identified,
            Err(error) => {
                self.log_once(Attempt::ListFolders, Some(format!("{error:#}")));
                return true;
            }
        };
        self.log_once(Attempt::ListFolders, None);
        is_incomplete |= !disbelieved.is_empty();
        self.log_once(Attempt::IdentifyFolders, self.disbelieved_text(&disbelieved));
        self.sent_tokens.borrow_mut().retain(|unit, _| deployed.contains_key(unit));
        let nothing = BTreeMap::new();
        let assigned = view.map_or(&nothing, |view| &view.units);
        let can_be_deployed = |unit: &Uuid| view.is_none() || assigned.contains_key(unit);
        self.failed_deployments
            .borrow_mut()
            .retain(|unit, _| can_be_deployed(unit) && !deployed.contains_key(unit));
        // the steps change the set: it is not borrowed beyond this statement
        let unfinished =
            self.unfinished_units.borrow().iter().map(|unit| (*unit, Evidence::WasAttached)).collect();
        let mut found: BTreeMap<Uuid, Evidence> = unfinished;
        if let Some(shown) = view {
            let is_machine_departing = is_dying_and_empty(shown.life, shown.units.len());
            for (unit, folder) in deployed.iter().filter(|(unit, _)| !assigned.contains_key(unit)) {
                let asked = self.api.handle(GetUnitExistence { unit: *unit }).await;
                let refused = asked.as_ref().err().filter(|error| !error.is_transient());
                self.log_once(Attempt::AskExistence(*unit), refused.map(ToString::to_string));
                let existence = asked.ok();
                is_incomplete |= existence.is_none();
                let is_finished = self.deployments.is_finished(folder);
                let is_blocking = is_machine_departing || self.is_name_assigned(shown, folder);
                found.insert(*unit, evidence(existence, is_finished, is_blocking));
            }
        }
        if view.is_some() {
            let is_claimed = |unit: &Uuid| {
                deployed.contains_key(unit) || disbelieved.iter().any(|claim| claim.unit == *unit)
            };
            self.names.borrow_mut().retain(|unit, _| assigned.contains_key(unit) || is_claimed(unit));
        }
        let keys: BTreeSet<Uuid> = deployed.keys().copied().collect();
        let mut steps = plan(assigned, &keys, &found);
        if let Some(view) = view {
            let open = view.recalls.iter().copied().chain(steps.iter().filter_map(recalled)).collect();
            for unit in self.deployments.take_deleted() {
                self.obstructed.borrow_mut().retry_now(unit);
            }
            let due = self.obstructed.borrow_mut().due(&open, self.clock.since_boot_ms());
            steps.retain(|step| recalled(step).is_none_or(|unit| due.contains(&unit)));
            let open_and_due = view.recalls.intersection(&due).copied().collect();
            steps.extend(confirmations(&open_and_due, &keys));
        }
        if view.is_some() {
            let is_repeated = |attempt: &Attempt| match attempt {
                Attempt::Step(step) => steps.contains(step),
                Attempt::AskExistence(unit) => keys.contains(unit) && !assigned.contains_key(unit),
                Attempt::ListFolders | Attempt::IdentifyFolders | Attempt::RestoreStorage => true,
            };
            self.logged_errors.borrow_mut().retain(|attempt, _| is_repeated(attempt));
        }
        let executor = StepExecutor {
            api: &self.api,
            deployments: &self.deployments,
            sent_tokens: &self.sent_tokens,
            names: &self.names,
            unfinished_units: &self.unfinished_units,
        };
        let is_held_back = |unit| self.restoration.lacks_storage(unit);
        let held_back = steps.iter().filter_map(|step| waits_for_storage(*step, is_held_back));
        self.restoration.set_held_back(held_back.collect());
        for step in steps {
            if waits_for_storage(step, is_held_back).is_some() {
                continue;
            }
            let result = executor.execute(step, view, &deployed).await;
            if let DeployStep::Deploy(unit) = step {
                // an unreachable controller is no problem of the unit
                let failed = result.as_ref().err().filter(|error| !is_temporary(error));
                let failed = failed.map(|error| fault::not_started(error, self.clock.wall_ms()));
                let health = UnitHealth { exit: failed, ..UnitHealth::default() };
                self.failed_deployments.borrow_mut().insert(unit, health);
            }
            let is_local = |error: &anyhow::Error| error.downcast_ref::<ApiError>().is_none();
            let is_obstructed = result.as_ref().is_err_and(is_local);
            let failure = result.err().map(|error| format!("{error:#}"));
            if let DeployStep::ConfirmRecall(unit) | DeployStep::Recall(unit) = step {
                let obstacle = failure.clone().filter(|_| is_obstructed);
                let has_changed = self.obstructed.borrow_mut().record(unit, obstacle.clone());
                if let Some(text) = obstacle {
                    if has_changed {
                        tracing::warn!("cannot {}, retrying ever more rarely: {text}", Attempt::Step(step));
                    }
                    continue;
                }
            }
            // a folder was deleted: the next plan confirms that, and no other event may cause one
            is_incomplete |=
                recalled(&step).is_some_and(|unit| view.is_some_and(|view| view.recalls.contains(&unit)));
            is_incomplete |= failure.is_some();
            self.log_once(Attempt::Step(step), failure);
        }
        is_incomplete
    }

    /// Logs the error of an attempt once, until it changes or the attempt succeeds, because what fails is attempted again
    /// and again.
    fn log_once(&self, attempt: Attempt, failure: Option<String>) {
        let mut logged_errors = self.logged_errors.borrow_mut();
        let known = match &failure {
            Some(text) => logged_errors.insert(attempt, text.clone()),
            None => logged_errors.remove(&attempt),
        };
        if let Some(text) = failure.filter(|text| known.as_ref() != Some(text)) {
            tracing::warn!("cannot {attempt}, retrying: {text}");
        }
    }

    /// Whether another unit that is assigned here needs this folder.
    fn is_name_assigned(&self, view: &MachineView, folder: &D::Folder) -> bool {
        view.units.values().any(|unit| self.deployments.folder(&unit.name) == *folder)
    }
}
