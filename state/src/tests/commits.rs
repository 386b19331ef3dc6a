//! Tests of records: applied exactly once, in order, according to the table of writes.

use crate::documents::keys::{BagDoc, LogDoc, ReplicaDoc, StatusDoc};
use crate::lifecycle::{application, unit};
use crate::operations::leadership;
use crate::terms::settings::BagChange;
use crate::tests::relations::pair;
use crate::tests::*;
use crate::unit::activity::Activity;
use crate::unit::hook::{BagWrites, Level, PortWrites, ReportContent};
use crate::unit::hook_name::HookName;
use crate::unit::local::Run;
use crate::unit::record::{REPORTS_MAX, RunReport};

fn change(key: &str, value: &str) -> BagChange {
    BagChange::from([(key.to_owned(), value.to_owned())])
}

fn run_report(call: u32, what: ReportContent) -> RunReport {
    RunReport { call, at_ms: 2000 + i64::from(call), what }
}

fn status(call: u32, message: &str) -> RunReport {
    run_report(call, ReportContent::UnitStatus { status: "active".into(), message: message.into() })
}

fn log(call: u32, text: &str) -> RunReport {
    run_report(call, ReportContent::Log { level: Level::Info, text: text.into() })
}

fn hook(agent: &Agent) -> Record {
    agent.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok)
}

fn report(world: &mut World, agent: &Agent, run: u64, reports: &[RunReport]) -> Result<Vec<String>, Refusal> {
    world.run(|draft, _| hook_commit::apply_report(draft, MODEL, agent.unit, agent.epoch, run, reports))
}

#[test]
fn a_record_is_applied_exactly_once() {
    let mut world = World::new();
    let (id, mut web, _db) = pair(&mut world);
    let number = world.number(id);
    let mut record = hook(&web);
    record.writes.bags.insert(number, BagWrites { unit: change("a", "1"), ..BagWrites::default() });
    let mut other = record.clone();
    other.at_ms += 1;
    let hole = Record { sequence: record.sequence + 1, ..record.clone() };
    let expected = Code::Gap { expected: record.sequence };
    assert_eq!(refused(web.send(&mut world, &hole)).0, expected);
    assert_eq!(web.send(&mut world, &record), Ok(CommitOutcome::default()));
    let bag: BagDoc = read(world.reader(), &MODEL.bag(id, web.unit)).expect("its bag");
    let before = world.documents.map.clone();
    assert_eq!(
        web.send(&mut world, &record),
        Ok(CommitOutcome::default()),
        "same sequence and digest: same answer"
    );
    assert_eq!(world.documents.map, before, "and nothing is changed");
    assert_eq!(refused(web.send(&mut world, &other)).0, Code::Forked, "same sequence, other digest");
    web.commit(&mut world, record.clone());
    web.done(&mut world, Operation::Hook(Hook::UpdateStatus));
    assert_eq!(refused(web.send(&mut world, &record)).0, Code::Forked, "an older sequence");
    let mut mixed = web.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok);
    mixed.previous_digest = "of the copy's last record".into();
    assert_eq!(refused(web.send(&mut world, &mixed)).0, Code::Forked, "it follows another record");
    assert_eq!(read(world.reader(), &MODEL.bag(id, web.unit)), Some(bag));
}

#[test]
fn a_refused_record_gets_the_same_answer_when_it_is_repeated() {
    let mut world = World::new();
    let (id, web, _db) = pair(&mut world);
    let number = world.number(id);
    let mut record = hook(&web);
    let writes = BagWrites { unit: change("a", "1"), application: change("b", "2") };
    record.writes.bags.insert(number, writes);
    record.reports = vec![status(1, "trying")];
    let committed = web.send(&mut world, &record).expect("a refusal is an answer");
    let text = "cannot write application settings: web/0 is not the leader (nobody is)";
    assert_eq!(committed.refusal.as_deref(), Some(text));
    assert_eq!(web.send(&mut world, &record), Ok(committed));
    let bag: BagDoc = read(world.reader(), &MODEL.bag(id, web.unit)).expect("its bag");
    assert_eq!(bag.values.get("a"), None, "a refusal refuses all writes of its record");
    let words: StatusDoc = read(world.reader(), &MODEL.unit_status(web.unit)).expect("it said so");
    assert_eq!(words.message, "trying", "what was said stands");
    let replica: ReplicaDoc = read(world.reader(), &MODEL.replica(web.unit)).expect("it is stored");
    assert_eq!((replica.sequence, replica.digest), (record.sequence, record.digest()));
    assert_eq!(replica.local.episode().map(|e| (e.id, e.reason.as_str())), Some((record.run, text)));
    let agent: StatusDoc = read(world.reader(), &MODEL.agent_status(web.unit)).expect("it has one");
    assert_eq!((agent.status.as_str(), agent.message.as_str()), ("error", "hook failed: \"update-status\""));
}

