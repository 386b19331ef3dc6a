//! The causes for silent machine agents, and for machines that are being removed.

use crate::fixture::causes;
use crate::support::*;
use api::{
    ConfirmRecall, Force, GetStatus, Handle, ProvisioningReport, RemoveApplication, RemoveMachine,
    RemoveUnit, ReportInstance, ReportObstructedRecalls, ReportPresence, SetMachineToken, Stream, Watch,
    WatchMachine,
};
use controller::Environment;
use controller::janitor::Janitor;
use controller::presence::{LATE_AFTER_MS, LOST_AFTER_MS};
use state::terms::cause::{Actor, Cause, Duty, Entity, Silence};
use state::terms::names::Uuid;
use state::terms::provider_kind::ProviderKind;
use state::terms::status_message::StatusMessage;

#[tokio::test]
async fn a_silent_machine_agent_is_late_and_then_lost_and_dependents_name_it() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let silences = |causes: &[Cause]| -> Vec<(Silence, Option<i64>)> {
        let mine = causes.iter().filter(|cause| cause.entity == Entity::Machine("0".to_owned()));
        let silence = |cause: &Cause| match cause.duty {
            Duty::RunMachineAgent { silence, .. } => (silence, cause.since_ms),
            ref other => panic!("{other:?}"),
        };
        mine.map(silence).collect()
    };
    let shown = async || {
        let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
        let unit = status.applications["web"].units.values().next().expect("one unit").clone();
        if matches!(unit.agent.message, StatusMessage::MachineNotCommunicating { .. }) {
            let shown = (unit.workload.message.clone(), unit.workload.since_ms);
            assert_eq!(
                shown,
                (unit.agent.message.clone(), unit.agent.since_ms),
                "the workload status shows the same"
            );
        }
        let unit = unit.agent.clone();
        let agent = status.machines["0"].agent.clone();
        ((agent.current.to_string(), agent.since_ms), (unit.current.to_string(), unit.message, unit.since_ms))
    };
    assert_eq!(shown().await.0.0, "pending");
    let token = "ab".repeat(32);
    fixture.advance(LOST_AFTER_MS + 1);
    fixture
        .admin
        .handle(SetMachineToken { machine, token: token.to_owned() })
        .await
        .expect("the token is stored");
    assert_eq!(shown().await.0.0, "pending", "it has the full time to come");
    assert_eq!(silences(&causes(&fixture, "0").await)[0].0, Silence::NotReported);

    let agent = fixture.controller.authenticate(&token).await.expect("the token is valid");
    let mut watch = agent.watch(WatchMachine).await.expect("the stream opens");
    for _ in 0..20 {
        agent.handle(ReportPresence::default()).await.expect("the report is accepted");
        fixture.advance(api::HEARTBEAT_MS);
        // the kernel still receives the stream of a stopped agent
        watch.next().await.expect("the stream continues");
        assert_eq!(shown().await.0.0, "started");
        assert_eq!(silences(&causes(&fixture, "web/0").await), []);
    }
    agent.handle(ReportPresence::default()).await.expect("the report is accepted");
    let silent_ms = Some(fixture.controller.environment.wall_ms());
    let mut silent_ms_of_watch = 0;
    let mut silence = async |ms: u64| {
        for _ in 0..ms / api::EXAMINATION_INTERVAL_MS {
            fixture.advance(api::EXAMINATION_INTERVAL_MS);
            silent_ms_of_watch += api::EXAMINATION_INTERVAL_MS;
            if silent_ms_of_watch >= api::HEARTBEAT_MS {
                silent_ms_of_watch = 0;
                watch.next().await.expect("the stream continues");
            }
        }
    };
    silence(LATE_AFTER_MS).await;
    let (machine_shown, unit_shown) = shown().await;
    assert_eq!(machine_shown.0, "started");
    assert_eq!((unit_shown.0.as_str(), unit_shown.1), ("allocating", StatusMessage::Empty));
    assert_eq!(silences(&causes(&fixture, "web/0").await), []);
    fixture.advance(1);
    assert_eq!(shown().await.0, ("started".to_owned(), silent_ms), "late");
    let late = [(Silence::Late, silent_ms)];
    assert_eq!(silences(&causes(&fixture, "web/0").await), late);
    assert_eq!(silences(&causes(&fixture, "0").await), late);

    silence(LOST_AFTER_MS - LATE_AFTER_MS - api::EXAMINATION_INTERVAL_MS).await;
    assert_eq!(shown().await.0.0, "started");
    silence(api::EXAMINATION_INTERVAL_MS).await;
    let (machine_shown, unit_shown) = shown().await;
    assert_eq!(machine_shown, ("down".to_owned(), silent_ms));
    let message = StatusMessage::MachineNotCommunicating { machine: "0".to_owned() };
    assert_eq!(unit_shown, ("allocating".to_owned(), message, silent_ms));
    let lost = [(Silence::Lost, silent_ms)];
    assert_eq!(silences(&causes(&fixture, "web/0").await), lost);
    assert_eq!(silences(&causes(&fixture, "0").await), lost);
    agent.handle(ReportPresence::default()).await.expect("it is back");
    assert_eq!(silences(&causes(&fixture, "web/0").await), []);
}

