//! What one unit sends stays small where everyone reads it: texts, lists and depths of records are bounded, and times are
//! those of the controller's clock (I30).

use crate::agents::record_bounds::PUBLISHED_BAG_BYTES_MAX;
use crate::agents::record_validation::Valid;
use crate::documents::prelude::{BagDoc, LogDoc, StatusDoc};
use crate::terms::commands::{CommandsRequest, RelationContext};
use crate::terms::hook_name::{HookName, RelationEventName};
use crate::terms::operation::{ConfigDigest, LocalEndpoint};
use crate::terms::outcome::Timer;
use crate::terms::port_range::{PORT_RANGES_MAX, Ports};
use crate::terms::start_reason::StartReason;
use crate::terms::status::WorkloadStatus;
use crate::terms::status_message::StatusMessage;
use crate::terms::storage::{AttachedStorage, StorageEvent};
use crate::terms::store_engine::StoreEngine;
use crate::tests::commits::fixture::{change, hook, log, status};
use crate::tests::relations::pair;
use crate::tests::*;
use crate::unit::hook_context::{BagWrites, PortWrites};
use crate::unit::local::{Episode, Run, Step};

fn long() -> String {
    "E".repeat(300_000)
}

fn nested(levels: usize) -> FailureReason {
    (0..levels).fold(FailureReason::Text("deep".to_owned()), |reason, _| FailureReason::OfOperation {
        operation: Box::new(Operation::SetDead),
        reason: Box::new(reason),
    })
}

fn charm(url: String, endpoints: usize) -> CharmRef {
    let endpoints = (0..endpoints).map(|n| format!("e{n}")).collect();
    CharmRef { sha256: "x".into(), url, revision: 0, endpoints, resources: String::new() }
}

fn endpoint(name: &str, interface: &str) -> LocalEndpoint {
    LocalEndpoint {
        endpoint: name.to_owned(),
        interface: interface.to_owned(),
        peer: false,
        implicit: false,
        remote_application: "db".to_owned(),
    }
}

fn episode(operation: Operation, reason: FailureReason) -> Episode {
    Episode { id: 1, operation, reason, since_ms: 1, failures: 1, retry: None }
}

fn run(operation: Operation, reason: StartReason, episode: Option<Episode>) -> Step {
    let (position, leader_generation) = (None, None);
    Step::Started(Run { number: 1, operation, attempt: 1, reason, position, leader_generation, episode })
}

fn ranges(count: u16) -> Ports {
    let ranges = (1..=count).map(|port| format!("{port}/tcp").parse().expect("a range")).collect();
    BTreeMap::from([("*".to_owned(), ranges)])
}

fn storage(location: String) -> AttachedStorage {
    AttachedStorage { instance: Uuid(1), kind: Default::default(), location }
}

/// Operations with a text or a list that no correct agent sends.
fn operations() -> Vec<Operation> {
    let hook = Operation::Hook;
    let settings = change("a", &"x".repeat(PUBLISHED_BAG_BYTES_MAX));
    let enter = |local_endpoint, settings| Operation::EnterScope {
        relation: 1,
        uuid: Uuid(1),
        local_endpoint,
        settings,
    };
    let about = RelationContext { relation: 1, unit: None, application: long(), departing: None };
    let id = "data/0".parse().expect("an id");
    vec![
        Operation::InstallCharm(charm(long(), 1)),
        Operation::InstallCharm(charm("local:x-0".into(), 1_001)),
        enter(endpoint(&long(), "sql"), change("a", "b")),
        enter(endpoint("db", &long()), change("a", "b")),
        enter(endpoint("db", "sql"), settings),
        Operation::Action { id: 1, name: long() },
        Operation::Action { id: 1, name: "a\u{1b}[31m".to_owned() },
        Operation::Commands(CommandsRequest { id: Uuid(1), about: Some(about) }),
        hook(Hook::ConfigChanged(ConfigDigest { settings: long(), ..ConfigDigest::default() })),
        hook(Hook::Start { boot: long() }),
        hook(Hook::Relation { relation: 1, endpoint: long(), event: RelationEvent::Created }),
        hook(Hook::Storage { id, storage: storage(format!("/{}", long())), event: StorageEvent::Attached }),
    ]
}

