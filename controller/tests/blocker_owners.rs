//! `why` names the actor that must act, since when it is awaited, and the command that helps (issue 4.3).

mod support;

use api::error::ErrorCode;
use api::{
    AddMachines, AddUnits, Claim, CreateEnrolmentToken, Deploy, DestroyModel, DryRunRemoval, Enrol, Force,
    GetStatus, GetWhy, Handle, Integrate, ProvisioningReport, RelationChoice, RemoveApplication,
    RemoveMachine, RemoveRelation, RemoveUnit, ReportInstance, ReportPresence, SetMachineToken,
    SuspendRelation,
};
use controller::store::memory::MemoryStore;
use state::charm::{Charm, Endpoint, Role, Scope};
use state::documents::keys::TokenHolder;
use state::lifecycle::application::register_archive;
use state::operations::instance::ENROLMENT_MS;
use state::terms::cause::{Actor, Cause, Duty, Entity, Forced, Host, RelationName, Remedy, Retry, Silence};
use state::terms::names::{UnitName, Uuid};
use state::unit::activity::Activity;
use state::unit::hook_name::HookName;
use state::unit::operation::{CharmRef, Hook, Operation};
use state::unit::record::{Outcome, Record};
use std::collections::{BTreeMap, BTreeSet};
use support::*;

type MemoryFixture = Fixture<MemoryStore, FakeEnvironment>;

async fn causes(fixture: &MemoryFixture, entity: &str) -> Vec<Cause> {
    fixture.admin.handle(GetWhy { entity: entity.to_owned() }).await.expect("it exists").causes
}

/// Returns the first cause of `entity`, which is named like `unit web/0`.
fn cause_of<'a>(causes: &'a [Cause], entity: &str) -> &'a Cause {
    let found = causes.iter().find(|cause| cause.entity.to_string() == entity);
    found.unwrap_or_else(|| panic!("{entity} in {causes:#?}"))
}

fn unit(name: &str) -> UnitName {
    name.parse().expect("a unit's name")
}

fn now(fixture: &MemoryFixture) -> Option<i64> {
    use controller::Environment as _;
    Some(fixture.controller.environment.wall_ms())
}

/// Opens the session of a machine's agent.
async fn machine_agent(
    fixture: &MemoryFixture,
    machine: Uuid,
) -> controller::Session<MemoryStore, FakeEnvironment> {
    let token = "ab".repeat(32);
    fixture
        .admin
        .handle(SetMachineToken { machine, token: token.to_owned() })
        .await
        .expect("the token is stored");
    fixture.controller.session(&token).await.expect("the token is valid")
}

