//! `why` over time: since when operations are pending, and the causes for silent agents.

mod support;

use api::error::ErrorCode;
use api::{
    AddUnits, ConfigChange, Configure, ConfigureModel, DryRunRemoval, Force, GetStatus, GetWhy, Handle,
    ProvisioningReport, RelationChoice, RemovalTarget, RemoveApplication, RemoveMachine, RemoveRelation,
    RemoveUnit, Report, ReportInstance, ReportPresence, ResolvedRequest, ResumeRelation, Run,
    SetMachineToken, Stream, SuspendRelation, Watch, WatchMachine,
};
use controller::janitor::Janitor;
use controller::presence::{LATE_AFTER_MS, LOST_AFTER_MS, UNIT_LATE_AFTER_MS};
use controller::store::memory::MemoryStore;
use controller::{Environment, Session, status};
use state::charm::{Charm, ConfigOption, OptionType};
use state::documents::draft::{Draft, Key, read};
use state::lifecycle::application::register_archive;
use state::terms::cause::{Actor, Cause, Duty, Entity, RelationName, Silence};
use state::terms::names::{UnitName, Uuid};
use state::unit::activity::Activity;
use state::unit::hook_name::HookName;
use state::unit::operation::{CharmRef, Hook, Operation};
use state::unit::record::{Outcome, Record};
use state::unit::resolve::Act;
use std::collections::{BTreeMap, BTreeSet};
use support::*;

type MemoryFixture = Fixture<MemoryStore, FakeEnvironment>;

async fn causes(fixture: &MemoryFixture, entity: &str) -> Vec<Cause> {
    fixture.admin.handle(GetWhy { entity: entity.to_owned() }).await.expect("it exists").causes
}

/// Commits the operations of a unit's agent until it is idle.
async fn run_until_idle(
    fixture: &MemoryFixture,
    agent: &mut Agent<Session<MemoryStore, FakeEnvironment>>,
    unit: &str,
) {
    let (id, model) = (fixture.unit(unit).await, fixture.model);
    loop {
        match fixture.controller.read(move |reader| status::next_act(reader, model, id)).await {
            Some(Act::Start(run)) => agent.commit(agent.record(run.operation)).await,
            Some(Act::RecordOutcome(record)) => agent.commit(agent.record(record.operation)).await,
            Some(Act::Wait(_) | Act::Finish) => return,
            other => panic!("{other:?}"),
        };
    }
}

/// Attaches a unit's agent and runs it until it is idle.
async fn idle_agent(fixture: &MemoryFixture, unit: &str) -> Agent<Session<MemoryStore, FakeEnvironment>> {
    let application = unit.split('/').next().expect("a unit's name").to_owned();
    let mut agent = fixture.attach_agent(unit).await;
    let endpoint = if application == "db" { "server" } else { "db" };
    let charm = CharmRef {
        url: format!("local:{application}-0"),
        sha256: application,
        revision: 0,
        endpoints: BTreeSet::from([endpoint.to_owned()]),
    };
    agent.commit(agent.record(Operation::InstallCharm(charm))).await;
    run_until_idle(fixture, &mut agent, unit).await;
    agent
}

/// Returns the unit's only pending operation and since when it is pending.
async fn pending(fixture: &MemoryFixture, unit: &str) -> (String, Option<i64>) {
    let all = causes(fixture, unit).await;
    let next = all.into_iter().find_map(|cause| match cause.duty {
        Duty::Start { activity, .. } => Some((activity.to_string(), cause.since_ms)),
        _ => None,
    });
    next.expect("it is about to")
}

