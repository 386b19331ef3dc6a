//! Resyncs: their transactions, and the runs that continue across one.

use crate::agents::record_validation::Valid;
use crate::documents::prelude::BagDoc;
use crate::restore::resync::{self, ResyncBatch, ResyncProgress};
use crate::terms::refusal::record::RecordRefusal;
use crate::terms::start_reason::StartReason;
use crate::terms::status::{AgentStatus, WorkloadStatus};
use crate::tests::commits::fixture::{change, of_charm, report, run_report, status};
use crate::tests::relations::pair;
use crate::tests::*;
use crate::unit::hook_context::{BagWrites, ReportContent};
use crate::unit::local::{RelationLocal, Run};

impl Agent {
    /// The record of a resync.
    pub fn resync(&self) -> Record {
        let mut resync = self.record(Operation::Resync, Outcome::Ok);
        resync.resync_local = Some(Box::new(Local { outbox: Vec::new(), ..self.local.clone() }));
        resync
    }
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
            world.integrate("web:db", &format!("{name}:server")).expect("the endpoints are compatible")
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
    older
        .run(|draft, _| relation::suspend(draft, MODEL, entered[7], "", 1))
        .expect("the relation can be suspended");
    let mut resync = web.record(Operation::Resync, Outcome::Ok);
    resync.resync_local = Some(Box::new(Local { outbox: Vec::new(), ..web.local.clone() }));
    assert_eq!(again.send(&mut older, &resync), Ok(CommitOutcome::default()));
    for id in &ids {
        let (scope, bag) = (MODEL.scope(*id, Uuid(0), web.unit), MODEL.bag(*id, web.unit));
        let values = |world: &World| read(world.reader(), &bag).map(|bag: BagDoc| bag.values);
        assert_eq!(read(older.reader(), &scope).is_some(), entered.contains(id));
        assert_eq!(values(&older), values(&world), "the published settings");
    }
    let shown = read(older.reader(), &MODEL.unit_status(web.unit)).map(|shown| (shown.status, shown.message));
    assert_eq!(shown, Some((WorkloadStatus::Active, of_charm("ready"))), "the newest status");
    assert_eq!(read(older.reader(), &MODEL.workload_version(web.unit)).as_deref(), Some("1.2"));
    let before = older.documents.clone();
    assert_eq!(again.send(&mut older, &resync), Ok(CommitOutcome::default()), "the answer was lost");
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
    web.local.apply(&Event::Started(Run::new(run, operation, StartReason::IntervalPassed)));
    let again = Agent::attach(&mut older, "web/0");
    let mut resync = web.record(Operation::Resync, Outcome::Ok);
    resync.resync_local = Some(Box::new(Local { outbox: Vec::new(), ..web.local.clone() }));
    assert_eq!(again.send(&mut older, &resync), Ok(CommitOutcome::default()));
    assert_eq!(report(&mut older, &again, run, &[status(1, "restarting")]), Ok(vec![]));
    let shown = |world: &World| read(world.reader(), &MODEL.unit_status(web.unit)).map(|shown| shown.message);
    assert_eq!(shown(&older), Some(of_charm("restarting")));
    assert_eq!(report(&mut older, &again, run - 1, &[status(9, "late")]), Ok(vec![]));
    assert_eq!(shown(&older), Some(of_charm("restarting")));
}

/// 1. A failed hook is run again, and during that run the unit resyncs. 2. The run is abandoned because its relation
///    was removed. 3. The next hook succeeds. (sim 66111392)
#[test]
fn a_failure_whose_retry_was_abandoned_across_a_resync_is_over() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut web = Agent::attach(&mut world, "web/0");
    let mut older = world.copy();
    web.start(&mut world);
    let operation = Operation::Hook(Hook::UpdateStatus);
    let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    let record = web.record(operation.clone(), failed);
    web.commit(&mut world, record);
    let begins = |web: &mut Agent, operation, episode| {
        let run = Run::new(web.local.run + 1, operation, StartReason::IntervalPassed);
        web.local.apply(&Event::Started(Run { episode, ..run }));
    };
    let episode = web.local.episode().cloned();
    begins(&mut web, operation, episode);
    web.epoch = Agent::attach(&mut older, "web/0").epoch;
    let mut resync = web.record(Operation::Resync, Outcome::Ok);
    resync.resync_local = Some(Box::new(Local { outbox: Vec::new(), ..web.local.clone() }));
    web.commit(&mut older, resync);
    let unit = web.unit;
    let shown = |world: &World| read(world.reader(), &MODEL.agent_status(unit)).map(|shown| shown.status);
    assert_eq!(shown(&older), Some(AgentStatus::Error), "it is not over");
    let other = Operation::Hook(Hook::Start { boot: "another".into() });
    begins(&mut web, other.clone(), None);
    let record = web.record(other, Outcome::Ok);
    web.commit(&mut older, record);
    assert_eq!(shown(&older), Some(AgentStatus::Idle));
}