#[tokio::test]
async fn a_provisioning_error_is_the_cause_for_all_entities_that_wait_for_the_machine() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let report = async |what| {
        fixture.admin.handle(ReportInstance { machine, what }).await.expect("the report is accepted")
    };
    // like the provisioner: the instance is created, its token stored, the start recorded, and then the start fails
    report(ProvisioningReport::Starting { provider: "nspawn".to_owned(), nonce: Uuid(5) }).await;
    let agent = machine_agent(&fixture, machine).await;
    report(ProvisioningReport::Started { instance_id: "box".to_owned(), address: "10.0.0.2".to_owned() })
        .await;
    fixture.advance(100);
    report(ProvisioningReport::Failed { message: "no room for a container".to_owned() }).await;
    let failed_ms = now(&fixture);
    fixture.advance(2_000);

    let status = fixture.admin.handle(GetStatus).await.expect("it exists");
    let shown = &status.machines["0"];
    assert_eq!((shown.agent.current.as_str(), shown.agent.message.as_str()), ("down", ""));
    assert_eq!(shown.agent.since_ms, failed_ms);
    let instance = (shown.instance.current.as_str(), shown.instance.message.as_str());
    assert_eq!(instance, ("provisioning error", "no room for a container"));
    for entity in ["machine/0", "web/0", "web", "model"] {
        let causes = causes(&fixture, entity).await;
        let cause = cause_of(&causes, "machine 0");
        assert_eq!(cause.actor, Actor::Provisioner, "{entity}");
        assert_eq!(cause.last_error.as_deref(), Some("no room for a container"), "{entity}");
        assert_eq!(cause.since_ms, failed_ms, "{entity}");
        let retry_ms = failed_ms.map(|failed_ms| failed_ms + 5_000);
        let retry = Remedy::RetryProvisioning { machine: "0".to_owned(), retry_ms };
        assert_eq!(cause.remedy(), retry, "{entity}");
    }
    // an agent that reports is running, even if its provider fails
    agent.handle(ReportPresence).await.expect("the report is accepted");
    let status = fixture.admin.handle(GetStatus).await.expect("it exists");
    assert_eq!(status.machines["0"].agent.current, "started");
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
    report(ProvisioningReport::Starting { provider: "nspawn".to_owned(), nonce: Uuid(5) }).await;
    fails().await;
    let first_ms = now(&fixture);
    // the retry stores a token, and the start fails again
    fixture.advance(5_000);
    machine_agent(&fixture, machine).await;
    fixture.advance(100);
    fails().await;
    fixture.advance(1_000);
    let shown = fixture.admin.handle(GetStatus).await.expect("it exists").machines["0"].clone();
    assert_eq!(shown.agent.current, "down", "the agent has not reported since the last failure");
    assert_eq!((shown.agent.since_ms, shown.instance.since_ms), (first_ms, first_ms));
    let causes = causes(&fixture, "machine/0").await;
    let cause = cause_of(&causes, "machine 0");
    assert_eq!((cause.since_ms, cause.last_error.as_deref()), (first_ms, Some("no room for a container")));
    let retry_ms = now(&fixture).map(|now_ms| now_ms - 1_000 + 10_000);
    assert_eq!(cause.remedy(), Remedy::RetryProvisioning { machine: "0".to_owned(), retry_ms });
    // after a successful start, a new failure has a new time
    report(ProvisioningReport::Started { instance_id: "box".to_owned(), address: "10.0.0.2".to_owned() })
        .await;
    fails().await;
    assert_eq!(cause_of(&self::causes(&fixture, "machine/0").await, "machine 0").since_ms, now(&fixture));
}

#[tokio::test]
async fn a_manual_machine_waits_for_its_operator_and_names_the_expiry_and_the_command() {
    let fixture = Fixture::in_memory().await;
    let add = AddMachines { count: 1, manual: true };
    fixture.admin.handle(add).await.expect("the machine is added");
    let added_ms = now(&fixture);
    let invitation = fixture
        .admin
        .handle(CreateEnrolmentToken { machine: "0".to_owned() })
        .await
        .expect("the machine has not enrolled");
    fixture.advance(60_000);
    let listed = causes(&fixture, "machine/0").await;
    let waits = cause_of(&listed, "machine 0");
    assert_eq!((&waits.actor, waits.since_ms), (&Actor::Operator, added_ms));
    let expires_ms = added_ms.map(|added_ms| added_ms + ENROLMENT_MS);
    assert_eq!(waits.duty, Duty::Enrol { expires_ms });
    fixture.advance(u64::try_from(ENROLMENT_MS).expect("positive"));
    let listed = causes(&fixture, "machine/0").await;
    assert!(matches!(cause_of(&listed, "machine 0").duty, Duty::Enrol { .. }), "{listed:?}");

    // a machine that is being removed need not enrol: the provisioner removes it
    fixture.admin.handle(AddMachines { count: 1, manual: true }).await.expect("the machine is added");
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
    assert_eq!(again.machine, invitation.machine);
    let guest = fixture.controller.session(&again.token).await.expect("the token is valid");
    guest
        .handle(Enrol { token: "cd".repeat(32).to_owned(), address: "10.0.0.9".to_owned() })
        .await
        .expect("the enrolment token is valid");
    fixture.advance(controller::presence::LOST_AFTER_MS + 1);
    let listed = causes(&fixture, "machine/0").await;
    let lost = cause_of(&listed, "machine 0");
    assert_eq!(lost.actor, Actor::Operator);
    assert_eq!(lost.duty, Duty::RunMachineAgent { agent: Silence::Lost, host: Host::Manual });
}

