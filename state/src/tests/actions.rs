//! Tests of actions: validated when they are enqueued, run at most once, cancelled with their unit.

use crate::agents::record_validation::ACTIVITY_BYTES_MAX;
use crate::documents::prelude::{ActionDoc, ActionFailure, ActionLogLine, StatusDoc};
use crate::lifecycle::unit;
use crate::lifecycle::{action, machine};
use crate::terms::activity::Activity;
use crate::terms::cause::Actor;
use crate::terms::commands;
use crate::terms::process_result::{ProcessResult, StreamOutput};
use crate::terms::refusal::RefusalReason;
use crate::terms::refusal::record::RecordRefusal;
use crate::terms::status::{ActionStatus, AgentStatus, WorkloadStatus};
use crate::terms::status_message::StatusMessage;
use crate::tests::commits::fixture::{apply_report, run_report};
use crate::tests::*;
use crate::transitions::run_reports::ReportsOfRun;
use crate::unit::commands_context;
use crate::unit::hook_context::ReportContent;
use crate::unit::hook_context_builder;
use crate::unit::record::RunReport;
use crate::unit::snapshot::Snapshot;
use crate::unit::writes::{HOOK_WRITES_BYTES_MAX, Level, PARAMS_BYTES_MAX, TEXT_BYTES_MAX};
use crate::views::view;
use serde_json::{Map, Value, json};

fn enqueue(world: &mut World, unit: Uuid, name: &str, params: Value) -> Result<u64, Refusal> {
    let params: Map<String, Value> = params.as_object().expect("a map").clone();
    world.run(|draft, _| action::enqueue(draft, MODEL, unit, name, &params, 50)).map(|action| action.id)
}

fn doc(world: &World, id: u64) -> ActionDoc {
    read(world.reader(), &MODEL.action(id)).expect("the action exists")
}

#[test]
fn an_activity_beyond_its_bound_is_refused() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let agent = Agent::attach(&mut world, "web/0");
    let of_name = |name: String| Activity::Action { id: 1, name };
    let fields = serde_json::to_vec(&of_name(String::new())).expect("plain data").len();
    let mut report = |bytes: usize| {
        let activity = of_name("x".repeat(bytes - fields));
        let none = ReportsOfRun { run: 1, reports: &[], end: None };
        world.run(|draft, _| apply_report(draft, agent.session(), none, Some(&activity), 9))
    };
    assert!(report(ACTIVITY_BYTES_MAX).is_ok());
    let (bytes, max) = (ACTIVITY_BYTES_MAX + 1, ACTIVITY_BYTES_MAX);
    assert_eq!(refused(report(bytes)), reason(RecordRefusal::TextTooLong { bytes, max }));
}

#[test]
fn an_action_on_a_dead_unit_is_refused_with_its_blockers() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    world.run(|draft, _| unit::destroy(draft, MODEL, agent.unit, 60)).expect("the removal is accepted");
    for operation in [Operation::Hook(Hook::Stop), Operation::Hook(Hook::Remove), Operation::SetDead] {
        agent.done(&mut world, operation);
    }
    let refusal = enqueue(&mut world, agent.unit, "backup", json!({})).expect_err("it is dead");
    assert_eq!(*refusal.reason, UnitRefusal::Dead { unit: web0() }.into());
    assert_eq!(refusal.blockers[0].actor, Actor::MachineAgent("0".to_owned()));
}