/// A change of the state in a resync record.
type Edit = Box<dyn Fn(&mut Local)>;

/// Refuses `record` before it is compared with any document.
fn assert_refused(what: &str, record: Record) {
    let refused = Valid::record(record).expect_err(what);
    assert_eq!(refused.code(), Code::Invalid, "{what}");
    let json = serde_json::to_string(&refused.reason).expect("plain data");
    assert!(json.len() < 300, "{what}: a refusal repeats only the beginning: {} bytes", json.len());
}

/// 1. One unit stores a text of 620 KB, or a reason of 60 levels, as the failure of its operation.
/// 2. `status` shows it to everyone, and no client can parse a response that deep.
#[test]
fn every_text_list_and_depth_of_a_record_is_bounded() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let web = Agent::attach(&mut world, "web/0");
    let resync = |edit: &dyn Fn(&mut Local)| {
        let mut record = web.record(Operation::Resync, Outcome::Ok);
        let mut local = Local { outbox: Vec::new(), ..web.local.clone() };
        edit(&mut local);
        record.resync_local = Some(Box::new(local));
        record
    };
    let with_step = |step: Step| resync(&|local| local.step = step.clone());
    assert!(Valid::record(resync(&|_| ())).is_ok());
    for (at, operation) in operations().into_iter().enumerate() {
        let what = format!("operation {at}");
        assert_refused(&what, web.record(operation.clone(), Outcome::Ok));
        let text = || FailureReason::Text("x".to_owned());
        assert_refused(&what, with_step(run(operation.clone(), StartReason::NoCharm, None)));
        assert_refused(&what, with_step(Step::Failed(episode(operation, text()))));
    }
    for reason in [nested(60), FailureReason::Text(long())] {
        let failed = || episode(Operation::Resync, reason.clone());
        assert_refused("failed", with_step(Step::Failed(failed())));
        assert_refused("started", with_step(run(Operation::Resync, StartReason::NoCharm, Some(failed()))));
        assert_refused("awaiting", with_step(Step::AwaitingAnswer { sequence: 1, episode: Some(failed()) }));
        let outcome = Outcome::Failed { reason, retry: None };
        assert_refused("outcome", web.record(Operation::Hook(Hook::UpdateStatus), outcome));
    }
    let refreshed = StartReason::Refreshed { charm_url: long() };
    assert_refused("start reason", with_step(run(Operation::Resync, refreshed, None)));
    let retry = Some(Timer { boot: long(), started_ms: 1, delay_ms: 1, advanced_ms: 0 });
    let timed = Episode { retry, ..episode(Operation::Resync, FailureReason::CharmMissing) };
    assert_refused("timer", with_step(Step::Failed(timed)));

    let skipped = |name: String| HookName::Relation { endpoint: name, event: RelationEventName::Joined };
    let edits: Vec<(&str, Edit)> = vec![
        ("digest", Box::new(|local| local.digest = long())),
        ("boot", Box::new(|local| local.boot = Some(long()))),
        ("reboot", Box::new(|local| local.reboot = Some(long()))),
        ("charm", Box::new(|local| local.charm = Some(charm(long(), 1)))),
        (
            "config",
            Box::new(|local| {
                local.config = Some(ConfigDigest { addresses: long(), ..ConfigDigest::default() });
            }),
        ),
        ("a skipped hook", Box::new(move |local| local.skipped = [skipped(long())].into())),
        (
            "skipped",
            Box::new(move |local| {
                local.skipped = (0..9_000).map(|n| skipped(format!("e{n}"))).collect();
            }),
        ),
        ("ports", Box::new(|local| local.ports = ranges(PORT_RANGES_MAX as u16 + 1))),
        (
            "an endpoint of ports",
            Box::new(|local| {
                local.ports = BTreeMap::from([(long(), ["80/tcp".parse().expect("a range")].into())]);
            }),
        ),
        (
            "storage",
            Box::new(|local| {
                let id = |n: u32| format!("data/{n}").parse().expect("an id");
                local.storage = (0..3_000).map(|n| (id(n), storage("/x".to_owned()))).collect();
            }),
        ),
        ("status", Box::new(|local| local.status = Some((WorkloadStatus::Active, long())))),
        ("version", Box::new(|local| local.workload_version = long())),
    ];
    for (what, edit) in edits {
        assert_refused(what, resync(&*edit));
    }
    let with = |edit: &dyn Fn(&mut Record)| {
        let mut record = hook(&web);
        edit(&mut record);
        record
    };
    assert_refused("previous digest", with(&|record| record.previous_digest = long()));
    assert_refused("reboot", with(&|record| record.reboot = Some(long())));
    assert_refused("open", with(&|record| record.writes.ports.open = ranges(PORT_RANGES_MAX as u16 + 1)));
    assert_refused("close", with(&|record| record.writes.ports.close = ranges(PORT_RANGES_MAX as u16 + 1)));
    assert_refused(
        "results",
        with(&|record| {
            let deep = (0..100).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
            record.writes.action.results.insert("deep".to_owned(), deep);
        }),
    );
}

