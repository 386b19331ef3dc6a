//! The times since which operations of units are pending, and what `why` reports while hooks wait for each other.

use crate::fixture::{causes, idle_agent, pending, run_until_idle};
use crate::support::*;
use api::{
    AddUnits, ConfigChange, Configure, ConfigureModel, EnqueueAction, Force, GetStatus, GetWhy, Handle,
    RelationChoice, RemoveRelation, RemoveUnit, Report, ResolveUnit, ResumeRelation, SuspendRelation,
};
use controller::Environment;
use state::charm::{Charm, ConfigOption, OptionType};
use state::lifecycle::archive;
use state::terms::activity::Activity;
use state::terms::cause::{Actor, Cause, Duty, Entity, RelationName};
use state::terms::failure_reason::FailureReason;
use state::terms::hook_name::{HookName, RelationEventName};
use state::terms::names::UnitName;
use state::terms::operation::{Hook, Operation};
use state::terms::status::AgentStatus;
use state::terms::status_message::StatusMessage;
use state::unit::record::{Outcome, Record};
use state::why::explanation::{EntityState, HookLock};
use std::collections::BTreeMap;

/// Returns a relation hook of web for db/0.
fn of_db(event: RelationEventName) -> Activity {
    let name = HookName::Relation { endpoint: "db".to_owned(), event };
    Activity::Hook { name, remote_unit: Some(UnitName::new("db", 0)) }
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
            archive::register(draft, "paint", Some(charm), 10);
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
    assert_eq!(pending(&fixture, "paint/0").await, (Activity::hook(HookName::ConfigChanged), set_ms));
    run_until_idle(&fixture, &mut paint, "paint/0").await;

    let asked = EnqueueAction {
        unit: "web/0".parse().expect("a unit"),
        action: "backup".to_owned(),
        params: BTreeMap::new(),
        operation: None,
    };
    fixture.admin.handle(asked).await.expect("it is enqueued");
    let asked_ms = now();
    hour();
    let backup = Activity::Action { id: 1, name: "backup".to_owned() };
    assert_eq!(pending(&fixture, "web/0").await, (backup, asked_ms));
    run_until_idle(&fixture, &mut web, "web/0").await;

    let (number, _) = fixture.integrate().await;
    run_until_idle(&fixture, &mut web, "web/0").await;
    hour();
    run_until_idle(&fixture, &mut db, "db/0").await;
    let entered_ms = now();
    hour();
    assert_eq!(pending(&fixture, "web/0").await, (of_db(RelationEventName::Joined), entered_ms));
    run_until_idle(&fixture, &mut web, "web/0").await;
    let record = db.settings_record(number, "password", "x");
    db.commit(record).await;
    let written_ms = now();
    hour();
    assert_eq!(pending(&fixture, "web/0").await, (of_db(RelationEventName::Changed), written_ms));
    run_until_idle(&fixture, &mut web, "web/0").await;

    hour();
    fixture
        .admin
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "db/0".parse().expect("a unit"),
            force: Force::No,
        })
        .await
        .expect("the removal is accepted");
    run_until_idle(&fixture, &mut db, "db/0").await;
    let died_ms = now();
    hour();
    let departed = of_db(RelationEventName::Departed);
    assert_eq!(pending(&fixture, "web/0").await, (departed.clone(), died_ms));
    run_until_idle(&fixture, &mut web, "web/0").await;

    let record = web.record(Operation::Hook(Hook::UpdateStatus));
    web.commit(Record { outcome: Outcome::Failed { reason: FailureReason::exit(1), retry: None }, ..record })
        .await;
    hour();
    fixture
        .admin
        .handle(ResolveUnit { unit: "web/0".parse().expect("a unit"), retry: true })
        .await
        .expect("it is in error");
    let resolved_ms = now();
    hour();
    assert_eq!(pending(&fixture, "web/0").await, (Activity::hook(HookName::UpdateStatus), resolved_ms));
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
async fn why_names_the_hook_lock_holder_and_waiters_unless_hooks_run_in_parallel() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let add = AddUnits {
        attach_storage: Vec::new(),
        application: "web".to_owned(),
        units: 1,
        to: Some("0".to_owned()),
    };
    fixture.admin.handle(add).await.expect("there is room");
    let (web, _other) = (idle_agent(&fixture, "web/0").await, idle_agent(&fixture, "web/1").await);
    let backup = |unit: &str| EnqueueAction {
        unit: unit.parse().expect("a unit"),
        action: "backup".into(),
        params: BTreeMap::new(),
        operation: None,
    };
    let id = fixture.admin.handle(backup("web/0")).await.expect("it is enqueued").answer.id;
    let next = fixture.admin.handle(backup("web/1")).await.expect("it is enqueued").answer.id;
    let machine = async || {
        let why = fixture.admin.handle(GetWhy { entity: entity("machine/0") }).await.expect("it exists");
        why.now
    };
    let free = EntityState::Machine { units: 2, hook_lock: None };
    assert_eq!(machine().await, free);
    let running = Activity::Action { id, name: "backup".to_owned() };
    let (reports, executing) = (Vec::new(), Some(running.clone()));
    let report = Report { epoch: web.epoch, run: web.sequence + 1, reports, executing, executing_for_ms: 5 };
    web.api.handle(report).await.expect("the session is current");

    let held_by = running.clone();
    let waits = causes(&fixture, "web/1").await;
    let is_for_lock = |cause: &Cause| matches!(cause.duty, Duty::ReleaseHookLock { .. });
    let waits = waits.into_iter().find(is_for_lock).expect("it waits");
    let holder = UnitName::new("web", 0);
    let activity = Activity::Action { id: next, name: "backup".to_owned() };
    let duty =
        Duty::ReleaseHookLock { group: None, activity, running: running.clone(), holder: holder.clone() };
    assert_eq!((waits.duty, waits.actor), (duty, Actor::UnitAgent(holder)));
    let in_model = causes(&fixture, "model").await;
    let is_of_web = |number| move |cause: &&Cause| cause.entity == Entity::Unit(UnitName::new("web", number));
    assert!(in_model.iter().filter(is_of_web(1)).any(&is_for_lock), "{in_model:?}");
    assert!(in_model.iter().any(|cause| is_of_web(0)(&cause)), "{in_model:?}");
    let status = fixture.admin.handle(GetStatus).await.expect("the model exists");
    let waiter = &status.applications["web"].units[&UnitName::new("web", 1)];
    let (activity, lock_holder) =
        (Activity::Action { id: next, name: "backup".to_owned() }, UnitName::new("web", 0));
    let message = StatusMessage::WaitingForHookLock {
        group: None,
        activity,
        running: running.clone(),
        holder: lock_holder,
    };
    assert_eq!((waiter.agent.current, &waiter.agent.message), (AgentStatus::Allocating, &message));
    assert_eq!(waiter.activity, None, "it does not run yet");
    let holds = causes(&fixture, "web/0").await;
    let lock_waiters = vec![UnitName::new("web", 1)];
    let duty =
        Duty::Finish { activity: running, run: web.sequence + 1, machine: "0".to_owned(), lock_waiters };
    assert!(holds.iter().any(|cause| cause.duty == duty), "{holds:?}");
    let lock = HookLock {
        holder: "web/0".parse().expect("a unit"),
        running: held_by,
        waiters: vec![UnitName::new("web", 1)],
    };
    assert_eq!(machine().await, EntityState::Machine { units: 2, hook_lock: Some(lock) });

    let set = BTreeMap::from([("parallel".to_owned(), "true".to_owned())]);
    fixture
        .admin
        .handle(ConfigureModel { change: ConfigChange { set, reset: Vec::new() } })
        .await
        .expect("a known setting");
    let own = causes(&fixture, "web/1").await;
    assert!(!own.iter().any(&is_for_lock), "{own:?}");
    assert_eq!(machine().await, free);
}

