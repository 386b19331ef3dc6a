//! `why` names who truly owes what is waited for, since when, and the command that helps (issue 4.3).

mod support;

use api::error::ErrorCode;
use api::{
    AddMachines, AddUnits, Claim, CreateEnrolmentToken, Deploy, DestroyModel, DryRunRemoval, Enrol, Force,
    GetStatus, GetWhy, Handle, Integrate, ProvisioningReport, RelationChoice, RemoveApplication,
    RemoveMachine, RemoveRelation, RemoveUnit, ReportInstance, ReportPresence, SetMachineToken,
    SuspendRelation,
};
use controller::store::map::Map;
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

type Told = Story<Map, Still>;

async fn causes(story: &Told, entity: &str) -> Vec<Cause> {
    story.admin.handle(GetWhy { entity: entity.to_owned() }).await.expect("it is there").causes
}

/// The first cause of `entity`, named `unit web/0`.
fn of<'a>(causes: &'a [Cause], entity: &str) -> &'a Cause {
    let found = causes.iter().find(|cause| cause.entity.to_string() == entity);
    found.unwrap_or_else(|| panic!("{entity} in {causes:#?}"))
}

fn unit(name: &str) -> UnitName {
    name.parse().expect("a unit's name")
}

fn now(story: &Told) -> Option<i64> {
    use controller::Outside as _;
    Some(story.controller.outside.wall_ms())
}

/// The machine's agent is here, and goes on being here.
async fn machine_agent(story: &Told, machine: Uuid) -> controller::Session<Map, Still> {
    let token = "ab".repeat(32);
    story.admin.handle(SetMachineToken { machine, token: token.to_owned() }).await.expect("it is introduced");
    story.controller.session(&token).await.expect("its token")
}

#[tokio::test]
async fn a_machine_that_cannot_be_started_is_not_started_and_all_that_wait_for_it_say_why() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    let machine = story.machine_of(story.unit("web/0").await).await;
    let says = async |what| story.admin.handle(ReportInstance { machine, what }).await.expect("noted");
    // as the provisioner does it: made, introduced, recorded, and then it does not start
    says(ProvisioningReport::Starting { provider: "nspawn".to_owned(), nonce: Uuid(5) }).await;
    let agent = machine_agent(&story, machine).await;
    says(ProvisioningReport::Started { instance_id: "box".to_owned(), address: "10.0.0.2".to_owned() }).await;
    story.pass(100);
    says(ProvisioningReport::Failed { message: "no room for a container".to_owned() }).await;
    let failed_ms = now(&story);
    story.pass(2_000);

    let status = story.admin.handle(GetStatus).await.expect("there");
    let shown = &status.machines["0"];
    assert_eq!((shown.agent.current.as_str(), shown.agent.message.as_str()), ("down", ""));
    assert_eq!(shown.agent.since_ms, failed_ms);
    let instance = (shown.instance.current.as_str(), shown.instance.message.as_str());
    assert_eq!(instance, ("provisioning error", "no room for a container"));
    for entity in ["machine/0", "web/0", "web", "model"] {
        let causes = causes(&story, entity).await;
        let of = of(&causes, "machine 0");
        assert_eq!(of.actor, Actor::Provisioner, "{entity}");
        assert_eq!(of.last_error.as_deref(), Some("no room for a container"), "{entity}");
        assert_eq!(of.since_ms, failed_ms, "{entity}");
        let retry_ms = failed_ms.map(|failed_ms| failed_ms + 5_000);
        let retry = Remedy::RetryProvisioning { machine: "0".to_owned(), retry_ms };
        assert_eq!(of.remedy(), retry, "{entity}");
    }
    // whose agent is heard of runs, whatever else its provider fails at
    agent.handle(ReportPresence).await.expect("it may say so");
    let status = story.admin.handle(GetStatus).await.expect("there");
    assert_eq!(status.machines["0"].agent.current, "started");
}

