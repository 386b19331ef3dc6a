//! Statuses and log lines of runs, with and without a record.

use crate::agents::record_validation::{EarlyReport, NUMBER_MAX, Valid};
use crate::documents::prelude::{
    BagDoc, LogDoc, LogSource, ReplicaDoc, StatusDoc, StatusLogDoc, SubjectStatus,
};
use crate::lifecycle::leadership;
use crate::terms::activity::Activity;
use crate::terms::hook_name::HookName;
use crate::terms::refusal::write::WriteRefusal;
use crate::terms::status::{AgentStatus, WorkloadStatus};
use crate::terms::status_message::StatusMessage;
use crate::tests::commits::fixture::{apply_report, change, hook, log, of_charm, report, run_report, status};
use crate::tests::relations::pair;
use crate::tests::*;
use crate::transitions::run_reports::{LogLines, ReportsOfRun};
use crate::unit::hook_context::{BagWrites, Level, ReportContent};
use crate::unit::hook_log::{HookEnd, HookHandler, HookLog};
use crate::unit::record::RunReport;

#[test]
fn statuses_and_log_lines_are_stored_once_and_in_order() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    let run = agent.local.run + 1;
    let message = |world: &World| {
        let status: StatusDoc = read(world.reader(), &MODEL.unit_status(agent.unit)).expect("it has one");
        status.message
    };
    let lines = |world: &World| {
        let lines = read_all::<LogDoc>(world.reader(), &MODEL.logs());
        lines.into_iter().map(|(_, line)| line.text).collect::<Vec<_>>()
    };
    report(&mut world, &agent, run, &[log(1, "one"), status(3, "late")]).expect("its session");
    report(&mut world, &agent, run, &[status(2, "early")]).expect("its session");
    assert_eq!(message(&world), of_charm("late"), "the highest number stands");
    let mut record = hook(&agent);
    record.reports = vec![log(1, "one"), status(2, "early"), status(3, "late"), log(4, "two")];
    let mut after = agent.clone();
    after.commit(&mut world, record);
    assert_eq!(lines(&world), ["one", "two"]);
    report(&mut world, &agent, run, &[status(9, "from a run that has ended"), log(9, "late")])
        .expect("its session");
    assert_eq!((message(&world), lines(&world).len()), (of_charm("late"), 2));
    let line = read_all::<LogDoc>(world.reader(), &MODEL.logs()).remove(0).1;
    assert_eq!(
        (line.source, line.unit, line.level),
        (LogSource::JujuLog, UnitName::new("web", 0), Level::Info)
    );
}

/// The line about a hook is part of the transaction that stores its outcome (spec/clients.md 1.8).
#[test]
fn the_end_of_a_hook_is_logged_once_with_its_outcome() {
    let mut world = World::new();
    let (id, mut web, _db) = pair(&mut world);
    let number = world.number(id);
    let log = |lowest| Some(HookLog { handler: Some(HookHandler::Dispatch), lowest });
    let mut commit = |outcome, hook_log, writes: BTreeMap<RelationNumber, BagWrites>| {
        let mut record = web.record(Operation::Hook(Hook::UpdateStatus), outcome);
        (record.hook_log, record.writes.bags) = (hook_log, writes);
        let before = read_all::<LogDoc>(world.reader(), &MODEL.logs()).len();
        let again = web.clone();
        web.commit(&mut world, record.clone());
        again.send(&mut world, &record).expect("the same record");
        let lines = read_all::<LogDoc>(world.reader(), &MODEL.logs()).into_iter().skip(before);
        lines.map(|(_, line)| (line.level, line.source)).collect::<Vec<_>>()
    };
    let line = |level, end| {
        let (hook, handler) = (HookName::UpdateStatus, Some(HookHandler::Dispatch));
        vec![(level, LogSource::HookEnd { hook, handler, end })]
    };
    let none = BTreeMap::new;
    assert_eq!(commit(Outcome::Ok, log(Level::Info), none()), line(Level::Info, HookEnd::Ran));
    assert_eq!(commit(Outcome::Missing, log(Level::Debug), none()), line(Level::Info, HookEnd::Missing));
    assert_eq!(commit(Outcome::Ok, log(Level::Warning), none()), [], "below the level of the model");
    assert_eq!(commit(Outcome::Skipped, log(Level::Info), none()), [], "it did not run");
    let application = BagWrites { application: change("a", "1"), ..BagWrites::default() };
    let refusal = WriteRefusal::NotLeader { unit: web0(), leader: None };
    let refused = HookEnd::Failed(FailureReason::refused(refusal.into()));
    let writes = BTreeMap::from([(number, application)]);
    assert_eq!(commit(Outcome::Ok, log(Level::Error), writes), line(Level::Error, refused));
    let reason = FailureReason::Exit { code: 1, last_line: Some("no space".to_owned()) };
    let failed = HookEnd::Failed(FailureReason::exit(1));
    let outcome = Outcome::Failed { reason, retry: None };
    assert_eq!(commit(outcome, log(Level::Error), none()), line(Level::Error, failed));
}