#[tokio::test]
async fn the_cause_for_a_lost_container_names_its_process_file() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let intended = ProvisioningReport::Starting { provider: "nspawn".to_owned(), nonce: Uuid(5) };
    fixture.admin.handle(ReportInstance { machine, what: intended }).await.expect("the report is accepted");
    machine_agent(&fixture, machine).await;
    fixture.advance(controller::presence::LOST_AFTER_MS + 1);
    let listed = causes(&fixture, "machine/0").await;
    let duty = Duty::RunMachineAgent { agent: Silence::Lost, host: Host::Container(machine) };
    assert_eq!(cause_of(&listed, "machine 0").duty, duty);
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
    fixture.sweep_for_a_while().await;
    let why = fixture
        .admin
        .handle(GetWhy { entity: "machine/0".to_owned() })
        .await
        .expect("its provisioner has not come yet");
    let dead = cause_of(&why.causes, "machine 0");
    assert_eq!((&dead.actor, dead.remedy()), (&Actor::Provisioner, Remedy::Automatic));
}

#[tokio::test]
async fn the_cause_for_an_agent_that_does_not_start_names_its_log() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("db", 1).await;
    let created_ms = now(&fixture);
    let machine = fixture.machine_of_unit(fixture.unit("db/0").await).await;
    machine_agent(&fixture, machine).await.handle(ReportPresence).await.expect("the report is accepted");
    fixture.advance(4_000);
    for entity in ["db/0", "db", "model"] {
        let listed = causes(&fixture, entity).await;
        let waits = cause_of(&listed, "unit db/0");
        assert_eq!((&waits.actor, waits.since_ms), (&Actor::UnitAgent(unit("db/0")), created_ms));
        assert_eq!(waits.duty, Duty::Attach { machine: "0".to_owned() });
    }
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
        let waits = cause_of(&listed, "machine 0");
        let duty = Duty::RunMachineAgent { agent: Silence::NotReported, host: Host::Process(machine) };
        assert_eq!(waits.duty, duty, "{entity}");
        assert!(listed.iter().all(|cause| !matches!(cause.duty, Duty::Attach { .. })), "{listed:?}");
    }
    agent.handle(ReportPresence).await.expect("the report is accepted");
    assert_eq!(causes(&fixture, "machine/0").await, []);
}

#[tokio::test]
async fn a_frozen_agent_is_late_before_it_is_lost_with_the_time_of_its_last_heartbeat() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = machine_agent(&fixture, fixture.machine_of_unit(fixture.unit("web/0").await).await).await;
    let web = fixture.attach_agent("web/0").await;
    let claim = Claim { epoch: web.epoch, release: false };
    web.api.handle(claim).await.expect("the agent is attached");
    let heard_ms = now(&fixture);
    // a unit agent claims every 15 s
    fixture.advance(20_000);
    machine.handle(ReportPresence).await.expect("the machine's agent is well");
    let late = |causes: Vec<Cause>| {
        causes.into_iter().find(|cause| matches!(cause.duty, Duty::Respond { lost: false, .. }))
    };
    assert_eq!(late(causes(&fixture, "web/0").await), None);
    fixture.advance(1);
    for entity in ["web/0", "model"] {
        let listed = late(causes(&fixture, entity).await).expect("it is late");
        assert_eq!(listed.since_ms, heard_ms);
        let restart =
            Remedy::RestartUnitAgent { unit: unit("web/0"), machine: "0".to_owned(), removable: true };
        assert_eq!(listed.remedy(), restart);
    }
}

