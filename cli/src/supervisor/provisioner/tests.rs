//! Tests of the provisioner's loop with a fake controller and a fake provider.

use super::*;
use crate::supervisor::agent_file::client_file;
use crate::supervisor::provider::CreatedInstance;
use crate::supervisor::provider::InstanceList;
use api::error::ApiError;
use api::{Handle, InModel, ReportMachineAgentExits, Request};
use state::terms::health::{MachineAgentExits, ProcessEnd};
use state::terms::life::Life;
use state::terms::provider_kind::ProviderKind;
use state::terms::status::ModelState;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// A controller with one machine. It stores the reports that it receives, and is unreachable after one round.
#[derive(Clone)]
struct OneMachineController {
    machine: DesiredMachine,
    reports: Arc<Mutex<Vec<ProvisioningReport>>>,
    /// Whether the machine's token is registered. It is lost when the store is restored just before a start is
    /// recorded.
    has_token: Arc<AtomicBool>,
    /// How often the machines were listed: once in each round.
    rounds: Arc<AtomicU32>,
    /// How often the agent has ended, according to the reports.
    ends: Arc<Mutex<Vec<u32>>>,
    /// How many of these reports it receives before it is unreachable.
    ends_expected: usize,
    end_reported: Arc<Notify>,
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
    WaitForChange: |entry, wait| match wait.after {
        None => Ok(Position::default()),
        Some(_) => {
            while entry.ends.lock().expect("no holder panics").len() < entry.ends_expected {
                entry.end_reported.notified().await;
            }
            Err(ApiError::new(ErrorCode::Unreachable, "one round is enough"))
        }
    };
    ListMachines: |entry, _| {
        entry.rounds.fetch_add(1, Ordering::Relaxed);
        Ok(vec![entry.machine.clone()])
    };
    GetMachineExistence: |_one, _| Ok(Existence::Unknown);
    SetMachineToken: |entry, _| {
        entry.has_token.store(true, Ordering::Relaxed);
        Ok(())
    };
    RemoveDeadMachine: |_one, _| Ok(());
    ReportMachineAgentExits: |entry, report| {
        let count = report.exits.map_or(0, |exits| exits.count);
        entry.ends.lock().expect("no holder panics").push(count);
        entry.end_reported.notify_one();
        Ok(())
    };
    ReportInstance: |entry, report| {
        if matches!(report.what, ProvisioningReport::Started { .. }) {
            entry.has_token.store(false, Ordering::Relaxed);
        }
        entry.reports.lock().expect("no holder panics").push(report.what);
        Ok(Uuid(70))
    };
}

/// A provider with one instance, which runs, cannot be read, or was lost and is created again.
#[derive(Default)]
struct Running {
    is_readable: bool,
    /// Its record cannot be written again.
    is_read_only: bool,
    is_lost: bool,
    /// How often its agent has ended, and how often it will end.
    ends: AtomicU32,
    ends_left: AtomicU32,
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
            hardware: None,
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
    fn restore_record(&mut self, _: &DesiredMachine, _: Uuid) -> Result<Option<Uuid>, CommandError> {
        if self.is_read_only { Err(CommandError::new("cannot write it")) } else { Ok(None) }
    }
    fn failing_agents(&self) -> BTreeMap<Uuid, MachineAgentExits> {
        let count = self.ends.load(Ordering::Relaxed);
        let exits = MachineAgentExits { end: ProcessEnd::Code(1), last_error: None, count };
        (count > 0).then_some((Uuid(7), exits)).into_iter().collect()
    }
    async fn wait_for_exits(&self) {
        if self.ends_left.load(Ordering::Relaxed) == 0 {
            std::future::pending::<()>().await;
        }
        self.ends_left.fetch_sub(1, Ordering::Relaxed);
        self.ends.fetch_add(1, Ordering::Relaxed);
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
    reports_with(Running { is_readable: true, ..Running::default() }, "127.0.0.1", instance_id, retry_ms)
        .await
}

fn controller(address: &str, instance_id: Option<&str>, retry_ms: Option<i64>) -> OneMachineController {
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
    let (reports, has_token) = (Arc::default(), Arc::new(AtomicBool::new(true)));
    let (rounds, ends, end_reported) = Default::default();
    OneMachineController { machine, reports, has_token, rounds, ends, ends_expected: 0, end_reported }
}

async fn reports_with(
    provider: Running,
    address: &str,
    instance_id: Option<&str>,
    retry_ms: Option<i64>,
) -> Vec<ProvisioningReport> {
    let client = controller(address, instance_id, retry_ms);
    let mut provisioner = Provisioner::new(provider, FrozenEnvironment);
    let Err(_) = provisioner.follow(&client, &client_file("127.0.0.1:1")).await;
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
        hardware: None,
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
        let provider = Running { is_readable: true, is_lost, ..Running::default() };
        let reports = reports_with(provider, "127.0.0.9", Some("running-0"), None).await;
        assert!(
            matches!(&reports[..], [ProvisioningReport::Started { address, .. }] if address == "127.0.0.1"),
            "{reports:?}"
        );
    }
    let reports = reports_with(
        Running { is_readable: true, is_lost: true, ..Running::default() },
        "127.0.0.1",
        Some("running-0"),
        None,
    );
    assert_eq!(reports.await, []);
}

#[tokio::test]
async fn an_instance_that_cannot_be_read_is_a_provisioning_error_and_left_alone() {
    let unreadable = || Running::default();
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

/// Its disk may be full or read-only.
#[tokio::test]
async fn a_record_that_cannot_be_written_again_is_a_failure_of_its_machine_alone() {
    let client = controller("127.0.0.1", Some("running-0"), None);
    let mut provisioner =
        Provisioner::new(Running { is_read_only: true, ..Running::default() }, FrozenEnvironment);
    let Err(_) = provisioner.follow(&client, &client_file("127.0.0.1:1")).await;
    let reports = client.reports.lock().expect("no holder panics").clone();
    assert!(
        matches!(&reports[..], [ProvisioningReport::Failed { message }] if message == "cannot write it"),
        "{reports:?}"
    );
    assert!(provisioner.take_completed_round(), "the other machines are provisioned");
}

#[tokio::test]
async fn each_end_of_an_agent_is_reported_without_a_round() {
    let client =
        OneMachineController { ends_expected: 5, ..controller("127.0.0.1", Some("running-0"), None) };
    let provider = Running { is_readable: true, ends_left: AtomicU32::new(5), ..Running::default() };
    let Err(_) =
        Provisioner::new(provider, FrozenEnvironment).follow(&client, &client_file("127.0.0.1:1")).await;
    assert_eq!(*client.ends.lock().expect("no holder panics"), [1, 2, 3, 4, 5]);
    assert_eq!(client.rounds.load(Ordering::Relaxed), 1);
}
