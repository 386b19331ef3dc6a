//! Machines name whom they wait for: the provisioner, an operator or the machine agent.

use crate::fixture::{cause_of, causes, machine_agent, now};
use crate::support::*;
use api::{
    AddMachines, CreateEnrolmentToken, Enrol, Force, GetStatus, GetWhy, Handle, ProvisioningReport,
    RemoveMachine, ReportInstance, ReportMachineAgentExits, ReportPresence,
};
use state::terms::cause::{Actor, Duty, Entity, Host, Remedy, Silence};
use state::terms::failure_reason::FailureReason;
use state::terms::health::{MachineAgentExits, ProcessEnd};
use state::terms::names::Uuid;
use state::terms::provider_kind::ProviderKind;
use state::terms::status::MachineAgentStatus;
use state::terms::status_message::StatusMessage;
use state::transitions::instance::ENROLMENT_MS;

#[tokio::test]
async fn a_provisioning_error_is_the_cause_for_all_entities_that_wait_for_the_machine() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let report = async |what| {
        fixture.admin.handle(ReportInstance { machine, what }).await.expect("the report is accepted")
    };
    // As by the provisioner: the instance is created, its token is stored, the start is recorded, and the start fails.
    report(ProvisioningReport::Starting { provider: ProviderKind::Nspawn, nonce: Uuid(5) }).await;
    let agent = machine_agent(&fixture, machine).await;
    report(ProvisioningReport::Started {
        instance_id: "box".to_owned(),
        address: "10.0.0.2".to_owned(),
        base: None,
        hardware: None,
    })
    .await;
    fixture.advance(100);
    report(ProvisioningReport::Failed { message: "no room for a container".to_owned() }).await;
    let failed_ms = now(&fixture);
    fixture.advance(2_000);

    let status = fixture.admin.handle(GetStatus).await.expect("it exists");
    let shown = &status.machines["0"];
    assert_eq!((shown.agent.current.as_str(), &shown.agent.message), ("down", &StatusMessage::Empty));
    assert_eq!(shown.agent.since_ms, failed_ms);
    let message = StatusMessage::OfProvider("no room for a container".to_owned());
    assert_eq!((shown.instance.current.as_str(), &shown.instance.message), ("provisioning error", &message));
    for entity in ["machine/0", "web/0", "web", "model"] {
        let causes = causes(&fixture, entity).await;
        let cause = cause_of(&causes, &Entity::Machine("0".to_owned()));
        assert_eq!(cause.actor, Actor::Provisioner, "{entity}");
        assert_eq!(cause.last_error, Some("no room for a container".to_owned().into()), "{entity}");
        assert_eq!(cause.since_ms, failed_ms, "{entity}");
        let retry_ms = failed_ms.map(|failed_ms| failed_ms + 5_000);
        let retry = Remedy::RetryProvisioning { machine: "0".to_owned(), retry_ms };
        assert_eq!(cause.remedy(), retry, "{entity}");
    }
    // an agent that reports is running, even if its provider fails
    agent.handle(ReportPresence::default()).await.expect("the report is accepted");
    let status = fixture.admin.handle(GetStatus).await.expect("it exists");
    assert_eq!(status.machines["0"].agent.current, MachineAgentStatus::Started);
}