#[tokio::test]
async fn units_that_wait_for_a_suspended_relation_name_it() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    fixture.attach_agent("web/0").await;
    let (number, _) = fixture.integrate().await;
    fixture.advance(1_000);
    fixture
        .admin
        .handle(SuspendRelation { relation: number, message: "db moves".to_owned() })
        .await
        .expect("it exists");
    let suspended_ms = now(&fixture);
    fixture.advance(1_000);
    for entity in ["web/0", "web", "model", "web:db db:server"] {
        let listed = causes(&fixture, entity).await;
        let waits = cause_of(&listed, &format!("relation {number} (db:server web:db)"));
        assert_eq!(waits.duty, Duty::ResumeRequest { message: "db moves".to_owned() });
        assert_eq!((&waits.actor, waits.since_ms), (&Actor::Operator, suspended_ms));
        assert_eq!(waits.remedy(), Remedy::ResumeRelation { relation: number });
    }
    let first = fixture.admin.handle(GetWhy { entity: "web".to_owned() }).await.expect("it exists").causes;
    assert_eq!(
        first.iter().filter(|cause| matches!(cause.duty, Duty::ResumeRequest { .. })).count(),
        1,
        "{first:?}"
    );
}

#[tokio::test]
async fn a_model_names_units_in_error_without_any_removal() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let mut web = fixture.attach_agent("web/0").await;
    let charm = CharmRef {
        url: "local:web-0".to_owned(),
        sha256: "web".to_owned(),
        revision: 0,
        endpoints: BTreeSet::from(["db".to_owned()]),
    };
    web.commit(web.record(Operation::InstallCharm(charm))).await;
    let record = web.record(Operation::Hook(Hook::Install));
    let outcome = Outcome::Failed { reason: "exit status: 1".to_owned(), retry: None };
    web.commit(Record { outcome, ..record }).await;
    let listed = causes(&fixture, "model").await;
    let waits = cause_of(&listed, "unit web/0");
    let activity = Activity::hook(HookName::Install);
    assert_eq!(waits.duty, Duty::Recover { activity, failures: 1, retry: Retry::Exhausted });
    assert_eq!(waits.remedy(), Remedy::ResolvedRequest { unit: unit("web/0") });
}

#[tokio::test]
async fn a_subordinate_without_principals_waits_for_an_integration() {
    let fixture = Fixture::in_memory().await;
    let add = |draft: &mut state::documents::draft::Draft<'_>| {
        let endpoint = Endpoint {
            name: "host".to_owned(),
            role: Role::Requirer,
            interface: "sql".to_owned(),
            scope: Scope::Container,
            limit: None,
            optional: false,
        };
        let endpoints = BTreeMap::from([("host".to_owned(), endpoint)]);
        let charm = Charm { name: "side".to_owned(), subordinate: true, endpoints, ..Charm::default() };
        register_archive(draft, "side", charm, 10);
        Ok(())
    };
    fixture.controller.run(add).await.expect("a new archive");
    let deploy =
        Deploy { application: None, sha256: "side".to_owned(), units: 1, to: None, config: BTreeMap::new() };
    fixture.admin.handle(deploy).await.expect("the deployment succeeds");
    let listed = causes(&fixture, "side").await;
    let waits = cause_of(&listed, "application side");
    assert_eq!((&waits.actor, &waits.duty), (&Actor::Operator, &Duty::Integrate));

    // it is integrated with an application that has no units yet
    fixture.deploy("db", 0).await;
    let ends = api::Ends { a: "side".to_owned(), b: "db".to_owned() };
    fixture.admin.handle(Integrate(ends)).await.expect("the endpoints are compatible");
    let listed = causes(&fixture, "side").await;
    let waits = cause_of(&listed, "application side");
    assert_eq!(waits.duty, Duty::AddPrincipalUnit { principal: "db".to_owned() });
    let added = AddUnits { application: "db".to_owned(), units: 1, to: None };
    fixture.admin.handle(added).await.expect("it is alive");
    let listed = causes(&fixture, "side").await;
    assert!(
        listed.iter().all(|cause| cause.entity != Entity::Application("side".to_owned())),
        "its unit was created with the principal: {listed:?}"
    );
}