/// Two units of a machine: what the second one waits for while the first one runs an action, and what `why` tells of the
/// waiters of the first and of the machine.
async fn lock_of_actions(first: &str, second: &str) -> (Option<Duty>, Vec<UnitName>, EntityState) {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let add = AddUnits {
        attach_storage: Vec::new(),
        application: "web".to_owned(),
        units: 1,
        to: Some("0".to_owned()),
    };
    fixture.admin.handle(add).await.expect("there is room");
    let (web, _other) = (idle_agent(&fixture, "web/0").await, idle_agent(&fixture, "web/1").await);
    let enqueue = async |unit: &str, action: &str| {
        let (unit, action) = (unit.parse().expect("a unit"), action.to_owned());
        let request = EnqueueAction { unit, action, params: BTreeMap::new(), operation: None };
        fixture.admin.handle(request).await.expect("it is enqueued").answer.id
    };
    let id = enqueue("web/0", first).await;
    enqueue("web/1", second).await;
    let executing = Some(Activity::Action { id, name: first.to_owned() });
    let (run, reports) = (web.sequence + 1, Vec::new());
    let report = Report { epoch: web.epoch, run, reports, executing, executing_for_ms: 5 };
    web.api.handle(report).await.expect("the session is current");

    let mut waits = causes(&fixture, "web/1").await.into_iter().map(|cause| cause.duty);
    let lock = waits.find(|duty| matches!(duty, Duty::ReleaseHookLock { .. }));
    let finish = causes(&fixture, "web/0").await.into_iter().find_map(|cause| match cause.duty {
        Duty::Finish { lock_waiters, .. } => Some(lock_waiters),
        _ => None,
    });
    let machine = fixture.admin.handle(GetWhy { entity: entity("machine/0") }).await.expect("it exists");
    (lock, finish.expect("it runs"), machine.now)
}