#[tokio::test]
async fn a_machine_that_fails_again_has_failed_since_the_first_time_though_it_was_introduced_in_between() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    let machine = story.machine_of(story.unit("web/0").await).await;
    let says = async |what| story.admin.handle(ReportInstance { machine, what }).await.expect("noted");
    let fails =
        async || says(ProvisioningReport::Failed { message: "no room for a container".to_owned() }).await;
    says(ProvisioningReport::Starting { provider: "nspawn".to_owned(), nonce: Uuid(5) }).await;
    fails().await;
    let first_ms = now(&story);
    // it is tried again: made and introduced, and it does not start
    story.pass(5_000);
    machine_agent(&story, machine).await;
    story.pass(100);
    fails().await;
    story.pass(1_000);
    let shown = story.admin.handle(GetStatus).await.expect("there").machines["0"].clone();
    assert_eq!(shown.agent.current, "down", "nothing was heard of it since the last failure");
    assert_eq!((shown.agent.since_ms, shown.instance.since_ms), (first_ms, first_ms));
    let causes = causes(&story, "machine/0").await;
    let cause = of(&causes, "machine 0");
    assert_eq!((cause.since_ms, cause.last_error.as_deref()), (first_ms, Some("no room for a container")));
    let retry_ms = now(&story).map(|now_ms| now_ms - 1_000 + 10_000);
    assert_eq!(cause.remedy(), Remedy::RetryProvisioning { machine: "0".to_owned(), retry_ms });
    // it has run: what fails after that begins anew
    says(ProvisioningReport::Started { instance_id: "box".to_owned(), address: "10.0.0.2".to_owned() }).await;
    fails().await;
    assert_eq!(of(&self::causes(&story, "machine/0").await, "machine 0").since_ms, now(&story));
}

#[tokio::test]
async fn a_machine_of_ones_own_waits_for_its_person_and_says_until_when_and_what_to_do() {
    let story = Story::in_memory().await;
    let add = AddMachines { count: 1, manual: true };
    story.admin.handle(add).await.expect("added");
    let added_ms = now(&story);
    let invitation = story
        .admin
        .handle(CreateEnrolmentToken { machine: "0".to_owned() })
        .await
        .expect("it has not come yet");
    story.pass(60_000);
    let told = causes(&story, "machine/0").await;
    let waits = of(&told, "machine 0");
    assert_eq!((&waits.actor, waits.since_ms), (&Actor::Operator, added_ms));
    let expires_ms = added_ms.map(|added_ms| added_ms + ENROLMENT_MS);
    assert_eq!(waits.duty, Duty::Enrol { expires_ms });
    story.pass(u64::try_from(ENROLMENT_MS).expect("positive"));
    let told = causes(&story, "machine/0").await;
    assert!(matches!(of(&told, "machine 0").duty, Duty::Enrol { .. }), "{told:?}");

    // on its way out, nobody need enrol it any more: the provisioner ends what never began
    story.admin.handle(AddMachines { count: 1, manual: true }).await.expect("added");
    story
        .admin
        .handle(RemoveMachine { machine: "1".to_owned(), force: Force::No, keep_instance: false })
        .await
        .expect("it may go");
    let told = causes(&story, "machine/1").await;
    let [ends] = &told[..] else { panic!("{told:?}") };
    assert_eq!((&ends.actor, &ends.duty), (&Actor::Provisioner, &Duty::ReportUnstartedDead));

    // one that came and was lost has no process file of ours
    let again = story
        .admin
        .handle(CreateEnrolmentToken { machine: "0".to_owned() })
        .await
        .expect("it has not come yet");
    assert_eq!(again.machine, invitation.machine);
    let guest = story.controller.session(&again.token).await.expect("it is known");
    guest
        .handle(Enrol { token: "cd".repeat(32).to_owned(), address: "10.0.0.9".to_owned() })
        .await
        .expect("it is invited");
    story.pass(controller::presence::LOST_AFTER_MS + 1);
    let told = causes(&story, "machine/0").await;
    let lost = of(&told, "machine 0");
    assert_eq!(lost.actor, Actor::Operator);
    assert_eq!(lost.duty, Duty::RunMachineAgent { agent: Silence::Lost, host: Host::Manual });
}

#[tokio::test]
async fn a_lost_container_is_named_by_its_own_process_file() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    let machine = story.machine_of(story.unit("web/0").await).await;
    let intended = ProvisioningReport::Starting { provider: "nspawn".to_owned(), nonce: Uuid(5) };
    story.admin.handle(ReportInstance { machine, what: intended }).await.expect("noted");
    machine_agent(&story, machine).await;
    story.pass(controller::presence::LOST_AFTER_MS + 1);
    let told = causes(&story, "machine/0").await;
    let duty = Duty::RunMachineAgent { agent: Silence::Lost, host: Host::Container(machine) };
    assert_eq!(of(&told, "machine 0").duty, duty);
}