/// A charm's hook can name any endpoint: the refusal is the reason of the failure, which `why` shows.
#[test]
fn a_refusal_repeats_only_the_beginning_of_a_name() {
    let mut world = World::new();
    let (id, web, _db) = pair(&mut world);
    let mut record = hook(&web);
    let open = BTreeMap::from([(long(), ["80/tcp".parse().expect("a range")].into())]);
    record.writes.ports = PortWrites { open, ..PortWrites::default() };
    let committed = web.clone().commit(&mut world, record);
    let size = |value: &CommitOutcome| serde_json::to_string(value).expect("plain data").len();
    assert!(committed.refusal.is_some() && size(&committed) < 300, "{}", size(&committed));

    let mut world = World::new();
    let (other, web, _db) = pair(&mut world);
    assert_eq!(id, other);
    let relation = world.number(id);
    let local_endpoint = endpoint(&"E".repeat(250), "sql");
    let enter = Operation::EnterScope { relation, uuid: id, local_endpoint, settings: change("a", "b") };
    let refused = web.send(&mut world, &web.record(enter, Outcome::Ok)).expect_err("another endpoint");
    assert!(serde_json::to_string(&refused.reason).expect("plain data").len() < 200, "{refused:?}");
}

/// Records that are valid one by one add up to no more than one record may contain.
#[test]
fn open_ports_and_settings_are_bounded_over_all_records() {
    let mut world = World::new();
    let (id, mut web, _db) = pair(&mut world);
    let number = world.number(id);
    let open = |web: &Agent, from: u16, count: u16| {
        let mut record = hook(web);
        let ranges = (from..from + count).map(|port| format!("{port}/tcp").parse().expect("a range"));
        record.writes.ports.open = BTreeMap::from([("*".to_owned(), ranges.collect())]);
        record
    };
    let most = PORT_RANGES_MAX as u16;
    let first = open(&web, 1, most);
    assert_eq!(web.commit(&mut world, first), CommitOutcome::default());
    assert_eq!(refused(web.send(&mut world, &open(&web, most + 1, 1))).0, Code::Invalid);

    let write = |web: &Agent, key: &str, bytes: usize| {
        let mut record = hook(web);
        let writes = BagWrites { unit: change(key, &"x".repeat(bytes)), ..BagWrites::default() };
        record.writes.bags.insert(number, writes);
        record
    };
    let first = write(&web, "a", 700_000);
    assert_eq!(web.commit(&mut world, first), CommitOutcome::default());
    // settings of the unit alone are never refused: what has no room is dropped, and the agent logs it
    let second = write(&web, "b", 220_000);
    let dropped = web.commit(&mut world, second);
    assert_eq!(dropped.dropped, [DroppedWrite::SettingsTooLarge { relation: number }]);
    let mut third = write(&web, "b", 220_000);
    third.writes.storage.insert("data".to_owned(), 1);
    let refused = web.commit(&mut world, third).refusal;
    assert!(matches!(refused, Some(RefusalReason::Write(WriteRefusal::BagsTooLarge { .. }))), "{refused:?}");
    let bag: BagDoc = read(world.reader(), &MODEL.bag(id, web.unit)).expect("its bag");
    assert!(!bag.values.contains_key("b"), "nothing was written");
}