#[test]
fn an_action_is_checked_enqueued_and_finished_once() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let unit = agent.unit;
    let (action, charm) = ("restore".to_owned(), "web".to_owned());
    let unknown = ActionRefusal::Unknown { action, unit: web0(), charm, known: vec!["backup".to_owned()] };
    assert_eq!(refused(enqueue(&mut world, unit, "restore", json!({}))), reason(unknown));
    assert_eq!(refused(enqueue(&mut world, unit, "backup", json!({"to": 5}))).0, Code::Invalid);
    let id = enqueue(&mut world, unit, "backup", json!({})).expect("it fits");
    assert_eq!(
        doc(&world, id).params,
        BTreeMap::from([("to".to_owned(), json!("/tmp"))]),
        "defaults are in it"
    );
    world
        .run(|draft, _| {
            action::start(draft, MODEL, unit, id, 60);
            Ok(())
        })
        .expect("no refusal");
    assert_eq!((doc(&world, id).status, doc(&world, id).started_ms), (ActionStatus::Running, Some(60)));
    let line = |number: u32| RunReport {
        number,
        at_ms: 70 + i64::from(number),
        what: ReportContent::ActionLog(format!("line {number}")),
    };
    let run = agent.local.run + 1;
    let reports = ReportsOfRun { run, reports: &[line(1)], end: None };
    world.run(|draft, _| apply_report(draft, agent.session(), reports, None, 80)).expect("its session");
    assert_eq!(doc(&world, id).log, [ActionLogLine { report: 1, at_ms: 71, text: "line 1".to_owned() }]);
    let mut record = agent.record(Operation::Action { id, name: "backup".into() }, Outcome::Ok);
    record.writes.action.results = json!({"size": 3}).as_object().expect("a map").clone();
    record.reports = vec![line(1), line(2)];
    agent.commit(&mut world, record);
    let done = doc(&world, id);
    assert_eq!(
        (done.status, done.results["size"].clone(), done.log.len()),
        (ActionStatus::Completed, json!(3), 2)
    );
    assert_eq!(done.completed_ms, Some(1000));
    let again = agent.record(
        Operation::Action { id, name: "backup".into() },
        Outcome::Failed { reason: FailureReason::exit(1), retry: None },
    );
    agent.commit(&mut world, again);
    assert_eq!(doc(&world, id), done, "a second record does not change a finished action");
}

#[test]
fn a_failed_action_does_not_put_its_unit_into_error() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let id = enqueue(&mut world, agent.unit, "backup", json!({})).expect("it fits");
    let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    let record = agent.record(Operation::Action { id, name: "backup".into() }, failed);
    agent.commit(&mut world, record);
    assert_eq!(
        (doc(&world, id).status, doc(&world, id).failure),
        (ActionStatus::Failed, Some(ActionFailure::Process { reason: FailureReason::exit(1) }))
    );
    assert_eq!(agent.local.episode(), None);
    let id = enqueue(&mut world, agent.unit, "backup", json!({})).expect("it fits");
    let mut record = agent.record(Operation::Action { id, name: "backup".into() }, Outcome::Ok);
    record.writes.action.failed = Some("no disk".into());
    agent.commit(&mut world, record);
    let no_disk = ActionFailure::ActionFail { message: "no disk".into() };
    assert_eq!((doc(&world, id).status, doc(&world, id).failure), (ActionStatus::Failed, Some(no_disk)));
}

/// Scenarios 141 and 144: an action reports its own result and does not affect the status of its unit.
#[test]
fn the_status_of_a_unit_is_the_same_before_and_after_its_actions() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    let mut hook = agent.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok);
    let what = ReportContent::UnitStatus { status: WorkloadStatus::Active, message: "serves".into() };
    hook.reports = vec![RunReport { number: 1, at_ms: 5, what }];
    agent.commit(&mut world, hook);
    let statuses = |world: &World| -> (StatusDoc, StatusDoc<AgentStatus>) {
        let workload = read(world.reader(), &MODEL.unit_status(agent.unit));
        let agent = read(world.reader(), &MODEL.agent_status(agent.unit));
        (workload.expect("reported"), agent.expect("stored with the unit"))
    };
    let before = statuses(&world);
    assert_eq!(
        (&before.0.message, before.1.status),
        (&StatusMessage::OfCharm("serves".into()), AgentStatus::Idle)
    );
    let mut doing = agent.clone();
    for outcome in [Outcome::Ok, Outcome::Failed { reason: FailureReason::exit(1), retry: None }] {
        let id = enqueue(&mut world, doing.unit, "backup", json!({})).expect("it fits");
        let (run, activity) = (doing.local.run + 1, Activity::Action { id, name: "backup".into() });
        let none = ReportsOfRun { run, reports: &[], end: None };
        world
            .run(|draft, _| apply_report(draft, agent.session(), none, Some(&activity), 9))
            .expect("its session");
        let ended = doing.record(Operation::Action { id, name: "backup".into() }, outcome);
        doing.commit(&mut world, ended);
        assert_eq!(statuses(&world), before, "{}", doc(&world, id).status);
    }
    assert_eq!([1, 2].map(|id| doc(&world, id).status), [ActionStatus::Completed, ActionStatus::Failed]);
}