#[tokio::test]
async fn a_dying_unit_waits_since_its_removal_and_enters_no_relation() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let (number, _) = fixture.integrate().await;
    fixture.attach_agent("web/0").await;
    fixture.advance(3_600_000);
    fixture
        .admin
        .handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::No })
        .await
        .expect("the removal is accepted");
    let removed_ms = now(&fixture);
    fixture.advance(5_000);
    let listed = causes(&fixture, "model").await;
    assert_eq!(cause_of(&listed, "unit web/0").since_ms, removed_ms);
    let listed = causes(&fixture, &format!("relation/{number}")).await;
    let entering = listed.iter().filter(|cause| matches!(cause.duty, Duty::EnterScope { .. }));
    let entering: Vec<String> = entering.map(|cause| cause.entity.to_string()).collect();
    assert_eq!(entering, ["unit db/0"], "{listed:?}");

    // the agent of this unit was never started
    fixture
        .admin
        .handle(RemoveApplication { application: "db".to_owned(), force: Force::No })
        .await
        .expect("the removal is accepted");
    let removed_ms = now(&fixture);
    fixture.advance(5_000);
    for entity in ["db/0", "db", "model"] {
        let listed = causes(&fixture, entity).await;
        let never = listed.iter().find(|cause| cause.duty == Duty::RemoveUnstarted).expect("no agent came");
        let db = Entity::Unit(unit("db/0"));
        assert_eq!((&never.entity, never.since_ms), (&db, removed_ms), "{entity}");
    }
}

#[tokio::test]
async fn a_dead_unit_waits_for_its_recall_by_the_machine_agent() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let principal = TokenHolder::Machine { model: fixture.model, machine };
    fixture.token(machine, principal.clone()).await;
    let session = fixture.controller.session_for(principal);
    let mut web = fixture.attach_agent("web/0").await;
    fixture
        .admin
        .handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::No })
        .await
        .expect("the removal is accepted");
    web.commit(web.record(Operation::SetDead)).await;
    let died_ms = now(&fixture);
    fixture.advance(controller::presence::LOST_AFTER_MS + 1);
    session.handle(ReportPresence).await.expect("the machine's agent is here");
    let listed = causes(&fixture, "web/0").await;
    let by_machine = Actor::MachineAgent("0".to_owned());
    assert_eq!(listed, [Cause::new(Entity::Unit(unit("web/0")), Duty::Recall, by_machine).since(died_ms)]);
}

#[tokio::test]
async fn a_refusal_because_of_a_pending_removal_names_its_blockers() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let relation = fixture.integrate().await;
    let (mut web, _db) = (fixture.attach_agent("web/0").await, fixture.attach_agent("db/0").await);
    web.enter(relation, "db", "db").await;
    fixture
        .admin
        .handle(RemoveRelation { relation: RelationChoice::Number(relation.0), force: Force::No })
        .await
        .expect("the removal is accepted");
    let ends = api::Ends { a: "web".to_owned(), b: "db".to_owned() };
    let refused = fixture.admin.handle(Integrate(ends)).await.expect_err("it is still being removed");
    assert_eq!(refused.code, ErrorCode::AlreadyExists);
    assert_eq!(refused.message, "relation db:server web:db already exists and is being removed");
    let relations = vec![RelationName { number: relation.0, ends: "db:server web:db".to_owned() }];
    let leave = Cause::of_unit_agent(&unit("web/0"), Duty::LeaveScopes { relations: relations.clone() });
    assert_eq!(refused.blockers, [leave.since(now(&fixture))]);
    fixture
        .admin
        .handle(RemoveApplication { application: "web".to_owned(), force: Force::No })
        .await
        .expect("the removal is accepted");
    let removed_ms = now(&fixture);
    fixture.advance(125_000);
    let deploy =
        Deploy { application: None, sha256: "web".to_owned(), units: 1, to: None, config: BTreeMap::new() };
    let refused = fixture.admin.handle(deploy).await.expect_err("it is still being removed");
    assert_eq!(refused.message, "application \"web\" already exists and is being removed");
    let terminate = Cause::of_unit_agent(&unit("web/0"), Duty::Terminate { relations });
    assert_eq!(refused.blockers, [terminate.since(removed_ms)]);
}