#[tokio::test]
async fn a_dead_machine_is_released_by_its_provisioner_and_that_comes_by_itself() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    story
        .admin
        .handle(RemoveMachine { machine: "0".to_owned(), force: Force::AtOnce, keep_instance: false })
        .await
        .expect("by force");
    story.sweep_for_a_while().await;
    let why = story
        .admin
        .handle(GetWhy { entity: "machine/0".to_owned() })
        .await
        .expect("its provisioner has not come yet");
    let dead = of(&why.causes, "machine 0");
    assert_eq!((&dead.actor, dead.remedy()), (&Actor::Provisioner, Remedy::Automatic));
}

#[tokio::test]
async fn a_unit_whose_agent_does_not_come_up_says_where_its_log_is() {
    let story = Story::in_memory().await;
    story.deploy("db", 1).await;
    let created_ms = now(&story);
    let machine = story.machine_of(story.unit("db/0").await).await;
    machine_agent(&story, machine).await.handle(ReportPresence).await.expect("it may say so");
    story.pass(4_000);
    for entity in ["db/0", "db", "model"] {
        let told = causes(&story, entity).await;
        let waits = of(&told, "unit db/0");
        assert_eq!((&waits.actor, waits.since_ms), (&Actor::UnitAgent(unit("db/0")), created_ms));
        assert_eq!(waits.duty, Duty::Attach { machine: "0".to_owned() });
    }
}

#[tokio::test]
async fn a_machine_agent_that_was_started_and_not_heard_yet_is_not_said_to_be_here() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    let machine = story.machine_of(story.unit("web/0").await).await;
    let agent = machine_agent(&story, machine).await;
    story.pass(4_000);
    for entity in ["machine/0", "web/0", "model"] {
        let told = causes(&story, entity).await;
        let waits = of(&told, "machine 0");
        let duty = Duty::RunMachineAgent { agent: Silence::NotReported, host: Host::Process(machine) };
        assert_eq!(waits.duty, duty, "{entity}");
        assert!(told.iter().all(|cause| !matches!(cause.duty, Duty::Attach { .. })), "{told:?}");
    }
    agent.handle(ReportPresence).await.expect("it may say so");
    assert_eq!(causes(&story, "machine/0").await, []);
}

#[tokio::test]
async fn a_frozen_agent_is_late_before_it_is_lost_and_says_when_it_was_heard() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    let machine = machine_agent(&story, story.machine_of(story.unit("web/0").await).await).await;
    let web = story.agent_of("web/0").await;
    let claim = Claim { epoch: web.epoch, release: false };
    web.api.handle(claim).await.expect("it is here");
    let heard_ms = now(&story);
    // its claims come every 15 s
    story.pass(20_000);
    machine.handle(ReportPresence).await.expect("the machine's agent is well");
    let late = |causes: Vec<Cause>| {
        causes.into_iter().find(|cause| matches!(cause.duty, Duty::Respond { lost: false, .. }))
    };
    assert_eq!(late(causes(&story, "web/0").await), None);
    story.pass(1);
    for entity in ["web/0", "model"] {
        let told = late(causes(&story, entity).await).expect("it is late");
        assert_eq!(told.since_ms, heard_ms);
        let restart =
            Remedy::RestartUnitAgent { unit: unit("web/0"), machine: "0".to_owned(), removable: true };
        assert_eq!(told.remedy(), restart);
    }
}

#[tokio::test]
async fn a_suspended_relation_is_named_by_those_who_wait_for_it() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    story.deploy("db", 1).await;
    story.agent_of("web/0").await;
    let (number, _) = story.integrate().await;
    story.pass(1_000);
    story
        .admin
        .handle(SuspendRelation { relation: number, message: "db moves".to_owned() })
        .await
        .expect("it is there");
    let suspended_ms = now(&story);
    story.pass(1_000);
    for entity in ["web/0", "web", "model", "web:db db:server"] {
        let told = causes(&story, entity).await;
        let waits = of(&told, &format!("relation {number} (db:server web:db)"));
        assert_eq!(waits.duty, Duty::ResumeRequest { message: "db moves".to_owned() });
        assert_eq!((&waits.actor, waits.since_ms), (&Actor::Operator, suspended_ms));
        assert_eq!(waits.remedy(), Remedy::ResumeRelation { relation: number });
    }
    let first = story.admin.handle(GetWhy { entity: "web".to_owned() }).await.expect("there").causes;
    assert_eq!(
        first.iter().filter(|cause| matches!(cause.duty, Duty::ResumeRequest { .. })).count(),
        1,
        "{first:?}"
    );
}