#[tokio::test]
async fn an_operation_is_pending_since_the_commit_of_its_cause() {
    let fixture = Fixture::in_memory().await;
    let option = ConfigOption { kind: OptionType::String, ..ConfigOption::default() };
    fixture
        .controller
        .run(move |draft| {
            let config = BTreeMap::from([("color".to_owned(), option.clone())]);
            let charm = Charm { name: "paint".to_owned(), config, ..Charm::default() };
            register_archive(draft, "paint", charm, 10);
            Ok(())
        })
        .await
        .expect("a new archive");
    for name in ["web", "db", "paint"] {
        fixture.deploy(name, 1).await;
    }
    let mut web = idle_agent(&fixture, "web/0").await;
    let mut db = idle_agent(&fixture, "db/0").await;
    let mut paint = idle_agent(&fixture, "paint/0").await;
    let now = || Some(fixture.controller.environment.wall_ms());
    let hour = || fixture.advance(3_600_000);
    hour();

    let set = BTreeMap::from([("color".to_owned(), "red".to_owned())]);
    fixture
        .admin
        .handle(Configure {
            application: "paint".to_owned(),
            change: ConfigChange { set, reset: Vec::new() },
        })
        .await
        .expect("it is set");
    let set_ms = now();
    hour();
    assert_eq!(pending(&fixture, "paint/0").await, ("running config-changed hook".to_owned(), set_ms));
    run_until_idle(&fixture, &mut paint, "paint/0").await;

    let asked = Run { unit: "web/0".to_owned(), action: "backup".to_owned(), params: BTreeMap::new() };
    fixture.admin.handle(asked).await.expect("it is queued");
    let asked_ms = now();
    hour();
    assert_eq!(pending(&fixture, "web/0").await, ("running action backup".to_owned(), asked_ms));
    run_until_idle(&fixture, &mut web, "web/0").await;

    let (number, _) = fixture.integrate().await;
    run_until_idle(&fixture, &mut web, "web/0").await;
    hour();
    run_until_idle(&fixture, &mut db, "db/0").await;
    let entered_ms = now();
    hour();
    assert_eq!(
        pending(&fixture, "web/0").await,
        ("running db-relation-joined hook for db/0".to_owned(), entered_ms)
    );
    run_until_idle(&fixture, &mut web, "web/0").await;
    let record = db.settings_record(number, "password", "x");
    db.commit(record).await;
    let written_ms = now();
    hour();
    assert_eq!(
        pending(&fixture, "web/0").await,
        ("running db-relation-changed hook for db/0".to_owned(), written_ms)
    );
    run_until_idle(&fixture, &mut web, "web/0").await;

    hour();
    fixture
        .admin
        .handle(RemoveUnit { unit: "db/0".to_owned(), force: Force::No })
        .await
        .expect("it is going");
    run_until_idle(&fixture, &mut db, "db/0").await;
    let died_ms = now();
    hour();
    let departed = "running db-relation-departed hook for db/0".to_owned();
    assert_eq!(pending(&fixture, "web/0").await, (departed.clone(), died_ms));
    run_until_idle(&fixture, &mut web, "web/0").await;

    let record = web.record(Operation::Hook(Hook::UpdateStatus));
    web.commit(Record {
        outcome: Outcome::Failed { reason: "exit status: 1".to_owned(), retry: None },
        ..record
    })
    .await;
    hour();
    fixture
        .admin
        .handle(ResolvedRequest { unit: "web/0".to_owned(), retry: true })
        .await
        .expect("it is in error");
    let resolved_ms = now();
    hour();
    assert_eq!(pending(&fixture, "web/0").await, ("running update-status hook".to_owned(), resolved_ms));
}

#[tokio::test]
async fn an_operation_from_before_the_start_is_pending_since_the_start_at_the_latest() {
    let mut fixture = Fixture::in_memory().await;
    for name in ["web", "db"] {
        fixture.deploy(name, 1).await;
    }
    let (mut web, mut db) = (idle_agent(&fixture, "web/0").await, idle_agent(&fixture, "db/0").await);
    fixture.integrate().await;
    run_until_idle(&fixture, &mut web, "web/0").await;
    run_until_idle(&fixture, &mut db, "db/0").await;
    fixture.advance(1_000);
    fixture.restart();
    let started_ms = fixture.controller.environment.wall_ms();
    fixture.advance(10_000);
    assert_eq!(pending(&fixture, "web/0").await.1, Some(started_ms));
}

