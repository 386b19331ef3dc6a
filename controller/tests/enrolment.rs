//! Enrolment of manually provisioned machines: a token is valid once, for a limited time and for one machine
//! (spec/security.md S19).

mod support;

use api::error::ErrorCode;
use api::{
    AddMachines, CreateEnrolmentToken, DestroyModel, Enrol, EnrolmentToken, Existence, Force,
    GetMachineExistence, GetStatus, GetWhy, Handle, ListMachines, ListModels, ProvisioningReport,
    RemoveApplication, RemoveDeadMachine, RemoveMachine, ReportInstance, ReportMachineDead, ReportPresence,
    ReportUninstalled, RetryProvisioning, SetMachineToken,
};
use controller::janitor::{Janitor, JanitorLimits};
use state::documents::draft::Reader;
use state::documents::prelude::{GLOBAL, Kind};
use state::terms::cause::Actor;
use state::terms::names::Uuid;
use state::terms::provider_kind::ProviderKind;
use state::terms::refusal::instance::InstanceRefusal;
use state::terms::status_message::StatusMessage;
use state::transitions::instance::ENROLMENT_MS;
use support::*;
use test_support::memory_store::MemoryStore;

async fn enrolment_token(fixture: &Fixture<MemoryStore, FakeEnvironment>) -> EnrolmentToken {
    let added = fixture
        .admin
        .handle(AddMachines { count: 1, manual: true, ..AddMachines::default() })
        .await
        .expect("the machine is added");
    fixture
        .admin
        .handle(CreateEnrolmentToken { machine: added.answer[0].to_owned() })
        .await
        .expect("the machine is manual")
}

/// Enrols a machine with this enrolment token; `own` becomes its token.
async fn enrol(
    fixture: &Fixture<MemoryStore, FakeEnvironment>,
    token: &str,
    own: &str,
) -> Result<(), ErrorCode> {
    let caller = fixture.controller.authenticate(token).await.map_err(|error| error.code)?;
    caller
        .handle(Enrol { token: own.to_owned(), address: "10.0.0.9".to_owned(), base: None, hardware: None })
        .await
        .map_err(|error| error.code)
}

#[tokio::test]
async fn an_enrolment_token_is_valid_once_and_for_enrolment_only() {
    let fixture = Fixture::in_memory().await;
    let enrolment = enrolment_token(&fixture).await;
    assert_eq!(enrolment.token.len(), 64, "256 bits");
    let caller = fixture.controller.authenticate(&enrolment.token).await.expect("the token is valid");
    assert_eq!(
        caller.handle(ReportPresence::default()).await.expect_err("the machine has not enrolled").code,
        ErrorCode::Unauthorised
    );
    assert_eq!(
        caller.handle(ReportMachineDead).await.expect_err("the machine has not enrolled").code,
        ErrorCode::Unauthorised
    );
    let own = "cd".repeat(32);
    assert_eq!(enrol(&fixture, &enrolment.token, &own).await, Ok(()));
    assert_eq!(enrol(&fixture, &enrolment.token, &own).await, Err(ErrorCode::Unauthorised), "used up");
    // this caller was opened before the machine enrolled, and sends its request afterwards
    let late = caller
        .handle(Enrol {
            token: "ef".repeat(32).to_owned(),
            address: "10.0.0.66".to_owned(),
            base: None,
            hardware: None,
        })
        .await
        .expect_err("the enrolment token was used");
    assert_eq!(late.code, ErrorCode::Unauthorised);
    fixture
        .controller
        .authenticate(&own)
        .await
        .expect("the token is valid")
        .handle(ReportPresence::default())
        .await
        .expect("it is a machine");
    let machines = fixture.admin.handle(ListMachines).await.expect("the machines are listed");
    let (address, instance) = (machines[0].address.as_str(), machines[0].instance_id.as_deref());
    assert_eq!((address, instance), ("10.0.0.9", Some("manual:10.0.0.9")));
    let again = fixture
        .admin
        .handle(CreateEnrolmentToken { machine: enrolment.name.to_owned() })
        .await
        .expect_err("the machine has enrolled");
    assert_eq!(again.code, ErrorCode::AlreadyExists);
}