#[test]
fn only_the_leader_writes_the_applications_bag() {
    let mut world = World::new();
    let (id, mut web, db) = pair(&mut world);
    let number = world.number(id);
    world.run(|draft, _| leadership::claim(draft, MODEL, web.unit, false)).expect("nobody leads");
    let mut record = hook(&web);
    record.writes.bags.insert(number, BagWrites { application: change("b", "2"), ..BagWrites::default() });
    assert_eq!(web.commit(&mut world, record), CommitOutcome::default());
    let app = read(world.reader(), &MODEL.application_name("web")).expect("it is there");
    let bag: BagDoc = read(world.reader(), &MODEL.bag(id, app)).expect("its bag");
    assert_eq!((bag.counter, bag.values["b"].as_str(), bag.owner.as_str()), (1, "2", "web"));
    assert_eq!(world.sent[&db.unit].len(), 1, "one bag is one change: {:?}", world.sent[&db.unit]);
}

#[test]
fn a_write_without_effect_increments_no_counter_and_sends_no_change() {
    let mut world = World::new();
    let (id, mut web, db) = pair(&mut world);
    let number = world.number(id);
    let counter = |world: &World| {
        let bag: BagDoc = read(world.reader(), &MODEL.bag(id, web.unit)).expect("its bag");
        bag.counter
    };
    let before = counter(&world);
    let mut agent = web.clone();
    for expected in [before + 1, before + 1] {
        let mut record = hook(&agent);
        record.writes.bags.insert(number, BagWrites { unit: change("a", "1"), ..BagWrites::default() });
        agent.commit(&mut world, record);
        assert_eq!(counter(&world), expected);
    }
    assert_eq!(world.sent[&db.unit], vec![], "I7");
    web = agent;
    let _ = web;
}

#[test]
fn writes_to_a_removed_relation_are_dropped_with_a_reason() {
    let mut world = World::new();
    let (id, web, db) = pair(&mut world);
    let number = world.number(id);
    world.run(|draft, _| relation::destroy(draft, MODEL, id)).expect("it may go");
    for unit in [web.unit, db.unit] {
        world
            .run(|draft, _| {
                relation::leave_scope(draft, MODEL, unit, id);
                Ok(())
            })
            .expect("no refusal");
    }
    let mut record = hook(&web);
    let writes = BagWrites { unit: change("a", "1"), application: change("b", "2") };
    record.writes.bags.insert(number, writes);
    let committed = web.send(&mut world, &record).expect("in order");
    assert_eq!(committed.refusal, None, "what belongs to nothing is never refused");
    assert_eq!(committed.dropped, [format!("settings of relation {number}: the relation is gone")]);
    assert_eq!(web.send(&mut world, &record), Ok(committed), "the same answer");
}

#[test]
fn a_unit_that_is_not_in_the_scope_writes_no_settings_there() {
    let mut world = World::new();
    let (id, web, _) = pair(&mut world);
    let number = world.number(id);
    world
        .run(|draft, _| {
            relation::leave_scope(draft, MODEL, web.unit, id);
            Ok(())
        })
        .expect("no refusal");
    let mut record = hook(&web);
    record.writes.bags.insert(number, BagWrites { unit: change("a", "1"), ..BagWrites::default() });
    let committed = web.send(&mut world, &record).expect("in order");
    assert_eq!(committed.refusal, None);
    assert_eq!(committed.dropped, [format!("settings of relation {number}: the unit is not in its scope")]);
}