#[tokio::test]
async fn a_silent_machine_agent_is_late_and_then_lost_and_dependents_name_it() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let owed_by_agent = |causes: &[Cause]| -> Vec<(Silence, Option<i64>)> {
        let mine = causes.iter().filter(|cause| cause.entity == Entity::Machine("0".to_owned()));
        let silence = |cause: &Cause| match cause.duty {
            Duty::RunMachineAgent { agent, .. } => (agent, cause.since_ms),
            ref other => panic!("{other:?}"),
        };
        mine.map(silence).collect()
    };
    let shown = async || {
        let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
        let unit = status.applications["web"].units.values().next().expect("one unit").clone();
        if unit.agent.message.starts_with("machine") {
            let shown = (unit.workload.message.clone(), unit.workload.since_ms);
            assert_eq!(
                shown,
                (unit.agent.message.clone(), unit.agent.since_ms),
                "the workload status shows the same"
            );
        }
        let unit = unit.agent;
        let agent = status.machines["0"].agent.clone();
        ((agent.current, agent.since_ms), (unit.current, unit.message, unit.since_ms))
    };
    assert_eq!(shown().await.0.0, "pending");
    let token = "ab".repeat(32);
    fixture.advance(LOST_AFTER_MS + 1);
    fixture
        .admin
        .handle(SetMachineToken { machine, token: token.to_owned() })
        .await
        .expect("the token is stored");
    assert_eq!(shown().await.0.0, "started", "it has the full time to come");

    let agent = fixture.controller.session(&token).await.expect("the token is valid");
    let mut watch = agent.watch(WatchMachine).await.expect("the stream opens");
    for _ in 0..20 {
        agent.handle(ReportPresence).await.expect("the report is accepted");
        fixture.advance(api::HEARTBEAT_MS);
        // the kernel still receives the stream of a stopped agent
        watch.next().await.expect("the stream continues");
        assert_eq!(shown().await.0.0, "started");
        assert_eq!(owed_by_agent(&causes(&fixture, "web/0").await), []);
    }
    agent.handle(ReportPresence).await.expect("the report is accepted");
    let silent_ms = Some(fixture.controller.environment.wall_ms());
    let mut silence = async |beats: u64| {
        for _ in 0..beats {
            fixture.advance(api::HEARTBEAT_MS);
            watch.next().await.expect("the stream continues");
        }
    };
    silence(LATE_AFTER_MS / api::HEARTBEAT_MS).await;
    let (machine_shown, unit_shown) = shown().await;
    assert_eq!(machine_shown.0, "started");
    assert_eq!((unit_shown.0.as_str(), unit_shown.1.as_str()), ("allocating", ""));
    assert_eq!(owed_by_agent(&causes(&fixture, "web/0").await), []);
    fixture.advance(1);
    assert_eq!(shown().await.0, ("started".to_owned(), silent_ms), "late");
    let late = [(Silence::Late, silent_ms)];
    assert_eq!(owed_by_agent(&causes(&fixture, "web/0").await), late);
    assert_eq!(owed_by_agent(&causes(&fixture, "0").await), late);

    silence((LOST_AFTER_MS - LATE_AFTER_MS) / api::HEARTBEAT_MS - 1).await;
    assert_eq!(shown().await.0.0, "started");
    silence(1).await;
    let (machine_shown, unit_shown) = shown().await;
    assert_eq!(machine_shown, ("down".to_owned(), silent_ms));
    let message = "machine 0: agent is not communicating with the controller".to_owned();
    assert_eq!(unit_shown, ("allocating".to_owned(), message, silent_ms));
    let lost = [(Silence::Lost, silent_ms)];
    assert_eq!(owed_by_agent(&causes(&fixture, "web/0").await), lost);
    assert_eq!(owed_by_agent(&causes(&fixture, "0").await), lost);
    agent.handle(ReportPresence).await.expect("it is back");
    assert_eq!(owed_by_agent(&causes(&fixture, "web/0").await), []);
}

#[tokio::test]
async fn why_names_the_hook_lock_holder_and_waiters_unless_hooks_run_in_parallel() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let add = AddUnits { application: "web".to_owned(), units: 1, to: Some("0".to_owned()) };
    fixture.admin.handle(add).await.expect("there is room");
    let (web, _other) = (idle_agent(&fixture, "web/0").await, idle_agent(&fixture, "web/1").await);
    let backup = |unit: &str| Run { unit: unit.into(), action: "backup".into(), params: BTreeMap::new() };
    let id = fixture.admin.handle(backup("web/0")).await.expect("it is queued").id;
    let next = fixture.admin.handle(backup("web/1")).await.expect("it is queued").id;
    let machine = async || {
        fixture.admin.handle(GetWhy { entity: "machine/0".to_owned() }).await.expect("it exists").now
    };
    assert_eq!(machine().await, "2 units");
    let running = Activity::Action { id, name: "backup".to_owned() };
    let (reports, executing) = (Vec::new(), Some(running.clone()));
    let report = Report { epoch: web.epoch, run: web.sequence + 1, reports, executing, executing_for_ms: 5 };
    web.api.handle(report).await.expect("it is its session");

    let waits = causes(&fixture, "web/1").await;
    let is_for_lock = |cause: &Cause| matches!(cause.duty, Duty::ReleaseHookLock { .. });
    let waits = waits.into_iter().find(is_for_lock).expect("it waits");
    let holder = UnitName::new("web", 0);
    let activity = Activity::Action { id: next, name: "backup".to_owned() };
    let duty = Duty::ReleaseHookLock { activity, running: running.clone(), holder: holder.clone() };
    assert_eq!((waits.duty, waits.actor), (duty, Actor::UnitAgent(holder)));
    let holds = causes(&fixture, "web/0").await;
    let lock_waiters = vec![UnitName::new("web", 1)];
    let duty =
        Duty::Finish { activity: running, run: web.sequence + 1, machine: "0".to_owned(), lock_waiters };
    assert!(holds.iter().any(|cause| cause.duty == duty), "{holds:?}");
    let now = "2 units, hook lock held by web/0 (running action backup), waited for by web/1";
    assert_eq!(machine().await, now);

    let set = BTreeMap::from([("parallel".to_owned(), "true".to_owned())]);
    fixture
        .admin
        .handle(ConfigureModel { change: ConfigChange { set, reset: Vec::new() } })
        .await
        .expect("a known setting");
    let own = causes(&fixture, "web/1").await;
    assert!(!own.iter().any(is_for_lock), "{own:?}");
    assert_eq!(machine().await, "2 units");
}