#[test]
fn the_pending_actions_of_a_removed_unit_fail() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    let large = || json!({"to": "x".repeat(PARAMS_BYTES_MAX - 16)});
    let larger = json!({"to": "x".repeat(PARAMS_BYTES_MAX)});
    let (action, max) = ("backup".to_owned(), PARAMS_BYTES_MAX);
    let too_large = ActionRefusal::ParametersTooLarge { action, bytes: 65_545, max };
    assert_eq!(refused(enqueue(&mut world, unit, "backup", larger)), reason(too_large));
    for _ in 0..action::ENQUEUED_MAX {
        enqueue(&mut world, unit, "backup", large()).expect("it fits");
    }
    assert_eq!(refused(enqueue(&mut world, unit, "backup", json!({}))).0, Code::Busy);
    world.run(|draft, _| unit::destroy(draft, MODEL, unit, 60)).expect("the removal is accepted");
    let failed = doc(&world, 1);
    assert_eq!(
        (failed.status, failed.failure, failed.completed_ms),
        (ActionStatus::Failed, Some(ActionFailure::UnitRemoved), Some(60))
    );
}

#[test]
fn an_action_whose_writes_are_refused_fails() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    world.deploy("db", "db", 1);
    let relation = world.integrate("web", "db").expect("the endpoints are compatible");
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    agent.enter(&mut world, relation);
    let id = enqueue(&mut world, agent.unit, "backup", json!({})).expect("it fits");
    let mut record = agent.record(Operation::Action { id, name: "backup".into() }, Outcome::Ok);
    let change = [("key".to_owned(), "value".to_owned())].into();
    let bags = crate::unit::hook_context::BagWrites { application: change, ..Default::default() };
    record.writes.bags.insert(world.number(relation), bags);
    let stderr = Some(StreamOutput::Text("printed".to_owned()));
    record.writes.action.process = Some(ProcessResult { exit_code: 0, stdout: None, stderr: stderr.clone() });
    let refusal = agent.commit(&mut world, record).refusal.expect("it does not lead");
    let ended = doc(&world, id);
    assert_eq!(ended.status, ActionStatus::Failed);
    assert_eq!(ended.process, Some(ProcessResult { exit_code: 1, stdout: None, stderr }));
    assert_eq!(ended.failure, Some(ActionFailure::Refused { refusal: Box::new(refusal) }));
    assert_eq!((agent.local.episode(), agent.local.last_action), (None, Some(id)), "the unit goes on");
}

/// 1. `run` enqueues action 5 and the unit runs it. 2. The store is restored from an earlier backup. 3. The record
///    arrives in order.
#[test]
fn the_number_of_an_action_that_a_restore_lost_is_never_reused() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    agent.done(&mut world, Operation::Action { id: 5, name: "backup".into() });
    assert_eq!(enqueue(&mut world, agent.unit, "backup", json!({})), Ok(6));
}