#[test]
fn a_port_at_an_endpoint_that_the_charm_lacks_is_refused() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut web = Agent::attach(&mut world, "web/0");
    let endpoints = ["db".to_owned()].into();
    let charm = CharmRef { sha256: "x".into(), url: "local:x-0".into(), revision: 0, endpoints };
    web.done(&mut world, Operation::InstallCharm(charm));
    for (endpoint, refusal) in [
        ("db", None),
        ("juju-info", None),
        ("*", None),
        ("nowhere", Some("cannot open ports (unit \"web/0\"): endpoint \"nowhere\" not found")),
    ] {
        let mut record = hook(&web);
        let open = BTreeMap::from([(endpoint.to_owned(), ["80/tcp".to_owned()].into())]);
        record.writes.ports = PortWrites { open, ..PortWrites::default() };
        assert_eq!(web.commit(&mut world, record).refusal.as_deref(), refusal, "{endpoint}");
    }
    let open = read(world.reader(), &MODEL.ports(web.unit)).expect("some are open");
    assert_eq!(open.keys().collect::<Vec<_>>(), ["*", "db", "juju-info"]);
}

#[test]
fn ports_conflict_between_units_of_one_machine_only() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    for to in [Some("0"), None] {
        world.run(|draft, ids| unit::add(draft, MODEL, app, to, 1, ids)).expect("it is alive");
    }
    let mut agents = ["web/0", "web/1", "web/2"].map(|name| Agent::attach(&mut world, name));
    let mut open = |world: &mut World, at: usize, range: &str, open: bool| {
        let mut record = hook(&agents[at]);
        let ports = BTreeMap::from([("*".to_owned(), [range.to_owned()].into())]);
        record.writes.ports = match open {
            true => PortWrites { open: ports, ..PortWrites::default() },
            false => PortWrites { close: ports, ..PortWrites::default() },
        };
        let refusal = agents[at].commit(world, record).refusal;
        if refusal.is_some() {
            agents[at].done(world, Operation::Hook(Hook::UpdateStatus));
        }
        refusal
    };
    assert_eq!(open(&mut world, 0, "80-90/tcp", true), None);
    assert_eq!(open(&mut world, 0, "80-90/tcp", true), None, "a unit does not conflict with itself");
    let text = "cannot open 85/tcp (unit \"web/1\"): port range conflicts with 80-90/tcp (unit \"web/0\")";
    assert_eq!(open(&mut world, 1, "85/tcp", true).as_deref(), Some(text));
    assert_eq!(open(&mut world, 1, "85/udp", true), None, "another protocol");
    assert_eq!(open(&mut world, 2, "85/tcp", true), None, "another machine");
    assert_eq!(open(&mut world, 0, "80-90/tcp", false), None);
    assert_eq!(open(&mut world, 1, "85/tcp", true), None, "it was closed");
    let first = world.unit("web/0");
    assert_eq!(read(world.reader(), &MODEL.ports(first)), None);
}

#[test]
fn an_older_epoch_is_fenced_and_a_repeated_attach_is_not_a_new_one() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let old = Agent::attach(&mut world, "web/0");
    let attach = |world: &mut World, nonce| {
        world
            .run(|draft, _| session::attach(draft, MODEL, old.unit, Uuid(nonce), held(0)))
            .expect("it is there")
            .epoch
    };
    assert_eq!(attach(&mut world, 1), old.epoch + 1);
    assert_eq!(attach(&mut world, 1), old.epoch + 1, "the reply was lost");
    assert_eq!(attach(&mut world, 5), old.epoch + 2);
    let late = world.run(|draft, _| session::attach(draft, MODEL, old.unit, Uuid(1), held(0)));
    assert_eq!(refused(late).0, Code::Fenced, "a late copy of a first attach is no newcomer");
    let copy = world.run(|draft, _| session::attach(draft, MODEL, old.unit, Uuid(77), held(old.epoch)));
    assert_eq!(refused(copy).0, Code::Fenced, "a copy of a folder that went on");
    let restored = world.run(|draft, _| session::attach(draft, MODEL, old.unit, Uuid(78), held(40)));
    assert_eq!(restored.expect("the store is older than the folder").epoch, 41);
    let old = Agent { epoch: 41, ..old };
    assert_eq!(attach(&mut world, 2), old.epoch + 1);
    let record = hook(&old);
    assert_eq!(refused(old.send(&mut world, &record)).0, Code::Fenced);
    assert_eq!(refused(report(&mut world, &old, 1, &[])).0, Code::Fenced);
    let ahead = Agent { epoch: old.epoch + 3, ..old.clone() };
    let answer = refused(ahead.send(&mut world, &record)).0;
    assert!(matches!(answer, Code::Gap { .. }), "granted before the store was restored, no copy: {answer:?}");
}