#[tokio::test]
async fn an_enrolment_token_expires_after_a_quarter_of_an_hour_or_when_replaced() {
    let fixture = Fixture::in_memory().await;
    let first = enrolment_token(&fixture).await;
    let caller = fixture.controller.authenticate(&first.token).await.expect("the token is valid");
    let second = fixture
        .admin
        .handle(CreateEnrolmentToken { machine: first.name.to_owned() })
        .await
        .expect("the machine has not enrolled");
    let own = "cd".repeat(32);
    let late = caller
        .handle(Enrol { token: own.to_owned(), address: "10.0.0.66".to_owned(), base: None, hardware: None })
        .await
        .expect_err("the token was replaced");
    assert_eq!(late.code, ErrorCode::Unauthorised);
    assert_eq!(
        enrol(&fixture, &first.token, &own).await,
        Err(ErrorCode::Unauthorised),
        "the token was replaced"
    );
    fixture.advance(u64::try_from(ENROLMENT_MS).expect("positive"));
    assert_eq!(enrol(&fixture, &second.token, &own).await, Err(ErrorCode::Unauthorised), "late");
    let third = fixture
        .admin
        .handle(CreateEnrolmentToken { machine: first.name.to_owned() })
        .await
        .expect("the machine has not enrolled");
    fixture.advance(u64::try_from(ENROLMENT_MS).expect("positive") - 1);
    assert_eq!(enrol(&fixture, &third.token, &own).await, Ok(()), "the last moment");
}

#[tokio::test]
async fn a_provisioned_machine_gets_no_enrolment_token() {
    let fixture = Fixture::in_memory().await;
    let add = AddMachines { count: 1, manual: false, ..AddMachines::default() };
    let added = fixture.admin.handle(add).await.expect("the machine is added");
    let refused = fixture
        .admin
        .handle(CreateEnrolmentToken { machine: added.answer[0].to_owned() })
        .await
        .expect_err("the machine is not manual");
    assert_eq!(refused.code, ErrorCode::Invalid);
}

#[tokio::test]
async fn a_nonce_is_recorded_once_and_a_provisioning_error_is_shown_until_it_is_resolved() {
    let fixture = Fixture::in_memory().await;
    let add = AddMachines { count: 1, manual: false, ..AddMachines::default() };
    fixture.admin.handle(add).await.expect("the machine is added");
    let machine = fixture.admin.handle(ListMachines).await.expect("the machines are listed")[0].uuid;
    let report = async |what| fixture.admin.handle(ReportInstance { machine, what }).await;
    let intended =
        |nonce| ProvisioningReport::Starting { provider: ProviderKind::Nspawn, nonce: Uuid(nonce) };
    assert_eq!(report(intended(5)).await, Ok(Uuid(5)));
    assert_eq!(report(intended(6)).await, Ok(Uuid(5)), "a provisioner that died in between (scenario 183)");

    let shown = async || {
        let machine =
            fixture.admin.handle(GetStatus).await.expect("it exists").machines.remove("0").expect("one");
        (machine.instance.current.to_string(), machine.instance.message.clone())
    };
    report(ProvisioningReport::Failed { message: "no room".to_owned() })
        .await
        .expect("the report is accepted");
    assert_eq!(
        shown().await,
        ("provisioning error".to_owned(), StatusMessage::OfProvider("no room".to_owned()))
    );
    let due =
        async || fixture.admin.handle(ListMachines).await.expect("the machines are listed")[0].retry_at_ms;
    assert!(due().await.expect("it is tried again") > 0);
    fixture.admin.handle(RetryProvisioning { machine: "0".to_owned() }).await.expect("it has an error");
    assert_eq!(due().await, Some(0), "now");
    let (instance_id, address) = ("nspawn-dev-0".to_owned(), "10.0.0.2".to_owned());
    report(ProvisioningReport::Started { instance_id, address, base: None, hardware: None })
        .await
        .expect("the report is accepted");
    assert_eq!((shown().await.0.as_str(), due().await), ("pending", None));
    let healthy =
        fixture.admin.handle(RetryProvisioning { machine: "0".to_owned() }).await.expect_err("it has none");
    let no_error = InstanceRefusal::NoProvisioningError { machine: "0".to_owned() };
    assert_eq!(healthy.message, message(no_error));
}