#[tokio::test]
async fn why_names_the_holder_of_the_lock_of_an_execution_group_and_none_of_a_parallel_action() {
    let free = || EntityState::Machine { units: 2, hook_lock: None };
    let second = || vec![UnitName::new("web", 1)];
    let (lock, waiters, machine) = lock_of_actions("copy", "copy").await;
    let Some(Duty::ReleaseHookLock { group, holder, .. }) = lock else { panic!("it waits: {lock:?}") };
    assert_eq!((group.as_deref(), holder), (Some("copies"), UnitName::new("web", 0)));
    assert_eq!((waiters, machine), (second(), free()), "the hook lock is free");

    let unrelated = [
        ("copy", "backup"),
        ("backup", "copy"),
        ("collect", "collect"),
        ("collect", "backup"),
        ("backup", "collect"),
    ];
    for (first, second) in unrelated {
        let (lock, waiters, _) = lock_of_actions(first, second).await;
        assert_eq!((lock, waiters), (None, Vec::new()), "{first}, {second}");
    }
    let (lock, waiters, machine) = lock_of_actions("backup", "backup").await;
    assert!(matches!(lock, Some(Duty::ReleaseHookLock { group: None, .. })), "{lock:?}");
    assert_eq!(waiters, second());
    assert!(matches!(machine, EntityState::Machine { hook_lock: Some(_), .. }), "{machine:?}");
}

#[tokio::test]
async fn a_unit_waits_to_enter_a_relation_only_since_it_was_added() {
    let fixture = Fixture::in_memory().await;
    for name in ["web", "db"] {
        fixture.deploy(name, 1).await;
    }
    let (number, _) = fixture.integrate().await;
    let related_ms = fixture.controller.environment.wall_ms();
    fixture.advance(5_000);
    let added = AddUnits { attach_storage: Vec::new(), application: "web".to_owned(), units: 1, to: None };
    fixture.admin.handle(added).await.expect("the application is alive");
    let added_ms = fixture.controller.environment.wall_ms();
    let causes = causes(&fixture, &format!("relation/{number}")).await;
    let enter = causes.into_iter().filter(|cause| matches!(cause.duty, Duty::EnterScope { .. }));
    let mut enter: Vec<_> = enter.map(|cause| (cause.entity, cause.since_ms)).collect();
    enter.sort();
    let unit = |application: &str, number| Entity::Unit(UnitName::new(application, number));
    let expected = [
        (unit("db", 0), Some(related_ms)),
        (unit("web", 0), Some(related_ms)),
        (unit("web", 1), Some(added_ms)),
    ];
    assert_eq!(enter, expected);
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
        .expect("the relation can be suspended");
    let since_ms = now();
    fixture.advance(5_000);
    let name = RelationName { number, ends: "db:server web:db".parse().expect("the ends") };
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
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "web/0".parse().expect("a unit"),
            force: Force::No,
        })
        .await
        .expect("the removal is accepted");
    let since_ms = Some(fixture.controller.environment.wall_ms());
    fixture.advance(5_000);
    assert_eq!(pending(&fixture, "web/0").await, (of_db(RelationEventName::Departed), since_ms));
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
    web.api.handle(report).await.expect("the session is current");
    let all = causes(&fixture, &format!("relation/{number}")).await;
    let web = Entity::Unit(UnitName::new("web", 0));
    let of_web: Vec<&Cause> = all.iter().filter(|cause| cause.entity == web).collect();
    let [enters, finishes] = of_web[..] else { panic!("{all:?}") };
    assert!(matches!(enters.duty, Duty::EnterScope { .. }) && enters.last_error.is_none(), "{enters:?}");
    assert!(matches!(finishes.duty, Duty::Finish { .. }), "{finishes:?}");
}