#[tokio::test]
async fn a_repeated_provisioning_error_keeps_the_time_of_the_first_one() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let report = async |what| {
        fixture.admin.handle(ReportInstance { machine, what }).await.expect("the report is accepted")
    };
    let fails =
        async || report(ProvisioningReport::Failed { message: "no room for a container".to_owned() }).await;
    report(ProvisioningReport::Starting { provider: ProviderKind::Nspawn, nonce: Uuid(5) }).await;
    fails().await;
    let first_ms = now(&fixture);
    // the retry stores a token, and the start fails again
    fixture.advance(5_000);
    machine_agent(&fixture, machine).await;
    fixture.advance(100);
    fails().await;
    fixture.advance(1_000);
    let shown = fixture.admin.handle(GetStatus).await.expect("it exists").machines["0"].clone();
    assert_eq!(
        shown.agent.current,
        MachineAgentStatus::Down,
        "the agent has not reported since the last failure"
    );
    assert_eq!((shown.agent.since_ms, shown.instance.since_ms), (first_ms, first_ms));
    let causes = causes(&fixture, "machine/0").await;
    let cause = cause_of(&causes, &Entity::Machine("0".to_owned()));
    assert_eq!(
        (cause.since_ms, cause.last_error.clone()),
        (first_ms, Some("no room for a container".to_owned().into()))
    );
    let retry_ms = now(&fixture).map(|now_ms| now_ms - 1_000 + 10_000);
    assert_eq!(cause.remedy(), Remedy::RetryProvisioning { machine: "0".to_owned(), retry_ms });
    // after a successful start, a new failure has a new time
    report(ProvisioningReport::Started {
        instance_id: "box".to_owned(),
        address: "10.0.0.2".to_owned(),
        base: None,
        hardware: None,
    })
    .await;
    fails().await;
    assert_eq!(
        cause_of(&self::causes(&fixture, "machine/0").await, &Entity::Machine("0".to_owned())).since_ms,
        now(&fixture)
    );
}

#[tokio::test]
async fn a_manual_machine_waits_for_its_operator_and_names_the_expiry_and_the_command() {
    let fixture = Fixture::in_memory().await;
    let add = AddMachines { count: 1, manual: true, ..AddMachines::default() };
    fixture.admin.handle(add).await.expect("the machine is added");
    let added_ms = now(&fixture);
    let first = fixture
        .admin
        .handle(CreateEnrolmentToken { machine: "0".to_owned() })
        .await
        .expect("the machine has not enrolled");
    fixture.advance(60_000);
    let listed = causes(&fixture, "machine/0").await;
    let waits = cause_of(&listed, &Entity::Machine("0".to_owned()));
    assert_eq!((&waits.actor, waits.since_ms), (&Actor::Operator, added_ms));
    let expires_ms = added_ms.map(|added_ms| added_ms + ENROLMENT_MS);
    assert_eq!(waits.duty, Duty::Enrol { expires_ms });
    fixture.advance(u64::try_from(ENROLMENT_MS).expect("positive"));
    let listed = causes(&fixture, "machine/0").await;
    assert!(
        matches!(cause_of(&listed, &Entity::Machine("0".to_owned())).duty, Duty::Enrol { .. }),
        "{listed:?}"
    );

    // a machine that is being removed need not enrol: the provisioner removes it
    fixture
        .admin
        .handle(AddMachines { count: 1, manual: true, ..AddMachines::default() })
        .await
        .expect("the machine is added");
    fixture
        .admin
        .handle(RemoveMachine { machine: "1".to_owned(), force: Force::No, keep_instance: false })
        .await
        .expect("the removal is accepted");
    let listed = causes(&fixture, "machine/1").await;
    let [ends] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((&ends.actor, &ends.duty), (&Actor::Provisioner, &Duty::ReportUnstartedDead));

    // a lost manual machine has no process file on this host
    let again = fixture
        .admin
        .handle(CreateEnrolmentToken { machine: "0".to_owned() })
        .await
        .expect("the machine has not enrolled");
    assert_eq!(again.machine, first.machine);
    let guest = fixture.controller.authenticate(&again.token).await.expect("the token is valid");
    guest
        .handle(Enrol {
            token: "cd".repeat(32).to_owned(),
            address: "10.0.0.9".to_owned(),
            base: None,
            hardware: None,
        })
        .await
        .expect("the enrolment token is valid");
    fixture.advance(controller::presence::LOST_AFTER_MS + 1);
    let listed = causes(&fixture, "machine/0").await;
    let lost = cause_of(&listed, &Entity::Machine("0".to_owned()));
    assert_eq!(lost.actor, Actor::Operator);
    assert_eq!(lost.duty, Duty::RunMachineAgent { silence: Silence::Lost, host: Host::Manual, exits: None });
}