/// 1. The unit runs action 3. 2. The store is restored from an earlier backup, and `run` enqueues another action 1 and
///    2.
/// 3. The record of action 3 arrives in order. For the unit, actions 1 and 2 are finished.
#[test]
fn an_action_with_a_number_below_that_of_a_finished_action_does_not_wait_for_ever() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    for id in 1..=2 {
        assert_eq!(enqueue(&mut world, agent.unit, "backup", json!({})), Ok(id));
    }
    agent.done(&mut world, Operation::Action { id: 3, name: "backup".into() });
    for id in 1..=2 {
        let lost = doc(&world, id);
        assert_eq!((lost.status, lost.completed_ms.is_some()), (ActionStatus::Failed, true), "action {id}");
    }
    let next = enqueue(&mut world, agent.unit, "backup", json!({}));
    assert_eq!(next, Ok(4));
    agent.done(&mut world, Operation::Action { id: 4, name: "backup".into() });
    assert_eq!(doc(&world, 4).status, ActionStatus::Completed);
}

/// A report about a finished run starts nothing (sim 64204005).
#[test]
fn a_late_report_of_another_action_does_not_start_an_action() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let (unit, run) = (agent.unit, agent.local.run + 1);
    let first = enqueue(&mut world, unit, "backup", json!({})).expect("it fits");
    let second = enqueue(&mut world, unit, "backup", json!({})).expect("it fits");
    let session = agent.session();
    let report_started = |world: &mut World| {
        let (none, activity) = (
            ReportsOfRun { run, reports: &[], end: None },
            Activity::Action { id: first, name: "backup".into() },
        );
        world.run(|draft, _| apply_report(draft, session, none, Some(&activity), 60)).expect("its session");
    };
    report_started(&mut world);
    assert_eq!(doc(&world, first).status, ActionStatus::Running);
    agent.done(&mut world, Operation::Action { id: first, name: "backup".into() });
    report_started(&mut world);
    assert_eq!(doc(&world, second).status, ActionStatus::Pending);
}

#[test]
fn the_largest_action_is_stored() {
    let text = || "x".repeat(TEXT_BYTES_MAX);
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let large = json!({"to": "x".repeat(PARAMS_BYTES_MAX - 16)});
    let id = enqueue(&mut world, agent.unit, "backup", large).expect("it fits");
    for hook in 0..20 {
        let line = |number: u32| RunReport {
            number: hook * 60 + number,
            at_ms: i64::from(hook * 100 + number),
            what: ReportContent::ActionLog(text()),
        };
        let reports: Vec<RunReport> = (1..60).map(line).collect();
        let reports = ReportsOfRun { run: agent.local.run + 1, reports: &reports, end: None };
        world
            .run(|draft, _| apply_report(draft, agent.session(), reports, None, COMMITTED_MS))
            .expect("it always fits");
    }
    let newest = doc(&world, id).log.last().map(|line| line.at_ms);
    assert_eq!(newest, Some(1959), "the newest lines are kept");
    let mut record = agent.record(Operation::Action { id, name: "backup".into() }, Outcome::Ok);
    record.writes.action.results.insert("large".into(), "x".repeat(HOOK_WRITES_BYTES_MAX - 12).into());
    let line = |number| run_report(number, ReportContent::Log { level: Level::Info, text: text() });
    record.reports = (1..=60).map(line).collect();
    agent.commit(&mut world, record);
    let ended = doc(&world, id);
    assert_eq!(ended.status, ActionStatus::Completed);
    assert!(ended.log.is_empty() && ended.params.is_empty(), "the other reports take their place");
}

fn cancel(world: &mut World, id: u64) -> Result<ActionDoc, Refusal> {
    world.run(|draft, _| action::cancel(draft, MODEL, id, 90))
}

/// The view of a unit, as its agent receives it.
fn view_of(world: &World, unit: Uuid) -> Snapshot {
    let view = view::full_view(world.reader(), MODEL, unit).expect("the unit exists");
    Snapshot::from_full(view.delta).expect("a full view is complete")
}