#[tokio::test]
async fn a_forced_unit_shows_when_force_starts_and_is_removed_without_its_agent() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.attach_agent("web/0").await;
    let unit = fixture.unit("web/0").await;
    fixture
        .admin
        .handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::AfterWait })
        .await
        .expect("the removal is accepted");
    let forced = async |entity: &str| {
        let why = fixture.admin.handle(GetWhy { entity: entity.to_owned() }).await.expect("it exists");
        why.causes.into_iter().find_map(|cause| match cause.duty {
            Duty::ForceRemoval { start_budget_timer: false, wait_left_ms } => Some(wait_left_ms),
            _ => None,
        })
    };
    assert_eq!(forced("web/0").await, Some(Some(60_000)));
    let model_why = fixture.admin.handle(GetWhy { entity: "model".to_owned() }).await.expect("it exists");
    let entities = (model_why.entity.to_string(), model_why.causes[0].entity.to_string());
    assert_eq!(entities, ("model dev".to_owned(), "unit web/0".to_owned()));
    let mut janitor = Janitor::default();
    let mut sweep = async || while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {};
    // the wait starts at the janitor's first visit
    sweep().await;
    fixture.advance(60_000);
    sweep().await;
    assert!(forced("web/0").await.is_some(), "its machine agent has a minute more");
    sweep().await;
    fixture.advance(60_000);
    sweep().await;
    let model = fixture.model;
    let there = fixture.controller.read(move |reader| read(reader, &model.unit(unit)).is_some()).await;
    assert!(!there, "no agent did anything");
}

#[tokio::test]
async fn a_machine_set_dead_by_force_waits_only_for_its_provider() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let report = async |what| {
        fixture.admin.handle(ReportInstance { machine, what }).await.expect("the report is accepted")
    };
    report(ProvisioningReport::Starting { provider: "local".to_owned(), nonce: Uuid(5) }).await;
    let (instance_id, address) = ("local-0".to_owned(), "127.0.0.1".to_owned());
    report(ProvisioningReport::Started { instance_id, address }).await;
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

/// A silent agent blocks a removal: the dry run lists it as `why` does. A forced removal does not wait for it.
#[tokio::test]
async fn a_dry_run_lists_silent_agents_with_the_causes_of_why() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    idle_agent(&fixture, "web/0").await;
    for removed in [RemovalTarget::Unit("web/0".to_owned()), RemovalTarget::Application("web".to_owned())] {
        let blocked = async |force| {
            let forecast =
                fixture.admin.handle(DryRunRemoval { removed: vec![removed.clone()], force }).await;
            forecast.expect("the removal is accepted").blocked
        };
        for silent_ms in [UNIT_LATE_AFTER_MS + 1, LOST_AFTER_MS] {
            fixture.advance(silent_ms);
            let mut why = causes(&fixture, "web/0").await;
            why.retain(|one| one.entity == Entity::Unit(UnitName::new("web", 0)));
            assert_eq!((why.len(), blocked(Force::No).await), (1, why));
        }
        for force in [Force::AfterWait, Force::AtOnce] {
            let listed = blocked(force).await;
            let duties: Vec<&Duty> = listed.iter().map(|one| &one.duty).collect();
            assert_eq!(duties, [&Duty::Terminate { relations: vec![] }], "{force:?}");
        }
    }
}