/// 1. A folder is copied. Its own agent has epoch 2 and continues. The store is restored from a backup at epoch 1.
/// 2. The agent of the copy attaches and is granted epoch 2 as well, or epoch 3.
/// 3. The first agent returns. Its state may be newer than the store, but its records now belong to another history.
#[test]
fn after_a_restore_the_first_folder_that_attaches_continues() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let first = Agent::attach(&mut world, "web/0");
    let (before, restored) = (held(2).previous.store_generation, Uuid(8));
    let attach = |world: &mut World, nonce, epoch, store_generation| {
        let previous = PreviousSession { epoch, store_generation };
        let held = AttachContext { previous, store_generation: restored };
        world.run(|draft, _| session::attach(draft, MODEL, first.unit, Uuid(nonce), held))
    };
    let copy = attach(&mut world, 20, 1, before).expect("the first that comes");
    assert_eq!(copy.epoch, 2);
    assert_eq!(refused(attach(&mut world, 30, 2, before)).0, Code::Fenced, "as high, of a lost history");
    assert_eq!(refused(attach(&mut world, 30, 3, before)).0, Code::Fenced, "higher, of a lost history");
    assert_eq!(attach(&mut world, 20, 1, before).expect("its reply was lost"), copy);
    assert_eq!(attach(&mut world, 21, 2, Some(restored)).expect("it starts again").epoch, 3);
    assert_eq!(attach(&mut world, 22, 0, None).expect("its folder was lost").epoch, 4);
    assert_eq!(refused(attach(&mut world, 23, 4, None)).0, Code::Fenced, "an epoch of no history");
}

/// 1. A folder is copied while its attach request is in flight: both folders contain the nonce.
/// 2. One agent attaches and commits a record. 3. The other agent sends the nonce again.
#[test]
fn a_nonce_is_valid_until_its_first_record() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let nonce = read(world.reader(), &MODEL.session(agent.unit)).expect("it attached").nonce;
    let unit = agent.unit;
    let again = |world: &mut World| world.run(|d, _| session::attach(d, MODEL, unit, nonce, held(0)));
    assert_eq!(again(&mut world).expect("the reply was lost").epoch, agent.epoch);
    let record = hook(&agent);
    agent.commit(&mut world, record);
    assert_eq!(refused(again(&mut world)).0, Code::Fenced);
}

#[test]
fn the_replica_is_the_fold_of_the_records() {
    let mut world = World::new();
    let (_, web, _) = pair(&mut world);
    let restored = Agent::attach(&mut world, "web/0");
    assert_eq!(restored.local, web.local);
}

#[test]
fn large_bags_are_not_part_of_the_replica() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut web = Agent::attach(&mut world, "web/0");
    web.start(&mut world);
    for name in ["one", "two", "three"] {
        world.deploy(name, "db", 0);
        let id = world.integrate("web:db", name).expect("they fit");
        web.enter(&mut world, id);
        let number = world.number(id);
        let mut record = hook(&web);
        let unit = change("large", &"x".repeat(700_000));
        record.writes.bags.insert(number, BagWrites { unit, ..BagWrites::default() });
        assert_eq!(web.commit(&mut world, record), CommitOutcome::default());
    }
    let restored = Agent::attach(&mut world, "web/0");
    assert_eq!(restored.local, web.local);
}

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
    assert_eq!(message(&world), "late", "the highest number stands");
    let mut record = hook(&agent);
    record.reports = vec![log(1, "one"), status(2, "early"), status(3, "late"), log(4, "two")];
    let mut after = agent.clone();
    after.commit(&mut world, record);
    assert_eq!(lines(&world), ["one", "two"]);
    report(&mut world, &agent, run, &[status(9, "from a run that has ended"), log(9, "late")])
        .expect("its session");
    assert_eq!((message(&world).as_str(), lines(&world).len()), ("late", 2));
    let line = read_all::<LogDoc>(world.reader(), &MODEL.logs()).remove(0).1;
    assert_eq!(
        (line.module.as_str(), line.entity.as_str(), line.level.as_str()),
        ("unit.web/0.juju-log", "unit-web-0", "INFO")
    );
}

