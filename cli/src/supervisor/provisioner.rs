//! The provisioner's loop: compares the machines of the controller with the instances of the provider, plans
//! (`state::machine::provision`) and executes the steps of the plan.
//!
//! A failed step is reported to the controller, which schedules its retry. The loop keeps no state that it needs
//! after a crash: an interrupted round is completed by the next one. `MachineSupervisor` runs this loop, and the
//! simulator runs it too.

use crate::command_error::CommandError;
use crate::supervisor::provider::{CreatedInstance, InstanceSpec, Provider};
use crate::supervisor::reported_exits::ReportedExits;
use api::error::ErrorCode;
use api::{
    ClientFile, Existence, GetMachineExistence, GetModelConfig, ListMachines, ListModels, ModelInfo,
    ProvisionerPort, ProvisioningReport, RemoveDeadMachine, ReportInstance, SetMachineToken, WaitForChange,
};
use state::machine::provision::{
    DesiredMachine, HarvestMode, ListedInstance, ProvisionStep, UnclaimedKind, next_retry_ms, plan,
};
use state::terms::names::Uuid;
use state::terms::position::Position;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

/// Shortest interval between two rounds. Every hook commit changes the store, but machines change rarely: ten rounds
/// per second are enough.
const ROUND_INTERVAL: Duration = Duration::from_millis(100);
/// Interval while there is no model. The first machine of a new model waits at most this long, and the controller
/// receives a tenth of the requests.
const NO_MODEL_PAUSE: Duration = Duration::from_secs(1);
/// Longest interval between two rounds, in which instances without a machine are listed again.
const LIST_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// The environment of the provisioner: clock, randomness and log.
pub trait ProvisionerEnvironment {
    /// The wall clock in milliseconds.
    fn wall_ms(&self) -> i64;
    /// Waits for `pause`.
    fn sleep(&self, pause: Duration) -> impl Future<Output = ()>;
    /// A random UUID, for the nonce of an instance.
    fn random_uuid(&self) -> Uuid;
    /// Writes a line to the log.
    fn log(&self, line: &str);
}

/// The provisioner of one provider.
pub struct Provisioner<P, E> {
    /// The provider of instances.
    pub provider: P,
    /// Clock, randomness and log.
    pub environment: E,
    /// See [`Provisioner::take_completed_round`].
    has_completed_round: bool,
    /// Kept when a connection is lost, because the controller may keep what it has received.
    exits: ReportedExits,
}

/// What all steps of a round have in common.
struct Round<'a, C> {
    /// The controller, for requests about the model.
    client: &'a C,
    /// Its address and certificate, for machines.
    file: &'a ClientFile,
    model: &'a ModelInfo,
    machines: &'a BTreeMap<Uuid, DesiredMachine>,
}

impl<P: Provider, E: ProvisionerEnvironment> Provisioner<P, E> {
    /// A provisioner that has run no round.
    pub fn new(provider: P, environment: E) -> Provisioner<P, E> {
        Provisioner { provider, environment, has_completed_round: false, exits: ReportedExits::default() }
    }

    /// Whether a round of all models was completed since the last call: the controller has answered everything.
    pub fn take_completed_round(&mut self) -> bool {
        std::mem::take(&mut self.has_completed_round)
    }

    /// Runs rounds until a request to the controller fails. `file`: address and certificate of the controller, for
    /// machines.
    pub async fn follow(
        &mut self,
        client: &impl ProvisionerPort,
        file: &ClientFile,
    ) -> Result<Infallible, CommandError> {
        let mut exits = std::mem::take(&mut self.exits);
        exits.start_connection();
        let Err(failure) = self.run_rounds(client, file, &mut exits).await;
        self.exits = exits;
        Err(failure)
    }