/// Scenarios 149 and 151.
#[test]
fn a_failed_hook_publishes_its_reports_and_no_writes() {
    let mut world = World::new();
    let (id, mut web, _db) = pair(&mut world);
    let number = world.number(id);
    let mut record = web.record(
        Operation::Hook(Hook::UpdateStatus),
        Outcome::Failed { reason: FailureReason::exit(1), retry: None },
    );
    record.writes.bags.insert(number, BagWrites { unit: change("a", "1"), ..BagWrites::default() });
    record.writes.state.insert("k".into(), Some("v".into()));
    record.writes.ports.open =
        BTreeMap::from([("*".to_owned(), ["80/tcp".parse().expect("a range")].into())]);
    record.reports = vec![status(1, "half way")];
    web.commit(&mut world, record);
    let bag: BagDoc = read(world.reader(), &MODEL.bag(id, web.unit)).expect("its bag");
    assert_eq!(bag.values.get("a"), None, "I8");
    assert_eq!(read(world.reader(), &MODEL.ports(web.unit)), None);
    let replica: ReplicaDoc = read(world.reader(), &MODEL.replica(web.unit)).expect("it has one");
    assert_eq!(replica.local.charm_state, BTreeMap::new());
    let words: StatusDoc = read(world.reader(), &MODEL.unit_status(web.unit)).expect("it has one");
    assert_eq!(words.message, of_charm("half way"));
}

#[test]
fn only_the_leader_sets_the_application_status() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let agent = Agent::attach(&mut world, "web/0");
    let words = ReportContent::ApplicationStatus { status: WorkloadStatus::Active, message: "all".into() };
    let dropped = report(&mut world, &agent, 1, &[run_report(1, words.clone())]).expect("its session");
    assert_eq!(dropped, [DroppedWrite::ApplicationStatus { unit: web0() }]);
    world.run(|draft, _| leadership::claim(draft, MODEL, agent.unit, false)).expect("nobody leads");
    assert_eq!(report(&mut world, &agent, 1, &[run_report(2, words)]), Ok(vec![]));
    let status: StatusDoc = read(world.reader(), &MODEL.application_status(app)).expect("it was reported");
    assert_eq!(status.status, WorkloadStatus::Active);
}

#[test]
fn the_statuses_that_an_entity_has_had_are_stored_until_it_is_removed() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    world.run(|draft, _| leadership::claim(draft, MODEL, agent.unit, false)).expect("nobody leads");
    let run = agent.local.run + 1;
    let of_application =
        ReportContent::ApplicationStatus { status: WorkloadStatus::Active, message: "all".into() };
    let reports = [status(3, "late"), status(2, "early"), status(4, "late"), run_report(5, of_application)];
    report(&mut world, &agent, run, &reports).expect("its session");
    let log = |world: &World, id| {
        let log: StatusLogDoc = read(world.reader(), &MODEL.status_log(id)).unwrap_or_default();
        log.changes.into_iter().map(|change| (change.status, change.message)).collect::<Vec<_>>()
    };
    let active = |text| (SubjectStatus::Workload(WorkloadStatus::Active), of_charm(text));
    let changes = log(&world, agent.unit);
    assert_eq!(changes.last(), Some(&active("late")), "{changes:?}");
    assert!(!changes.contains(&active("early")), "a status that was replaced before it arrived");
    assert_eq!(changes.iter().filter(|change| **change == active("late")).count(), 1, "{changes:?}");
    assert!(changes.contains(&(SubjectStatus::Agent(AgentStatus::Idle), StatusMessage::Empty)));
    let all = (SubjectStatus::Application(WorkloadStatus::Active), of_charm("all"));
    assert_eq!(log(&world, app), [all]);
}

/// 1. The install hook sets the status to blocked and calls `juju-reboot --now`: the status is reported, but in no
///    record.
/// 2. The hook runs again and sets no status.
#[test]
fn a_workload_status_of_a_run_without_a_record_counts_as_set_by_the_charm() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.local.run += 1;
    report(&mut world, &agent, agent.local.run, &[status(1, "needs a database")]).expect("its session");
    agent.start(&mut world);
    let words: StatusDoc = read(world.reader(), &MODEL.unit_status(agent.unit)).expect("it has one");
    assert_eq!((words.status, words.message), (WorkloadStatus::Active, of_charm("needs a database")));
}