/// Scenarios 149 and 151.
#[test]
fn a_failed_hook_publishes_its_reports_and_no_writes() {
    let mut world = World::new();
    let (id, mut web, _db) = pair(&mut world);
    let number = world.number(id);
    let mut record = web.record(
        Operation::Hook(Hook::UpdateStatus),
        Outcome::Failed { reason: "exit status 1".into(), retry: None },
    );
    record.writes.bags.insert(number, BagWrites { unit: change("a", "1"), ..BagWrites::default() });
    record.writes.state.insert("k".into(), Some("v".into()));
    record.writes.ports.open = BTreeMap::from([("*".to_owned(), ["80/tcp".to_owned()].into())]);
    record.reports = vec![status(1, "half way")];
    web.commit(&mut world, record);
    let bag: BagDoc = read(world.reader(), &MODEL.bag(id, web.unit)).expect("its bag");
    assert_eq!(bag.values.get("a"), None, "I8");
    assert_eq!(read(world.reader(), &MODEL.ports(web.unit)), None);
    let replica: ReplicaDoc = read(world.reader(), &MODEL.replica(web.unit)).expect("it has one");
    assert_eq!(replica.local.charm_state, BTreeMap::new());
    let words: StatusDoc = read(world.reader(), &MODEL.unit_status(web.unit)).expect("it has one");
    assert_eq!(words.message, "half way");
}

#[test]
fn only_the_leader_sets_the_application_status() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let agent = Agent::attach(&mut world, "web/0");
    let words = ReportContent::ApplicationStatus { status: "active".into(), message: "all".into() };
    let dropped = report(&mut world, &agent, 1, &[run_report(1, words.clone())]).expect("its session");
    assert_eq!(dropped, ["application status: web/0 is not the leader"]);
    world.run(|draft, _| leadership::claim(draft, MODEL, agent.unit, false)).expect("nobody leads");
    assert_eq!(report(&mut world, &agent, 1, &[run_report(2, words)]), Ok(vec![]));
    let status: StatusDoc = read(world.reader(), &MODEL.application_status(app)).expect("said");
    assert_eq!(status.status, "active");
}

/// 1. The install hook sets the status to blocked and calls `juju-reboot --now`: the status is reported, but in no record.
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
    assert_eq!((words.status.as_str(), words.message.as_str()), ("active", "needs a database"));
}

#[test]
fn the_agent_sets_the_workload_status_until_the_charm_does() {
    let mut world = World::new();
    world.deploy("web", "web", 2);
    let words = |world: &World, unit| {
        let [workload, agent]: [StatusDoc; 2] = [MODEL.unit_status(unit), MODEL.agent_status(unit)]
            .map(|key| read(world.reader(), &key).expect("one"));
        format!("{} {}; {} {}", workload.status, workload.message, agent.status, agent.message)
    };
    let mut quiet = Agent::attach(&mut world, "web/0");
    let unit = quiet.unit;
    assert_eq!(words(&world, unit), "waiting waiting for machine; allocating ");
    let charm =
        CharmRef { sha256: "x".into(), url: "local:x-0".into(), revision: 0, endpoints: Default::default() };
    quiet.done(&mut world, Operation::InstallCharm(charm));
    assert_eq!(words(&world, unit), "maintenance installing charm software; executing running install hook");
    quiet.done(&mut world, Operation::Hook(Hook::Install));
    quiet.done(
        &mut world,
        Operation::Hook(Hook::ConfigChanged(ConfigDigest {
            settings: String::new(),
            addresses: String::new(),
        })),
    );
    assert_eq!(words(&world, unit), "maintenance installing charm software; executing running start hook");
    quiet.done(&mut world, Operation::Hook(Hook::Start { boot: "b".into() }));
    assert_eq!(words(&world, unit), "unknown ; idle ");
    let begun = |world: &mut World, run: u64, hook: HookName| {
        let activity = Activity::hook(hook);
        let begin = |draft: &mut Draft, _: &mut dyn FnMut() -> Uuid| {
            hook_commit::note_started(draft, MODEL, unit, run, &activity, 9);
            Ok(())
        };
        world.run(begin).expect("nothing refuses it");
    };
    let next = read(world.reader(), &MODEL.replica(unit)).expect("it has one").local.run + 1;
    begun(&mut world, next, HookName::UpdateStatus);
    assert_eq!(words(&world, unit), "unknown ; idle ");
    begun(&mut world, next, HookName::Stop);
    assert_eq!(words(&world, unit), "maintenance stopping charm software; idle ");
    quiet.done(&mut world, Operation::Hook(Hook::Stop));
    begun(&mut world, next, HookName::Stop);
    assert_eq!(
        words(&world, unit),
        "maintenance cleaning up prior to charm deletion; executing running remove hook"
    );
    quiet.done(&mut world, Operation::Hook(Hook::Remove));
    assert_eq!(words(&world, unit), "terminated ; idle ");

    // the last status that the charm set remains
    let mut loud = Agent::attach(&mut world, "web/1");
    let mut install = loud.record(Operation::Hook(Hook::Install), Outcome::Ok);
    install.reports = vec![status(1, "here")];
    loud.commit(&mut world, install);
    loud.start(&mut world);
    assert_eq!(words(&world, loud.unit), "active here; idle ", "kept through start");
    let failed = || Outcome::Failed { reason: "exit status 1".into(), retry: None };
    let stop = loud.record(Operation::Hook(Hook::Stop), failed());
    loud.commit(&mut world, stop);
    let error = "error hook failed: \"stop\"";
    assert_eq!(words(&world, loud.unit), format!("maintenance stopping charm software; {error}"));
    let mut stop = loud.record(Operation::Hook(Hook::Stop), failed());
    stop.reports = vec![status(1, "leaving")];
    loud.commit(&mut world, stop);
    assert_eq!(words(&world, loud.unit), format!("active leaving; {error}"));
}