#[tokio::test]
async fn a_model_names_its_units_in_error_though_nothing_goes() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    let mut web = story.agent_of("web/0").await;
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
    let told = causes(&story, "model").await;
    let waits = of(&told, "unit web/0");
    let activity = Activity::hook(HookName::Install);
    assert_eq!(waits.duty, Duty::Recover { activity, failures: 1, retry: Retry::Exhausted });
    assert_eq!(waits.remedy(), Remedy::ResolvedRequest { unit: unit("web/0") });
}

#[tokio::test]
async fn a_subordinate_that_nothing_is_integrated_with_says_so() {
    let story = Story::in_memory().await;
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
    story.controller.run(add).await.expect("a new archive");
    let deploy =
        Deploy { application: None, sha256: "side".to_owned(), units: 1, to: None, config: BTreeMap::new() };
    story.admin.handle(deploy).await.expect("it deploys");
    let told = causes(&story, "side").await;
    let waits = of(&told, "application side");
    assert_eq!((&waits.actor, &waits.duty), (&Actor::Operator, &Duty::Integrate));

    // it is integrated with what has no units yet
    story.deploy("db", 0).await;
    let ends = api::Ends { a: "side".to_owned(), b: "db".to_owned() };
    story.admin.handle(Integrate(ends)).await.expect("they fit");
    let told = causes(&story, "side").await;
    let waits = of(&told, "application side");
    assert_eq!(waits.duty, Duty::AddPrincipalUnit { principal: "db".to_owned() });
    let added = AddUnits { application: "db".to_owned(), units: 1, to: None };
    story.admin.handle(added).await.expect("it is alive");
    let told = causes(&story, "side").await;
    assert!(
        told.iter().all(|cause| cause.entity != Entity::Application("side".to_owned())),
        "it comes with it: {told:?}"
    );
}

#[tokio::test]
async fn a_dying_unit_owes_its_removal_since_it_was_removed_and_no_relation_that_it_could_enter() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    story.deploy("db", 1).await;
    let (number, _) = story.integrate().await;
    story.agent_of("web/0").await;
    story.pass(3_600_000);
    story.admin.handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::No }).await.expect("it may go");
    let removed_ms = now(&story);
    story.pass(5_000);
    let told = causes(&story, "model").await;
    assert_eq!(of(&told, "unit web/0").since_ms, removed_ms);
    let told = causes(&story, &format!("relation/{number}")).await;
    let entering = told.iter().filter(|cause| matches!(cause.duty, Duty::EnterScope { .. }));
    let entering: Vec<String> = entering.map(|cause| cause.entity.to_string()).collect();
    assert_eq!(entering, ["unit db/0"], "{told:?}");

    // nobody ever came for this one
    story
        .admin
        .handle(RemoveApplication { application: "db".to_owned(), force: Force::No })
        .await
        .expect("it may go");
    let removed_ms = now(&story);
    story.pass(5_000);
    for entity in ["db/0", "db", "model"] {
        let told = causes(&story, entity).await;
        let never = told.iter().find(|cause| cause.duty == Duty::RemoveUnstarted).expect("no agent came");
        let db = Entity::Unit(unit("db/0"));
        assert_eq!((&never.entity, never.since_ms), (&db, removed_ms), "{entity}");
    }
}

#[tokio::test]
async fn a_dead_unit_waits_for_its_recall_and_not_for_its_own_agent() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    let machine = story.machine_of(story.unit("web/0").await).await;
    let principal = TokenHolder::Machine { model: story.model, machine };
    story.token(machine, principal.clone()).await;
    let session = story.controller.session_of(principal);
    let mut web = story.agent_of("web/0").await;
    story.admin.handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::No }).await.expect("it may go");
    web.commit(web.record(Operation::SetDead)).await;
    let died_ms = now(&story);
    story.pass(controller::presence::LOST_AFTER_MS + 1);
    session.handle(ReportPresence).await.expect("the machine's agent is here");
    let told = causes(&story, "web/0").await;
    let by_machine = Actor::MachineAgent("0".to_owned());
    assert_eq!(told, [Cause::new(Entity::Unit(unit("web/0")), Duty::Recall, by_machine).since(died_ms)]);
}