/// The number of entities of each kind that `why` examines.
const ENTITIES_MAX: u128 = 1_000;

#[tokio::test]
async fn why_and_dry_run_bound_their_answers_for_a_large_model() {
    let fixture = Fixture::in_memory().await;
    let model = fixture.model;
    for page in 0..=ENTITIES_MAX / 50 {
        let add = move |draft: &mut Draft<'_>| {
            for id in 0..50 {
                let key = model.application(Uuid(1 + page * 50 + id)).text().to_owned();
                draft.put(&Key::new(key), &1);
            }
            Ok(())
        };
        fixture.controller.run(add).await.expect("written");
    }
    let why = fixture.admin.handle(GetWhy { entity: "model".to_owned() }).await.expect("it exists");
    assert_eq!(why.now, "1000 or more applications, 0 machines");
    let units = |count| (0..count).map(|n| RemovalTarget::Unit(format!("web/{n}"))).collect::<Vec<_>>();
    let refused = fixture
        .admin
        .handle(DryRunRemoval { removed: units(21), force: Force::No })
        .await
        .expect_err("too many");
    assert_eq!((refused.code, refused.message.lines().count()), (ErrorCode::Invalid, 1), "{refused}");
    assert!(refused.message.contains("at most 20"), "{refused}");
    let unknown = fixture
        .admin
        .handle(DryRunRemoval { removed: units(20), force: Force::No })
        .await
        .expect_err("it does not exist");
    assert_eq!(unknown.code, ErrorCode::NotFound);
}

#[tokio::test]
async fn a_dying_machine_with_units_and_no_instance_gets_one_or_is_forced_and_why_tells() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let machine = fixture.machine_of_unit(fixture.unit("web/0").await).await;
    let stranded = async || {
        let causes = causes(&fixture, "machine/0").await.into_iter();
        causes.filter(|cause| cause.duty == Duty::CreateInstance).collect::<Vec<_>>()
    };
    fixture
        .admin
        .handle(RemoveApplication { application: "web".to_owned(), force: Force::No })
        .await
        .expect("it is Dying");
    fixture
        .admin
        .handle(RemoveMachine { machine: "0".to_owned(), force: Force::No, keep_instance: false })
        .await
        .expect("its unit is Dying");
    let since_ms = Some(fixture.controller.environment.wall_ms());
    assert_eq!(stranded().await, [], "its unit never attached: its provider reports it Dead");
    fixture.attach_agent("web/0").await;
    fixture.advance(2_000);
    let creates = Cause::new(Entity::Machine("0".to_owned()), Duty::CreateInstance, Actor::Provisioner);
    let creates = creates.since(since_ms);
    assert_eq!(stranded().await, [creates]);

    let report = async |what| fixture.admin.handle(ReportInstance { machine, what }).await;
    report(ProvisioningReport::Absent).await.expect_err("a unit that has lived is on it");
    report(ProvisioningReport::Failed { message: "web/0 is on it".to_owned() })
        .await
        .expect("the report is accepted");
    let all = causes(&fixture, "machine/0").await;
    let error = all.iter().find_map(|cause| cause.last_error.as_deref());
    assert_eq!(error, Some("web/0 is on it"), "{all:?}");
    assert!(all.iter().any(|cause| matches!(cause.duty, Duty::TendInstance { .. })), "{all:?}");

    report(ProvisioningReport::Starting { provider: "local".to_owned(), nonce: Uuid(5) })
        .await
        .expect("a unit is on it");
    let (instance_id, address) = ("local-0".to_owned(), "127.0.0.1".to_owned());
    report(ProvisioningReport::Started { instance_id, address }).await.expect("the report is accepted");
    assert_eq!(stranded().await, [], "its agents can end there");
}

#[tokio::test]
async fn an_answer_with_too_many_causes_states_that_there_are_more() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 20).await;
    fixture
        .admin
        .handle(RemoveApplication { application: "web".to_owned(), force: Force::No })
        .await
        .expect("it is Dying");
    let listed = async |fixture: &MemoryFixture, entity: &str| {
        let why = fixture.admin.handle(GetWhy { entity: entity.to_owned() }).await.expect("it exists");
        (why.causes.len(), why.more)
    };
    assert_eq!(listed(&fixture, "web").await, (20, false));
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 21).await;
    fixture
        .admin
        .handle(RemoveApplication { application: "web".to_owned(), force: Force::No })
        .await
        .expect("it is Dying");
    assert_eq!(listed(&fixture, "web").await, (20, true));
    assert_eq!(listed(&fixture, "model").await, (20, true));
}