#[test]
fn a_resolved_request_belongs_to_one_failure_and_is_deleted_with_it() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let unit = agent.unit;
    let resolved = |world: &mut World| world.run(|draft, _| unit::resolved(draft, MODEL, unit, true));
    let text = "unit web/0 is not in an error state";
    assert_eq!(refused(resolved(&mut world)), (Code::Invalid, text.into()));
    let fail = |agent: &mut Agent, world: &mut World| {
        let failed = Outcome::Failed { reason: "exit status 1".into(), retry: None };
        let record = agent.record(Operation::Hook(Hook::Install), failed);
        agent.commit(world, record);
    };
    fail(&mut agent, &mut world);
    resolved(&mut world).expect("it is in error");
    let mark = |world: &World| read(world.reader(), &MODEL.resolved(unit));
    assert_eq!(mark(&world).map(|mark| (mark.episode, mark.retry)), Some((1, true)));
    fail(&mut agent, &mut world);
    assert!(mark(&world).is_some(), "a retry within the episode keeps it");
    agent.done(&mut world, Operation::Hook(Hook::Install));
    assert_eq!(mark(&world), None);
    assert_eq!(refused(resolved(&mut world)), (Code::Invalid, text.into()));
}

/// A unit that lost and regained the leadership overwrites nothing that the leader in between wrote (design 13).
#[test]
fn a_leaders_write_is_applied_in_its_own_generation_only() {
    let mut world = World::new();
    let (id, web, _db) = pair(&mut world);
    let number = world.number(id);
    let claim = |world: &mut World| {
        world.run(|draft, _| leadership::claim(draft, MODEL, web.unit, false)).expect("it is free")
    };
    let leadership::ClaimOutcome::Granted(first) = claim(&mut world) else { panic!("nobody else leads") };
    world
        .run(|draft, _| {
            leadership::release(draft, MODEL, web.unit);
            Ok(())
        })
        .expect("no refusal");
    let leadership::ClaimOutcome::Granted(second) = claim(&mut world) else { panic!("nobody else leads") };
    let mut record = hook(&web);
    let writes = BagWrites { application: change("k", "old"), ..BagWrites::default() };
    record.writes.bags.insert(number, writes);
    record.leader_generation = Some(first.generation);
    let refusal = web.clone().commit(&mut world.copy(), record.clone()).refusal.expect("it is refused");
    assert!(refusal.contains("it was not all the time"), "{refusal}");
    record.leader_generation = Some(second.generation);
    assert_eq!(web.clone().commit(&mut world, record).refusal, None);
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
        read(world.reader(), &MODEL.agent_status(agent.unit)).expect("it said").message
    };
    let failed = Outcome::Failed { reason: "exit status 1".into(), retry: None };
    assert_eq!(ends(&mut agent, &mut world, failed), "hook failed: \"update-status\"");
    assert_eq!(ends(&mut agent, &mut world, Outcome::Skipped), "update-status skipped");
    agent.done(&mut world, Operation::Hook(Hook::Start { boot: "c".into() }));
    let reports = read(world.reader(), &MODEL.agent_status(agent.unit)).expect("it said");
    assert_eq!(reports.message, "update-status skipped", "another hook's success says nothing of it");
    assert_eq!(ends(&mut agent, &mut world, Outcome::Ok), "");
}

