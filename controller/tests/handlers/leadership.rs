//! Leases of leaders: their length, restarts, and writes until the end of a lease.

use crate::support::*;
use api::{Claim, Handle};
use controller::Controller;
use controller::environment::uuid_v4;
use controller::store::sqlite::{Options, Sqlite};
use state::documents::draft::{Draft, Reader, read};
use state::documents::prelude::BagDoc;
use state::lifecycle::leadership::LEASE_MS;
use state::terms::settings::Bag;
use state::unit::record::CommitOutcome;
use std::future::Future;

#[tokio::test]
async fn a_lease_expires_only_after_its_full_length_and_a_restart_counts_as_a_renewal() {
    let mut fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    let (a, b) = (fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await);
    let ask = Claim { epoch: 1, release: false, view: None };
    assert!(
        a.api.handle(ask.clone()).await.expect("the request succeeds").lease.is_some(),
        "never led before"
    );
    assert!(b.api.handle(ask.clone()).await.expect("the request succeeds").lease.is_none());
    fixture.advance(LEASE_MS - 1);
    assert!(
        b.api.handle(ask.clone()).await.expect("the request succeeds").lease.is_none(),
        "the lease is not over"
    );
    assert!(
        a.api.handle(ask.clone()).await.expect("the request succeeds").lease.is_some(),
        "renewed at the last moment"
    );
    fixture.advance(LEASE_MS - 1);
    assert!(b.api.handle(ask.clone()).await.expect("the request succeeds").lease.is_none());

    fixture.restart();
    let (a, b) = (fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await);
    fixture.advance(LEASE_MS - 1);
    assert!(
        b.api.handle(ask.clone()).await.expect("the request succeeds").lease.is_none(),
        "one full lease since the start"
    );
    assert!(
        a.api.handle(ask.clone()).await.expect("the request succeeds").lease.is_some(),
        "its holder renews at once"
    );
    fixture.advance(LEASE_MS);
    let taken = b.api.handle(ask.clone()).await.expect("the request succeeds");
    assert_eq!(taken.lease.map(|lease| lease.generation), Some(2));
    assert!(a.api.handle(ask.clone()).await.expect("the request succeeds").lease.is_none());
    b.api.handle(Claim { epoch: 1, release: true, view: None }).await.expect("the request succeeds");
    assert!(
        a.api.handle(ask).await.expect("the request succeeds").lease.is_some(),
        "released: granted at once"
    );
}

/// A controller over SQLite with the units web/0 and web/1, the folder of its store, and its clock.
async fn two_units_in_sqlite() -> (tempfile::TempDir, FakeEnvironment, Fixture<Sqlite, FakeEnvironment>) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Sqlite::open(folder.path(), Options::new(uuid_v4(77))).expect("a new store");
    let environment = FakeEnvironment::new();
    let fixture = Fixture::new(Controller::new(store, environment.clone(), uuid_v4(1))).await;
    fixture.deploy("web", 2).await;
    (folder, environment, fixture)
}

/// 1. B finds the lease of A expired; its transaction waits for the store. 2. The connection of B ends. 3. A renews.
/// 4. The transaction of B is committed: the grant of A must not be the one before it.
#[test]
fn a_claim_whose_connection_ends_lets_no_other_claim_pass_before_it_is_committed() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.build().expect("a runtime").block_on(async {
        let (_folder, environment, fixture) = two_units_in_sqlite().await;
        let (a, b) = (fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await);
        let ask = Claim { epoch: 1, release: false, view: None };
        for _ in 0..3 {
            // the later ones are answered without a write, the last one without a read
            assert!(a.api.handle(ask.clone()).await.expect("the request succeeds").lease.is_some());
        }
        environment.advance(LEASE_MS);

        let (open, gate) = std::sync::mpsc::channel::<()>();
        let gate = std::sync::Mutex::new(gate);
        let (controller, (started, start)) = (fixture.controller.clone(), tokio::sync::oneshot::channel());
        let started = std::sync::Mutex::new(Some(started));
        let busy = tokio::spawn(async move {
            let wait = move |_: &mut Draft<'_>| {
                started.lock().expect("one holder").take().map(|started| started.send(()));
                gate.lock().expect("one holder").recv().expect("the gate opens");
                Ok(())
            };
            controller.run(wait).await.map(|_| ())
        });
        start.await.expect("the writer waits at the gate");

        let claim = ask.clone();
        let taken_over = tokio::spawn(async move { b.api.handle(claim).await });
        end_of_reads(&fixture).await; // its transaction is in the queue of the store
        taken_over.abort();
        assert!(taken_over.await.expect_err("it waits for the store").is_cancelled());
        let renewed = tokio::spawn(async move { a.api.handle(ask).await });
        end_of_reads(&fixture).await;
        assert!(!renewed.is_finished(), "it waits for the transaction of B");
        open.send(()).expect("the writer waits");
        busy.await.expect("it does not panic").expect("it commits nothing");
        let granted = renewed.await.expect("it does not panic").expect("the request succeeds");
        assert_eq!(
            granted.lease.map(|lease| lease.generation),
            Some(3),
            "A leads after B's grant 2, not beside it"
        );
    });
}