#[tokio::test]
async fn members_that_must_leave_a_relation_are_listed_with_the_time_of_the_request() {
    let fixture = Fixture::in_memory().await;
    for name in ["web", "db"] {
        fixture.deploy(name, 1).await;
    }
    let (mut web, mut db) = (idle_agent(&fixture, "web/0").await, idle_agent(&fixture, "db/0").await);
    let (number, _) = fixture.integrate().await;
    let relation = format!("relation/{number}");
    run_until_idle(&fixture, &mut web, "web/0").await;
    run_until_idle(&fixture, &mut db, "db/0").await;
    let listed = async || {
        let mut all: Vec<_> = causes(&fixture, &relation).await;
        all.sort_by(|a, b| a.entity.cmp(&b.entity));
        all.into_iter().map(|cause| (cause.entity, cause.actor, cause.since_ms)).collect::<Vec<_>>()
    };
    let now = || Some(fixture.controller.environment.wall_ms());
    assert_eq!(listed().await, []);
    fixture.advance(1_000);
    fixture
        .admin
        .handle(SuspendRelation { relation: number, message: "moves".to_owned() })
        .await
        .expect("it may be");
    let since_ms = now();
    fixture.advance(5_000);
    let name = RelationName { number, ends: "db:server web:db".to_owned() };
    let suspended = (Entity::Relation(name), Actor::Operator, since_ms);
    let leaves = |application: &str, since_ms| {
        let unit = UnitName::new(application, 0);
        (Entity::Unit(unit.clone()), Actor::UnitAgent(unit), since_ms)
    };
    assert_eq!(listed().await, [leaves("db", since_ms), leaves("web", since_ms), suspended]);
    fixture.admin.handle(ResumeRelation { relation: number }).await.expect("it is suspended");
    fixture
        .admin
        .handle(RemoveRelation { relation: RelationChoice::Number(number), force: Force::No })
        .await
        .expect("the removal is accepted");
    let since_ms = now();
    fixture.advance(5_000);
    assert_eq!(listed().await, [leaves("db", since_ms), leaves("web", since_ms)]);
}

#[tokio::test]
async fn the_departures_of_a_dying_unit_are_pending_since_its_removal() {
    let fixture = Fixture::in_memory().await;
    for name in ["web", "db"] {
        fixture.deploy(name, 1).await;
    }
    let (mut web, mut db) = (idle_agent(&fixture, "web/0").await, idle_agent(&fixture, "db/0").await);
    fixture.integrate().await;
    for _ in 0..2 {
        run_until_idle(&fixture, &mut web, "web/0").await;
        run_until_idle(&fixture, &mut db, "db/0").await;
    }
    fixture.advance(60_000);
    fixture
        .admin
        .handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::No })
        .await
        .expect("the removal is accepted");
    let since_ms = Some(fixture.controller.environment.wall_ms());
    fixture.advance(5_000);
    let departs = "running db-relation-departed hook for db/0".to_owned();
    assert_eq!(pending(&fixture, "web/0").await, (departs, since_ms));
}

#[tokio::test]
async fn operations_before_a_unit_enters_a_relation_are_no_error() {
    let fixture = Fixture::in_memory().await;
    for name in ["web", "db"] {
        fixture.deploy(name, 1).await;
    }
    let (number, _) = fixture.integrate().await;
    let web = fixture.attach_agent("web/0").await;
    let (reports, executing) = (Vec::new(), Some(Activity::hook(HookName::Install)));
    let report = Report { epoch: web.epoch, run: 1, reports, executing, executing_for_ms: 5 };
    web.api.handle(report).await.expect("it is its session");
    let all = causes(&fixture, &format!("relation/{number}")).await;
    let web = Entity::Unit(UnitName::new("web", 0));
    let of_web: Vec<&Cause> = all.iter().filter(|cause| cause.entity == web).collect();
    let [enters, finishes] = of_web[..] else { panic!("{all:?}") };
    assert!(matches!(enters.duty, Duty::EnterScope { .. }) && enters.last_error.is_none(), "{enters:?}");
    assert!(matches!(finishes.duty, Duty::Finish { .. }), "{finishes:?}");
}