#[test]
fn the_agent_sets_the_workload_status_until_the_charm_does() {
    let mut world = World::new();
    world.deploy("web", "web", 2);
    let shown = |world: &World, unit| {
        let workload = read(world.reader(), &MODEL.unit_status(unit)).expect("one");
        let agent = read(world.reader(), &MODEL.agent_status(unit)).expect("one");
        ((workload.status, workload.message), (agent.status, agent.message))
    };
    let mut quiet = Agent::attach(&mut world, "web/0");
    let unit = quiet.unit;
    let installing = (WorkloadStatus::Maintenance, StatusMessage::InstallingCharm);
    let stopping = (WorkloadStatus::Maintenance, StatusMessage::StoppingCharm);
    let executing = |hook| (AgentStatus::Executing, StatusMessage::Executing(Activity::hook(hook)));
    let idle = (AgentStatus::Idle, StatusMessage::Empty);
    let waiting = (WorkloadStatus::Waiting, StatusMessage::WaitingForMachine);
    assert_eq!(shown(&world, unit), (waiting, (AgentStatus::Allocating, StatusMessage::Empty)));
    let charm = CharmRef {
        sha256: "x".into(),
        url: "local:x-0".into(),
        revision: 0,
        endpoints: Default::default(),
        resources: String::new(),
    };
    quiet.done(&mut world, Operation::InstallCharm(charm));
    assert_eq!(shown(&world, unit), (installing.clone(), executing(HookName::Install)));
    quiet.done(&mut world, Operation::Hook(Hook::Install));
    quiet.done(&mut world, Operation::Hook(Hook::ConfigChanged(ConfigDigest::default())));
    assert_eq!(shown(&world, unit), (installing, executing(HookName::Start)));
    quiet.done(&mut world, Operation::Hook(Hook::Start { boot: "b".into() }));
    let unknown = (WorkloadStatus::Unknown, StatusMessage::Empty);
    assert_eq!(shown(&world, unit), (unknown.clone(), idle.clone()));
    let session = quiet.session();
    let started = |world: &mut World, run: u64, hook: HookName| {
        let (none, activity) = (ReportsOfRun { run, reports: &[], end: None }, Activity::hook(hook));
        world.run(|draft, _| apply_report(draft, session, none, Some(&activity), 9)).expect("its session");
    };
    let next = read(world.reader(), &MODEL.replica(unit)).expect("it has one").local.run + 1;
    started(&mut world, next, HookName::UpdateStatus);
    assert_eq!(shown(&world, unit), (unknown, idle.clone()));
    let destroy = |world: &mut World, unit| {
        world.run(|draft, _| unit::destroy(draft, MODEL, unit, 60)).expect("the removal is accepted");
    };
    destroy(&mut world, unit);
    started(&mut world, next, HookName::Stop);
    assert_eq!(shown(&world, unit), (stopping.clone(), idle.clone()));
    quiet.done(&mut world, Operation::Hook(Hook::Stop));
    started(&mut world, next, HookName::Stop);
    let removing = (WorkloadStatus::Maintenance, StatusMessage::RemovingCharm);
    assert_eq!(shown(&world, unit), (removing, executing(HookName::Remove)));
    quiet.done(&mut world, Operation::Hook(Hook::Remove));
    assert_eq!(shown(&world, unit), ((WorkloadStatus::Terminated, StatusMessage::Empty), idle.clone()));

    // the last status that the charm set remains
    let mut loud = Agent::attach(&mut world, "web/1");
    let mut install = loud.record(Operation::Hook(Hook::Install), Outcome::Ok);
    install.reports = vec![status(1, "here")];
    loud.commit(&mut world, install);
    loud.start(&mut world);
    let active = |text| (WorkloadStatus::Active, of_charm(text));
    assert_eq!(shown(&world, loud.unit), (active("here"), idle), "kept through start");
    let failed = || Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    destroy(&mut world, loud.unit);
    let stop = loud.record(Operation::Hook(Hook::Stop), failed());
    loud.commit(&mut world, stop);
    let error = (AgentStatus::Error, StatusMessage::HookFailed { hook: HookName::Stop });
    assert_eq!(shown(&world, loud.unit), (stopping, error.clone()));
    let mut stop = loud.record(Operation::Hook(Hook::Stop), failed());
    stop.reports = vec![status(1, "leaving")];
    loud.commit(&mut world, stop);
    assert_eq!(shown(&world, loud.unit), (active("leaving"), error));
}