#[tokio::test]
async fn the_cause_for_a_lost_container_names_its_process_file() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let intended = ProvisioningReport::Starting { provider: ProviderKind::Nspawn, nonce: Uuid(5) };
    fixture.admin.handle(ReportInstance { machine, what: intended }).await.expect("the report is accepted");
    machine_agent(&fixture, machine).await;
    fixture.advance(controller::presence::LOST_AFTER_MS + 1);
    let listed = causes(&fixture, "machine/0").await;
    let duty = Duty::RunMachineAgent { silence: Silence::Lost, host: Host::Container(machine), exits: None };
    assert_eq!(cause_of(&listed, &Entity::Machine("0".to_owned())).duty, duty);
}

#[tokio::test]
async fn a_dead_machine_waits_for_its_provisioner_without_a_command() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture
        .admin
        .handle(RemoveMachine { machine: "0".to_owned(), force: Force::AtOnce, keep_instance: false })
        .await
        .expect("the forced removal is accepted");
    fixture.run_janitor().await;
    let why = fixture
        .admin
        .handle(GetWhy { entity: entity("machine/0") })
        .await
        .expect("its provisioner has not come yet");
    let dead = cause_of(&why.causes, &Entity::Machine("0".to_owned()));
    assert_eq!((&dead.actor, dead.remedy()), (&Actor::Provisioner, Remedy::Automatic));
}

#[tokio::test]
async fn a_machine_agent_that_has_not_reported_yet_is_not_present() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let agent = machine_agent(&fixture, machine).await;
    fixture.advance(4_000);
    for entity in ["machine/0", "web/0", "model"] {
        let listed = causes(&fixture, entity).await;
        let waits = cause_of(&listed, &Entity::Machine("0".to_owned()));
        let duty = Duty::RunMachineAgent {
            silence: Silence::NotReported,
            host: Host::Process(machine),
            exits: None,
        };
        assert_eq!(waits.duty, duty, "{entity}");
        assert!(listed.iter().all(|cause| !matches!(cause.duty, Duty::Attach { .. })), "{listed:?}");
    }
    agent.handle(ReportPresence::default()).await.expect("the report is accepted");
    assert_eq!(causes(&fixture, "machine/0").await, []);
}

/// The supervisor observes how the process ends; the agent itself cannot report it.
#[tokio::test]
async fn a_machine_agent_that_ends_at_each_start_is_named_with_its_end_until_it_sends_a_request_or_recovers()
{
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let agent = machine_agent(&fixture, machine).await;
    let last_error = Some("ERROR agent.yaml is damaged".to_owned());
    let exits = MachineAgentExits { end: ProcessEnd::Code(1), last_error: last_error.clone(), count: 3 };
    let report = ReportMachineAgentExits { machine, exits: Some(exits.clone()) };
    fixture.admin.handle(report.clone()).await.expect("the report is accepted");
    let waits =
        async |entity| cause_of(&causes(&fixture, entity).await, &Entity::Machine("0".to_owned())).clone();
    for entity in ["machine/0", "web/0", "model"] {
        let waits = waits(entity).await;
        let host = Host::Process(machine);
        let duty = Duty::RunMachineAgent { silence: Silence::NotReported, host, exits: Some(exits.clone()) };
        assert_eq!(
            (waits.duty, waits.last_error),
            (duty, last_error.clone().map(FailureReason::Text)),
            "{entity}"
        );
    }
    fixture.advance(1);
    agent.handle(ReportPresence::default()).await.expect("the report is accepted");
    fixture.advance(controller::presence::LOST_AFTER_MS + 1);
    let silent = waits("machine/0").await;
    assert!(matches!(silent.duty, Duty::RunMachineAgent { exits: None, .. }), "{silent:?}");
    fixture.admin.handle(report).await.expect("the report is accepted");
    let ended = waits("machine/0").await;
    assert!(matches!(ended.duty, Duty::RunMachineAgent { exits: Some(_), .. }), "{ended:?}");
    // it runs again, and its requests do not arrive
    fixture.admin.handle(ReportMachineAgentExits { machine, exits: None }).await.expect("accepted");
    let recovered = waits("machine/0").await;
    assert!(matches!(recovered.duty, Duty::RunMachineAgent { exits: None, .. }), "{recovered:?}");
}