#[tokio::test]
async fn scenario_184_a_dying_machine_without_instance_is_set_dead_and_no_instance_is_started() {
    let fixture = Fixture::in_memory().await;
    let add = AddMachines { count: 1, manual: false, ..AddMachines::default() };
    fixture.admin.handle(add).await.expect("the machine is added");
    let machine = fixture.admin.handle(ListMachines).await.expect("the machines are listed")[0].uuid;
    let early = fixture.admin.handle(ReportInstance { machine, what: ProvisioningReport::Absent }).await;
    assert_eq!(early.expect_err("it is alive").code, ErrorCode::Invalid);
    fixture
        .admin
        .handle(RemoveMachine { machine: "0".to_owned(), force: api::Force::No, keep_instance: false })
        .await
        .expect("no unit is on it");
    let intended = ProvisioningReport::Starting { provider: ProviderKind::Nspawn, nonce: Uuid(5) };
    let late = fixture.admin.handle(ReportInstance { machine, what: intended }).await;
    assert_eq!(late.expect_err("the machine is Dying").code, ErrorCode::NotAlive);
    fixture
        .admin
        .handle(ReportInstance { machine, what: ProvisioningReport::Absent })
        .await
        .expect("it is Dying");
    fixture.admin.handle(RemoveDeadMachine { machine }).await.expect("it is Dead");
    assert_eq!(fixture.admin.handle(ListMachines).await.expect("the machines are listed"), []);
    assert_eq!(fixture.admin.handle(GetMachineExistence { machine }).await, Ok(Existence::Tombstone));
}

#[tokio::test]
async fn a_kept_instance_is_released_after_its_agent_has_uninstalled_itself() {
    let fixture = Fixture::in_memory().await;
    let add = AddMachines { count: 1, manual: false, ..AddMachines::default() };
    fixture.admin.handle(add).await.expect("the machine is added");
    let machine = fixture.admin.handle(ListMachines).await.expect("the machines are listed")[0].uuid;
    let intended = ProvisioningReport::Starting { provider: ProviderKind::Nspawn, nonce: Uuid(5) };
    let (instance_id, address) = ("nspawn-0".to_owned(), "10.0.0.2".to_owned());
    for what in [intended, ProvisioningReport::Started { instance_id, address, base: None, hardware: None }] {
        fixture.admin.handle(ReportInstance { machine, what }).await.expect("it is alive");
    }
    let own = "cd".repeat(32);
    fixture.admin.handle(SetMachineToken { machine, token: own.to_owned() }).await.expect("it exists");
    fixture
        .admin
        .handle(RemoveMachine { machine: "0".to_owned(), force: Force::No, keep_instance: true })
        .await
        .expect("the machine has no units");
    assert!(fixture.admin.handle(ListMachines).await.expect("the machines are listed")[0].keep_instance);
    let caller = fixture.controller.authenticate(&own).await.expect("it is Dying");
    caller.handle(ReportMachineDead).await.expect("it has no units");
    let why = fixture.admin.handle(GetWhy { entity: entity("machine/0") }).await.expect("it exists");
    assert_eq!(why.causes[0].actor, Actor::MachineAgent("0".to_owned()));
    let left = async || {
        fixture.admin.handle(ListMachines).await.expect("the machines are listed")[0].agent_uninstalled
    };
    assert!(!left().await);
    caller.handle(ReportUninstalled).await.expect("the agent uninstalls itself");
    assert!(left().await, "its provider releases it");
    let why = fixture.admin.handle(GetWhy { entity: entity("machine/0") }).await.expect("it exists");
    assert_eq!(why.causes[0].actor, Actor::Provisioner);
    fixture.admin.handle(RemoveDeadMachine { machine }).await.expect("the instance is released");
    assert_eq!(fixture.admin.handle(GetMachineExistence { machine }).await, Ok(Existence::Tombstone));
}