#[test]
fn scenario_50_a_skipped_hook_is_shown_until_it_succeeds() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    let ends = |agent: &mut Agent, world: &mut World, outcome| {
        let record = agent.record(Operation::Hook(Hook::UpdateStatus), outcome);
        // the decision of a person ends the error episode
        agent.commit(world, Record { episode: None, ..record });
        read(world.reader(), &MODEL.agent_status(agent.unit)).expect("it was reported").message
    };
    let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    let hook = HookName::UpdateStatus;
    assert_eq!(ends(&mut agent, &mut world, failed), StatusMessage::HookFailed { hook: hook.clone() });
    let skipped = StatusMessage::HooksSkipped { hooks: [hook].into(), more: 0 };
    assert_eq!(ends(&mut agent, &mut world, Outcome::Skipped), skipped);
    agent.done(&mut world, Operation::Hook(Hook::Start { boot: "c".into() }));
    let reports = read(world.reader(), &MODEL.agent_status(agent.unit)).expect("it was reported");
    assert_eq!(reports.message, skipped, "the success of another hook does not change it");
    assert_eq!(ends(&mut agent, &mut world, Outcome::Ok), StatusMessage::Empty);
}

/// (sim 66130146)
#[test]
fn a_status_of_a_record_replaces_one_that_a_copy_of_the_folder_reported_with_the_same_number() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut web = Agent::attach(&mut world, "web/0");
    web.start(&mut world);
    let mut record = web.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok);
    assert_eq!(report(&mut world, &web, record.run, &[status(3, "of the copy")]), Ok(vec![]));
    record.reports = vec![status(3, "of the unit")];
    web.commit(&mut world, record);
    let shown = read(world.reader(), &MODEL.unit_status(web.unit)).map(|shown| shown.message);
    assert_eq!(shown, Some(of_charm("of the unit")));
}

/// 1. A run reports a status. 2. The folder is lost before the record is sent. 3. The next agent runs the hook again.
#[test]
fn reports_of_a_unit_that_lost_its_folder_are_newer_than_its_earlier_reports() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut lost = Agent::attach(&mut world, "web/0");
    lost.start(&mut world);
    let run = lost.local.run + 1;
    assert_eq!(report(&mut world, &lost, run, &[status(3, "before")]), Ok(vec![]));
    let next = Agent::attach(&mut world, "web/0");
    let record = next.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok);
    assert_eq!(report(&mut world, &next, record.run, &[status(1, "after")]), Ok(vec![]));
    let shown = read(world.reader(), &MODEL.unit_status(lost.unit)).map(|shown| shown.message);
    assert_eq!(shown, Some(of_charm("after")));
}

#[test]
fn dropped_lines_are_stated_after_the_next_stored_line() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let agent = Agent::attach(&mut world, "web/0");
    let mut apply = |number: u32, log_lines: LogLines| {
        let what = ReportContent::Log { level: Level::Info, text: "t".into() };
        let reports = vec![RunReport { number, at_ms: 1, what }];
        let early = Valid::report(EarlyReport { run: 1, reports, executing: None, executing_for_ms: 0 })
            .expect("it is bounded");
        let session = agent.session();
        let applied = world.run(|draft, _| record_commit::apply_report(draft, session, &early, log_lines, 9));
        applied.expect("its session");
        let stored = world.reader().scan(&MODEL.logs_of(agent.unit), "", usize::MAX);
        stored.into_iter().map(|stored| stored.key.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(apply(1, LogLines::Dropped), [""; 0]);
    let unit = agent.unit;
    let (line, dropped) = (MODEL.log(unit, 1, 2), MODEL.dropped_lines(unit, 1, 2));
    assert_eq!(apply(2, LogLines::Stored { dropped_before: 1 }), [line.text(), dropped.text()]);
}

/// A unit cannot be shown as if it had run something since before it existed.
#[test]
fn what_a_unit_runs_began_after_the_unit_was_created_and_before_now() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let web = Agent::attach(&mut world, "web/0");
    let created_ms = read(world.reader(), &MODEL.unit(web.unit)).expect("it exists").created_ms;
    let since = |world: &mut World, executing_for_ms, now_ms| {
        let executing = Some(Activity::hook(HookName::Install));
        let report = EarlyReport { run: 1, reports: Vec::new(), executing, executing_for_ms };
        let since = |draft: &mut Draft| record_commit::executing_since(draft, web.session(), &report, now_ms);
        let shown = world.run(|draft, _| Ok(since(draft))).expect("no refusal");
        (shown, Valid::report(report).map(drop).map_err(|refused| refused.code()))
    };
    assert_eq!(since(&mut world, 10, created_ms + 100), (created_ms + 90, Ok(())));
    assert_eq!(since(&mut world, 101, created_ms + 100), (created_ms, Ok(())));
    assert_eq!(
        since(&mut world, NUMBER_MAX, created_ms - 1),
        (created_ms - 1, Ok(())),
        "the clock was set back"
    );
    let now_ms = created_ms + 100;
    assert_eq!(since(&mut world, NUMBER_MAX + 1, now_ms), (created_ms, Err(Code::Invalid)));
}