/// An agent chooses what it publishes, and each batch is a transaction of the controller's only writer.
#[test]
fn a_resync_of_many_relations_that_the_store_does_not_have_takes_few_transactions() {
    let mut world = World::new();
    let (id, web, _) = pair(&mut world);
    let own = world.number(id);
    let known = web.local.relations[&own].clone();
    let mut resync = web.record(Operation::Resync, Outcome::Ok);
    let mut published = Local { outbox: Vec::new(), ..web.local.clone() };
    for number in 1_000..2_000 {
        let unknown = RelationLocal { uuid: Uuid(u128::from(number)), ..known.clone() };
        published.relations.insert(number, unknown);
    }
    for number in 2_000..3_000 {
        published.relations.insert(number, known.clone());
    }
    resync.resync_local = Some(Box::new(published));
    let resync = Valid::record(resync).expect("a correct agent sends it");
    let (mut next, mut transactions, mut dropped) = (Some(ResyncProgress::default()), 0, 0);
    while let Some(position) = next {
        let batch = ResyncBatch { record: &resync, position: &position };
        let session = web.session();
        let applied = world.run(|draft, ids| resync::apply_batch(draft, session, batch, created(ids)));
        let (after, of_batch) = applied.expect("a batch is applied");
        (next, transactions, dropped) = (after, transactions + 1, dropped + of_batch.len());
    }
    assert_eq!(dropped, 2_000, "all but the own relation");
    // one leaves scopes, one is for the storage, one enters the own relation, and each other one examines 40 relations
    assert_eq!(transactions, 3 + 2_001_u32.div_ceil(40));
}

/// What is refused at the end is refused at the beginning: it would change scopes, and could be repeated at any time.
#[test]
fn no_batch_is_applied_of_a_resync_that_is_refused() {
    let mut world = World::new();
    let (_, web, _) = pair(&mut world);
    let mut resync = web.record(Operation::Resync, Outcome::Ok);
    resync.resync_local = Some(Box::new(Local { unit: Uuid(99), outbox: Vec::new(), ..web.local.clone() }));
    let resync = Valid::record(resync).expect("only the store shows what is wrong with it");
    let first = ResyncProgress::default();
    let batch = ResyncBatch { record: &resync, position: &first };
    let session = web.session();
    world
        .run(|draft, ids| resync::apply_batch(draft, session, batch, created(ids)))
        .expect_err("another unit");
}

/// A process with the token of a unit repeats what a unit sends after a restore, and a store can lose commits twice
/// without a new generation.
#[test]
fn a_unit_resynchronises_with_a_store_generation_at_most_once_in_an_interval() {
    let mut world = World::new();
    world.deploy("plain", "plain", 1);
    let mut agent = Agent::attach(&mut world, "plain/0");
    agent.start(&mut world);
    let resync = |agent: &mut Agent, world: &mut World, now_ms: i64| {
        let record = agent.resync();
        let sent = agent.send_at(world, &record, now_ms);
        if sent.is_ok() {
            let again = agent.send_at(world, &record, now_ms);
            assert_eq!(again, Ok(CommitOutcome::default()), "the answer was lost");
            agent.local.apply(&Event::Finished(record));
        }
        sent.map(drop).map_err(|refusal| *refusal.reason)
    };
    let too_soon = || Err(RefusalReason::from(RecordRefusal::ResyncRepeated { interval_ms: 600_000 }));
    let first_ms = 1_000_000;
    assert_eq!(resync(&mut agent, &mut world, first_ms), Ok(()));
    assert_eq!(resync(&mut agent, &mut world, first_ms + 599_999), too_soon());
    let second_ms = first_ms + 600_000;
    assert_eq!(
        resync(&mut agent, &mut world, second_ms),
        Ok(()),
        "the same generation has lost commits again"
    );
    agent.local.apply(&Event::Finished(agent.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok)));
    assert_eq!(resync(&mut agent, &mut world, second_ms + 1), too_soon());
    assert_eq!(resync(&mut agent, &mut world, second_ms - 599_999), too_soon(), "the clock was set back");
    assert_eq!(resync(&mut agent, &mut world, second_ms - 600_000), Ok(()), "far back");
    agent.attach_restored(&mut world);
    assert_eq!(
        resync(&mut agent, &mut world, second_ms - 599_999),
        Ok(()),
        "another generation lacks records"
    );
    assert_eq!(resync(&mut agent, &mut world, second_ms - 599_999), too_soon());
}