#[test]
fn an_action_that_has_not_started_is_cancelled_and_the_unit_is_not_shown_it_any_more() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let [first, second] =
        [(); 2].map(|()| enqueue(&mut world, agent.unit, "backup", json!({})).expect("it fits"));
    let cancelled = cancel(&mut world, first).expect("it waits");
    assert_eq!((cancelled.status, cancelled.completed_ms), (ActionStatus::Cancelled, Some(90)));
    assert_eq!(cancel(&mut world, first).expect("the request is repeated"), cancelled);
    assert_eq!(view_of(&world, agent.unit).actions.into_keys().collect::<Vec<_>>(), [second]);
    let operation = Operation::Action { id: second, name: "backup".into() };
    let record = agent.record(operation, Outcome::Ok);
    agent.commit(&mut world, record);
    assert_eq!(
        [first, second].map(|id| doc(&world, id).status),
        [ActionStatus::Cancelled, ActionStatus::Completed]
    );
    assert_eq!(
        refused(cancel(&mut world, second)),
        reason(ActionRefusal::Finished { id: second, status: ActionStatus::Completed })
    );
    assert_eq!(refused(cancel(&mut world, 7)).0, Code::NotFound);
}

#[test]
fn a_cancelled_action_that_its_unit_had_started_is_not_deleted_before_it_has_ended() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let (unit, name) = (agent.unit, "backup".to_owned());
    let id = enqueue(&mut world, unit, &name, json!({})).expect("it fits");
    let chosen = [MODEL.action(id).text().to_owned()];
    cancel(&mut world, id).expect("nothing is reported yet");
    world
        .run(|draft, _| {
            action::start(draft, MODEL, unit, id, 95);
            Ok(())
        })
        .expect("no refusal");
    let delete = |world: &mut World| {
        let deleted = world.run(|draft, _| {
            action::delete_completed(draft, &chosen);
            Ok(())
        });
        deleted.expect("no refusal");
        read(world.reader(), &MODEL.action(id)).is_some()
    };
    assert!(delete(&mut world), "it is being aborted");
    agent.done(&mut world, Operation::Action { id, name });
    assert!(!delete(&mut world), "it has ended");
}

#[test]
fn the_record_of_an_action_that_had_started_before_it_was_cancelled_determines_its_status() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let (unit, name) = (agent.unit, "backup".to_owned());
    let id = enqueue(&mut world, unit, &name, json!({})).expect("it fits");
    cancel(&mut world, id).expect("nothing is reported yet");
    world
        .run(|draft, _| {
            action::set_running(draft, MODEL, unit, &Activity::Action { id, name: name.clone() }, 95);
            Ok(())
        })
        .expect("no refusal");
    let running = doc(&world, id);
    assert_eq!((running.status, running.completed_ms), (ActionStatus::Aborting, None));
    assert_eq!(cancel(&mut world, id).expect("the request is repeated").status, ActionStatus::Aborting);
    let record = agent.record(Operation::Action { id, name }, Outcome::Ok);
    agent.commit(&mut world, record);
    assert_eq!(doc(&world, id).status, ActionStatus::Completed);
}

#[test]
fn an_action_that_is_cancelled_between_its_saved_start_and_its_program_does_not_run_and_stays_cancelled() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let id = enqueue(&mut world, agent.unit, "backup", json!({"to": "/a"})).expect("it fits");
    let operation = Operation::Action { id, name: "backup".into() };
    assert!(!hook_context_builder::is_cancelled(&view_of(&world, agent.unit), &operation));
    cancel(&mut world, id).expect("nothing is reported yet");
    assert!(hook_context_builder::is_cancelled(&view_of(&world, agent.unit), &operation));
    let record = agent.record(operation, Outcome::Skipped);
    agent.commit(&mut world, record);
    assert_eq!(doc(&world, id).status, ActionStatus::Cancelled);
}

#[test]
fn the_record_of_a_cancelled_action_replaces_the_cancellation() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let id = enqueue(&mut world, agent.unit, "backup", json!({})).expect("it fits");
    cancel(&mut world, id).expect("nothing is reported yet");
    let record = agent.record(Operation::Action { id, name: "backup".into() }, Outcome::Ok);
    agent.commit(&mut world, record);
    assert_eq!(doc(&world, id).status, ActionStatus::Completed);
}