#[test]
fn one_bag_is_bounded_whatever_the_store_accepts() {
    let mut world = World::new();
    world.documents.engine = StoreEngine::Sqlite;
    let (id, mut web, _db) = pair(&mut world);
    let number = world.number(id);
    let write = |web: &Agent, key: &str, bytes: usize| {
        let mut record = hook(web);
        let writes = BagWrites { unit: change(key, &"x".repeat(bytes)), ..BagWrites::default() };
        record.writes.bags.insert(number, writes);
        record
    };
    let first = write(&web, "a", 3 << 20);
    assert_eq!(web.commit(&mut world, first), CommitOutcome::default());
    let second = write(&web, "b", (1 << 20) + (8 << 10));
    let refused = web.commit(&mut world, second).refusal;
    assert!(matches!(refused, Some(RefusalReason::Write(WriteRefusal::BagTooLarge { .. }))), "{refused:?}");
}

#[test]
fn a_status_names_the_first_skipped_hooks_and_contains_no_settings() {
    let names = (0..500)
        .map(|n| HookName::Relation { endpoint: format!("{n:0>200}"), event: RelationEventName::Joined });
    let message = StatusMessage::of_skipped_hooks(&names.collect());
    assert!(serde_json::to_string(&message).expect("plain data").len() < 8 << 10);
    let StatusMessage::HooksSkipped { hooks, more } = message else { panic!("{message:?}") };
    assert_eq!(hooks.len() + more, 500);
    let mut world = World::new();
    let (id, web, _db) = pair(&mut world);
    let (relation, settings) = (world.number(id), change("a", &"x".repeat(500_000)));
    let local_endpoint = endpoint("db", "sql");
    let enter = Operation::EnterScope { relation, uuid: id, local_endpoint, settings };
    let outcome = Outcome::Failed { reason: FailureReason::CharmMissing, retry: None };
    web.send(&mut world, &web.record(enter, outcome)).expect("a correct agent could send it");
    let shown: StatusDoc<crate::terms::status::AgentStatus> =
        read(world.reader(), &MODEL.agent_status(web.unit)).expect("it failed");
    assert!(serde_json::to_string(&shown).expect("plain data").len() < 1_000, "{shown:?}");
}

/// The wall clock of a machine may be years away, and a hostile agent chooses any time.
#[test]
fn times_are_those_of_the_controller() {
    for at_ms in [-(1 << 53), 1 << 53] {
        let mut world = World::new();
        let (_, web, _db) = pair(&mut world);
        let mut record = hook(&web);
        record.at_ms = at_ms;
        record.reports = vec![status(1, "ready"), log(2, "line")];
        record.reports.iter_mut().for_each(|report| report.at_ms = at_ms);
        web.clone().commit(&mut world, record.clone());
        let within = 1..=COMMITTED_MS;
        let status: StatusDoc = read(world.reader(), &MODEL.unit_status(web.unit)).expect("it is set");
        assert!(within.contains(&status.since_ms), "{}", status.since_ms);
        let line: LogDoc = read(world.reader(), &MODEL.log(web.unit, record.run, 2)).expect("a line");
        assert!(within.contains(&line.at_ms), "{}", line.at_ms);
    }
}