#[test]
fn malformed_records_are_refused_and_change_nothing() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let agent = Agent::attach(&mut world, "web/0");
    let event = RelationEvent::Broken;
    let stranger = Operation::Hook(Hook::Relation { relation: 99, endpoint: "db".into(), event });
    let record = agent.record(stranger, Outcome::Ok);
    assert_eq!(refused(agent.send(&mut world, &record)).0, Code::Invalid);
    // records that would overflow a counter or demand work that cannot be done
    let mut endless = hook(&agent);
    endless.run = u64::MAX;
    assert_eq!(refused(agent.send(&mut world, &endless)).0, Code::Invalid);
    let mut record = hook(&agent);
    record.reports = (0..=REPORTS_MAX as u32).map(|call| log(call, "x")).collect();
    assert_eq!(refused(agent.send(&mut world, &record)).0, Code::Invalid);
    let alive = agent.record(Operation::SetDead, Outcome::Ok);
    let committed = agent.send(&mut world, &alive).expect("an answer");
    assert_eq!(committed.refusal.as_deref(), Some("unit web/0 is alive: it cannot be dead"));
}

#[test]
fn the_largest_record_fits_one_transaction() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut web = Agent::attach(&mut world, "web/0");
    web.start(&mut world);
    let mut numbers = Vec::new();
    for n in 0..29 {
        let name = format!("d{n}");
        world.deploy(&name, "db", 0);
        let id = world.integrate("web:db", &name).expect("they fit");
        web.enter(&mut world, id);
        numbers.push(world.number(id));
    }
    let mut record = hook(&web);
    for number in numbers {
        record.writes.bags.insert(number, BagWrites { unit: change("a", "1"), ..BagWrites::default() });
    }
    record.reports = (0..REPORTS_MAX as u32).map(|call| log(call, "x")).collect();
    assert_eq!(web.commit(&mut world, record), CommitOutcome::default());
    let app = read(world.reader(), &MODEL.application_name("web")).expect("it is there");
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("one document");
}

#[test]
fn a_resync_of_any_number_of_relations_fits_into_its_transactions() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut web = Agent::attach(&mut world, "web/0");
    web.start(&mut world);
    let ids: Vec<Uuid> = (0..40)
        .map(|n| {
            let name = format!("db{n}");
            world.deploy(&name, "db", 0);
            world.integrate("web:db", &format!("{name}:server")).expect("they fit")
        })
        .collect();
    let (left, entered) = ids.split_at(5);
    left.iter().for_each(|id| drop(web.enter(&mut world, *id)));
    let mut older = world.copy();
    for id in left {
        let number = world.number(*id);
        web.broken(&mut world, number);
    }
    entered.iter().for_each(|id| drop(web.enter(&mut world, *id)));
    let mut record = web.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok);
    let written = BagWrites { unit: change("a", "1"), ..BagWrites::default() };
    record.writes.bags.insert(world.number(entered[30]), written);
    record.reports = vec![status(1, "ready"), run_report(2, ReportContent::WorkloadVersion("1.2".into()))];
    web.commit(&mut world, record);

    let again = Agent::attach(&mut older, "web/0");
    // and resumed before the unit observes it
    older.run(|draft, _| relation::suspend(draft, MODEL, entered[7], "", 1)).expect("it may be");
    let mut restated = web.record(Operation::Resync, Outcome::Ok);
    restated.resync_local = Some(Box::new(Local { outbox: Vec::new(), ..web.local.clone() }));
    assert_eq!(again.send(&mut older, &restated), Ok(CommitOutcome::default()));
    for id in &ids {
        let (scope, bag) = (MODEL.scope(*id, Uuid(0), web.unit), MODEL.bag(*id, web.unit));
        let values = |world: &World| read(world.reader(), &bag).map(|bag: BagDoc| bag.values);
        assert_eq!(read(older.reader(), &scope).is_some(), entered.contains(id));
        assert_eq!(values(&older), values(&world), "what it has published");
    }
    let shown = read(older.reader(), &MODEL.unit_status(web.unit)).map(|shown| (shown.status, shown.message));
    assert_eq!(shown, Some(("active".into(), "ready".into())), "its last word");
    assert_eq!(read(older.reader(), &MODEL.workload_version(web.unit)).as_deref(), Some("1.2"));
    let before = older.documents.clone();
    assert_eq!(again.send(&mut older, &restated), Ok(CommitOutcome::default()), "the answer was lost");
    assert_eq!(older.documents.map, before.map);
}