/// A kept instance that was released before its provider listed it may run an agent that has not learned of the
/// removal.
#[tokio::test]
async fn the_agent_of_a_released_kept_instance_learns_that_its_machine_was_removed() {
    let fixture = Fixture::in_memory().await;
    fixture
        .admin
        .handle(AddMachines { count: 1, manual: false, ..AddMachines::default() })
        .await
        .expect("the machine is added");
    let machine = fixture.admin.handle(ListMachines).await.expect("the machines are listed")[0].uuid;
    let intended = ProvisioningReport::Starting { provider: ProviderKind::Nspawn, nonce: Uuid(5) };
    let (instance_id, address) = ("nspawn-0".to_owned(), "10.0.0.2".to_owned());
    for what in [intended, ProvisioningReport::Started { instance_id, address, base: None, hardware: None }] {
        fixture.admin.handle(ReportInstance { machine, what }).await.expect("it is alive");
    }
    let own = "cd".repeat(32);
    fixture.admin.handle(SetMachineToken { machine, token: own.to_owned() }).await.expect("it exists");
    fixture
        .admin
        .handle(RemoveMachine { machine: "0".to_owned(), force: Force::No, keep_instance: true })
        .await
        .expect("the machine has no units");
    fixture
        .admin
        .handle(ReportInstance { machine, what: ProvisioningReport::Absent })
        .await
        .expect("it is not listed");
    fixture.admin.handle(RemoveDeadMachine { machine }).await.expect("the instance is released");
    assert_eq!(authenticate(&fixture, &own).await, Err(ErrorCode::Removed));
}

#[tokio::test]
async fn units_that_never_attached_do_not_block_a_machine_without_instance() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    fixture
        .admin
        .handle(RemoveApplication {
            destroy_storage: false,
            application: "web".to_owned(),
            force: api::Force::No,
        })
        .await
        .expect("it is Dying");
    fixture
        .admin
        .handle(RemoveMachine { machine: "0".to_owned(), force: api::Force::No, keep_instance: false })
        .await
        .expect("its unit is Dying");
    fixture
        .admin
        .handle(ReportInstance { machine, what: ProvisioningReport::Absent })
        .await
        .expect("its unit has no agent");
    fixture.admin.handle(RemoveDeadMachine { machine }).await.expect("it is Dead");
    let status = fixture.admin.handle(GetStatus).await.expect("it exists");
    assert!(status.applications.is_empty(), "it was removed with its last unit");
    assert_eq!(fixture.admin.handle(ListMachines).await.expect("the machines are listed"), []);
}

/// Adds and enrols a manual machine with the token `own`.
async fn enrolled_machine(fixture: &Fixture<MemoryStore, FakeEnvironment>, own: &str) -> String {
    let enrolment = enrolment_token(fixture).await;
    enrol(fixture, &enrolment.token, own).await.expect("the enrolment token is valid");
    enrolment.name
}

/// Sends a request with the machine's own token.
async fn authenticate(fixture: &Fixture<MemoryStore, FakeEnvironment>, own: &str) -> Result<(), ErrorCode> {
    let caller = fixture.controller.authenticate(own).await.map_err(|error| error.code)?;
    caller.handle(ReportPresence::default()).await.map_err(|error| error.code).map(drop)
}

/// Lets both waits of a forced removal pass, and sweeps until nothing is left to do.
async fn sweep_to_the_end(fixture: &Fixture<MemoryStore, FakeEnvironment>) {
    let mut janitor = Janitor::default();
    for _ in 0..3 {
        while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {}
        fixture.advance(60_000);
    }
}