#[tokio::test]
async fn a_machine_set_dead_by_force_waits_only_for_its_provider() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let report = async |what| {
        fixture.admin.handle(ReportInstance { machine, what }).await.expect("the report is accepted")
    };
    report(ProvisioningReport::Starting { provider: ProviderKind::Local, nonce: Uuid(5) }).await;
    let (instance_id, address) = ("local-0".to_owned(), "127.0.0.1".to_owned());
    report(ProvisioningReport::Started { instance_id, address, base: None, hardware: None }).await;
    fixture
        .admin
        .handle(RemoveMachine { machine: "0".to_owned(), force: Force::AtOnce, keep_instance: false })
        .await
        .expect("the removal is accepted");
    let mut janitor = Janitor::default();
    while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {}
    let actors: Vec<Actor> =
        causes(&fixture, "machine/0").await.into_iter().map(|cause| cause.actor).collect();
    assert_eq!(actors, [Actor::Provisioner]);
}

#[tokio::test]
async fn a_dying_machine_with_units_and_no_instance_gets_one_or_is_forced_and_why_tells() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let missing_instance = async || {
        let causes = causes(&fixture, "machine/0").await.into_iter();
        causes.filter(|cause| cause.duty == Duty::CreateInstance).collect::<Vec<_>>()
    };
    fixture
        .admin
        .handle(RemoveApplication { destroy_storage: false, application: "web".to_owned(), force: Force::No })
        .await
        .expect("it is Dying");
    fixture
        .admin
        .handle(RemoveMachine { machine: "0".to_owned(), force: Force::No, keep_instance: false })
        .await
        .expect("its unit is Dying");
    let since_ms = Some(fixture.controller.environment.wall_ms());
    assert_eq!(missing_instance().await, [], "its unit never attached: its provider reports it Dead");
    fixture.attach_agent("web/0").await;
    fixture.advance(2_000);
    let creates = Cause::new(Entity::Machine("0".to_owned()), Duty::CreateInstance, Actor::Provisioner);
    let creates = creates.since(since_ms);
    assert_eq!(missing_instance().await, [creates]);

    let report = async |what| fixture.admin.handle(ReportInstance { machine, what }).await;
    report(ProvisioningReport::Absent).await.expect_err("a unit that had attached is on it");
    report(ProvisioningReport::Failed { message: "web/0 is on it".to_owned() })
        .await
        .expect("the report is accepted");
    let all = causes(&fixture, "machine/0").await;
    let error = all.iter().find_map(|cause| cause.last_error.clone());
    assert_eq!(error, Some("web/0 is on it".to_owned().into()), "{all:?}");
    assert!(all.iter().any(|cause| matches!(cause.duty, Duty::ReachInstance { .. })), "{all:?}");

    report(ProvisioningReport::Starting { provider: ProviderKind::Local, nonce: Uuid(5) })
        .await
        .expect("a unit is on it");
    let (instance_id, address) = ("local-0".to_owned(), "127.0.0.1".to_owned());
    report(ProvisioningReport::Started { instance_id, address, base: None, hardware: None })
        .await
        .expect("the report is accepted");
    assert_eq!(missing_instance().await, [], "its agents can end there");
}

/// A folder of a removed unit that was set aside keeps the unit's tombstone. `why` names it until it is deleted.
#[tokio::test]
async fn a_folder_that_keeps_the_tombstone_of_a_removed_unit_is_named() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    let (unit, other) = (fixture.unit("web/0").await, fixture.unit("web/1").await);
    let machine = fixture.machine_of_unit(unit).await;
    let token = "ab".repeat(32);
    let set = SetMachineToken { machine, token: token.clone() };
    fixture.admin.handle(set).await.expect("the token is stored");
    let agent = fixture.controller.authenticate(&token).await.expect("the token is valid");
    agent.handle(ReportPresence::default()).await.expect("it runs");
    let remove =
        RemoveUnit { destroy_storage: false, unit: "web/0".parse().expect("a unit"), force: Force::No };
    fixture.admin.handle(remove).await.expect("the unit never attached: it is removed");
    let named = async |entity: &str| {
        let found = causes(&fixture, entity).await.into_iter();
        let found = found.filter(|cause| matches!(cause.duty, Duty::DeleteFolder { .. }));
        found.map(|cause| (cause.actor, cause.duty, cause.last_error)).collect::<Vec<_>>()
    };
    let obstacle = || "quarantine/unit-web-0-5 belongs\nto unit 5".to_owned();
    let recalls = [(unit, obstacle()), (other, obstacle())].into_iter().collect();
    agent.handle(ReportObstructedRecalls { recalls }).await.expect("accepted");
    let unit_name = "web/0".parse().expect("a unit");
    let expected = [(
        Actor::Operator,
        Duty::DeleteFolder { unit: unit_name },
        Some(obstacle().replace('\n', " ").into()),
    )];
    assert_eq!(named("machine/0").await, expected, "of the removed unit of this machine alone");
    assert_eq!(named("model").await, expected);
    let what = ProvisioningReport::Failed { message: "no answer".to_owned() };
    fixture.admin.handle(ReportInstance { machine, what }).await.expect("accepted");
    let found = causes(&fixture, "machine/0").await;
    let provider = found.iter().filter(|cause| matches!(cause.duty, Duty::ReachInstance { .. }));
    assert_eq!(provider.count(), 1, "the folder hides no failure of the provider: {found:?}");
    agent.handle(ConfirmRecall { unit }).await.expect("the folder is gone");
    assert_eq!(named("machine/0").await, []);
}