#[tokio::test]
async fn a_refused_removal_names_at_most_20_blockers_each_with_its_command() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let remove = async |name: &str| {
        fixture
            .admin
            .handle(RemoveMachine { machine: name.to_owned(), force: Force::No, keep_instance: false })
            .await
            .expect_err("it is in use")
    };
    let by_hand = |unit| Cause::new(Entity::Unit(unit), Duty::Remove, Actor::Operator);
    let first = remove("0").await;
    assert_eq!(first.message, "cannot remove machine 0: unit web/0 is assigned to it");
    assert_eq!(first.blockers, [by_hand(unit("web/0"))]);
    for _ in 0..20 {
        let add = AddUnits { application: "web".to_owned(), units: 1, to: Some("0".to_owned()) };
        fixture.admin.handle(add).await.expect("there is room");
    }
    let refused = remove("0").await;
    assert_eq!(refused.blockers.len(), 21, "one more than the text lists");
    let second = Entity::Unit(unit("web/1"));
    assert!(refused.blockers.iter().any(|one| one.remedy() == Remedy::Remove(second.clone())), "{refused:?}");
}

#[tokio::test]
async fn each_of_several_blockers_has_its_own_remedy_and_time() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    let mut web = fixture.attach_agent("web/0").await;
    let failed = Outcome::Failed { reason: "exit status 1".to_owned(), retry: None };
    web.commit(Record { outcome: failed, ..web.record(Operation::Hook(Hook::Install)) }).await;
    fixture.attach_agent("web/1").await;
    fixture
        .admin
        .handle(RemoveApplication { application: "web".to_owned(), force: Force::No })
        .await
        .expect("the removal is accepted");
    let removed_ms = now(&fixture);
    fixture.advance(5_000);
    let deploy =
        Deploy { application: None, sha256: "web".to_owned(), units: 1, to: None, config: BTreeMap::new() };
    let refused = fixture.admin.handle(deploy).await.expect_err("it is still being removed");
    let of_second = cause_of(&refused.blockers, "unit web/1");
    assert_eq!(of_second.since_ms, removed_ms);
    assert_eq!(of_second.remedy(), Remedy::Explain(Entity::Unit(unit("web/1"))));
    let of_first = cause_of(&refused.blockers, "unit web/0");
    assert_eq!(of_first.last_error.as_deref(), Some("hook install: exit status 1"));
    assert_eq!(of_first.remedy(), Remedy::ResolvedRequest { unit: unit("web/0") });
    assert_eq!(refused.hint, None);

    let removed = vec![api::RemovalTarget::Application("web".to_owned())];
    let forecast =
        fixture.admin.handle(DryRunRemoval { removed, force: Force::No }).await.expect("it exists");
    assert_eq!(
        cause_of(&forecast.blocked, "unit web/0").last_error.as_deref(),
        Some("hook install: exit status 1")
    );
    assert!(forecast.blocked.iter().all(|one| one.since_ms.is_some()), "{forecast:?}");
}

#[tokio::test]
async fn the_remedy_for_a_destroyed_model_is_a_complete_command() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.attach_agent("web/0").await;
    fixture.admin.handle(DestroyModel { force: Force::No }).await.expect("the removal is accepted");
    let listed = causes(&fixture, "model").await;
    let destroy = Remedy::DestroyByForce { model: "dev".to_owned(), forced: Forced::No };
    assert_eq!(cause_of(&listed, "model dev").remedy(), destroy, "{listed:?}");
}
