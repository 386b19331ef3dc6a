//! The provisioner's loop: compares the machines of the controller with the instances of the provider, plans
//! (`state::machine::provision`) and executes the steps of the plan.
//!
//! A failed step is reported to the controller, which schedules its retry. The loop keeps no state that it needs
//! after a crash: an interrupted round is completed by the next one. `MachineSupervisor` runs this loop, and the
//! simulator runs it too.

use crate::command_error::CommandError;
use crate::supervisor::provider::{InstanceSpec, Provider};
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
        Provisioner { provider, environment, has_completed_round: false }
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
        let (mut after, mut until_next_list): (Option<Position>, _) = (None, LIST_INTERVAL_MAX);
        // a controller that was restarted gets them again, because it breaks the connection
        let mut exits = ReportedExits::default();
        loop {
            let models = client.handle(ListModels).await?;
            let Some(model) = models.first().map(|model| model.uuid.to_string()) else {
                self.has_completed_round = true;
                self.environment.sleep(NO_MODEL_PAUSE).await;
                continue;
            };
            let in_model = client.in_model(&model);
            // The position is read before the machines, so a change in between causes another round.
            tokio::select! {
                biased;
                position = in_model.handle(WaitForChange { after }) => after = Some(position?),
                () = self.provider.wait_for_change() => {}
                () = self.environment.sleep(until_next_list) => {}
            }
            until_next_list = LIST_INTERVAL_MAX;
            for model in client.handle(ListModels).await? {
                // the rounds of models without machines would delay those of the others
                if !model.has_machines && self.provider.list(model.uuid)?.is_empty() {
                    continue;
                }
                let client = client.in_model(&model.uuid.to_string());
                until_next_list = until_next_list.min(self.round(&client, file, &model).await?);
                exits.report(&self.provider, &client, model.uuid).await?;
            }
            self.has_completed_round = true;
            self.environment.sleep(ROUND_INTERVAL).await;
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
                // An instance that cannot be read may exist, so nothing is done with it. Other machines are not
                // affected.
                Err(failure) => {
                    failed.insert(id);
                    if machines.get(&id).is_some_and(|machine| machine.is_retry_due(now_ms)) {
                        self.report_failure(client, id, failure.message).await?;
                    }
                    continue;
                }
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
                let made = self.provider.create(&spec).await?;
                set_token(&made.token).await?;
                let (instance_id, address) = (made.instance_id, made.address.clone());
                let started = ProvisioningReport::Started { instance_id, address, base: made.base };
                // The address is reported before the agents run, because a machine that is created again has another
                // address. A provisioning error is cleared only once the machine runs.
                if machine.records_start_before_it_runs(&made.address) {
                    report(started.clone()).await?;
                    // 1. The token is registered. 2. The store is restored from a backup made before that. 3. The
                    // start is recorded in the restored store. Without registering the token again, nothing more
                    // would be done, and the agent would never be authenticated (cargo sim 54009244, 54024423).
                    set_token(&made.token).await?;
                }
                let again = if runs { None } else { self.provider.start(&spec).await? };
                if machine.has_failed() && again.is_none() {
                    report(started).await?;
                    set_token(&made.token).await?;
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
mod tests {
    use super::*;
    use crate::supervisor::provider::CreatedInstance;
    use crate::supervisor::provider::InstanceList;
    use api::error::ApiError;
    use api::{Handle, InModel, ReportMachineAgentExits, Request};
    use state::terms::life::Life;
    use state::terms::provider_kind::ProviderKind;
    use state::terms::status::ModelState;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    /// A controller with one machine. It stores the reports that it receives, and is unreachable after one round.
    #[derive(Clone)]
    struct OneMachineController {
        machine: DesiredMachine,
        reports: Arc<Mutex<Vec<ProvisioningReport>>>,
        /// Whether the machine's token is registered. It is lost when the store is restored just before a start is
        /// recorded.
        has_token: Arc<AtomicBool>,
    }

    impl InModel for OneMachineController {
        fn in_model(&self, _: &str) -> OneMachineController {
            self.clone()
        }
    }

    macro_rules! answers {
        ($($request:ident: |$entry:ident, $body:pat_param| $answer:expr;)*) => {$(
            impl Handle<$request> for OneMachineController {
                async fn handle(&self, $body: $request) -> Result<<$request as Request>::Response, ApiError> {
                    let $entry = self;
                    $answer
                }
            }
        )*};
    }

    answers! {
        ListModels: |_one, _| {
            let (name, controller) = ("dev".to_owned(), Uuid(9));
            Ok(vec![ModelInfo {
                uuid: Uuid(1),
                name,
                life: Life::Alive,
                state: ModelState::Available,
                controller,
                created_ms: 0,
                has_machines: true,
                development: false,
            }])
        };
        GetModelConfig: |_one, _| Ok(BTreeMap::new());
        WaitForChange: |_one, wait| match wait.after {
            None => Ok(Position::default()),
            Some(_) => Err(ApiError::new(ErrorCode::Unreachable, "one round is enough")),
        };
        ListMachines: |entry, _| Ok(vec![entry.machine.clone()]);
        GetMachineExistence: |_one, _| Ok(Existence::Unknown);
        SetMachineToken: |entry, _| {
            entry.has_token.store(true, Ordering::Relaxed);
            Ok(())
        };
        RemoveDeadMachine: |_one, _| Ok(());
        ReportMachineAgentExits: |_one, _| Ok(());
        ReportInstance: |entry, report| {
            if matches!(report.what, ProvisioningReport::Started { .. }) {
                entry.has_token.store(false, Ordering::Relaxed);
            }
            entry.reports.lock().expect("no holder panics").push(report.what);
            Ok(Uuid(70))
        };
    }

    /// A provider with one instance, which runs, cannot be read, or was lost and is created again.
    struct Running {
        is_readable: bool,
        is_lost: bool,
    }

    impl Provider for Running {
        fn kind(&self) -> ProviderKind {
            ProviderKind::Local
        }
        fn list(&self, _: Uuid) -> Result<InstanceList, CommandError> {
            let nonce = match self.is_readable {
                true => Ok(Uuid(70)),
                false => Err(CommandError::new("cannot read it")),
            };
            Ok(if self.is_lost { InstanceList::new() } else { InstanceList::from([(Uuid(7), nonce)]) })
        }
        fn running_address(&self, _: Uuid) -> Option<String> {
            (!self.is_lost).then(|| "127.0.0.1".to_owned())
        }
        async fn create(&mut self, _: &InstanceSpec<'_>) -> Result<CreatedInstance, CommandError> {
            let text = |text: &str| text.to_owned();
            Ok(CreatedInstance {
                instance_id: text("running-0"),
                address: text("127.0.0.1"),
                base: None,
                token: text("t"),
            })
        }
        async fn start(&mut self, _: &InstanceSpec<'_>) -> Result<Option<Duration>, CommandError> {
            assert!(self.is_lost, "it runs");
            Ok(None)
        }
        async fn terminate(&mut self, _: Uuid) -> Result<(), CommandError> {
            panic!("it is wanted")
        }
        async fn hand_over(&mut self, _: Uuid) -> Result<(), CommandError> {
            panic!("it is wanted")
        }
        async fn wait_for_change(&self) {
            std::future::pending().await
        }
    }

    struct FrozenEnvironment;

    impl ProvisionerEnvironment for FrozenEnvironment {
        fn wall_ms(&self) -> i64 {
            1_000_000
        }
        async fn sleep(&self, pause: Duration) {
            if pause > ROUND_INTERVAL {
                std::future::pending().await
            }
        }
        fn random_uuid(&self) -> Uuid {
            Uuid(71)
        }
        fn log(&self, _: &str) {}
    }

    async fn reports(instance_id: Option<&str>, retry_ms: Option<i64>) -> Vec<ProvisioningReport> {
        reports_with(Running { is_readable: true, is_lost: false }, "127.0.0.1", instance_id, retry_ms).await
    }

    async fn reports_with(
        provider: Running,
        address: &str,
        instance_id: Option<&str>,
        retry_ms: Option<i64>,
    ) -> Vec<ProvisioningReport> {
        let machine = DesiredMachine {
            uuid: Uuid(7),
            name: "0".to_owned(),
            address: address.to_owned(),
            has_units: true,
            nonce: Some(Uuid(70)),
            instance_id: instance_id.map(str::to_owned),
            retry_at_ms: retry_ms,
            ..DesiredMachine::default()
        };
        let text = String::new;
        let (controller, server_name, ca, user) = (text(), text(), text(), text());
        let file = ClientFile { controller, server_name, ca, user, token: text(), model: text() };
        let has_token = Arc::new(AtomicBool::new(true));
        let client = OneMachineController { machine, reports: Arc::default(), has_token };
        let mut provisioner = Provisioner::new(provider, FrozenEnvironment);
        let Err(_) = provisioner.follow(&client, &file).await;
        assert!(
            client.has_token.load(Ordering::Relaxed),
            "the token of a machine whose start is recorded is registered"
        );
        client.reports.lock().expect("no holder panics").clone()
    }

    /// 1. A machine cannot be started, and the error is reported. A retry succeeds, and the start is reported.
    /// 2. The controller is restored from a backup made in between: it shows the provisioning error again.
    /// 3. The machine runs, so the start only has to be reported again (found by the simulator).
    #[tokio::test(flavor = "current_thread")]
    async fn a_running_machine_is_reported_again_after_a_restore_of_the_controller() {
        let started = vec![ProvisioningReport::Started {
            instance_id: "running-0".to_owned(),
            address: "127.0.0.1".to_owned(),
            base: None,
        }];
        assert_eq!(reports(Some("running-0"), Some(5_000)).await, started);
        assert_eq!(reports(None, None).await, started);
        assert_eq!(reports(Some("running-0"), None).await, []);
    }

    /// Either an instance is lost and created again at another address, or the controller is restored from a backup
    /// with the address of the previous instance.
    #[tokio::test]
    async fn a_machine_is_recorded_at_the_address_that_its_instance_has() {
        for is_lost in [true, false] {
            let provider = Running { is_readable: true, is_lost };
            let reports = reports_with(provider, "127.0.0.9", Some("running-0"), None).await;
            assert!(
                matches!(&reports[..], [ProvisioningReport::Started { address, .. }] if address == "127.0.0.1"),
                "{reports:?}"
            );
        }
        let reports =
            reports_with(Running { is_readable: true, is_lost: true }, "127.0.0.1", Some("running-0"), None);
        assert_eq!(reports.await, []);
    }

    #[tokio::test]
    async fn an_instance_that_cannot_be_read_is_a_provisioning_error_and_left_alone() {
        let unreadable = || Running { is_readable: false, is_lost: false };
        let reports = reports_with(unreadable(), "127.0.0.1", Some("running-0"), None).await;
        assert!(
            matches!(&reports[..], [ProvisioningReport::Failed { message }] if message == "cannot read it"),
            "{reports:?}"
        );
        assert_eq!(
            reports_with(unreadable(), "127.0.0.1", Some("running-0"), Some(1_000_001)).await.len(),
            0,
            "the error is reported again only when the retry is due"
        );
    }
}