    async fn run_rounds(
        &mut self,
        client: &impl ProvisionerPort,
        file: &ClientFile,
        exits: &mut ReportedExits,
    ) -> Result<Infallible, CommandError> {
        let (mut after, mut until_next_list): (Option<Position>, _) = (None, LIST_INTERVAL_MAX);
        loop {
            let models = client.handle(ListModels).await?;
            let Some(model) = models.first().map(|model| model.uuid.to_string()) else {
                self.has_completed_round = true;
                self.environment.sleep(NO_MODEL_PAUSE).await;
                continue;
            };
            let in_model = client.in_model(&model);
            let due = async {
                // The position is read before the machines, so a change in between causes another round.
                tokio::select! {
                    biased;
                    position = in_model.handle(WaitForChange { after }) => Ok(Some(position?)),
                    () = self.provider.wait_for_change() => Ok(after),
                    () = self.environment.sleep(until_next_list) => Ok(after),
                }
            };
            after = self.report_exits_until(due, client, exits).await?;
            until_next_list = LIST_INTERVAL_MAX;
            let models = client.handle(ListModels).await?;
            for model in &models {
                // the rounds of models without machines would delay those of the others
                if !model.has_machines && self.provider.list(model.uuid)?.is_empty() {
                    continue;
                }
                let client = client.in_model(&model.uuid.to_string());
                until_next_list = until_next_list.min(self.round(&client, file, model).await?);
            }
            exits.report(&self.provider, client, &models).await?;
            self.has_completed_round = true;
            self.environment.sleep(ROUND_INTERVAL).await;
        }
    }

    /// Waits for `due`, the next round. How agents end meanwhile, or recover, is reported without a round.
    async fn report_exits_until(
        &self,
        due: impl Future<Output = Result<Option<Position>, CommandError>>,
        client: &impl ProvisionerPort,
        exits: &mut ReportedExits,
    ) -> Result<Option<Position>, CommandError> {
        let mut due = pin!(due);
        loop {
            tokio::select! {
                biased;
                position = &mut due => return position,
                () = self.provider.wait_for_exits() => {}
            }
            let models = client.handle(ListModels).await?;
            exits.report(&self.provider, client, &models).await?;
        }
    }

    /// Runs one round for the model that `client` is bound to. Returns the longest time until the next round.
    async fn round(
        &mut self,
        client: &impl ProvisionerPort,
        file: &ClientFile,
        model: &ModelInfo,
    ) -> Result<Duration, CommandError> {
        let machines = match client.handle(ListMachines).await {
            // The model was destroyed after it was listed, so it has no machines.
            Err(error) if error.code == ErrorCode::NotFound => return Ok(LIST_INTERVAL_MAX),
            machines => machines?,
        };
        let machines: BTreeMap<Uuid, DesiredMachine> =
            machines.into_iter().map(|machine| (machine.uuid, machine)).collect();
        let (mut found, mut harvest) = (BTreeMap::new(), HarvestMode::default());
        // machines for which nothing more is done in this round
        let mut failed = BTreeSet::new();
        let now_ms = self.environment.wall_ms();
        for (id, nonce) in self.provider.list(model.uuid)? {
            let nonce = match nonce {
                Ok(nonce) => nonce,
                Err(failure) => match self.restore_record(&machines, id, model) {
                    Ok(Some(nonce)) => nonce,
                    // An instance that cannot be read, or whose record cannot be written again, may exist, so nothing
                    // is done with it. Other machines are not affected.
                    unrestored => {
                        failed.insert(id);
                        if machines.get(&id).is_some_and(|machine| machine.is_retry_due(now_ms)) {
                            let failure = unrestored.err().unwrap_or(failure);
                            self.report_failure(client, id, failure.message).await?;
                        }
                        continue;
                    }
                },
            };
            let mut unclaimed = UnclaimedKind::Unknown;
            if !machines.contains_key(&id) {
                let config = client.handle(GetModelConfig).await?;
                let mode = config.get("provisioner-harvest-mode").and_then(|mode| mode.value.as_str());
                harvest = HarvestMode::of_setting(mode);
                if client.handle(GetMachineExistence { machine: id }).await? == Existence::Tombstone {
                    unclaimed = UnclaimedKind::Removed;
                }
            }
            found.insert(id, ListedInstance { nonce, unclaimed });
        }
        let mut until_next_list = LIST_INTERVAL_MAX;
        for step in plan(&machines, &found, harvest, now_ms) {
            // The record of an instance that could not be terminated must be kept.
            if failed.contains(&step.machine()) {
                continue;
            }
            let nonce = found.get(&step.machine()).map(|entry| entry.nonce);
            let round = Round { client, file, model, machines: &machines };
            let done = self.execute(round, step, nonce).await;
            match done {
                Ok(None) => {}
                Ok(Some(again)) => until_next_list = until_next_list.min(again),
                Err(failure) => {
                    failed.insert(step.machine());
                    self.report_failure(client, step.machine(), failure.message).await?;
                }
            }
        }
        let due = next_retry_ms(&machines, now_ms);
        let due = due.and_then(|due| u64::try_from(due - now_ms).ok()).map(Duration::from_millis);
        Ok(due.map_or(until_next_list, |due| until_next_list.min(due)))
    }