#[tokio::test]
async fn a_machine_that_was_removed_while_offline_learns_only_that() {
    let fixture = Fixture::in_memory().await;
    let (own, other) = ("cd".repeat(32), "ef".repeat(32));
    let (forced, kept) = (enrolled_machine(&fixture, &own).await, enrolled_machine(&fixture, &other).await);
    fixture
        .admin
        .handle(RemoveMachine { machine: forced.to_owned(), force: Force::AtOnce, keep_instance: false })
        .await
        .expect("the forced removal is accepted");
    assert_eq!(authenticate(&fixture, &own).await, Ok(()), "its token is valid for another minute");
    sweep_to_the_end(&fixture).await;
    assert_eq!(authenticate(&fixture, &own).await, Err(ErrorCode::Removed));
    assert_eq!(authenticate(&fixture, &other).await, Ok(()));
    // The agent reconnects, uninstalls itself and confirms that: its token is no longer kept.
    let caller = fixture.controller.authenticate(&own).await.expect("its token is retired");
    caller.handle(ReportUninstalled).await.expect("the only thing that it may report");
    caller.handle(ReportUninstalled).await.expect("a repeated report changes nothing");
    assert_eq!(authenticate(&fixture, &own).await, Err(ErrorCode::Unauthorised));
    assert_eq!(retired_tokens(&fixture).await, 0);

    fixture
        .admin
        .handle(RemoveMachine { machine: kept.to_owned(), force: Force::No, keep_instance: false })
        .await
        .expect("the machine has no units");
    let caller = fixture.controller.authenticate(&other).await.expect("it is Dying");
    caller.handle(ReportMachineDead).await.expect("it has no units");
    caller.handle(ReportUninstalled).await.expect("the agent uninstalls itself");
    assert_eq!(authenticate(&fixture, &other).await, Err(ErrorCode::Unauthorised), "the token was revoked");
}

/// The number of tokens of removed machines.
async fn retired_tokens(fixture: &Fixture<MemoryStore, FakeEnvironment>) -> usize {
    let read = |reader: &dyn Reader| reader.scan(&GLOBAL.prefix(Kind::RetiredToken), "", 100).len();
    fixture.controller.read(read).await
}

/// Hosts that never reconnect must not fill the store: the oldest tokens end. An agent that reconnects after that is
/// refused, without evidence that its machine was removed.
#[tokio::test]
async fn the_newest_tokens_of_removed_machines_are_kept() {
    let fixture = Fixture::in_memory().await;
    let owns = ["a", "b", "c", "d"].map(|digit| digit.repeat(64));
    for own in &owns {
        let machine = enrolled_machine(&fixture, own).await;
        let remove = RemoveMachine { machine, force: Force::AtOnce, keep_instance: false };
        fixture.admin.handle(remove).await.expect("the forced removal is accepted");
        sweep_to_the_end(&fixture).await;
    }
    assert_eq!(retired_tokens(&fixture).await, 4);
    let mut janitor = Janitor::new(JanitorLimits { retired_tokens_max: 2, ..JanitorLimits::default() });
    for _ in 0..3 {
        while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {}
    }
    assert_eq!(retired_tokens(&fixture).await, 2);
    let mut answers = Vec::new();
    for own in &owns {
        answers.push(authenticate(&fixture, own).await.expect_err("its machine was removed"));
    }
    let (unauthorised, removed) = (ErrorCode::Unauthorised, ErrorCode::Removed);
    assert_eq!(answers, [unauthorised, unauthorised, removed, removed], "oldest first");
}

#[tokio::test]
async fn a_machine_learns_that_it_was_removed_with_its_model() {
    let fixture = Fixture::in_memory().await;
    let own = "cd".repeat(32);
    enrolled_machine(&fixture, &own).await;
    fixture
        .admin
        .handle(DestroyModel { force: Force::AtOnce })
        .await
        .expect("the forced removal is accepted");
    sweep_to_the_end(&fixture).await;
    assert_eq!(fixture.admin.handle(ListModels).await.expect("the machines are listed").len(), 0);
    assert_eq!(authenticate(&fixture, &own).await, Err(ErrorCode::Removed));
}