/// Returns when each task that waited for reads has continued. When all reading threads of the store (`READERS` of its
/// `read_pool`) are in reads of this function, the reads before them have ended. The first poll of a task that was just
/// spawned comes before the first round, the two reads of a claim end in the first and the second.
async fn end_of_reads(fixture: &Fixture<Sqlite, FakeEnvironment>) {
    for _ in 0..3 {
        tokio::task::yield_now().await;
        let all_threads = std::sync::Arc::new(std::sync::Barrier::new(4));
        let read = || {
            let all_threads = all_threads.clone();
            fixture.controller.read(move |_| {
                all_threads.wait();
            })
        };
        tokio::join!(read(), read(), read(), read());
        tokio::task::yield_now().await;
    }
}

/// `is-leader` is true as long as the agent's lease is valid for 30 s more.
#[tokio::test]
async fn scenario_132_a_write_of_a_leader_29_s_after_is_leader_is_accepted() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    fixture.deploy("db", 1).await;
    let relation = fixture.integrate().await;
    let (mut a, b) = (fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await);
    a.enter(relation, "db", "db").await;
    let ask = Claim { epoch: 1, release: false, view: None };
    let claimed = a.api.handle(ask.clone()).await.expect("the request succeeds");
    let granted = claimed.lease.expect("nobody else leads");
    // the last moment at which `is-leader` returns true
    fixture.advance(LEASE_MS - 30_000);
    assert!(b.api.handle(ask.clone()).await.expect("the request succeeds").lease.is_none());
    fixture.advance(29_000);
    assert!(b.api.handle(ask.clone()).await.expect("the request succeeds").lease.is_none());
    let mut record = a.settings_record(relation.0, "a", "1");
    record.leader_generation = Some(granted.generation);
    let writes = record.writes.bags.get_mut(&relation.0).expect("it writes there");
    writes.application = std::mem::take(&mut writes.unit);
    let committed = a.commit(record).await;
    assert_eq!(committed.answer, CommitOutcome::default());
    let web = fixture.model.application_name("web");
    let model = fixture.model;
    let written = fixture.controller.read(move |reader: &dyn Reader| {
        let web = read(reader, &web).expect("it exists");
        read(reader, &model.bag(relation.1, web)).map(|bag: BagDoc| bag.values)
    });
    assert_eq!(written.await, Some(Bag::from([("a".to_owned(), "1".to_owned())])));
}

/// An idle agent repeats its claim every 15 s. As long as nothing is committed, this costs the store nothing.
#[test]
fn a_repeated_claim_is_answered_without_the_store() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.build().expect("a runtime").block_on(async {
        let (_folder, environment, fixture) = two_units_in_sqlite().await;
        let (a, b) = (fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await);
        let ask = Claim { epoch: 1, release: false, view: None };
        let at_once = |agent: &Agent<controller::AuthenticatedCaller<Sqlite, FakeEnvironment>>| {
            let claim = std::pin::pin!(agent.api.handle(ask.clone()));
            match claim.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
                std::task::Poll::Ready(granted) => {
                    Some(granted.expect("the request succeeds").lease.is_some())
                }
                std::task::Poll::Pending => None,
            }
        };
        for (agent, leads) in [(&a, true), (&b, false)] {
            for _ in 0..2 {
                let granted = agent.api.handle(ask.clone()).await.expect("the request succeeds");
                assert_eq!(granted.lease.is_some(), leads);
            }
        }
        assert_eq!((at_once(&a), at_once(&b)), (Some(true), Some(false)));
        environment.advance(LEASE_MS);
        assert_eq!(at_once(&b), None, "the lease has expired: B takes it over, in a transaction");
    });
}