    /// Writes the record of an instance again that cannot be read, if its machine is known. Returns the nonce, if it was.
    ///
    /// # Errors
    /// If it cannot be written.
    fn restore_record(
        &mut self,
        machines: &BTreeMap<Uuid, DesiredMachine>,
        id: Uuid,
        model: &ModelInfo,
    ) -> Result<Option<Uuid>, CommandError> {
        let Some(machine) = machines.get(&id) else { return Ok(None) };
        let restored = self.provider.restore_record(machine, model.uuid)?;
        if restored.is_some() {
            let name = &machine.name;
            self.environment.log(&format!("machine {name} ({id}): its damaged record was written again"));
        }
        Ok(restored)
    }

    /// Logs a failed step and reports it to the controller as the provisioning error of the machine.
    async fn report_failure(
        &self,
        client: &impl ProvisionerPort,
        id: Uuid,
        message: String,
    ) -> Result<(), CommandError> {
        self.environment.log(&format!("machine {id}: {message}"));
        let what = ProvisioningReport::Failed { message };
        match client.handle(ReportInstance { machine: id, what }).await {
            // A harvested instance has no machine to report for: it is tried again in the next round.
            Err(error) if error.code == ErrorCode::NotFound => Ok(()),
            result => Ok(result.map(drop)?),
        }
    }

    /// Executes one step. `found` is the nonce of the existing instance. Returns the time after which the next round
    /// is necessary, if that is known.
    async fn execute(
        &mut self,
        round: Round<'_, impl ProvisionerPort>,
        step: ProvisionStep,
        found: Option<Uuid>,
    ) -> Result<Option<Duration>, CommandError> {
        let (id, Round { client, file, model, machines }) = (step.machine(), round);
        let report = |what| client.handle(ReportInstance { machine: id, what });
        let set_token = |token: &str| client.handle(SetMachineToken { machine: id, token: token.to_owned() });
        match step {
            // The machine runs and is recorded: nothing to do. A running machine that is not recorded, or is recorded
            // at another address or with an old provisioning error, is reported again: the controller was restored
            // from a backup.
            ProvisionStep::Start(_) | ProvisionStep::EnsureRunning(_)
                if self.provider.running_address(id).is_some_and(|at| machines[&id].is_recorded_at(&at)) => {}
            ProvisionStep::Start(_) | ProvisionStep::EnsureRunning(_) => {
                let machine = &machines[&id];
                let nonce = match machine.nonce {
                    Some(nonce) => nonce,
                    None => {
                        let provider = self.provider.kind();
                        let nonce = found.unwrap_or_else(|| self.environment.random_uuid());
                        let intended = ProvisioningReport::Starting { provider, nonce };
                        report(intended).await?
                    }
                };
                let spec = InstanceSpec { machine, model, nonce, client: file };
                // This must be read before `create`: a process of a lost folder does not run in the newly created
                // one.
                let runs = self.provider.running_address(id).is_some();
                let CreatedInstance { instance_id, address, base, hardware, token } =
                    self.provider.create(&spec).await?;
                set_token(&token).await?;
                let before_it_runs = machine.records_start_before_it_runs(&address);
                let started = ProvisioningReport::Started { instance_id, address, base, hardware };
                // The address is reported before the agents run, because a machine that is created again has another
                // address. A provisioning error is cleared only once the machine runs.
                if before_it_runs {
                    report(started.clone()).await?;
                    // 1. The token is registered. 2. The store is restored from a backup made before that. 3. The
                    // start is recorded in the restored store. Without registering the token again, nothing more
                    // would be done, and the agent would never be authenticated (cargo sim 54009244, 54024423).
                    set_token(&token).await?;
                }
                let again = if runs { None } else { self.provider.start(&spec).await? };
                if machine.has_failed() && again.is_none() {
                    report(started).await?;
                    set_token(&token).await?;
                }
                if !runs && again.is_none() {
                    self.environment.log(&format!("machine {} ({id}): started", machine.name));
                }
                return Ok(again);
            }
            ProvisionStep::Terminate(_) => {
                self.provider.terminate(id).await?;
                self.environment.log(&format!("machine {id}: instance terminated"));
            }
            ProvisionStep::HandOver(_) => {
                self.provider.hand_over(id).await?;
                self.environment.log(&format!("machine {id}: instance handed over to the operator"));
            }
            ProvisionStep::SetDead(_) => drop(report(ProvisioningReport::Absent).await?),
            ProvisionStep::Remove(_) => client.handle(RemoveDeadMachine { machine: id }).await?,
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
