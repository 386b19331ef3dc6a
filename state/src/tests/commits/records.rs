//! A record is applied exactly once and fits one transaction.
//!
//! An invalid record is rejected and changes nothing. A record whose writes are refused loses all of them, but its
//! reports and the failure are stored.

use crate::documents::prelude::{BagDoc, ReplicaDoc, StatusDoc};
use crate::lifecycle::{application, unit};
use crate::terms::hook_name::HookName;
use crate::terms::refusal::record::RecordRefusal;
use crate::terms::status::AgentStatus;
use crate::terms::status_message::StatusMessage;
use crate::tests::commits::fixture::{change, hook, log, of_charm, status};
use crate::tests::relations::pair;
use crate::tests::*;
use crate::unit::hook_context::BagWrites;
use crate::unit::record::REPORTS_MAX;
use crate::unit::writes::HOOK_DOCUMENTS_MAX;

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
    let refusal = RefusalReason::from(WriteRefusal::NotLeader { unit: web0(), leader: None });
    assert_eq!(committed.refusal, Some(refusal.clone()));
    assert_eq!(web.send(&mut world, &record), Ok(committed));
    let bag: BagDoc = read(world.reader(), &MODEL.bag(id, web.unit)).expect("its bag");
    assert_eq!(bag.values.get("a"), None, "a refusal refuses all writes of its record");
    let status: StatusDoc = read(world.reader(), &MODEL.unit_status(web.unit)).expect("it was reported");
    assert_eq!(status.message, of_charm("trying"), "the reported status stays");
    let replica: ReplicaDoc = read(world.reader(), &MODEL.replica(web.unit)).expect("it is stored");
    assert_eq!((replica.local.sequence, &replica.local.digest), (record.sequence, &record.digest()));
    let failed = replica.local.episode().map(|episode| (episode.id, episode.reason.clone()));
    assert_eq!(failed, Some((record.run, FailureReason::refused(refusal))));
    let agent = read(world.reader(), &MODEL.agent_status(web.unit)).expect("it has one");
    let message = StatusMessage::HookFailed { hook: HookName::UpdateStatus };
    assert_eq!((agent.status, agent.message), (AgentStatus::Error, message));
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
        let id = world.integrate("web:db", name).expect("the endpoints are compatible");
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
fn a_resolved_request_belongs_to_one_failure_and_is_deleted_with_it() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    let unit = agent.unit;
    let resolved = |world: &mut World| world.run(|draft, _| unit::resolved(draft, MODEL, unit, true));
    let no_error = || reason(UnitRefusal::NoError { unit: web0() });
    assert_eq!(refused(resolved(&mut world)), no_error());
    let fail = |agent: &mut Agent, world: &mut World| {
        let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
        let record = agent.record(Operation::Hook(Hook::Install), failed);
        agent.commit(world, record);
    };
    fail(&mut agent, &mut world);
    resolved(&mut world).expect("it is in error");
    let resolved_mark = |world: &World| read(world.reader(), &MODEL.resolved(unit));
    assert_eq!(resolved_mark(&world).map(|mark| (mark.episode, mark.retry)), Some((1, true)));
    fail(&mut agent, &mut world);
    assert!(resolved_mark(&world).is_some(), "a retry within the episode keeps it");
    agent.done(&mut world, Operation::Hook(Hook::Install));
    assert_eq!(resolved_mark(&world), None);
    assert_eq!(refused(resolved(&mut world)), no_error());
}

#[test]
fn malformed_records_are_refused_and_change_nothing() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let agent = Agent::attach(&mut world, "web/0");
    let before = world.documents.map.clone();
    let event = RelationEvent::Broken;
    let foreign_relation = Operation::Hook(Hook::Relation { relation: 99, endpoint: "db".into(), event });
    let record = agent.record(foreign_relation, Outcome::Ok);
    assert_eq!(refused(agent.send(&mut world, &record)).0, Code::Invalid);
    // records that would overflow a counter or demand work that cannot be done
    let mut endless = hook(&agent);
    endless.run = u64::MAX;
    assert_eq!(refused(agent.send(&mut world, &endless)).0, Code::Invalid);
    let mut record = hook(&agent);
    record.reports = (0..=REPORTS_MAX as u32).map(|call| log(call, "x")).collect();
    assert_eq!(refused(agent.send(&mut world, &record)).0, Code::Invalid);
    assert_eq!(world.documents.map, before);
}

#[test]
fn a_record_of_set_dead_of_an_alive_unit_is_refused() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let agent = Agent::attach(&mut world, "web/0");
    let alive = agent.record(Operation::SetDead, Outcome::Ok);
    let committed = agent.send(&mut world, &alive).expect("an answer");
    assert_eq!(committed.refusal, Some(UnitRefusal::Alive { unit: web0() }.into()));
}

/// An outcome is part of statuses, which clients read with a limit of depth.
#[test]
fn an_outcome_that_is_too_deep_or_too_long_is_refused() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut web = Agent::attach(&mut world, "web/0");
    let nested = |levels: usize| {
        let text = FailureReason::Text("deep".to_owned());
        (0..levels).fold(text, |reason, _| FailureReason::OfOperation {
            operation: Box::new(Operation::SetDead),
            reason: Box::new(reason),
        })
    };
    let record = |web: &Agent, reason| {
        web.record(Operation::Hook(Hook::UpdateStatus), Outcome::Failed { reason, retry: None })
    };
    let deep = record(&web, nested(60));
    let refusal = web.send(&mut world, &deep).expect_err("no agent sends it");
    assert!(matches!(*refusal.reason, RefusalReason::Record(RecordRefusal::TooDeep { .. })), "{refusal:?}");
    let long = record(&web, FailureReason::Text("x".repeat(330_000)));
    let refusal = web.send(&mut world, &long).expect_err("no agent sends it");
    assert!(
        matches!(*refusal.reason, RefusalReason::Record(RecordRefusal::TextTooLong { .. })),
        "{refusal:?}"
    );
    let usual = record(&web, nested(1));
    assert_eq!(web.commit(&mut world, usual), CommitOutcome::default());
}

#[test]
fn the_largest_record_fits_one_transaction() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut web = Agent::attach(&mut world, "web/0");
    web.start(&mut world);
    let mut numbers = Vec::new();
    world.make(|world| {
        for n in 0..HOOK_DOCUMENTS_MAX {
            let name = format!("d{n}");
            world.deploy(&name, "db", 0);
            let id = world.integrate("web:db", &name).expect("the endpoints are compatible");
            web.enter(world, id);
            numbers.push(world.number(id));
        }
    });
    let mut record = hook(&web);
    for number in numbers {
        record.writes.bags.insert(number, BagWrites { unit: change("a", "1"), ..BagWrites::default() });
    }
    record.reports = (0..REPORTS_MAX as u32).map(|call| log(call, "x")).collect();
    assert_eq!(web.commit(&mut world, record), CommitOutcome::default());
    let app = read(world.reader(), &MODEL.application_name("web")).expect("the application exists");
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("one document");
}