/// The hook is interrupted after its report, so that no record contains it (sim 61500700).
#[test]
fn reports_of_a_run_that_continued_across_a_resync_are_stored() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut web = Agent::attach(&mut world, "web/0");
    let mut older = world.copy();
    web.start(&mut world);
    let run = web.local.run + 1;
    let operation = Operation::Hook(Hook::UpdateStatus);
    let (attempt, cause, position, leader_generation, episode) = (1, String::new(), None, None, None);
    let begun = Run { number: run, operation, attempt, cause, position, leader_generation, episode };
    web.local.apply(&Event::Started(begun));
    let again = Agent::attach(&mut older, "web/0");
    let mut restated = web.record(Operation::Resync, Outcome::Ok);
    restated.resync_local = Some(Box::new(Local { outbox: Vec::new(), ..web.local.clone() }));
    assert_eq!(again.send(&mut older, &restated), Ok(CommitOutcome::default()));
    assert_eq!(report(&mut older, &again, run, &[status(1, "restarting")]), Ok(vec![]));
    let shown = |world: &World| read(world.reader(), &MODEL.unit_status(web.unit)).map(|shown| shown.message);
    assert_eq!(shown(&older).as_deref(), Some("restarting"));
    assert_eq!(report(&mut older, &again, run - 1, &[status(9, "late")]), Ok(vec![]));
    assert_eq!(shown(&older).as_deref(), Some("restarting"));
}

/// 1. A failed hook is run again, and during that run the unit resyncs. 2. The run is abandoned because its relation was
///    removed. 3. The next hook succeeds. (sim 66111392)
#[test]
fn a_failure_whose_retry_was_abandoned_across_a_resync_is_over() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut web = Agent::attach(&mut world, "web/0");
    let mut older = world.copy();
    web.start(&mut world);
    let operation = Operation::Hook(Hook::UpdateStatus);
    let failed = Outcome::Failed { reason: "exit status 1".into(), retry: None };
    let record = web.record(operation.clone(), failed);
    web.commit(&mut world, record);
    let begins = |web: &mut Agent, operation, episode| {
        let (number, attempt, cause, position, leader_generation) =
            (web.local.run + 1, 1, String::new(), None, None);
        web.local.apply(&Event::Started(Run {
            number,
            operation,
            attempt,
            cause,
            position,
            leader_generation,
            episode,
        }));
    };
    let episode = web.local.episode().cloned();
    begins(&mut web, operation, episode);
    web.epoch = Agent::attach(&mut older, "web/0").epoch;
    let mut restated = web.record(Operation::Resync, Outcome::Ok);
    restated.resync_local = Some(Box::new(Local { outbox: Vec::new(), ..web.local.clone() }));
    web.commit(&mut older, restated);
    let unit = web.unit;
    let shown = |world: &World| read(world.reader(), &MODEL.agent_status(unit)).map(|shown| shown.status);
    assert_eq!(shown(&older).as_deref(), Some("error"), "it is not over");
    let other = Operation::Hook(Hook::Start { boot: "another".into() });
    begins(&mut web, other.clone(), None);
    let record = web.record(other, Outcome::Ok);
    web.commit(&mut older, record);
    assert_eq!(shown(&older).as_deref(), Some("idle"));
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
    assert_eq!(shown.as_deref(), Some("of the unit"));
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
    assert_eq!(shown.as_deref(), Some("after"));
}

#[test]
fn an_empty_nonce_is_refused_and_fences_no_agent() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    let mut attach = |nonce| world.run(|draft, _| session::attach(draft, MODEL, unit, Uuid(nonce), held(0)));
    assert_eq!(attach(0).expect_err("no nonce").code, Code::Invalid);
    assert_eq!(attach(5).expect("nobody else has").epoch, 1);
    assert_eq!(attach(0).expect_err("no nonce").code, Code::Invalid);
    assert_eq!(attach(5).expect("the reply was lost").epoch, 1);
}