#[tokio::test]
async fn what_is_refused_because_of_something_that_goes_says_what_helps_that_along() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    story.deploy("db", 1).await;
    let relation = story.integrate().await;
    let (mut web, _db) = (story.agent_of("web/0").await, story.agent_of("db/0").await);
    web.enter(relation, "db", "db").await;
    story
        .admin
        .handle(RemoveRelation { relation: RelationChoice::Number(relation.0), force: Force::No })
        .await
        .expect("it may go");
    let ends = api::Ends { a: "web".to_owned(), b: "db".to_owned() };
    let refused = story.admin.handle(Integrate(ends)).await.expect_err("it is there still");
    assert_eq!(refused.code, ErrorCode::AlreadyExists);
    assert_eq!(refused.message, "relation db:server web:db already exists and is being removed");
    let relations = vec![RelationName { number: relation.0, ends: "db:server web:db".to_owned() }];
    let leave = Cause::of_unit_agent(&unit("web/0"), Duty::LeaveScopes { relations: relations.clone() });
    assert_eq!(refused.blockers, [leave.since(now(&story))]);
    story
        .admin
        .handle(RemoveApplication { application: "web".to_owned(), force: Force::No })
        .await
        .expect("it may go");
    let removed_ms = now(&story);
    story.pass(125_000);
    let deploy =
        Deploy { application: None, sha256: "web".to_owned(), units: 1, to: None, config: BTreeMap::new() };
    let refused = story.admin.handle(deploy).await.expect_err("it is there still");
    assert_eq!(refused.message, "application \"web\" already exists and is being removed");
    let terminate = Cause::of_unit_agent(&unit("web/0"), Duty::Terminate { relations });
    assert_eq!(refused.blockers, [terminate.since(removed_ms)]);
}

#[tokio::test]
async fn what_stands_in_the_way_of_a_removal_is_named_each_with_its_own_command_and_no_more_than_20() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    let remove = async |name: &str| {
        story
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
        story.admin.handle(add).await.expect("there is room");
    }
    let refused = remove("0").await;
    assert_eq!(refused.blockers.len(), 21, "one more than is told");
    let second = Entity::Unit(unit("web/1"));
    assert!(refused.blockers.iter().any(|one| one.remedy() == Remedy::Remove(second.clone())), "{refused:?}");
}

#[tokio::test]
async fn several_who_hold_something_up_have_each_their_own_help_and_time() {
    let story = Story::in_memory().await;
    story.deploy("web", 2).await;
    let mut web = story.agent_of("web/0").await;
    let failed = Outcome::Failed { reason: "exit status 1".to_owned(), retry: None };
    web.commit(Record { outcome: failed, ..web.record(Operation::Hook(Hook::Install)) }).await;
    story.agent_of("web/1").await;
    story
        .admin
        .handle(RemoveApplication { application: "web".to_owned(), force: Force::No })
        .await
        .expect("it may go");
    let removed_ms = now(&story);
    story.pass(5_000);
    let deploy =
        Deploy { application: None, sha256: "web".to_owned(), units: 1, to: None, config: BTreeMap::new() };
    let refused = story.admin.handle(deploy).await.expect_err("it is there still");
    let of_second = of(&refused.blockers, "unit web/1");
    assert_eq!(of_second.since_ms, removed_ms);
    assert_eq!(of_second.remedy(), Remedy::Explain(Entity::Unit(unit("web/1"))));
    let of_first = of(&refused.blockers, "unit web/0");
    assert_eq!(of_first.last_error.as_deref(), Some("hook install: exit status 1"));
    assert_eq!(of_first.remedy(), Remedy::ResolvedRequest { unit: unit("web/0") });
    assert_eq!(refused.hint, None);

    let removed = vec![api::RemovalTarget::Application("web".to_owned())];
    let forecast =
        story.admin.handle(DryRunRemoval { removed, force: Force::No }).await.expect("it is there");
    assert_eq!(
        of(&forecast.blocked, "unit web/0").last_error.as_deref(),
        Some("hook install: exit status 1")
    );
    assert!(forecast.blocked.iter().all(|one| one.since_ms.is_some()), "{forecast:?}");
}

#[tokio::test]
async fn a_model_that_is_destroyed_is_helped_by_a_command_as_it_is_typed() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    story.agent_of("web/0").await;
    story.admin.handle(DestroyModel { force: Force::No }).await.expect("it may go");
    let told = causes(&story, "model").await;
    let destroy = Remedy::DestroyByForce { model: "dev".to_owned(), forced: Forced::No };
    assert_eq!(of(&told, "model dev").remedy(), destroy, "{told:?}");
}