#[test]
fn a_running_action_that_is_cancelled_is_shown_to_its_unit_as_aborting_until_its_record_ends_it() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let unit = agent.unit;
    let [failing, succeeding] =
        [(); 2].map(|()| enqueue(&mut world, unit, "backup", json!({})).expect("it fits"));
    for (id, outcome, ended) in [
        (failing, Outcome::Failed { reason: FailureReason::signal(15), retry: None }, ActionStatus::Aborted),
        (succeeding, Outcome::Ok, ActionStatus::Completed),
    ] {
        let operation = Operation::Action { id, name: "backup".into() };
        let activity = Activity::from(&operation);
        world
            .run(|draft, _| {
                action::set_running(draft, MODEL, unit, &activity, 95);
                Ok(())
            })
            .expect("no refusal");
        assert!(!hook_context_builder::is_aborted(&view_of(&world, unit), &operation));
        let aborting = cancel(&mut world, id).expect("it runs");
        assert_eq!((aborting.status, aborting.completed_ms), (ActionStatus::Aborting, None));
        assert!(hook_context_builder::is_aborted(&view_of(&world, unit), &operation));
        let record = agent.record(operation, outcome);
        agent.commit(&mut world, record);
        assert_eq!(doc(&world, id).status, ended);
    }
    assert_eq!(cancel(&mut world, failing).expect("the request is repeated").status, ActionStatus::Aborted);
}

#[test]
fn commands_of_a_user_are_enqueued_beside_actions_and_need_no_declaration() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let agent = Agent::attach(&mut world, "web/0");
    let mut exec = |commands: &str| {
        world.run(|draft, _| action::enqueue_exec(draft, MODEL, agent.unit, commands, 50)).map(|exec| exec.id)
    };
    let id = exec("echo hi").expect("it fits");
    let too_large = exec(&"x".repeat(PARAMS_BYTES_MAX));
    let refusal = refused(too_large).1;
    assert!(
        matches!(refusal, RefusalReason::Action(ActionRefusal::ParametersTooLarge { .. })),
        "{refusal:?}"
    );
    let action = view_of(&world, agent.unit).actions.remove(&id).expect("it is shown");
    assert_eq!(commands_context::of_action(&action), Some("echo hi"));
    assert_eq!(
        refused(enqueue(&mut world, agent.unit, commands::EXEC, json!({"command": "true"}))).0,
        Code::UnknownAction,
        "an action cannot be requested by that name"
    );
}

#[test]
fn commands_of_a_machine_run_on_one_of_its_units_without_its_context() {
    let mut world = World::new();
    world.deploy("web", "web", 2);
    let unit = world.unit("web/1");
    let machine = read(world.reader(), &MODEL.unit(unit)).expect("it exists").machine;
    let on_machine = |world: &mut World, machine: Uuid| {
        world.run(|draft, _| action::enqueue_machine_exec(draft, MODEL, machine, "uname", 50))
    };
    let task = on_machine(&mut world, machine).expect("the machine has a unit");
    assert_eq!((task.unit, task.machine.as_deref(), task.name.as_str()), (unit, Some("1"), commands::EXEC));
    let action = view_of(&world, unit).actions.remove(&task.id).expect("it is shown");
    assert_eq!(commands_context::of_action(&action), Some("uname"));
    assert!(commands_context::is_of_machine(&action));

    let empty = Uuid(900);
    world.run(|draft, _| machine::add(draft, MODEL, empty, 60)).expect("the model is alive");
    let refusal = refused(on_machine(&mut world, empty)).1;
    assert!(matches!(refusal, RefusalReason::Machine(MachineRefusal::NoUnit { .. })), "{refusal:?}");
    assert_eq!(refused(on_machine(&mut world, Uuid(999))).0, Code::NotFound);
}
