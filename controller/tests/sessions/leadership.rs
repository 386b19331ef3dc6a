//! Leases of leaders: their length, restarts, and writes until the end of a lease.

use crate::support::*;
use api::{Claim, Handle};
use state::documents::draft::{Reader, read};
use state::documents::prelude::BagDoc;
use state::lifecycle::leadership::LEASE_MS;
use state::terms::settings::Bag;
use state::unit::record::CommitOutcome;

#[tokio::test]
async fn a_lease_expires_only_after_its_full_length_and_a_restart_counts_as_a_renewal() {
    let mut fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    let (a, b) = (fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await);
    let ask = Claim { epoch: 1, release: false };
    assert!(a.api.handle(ask.clone()).await.expect("the request succeeds").is_some(), "never led before");
    assert!(b.api.handle(ask.clone()).await.expect("the request succeeds").is_none());
    fixture.advance(LEASE_MS - 1);
    assert!(
        b.api.handle(ask.clone()).await.expect("the request succeeds").is_none(),
        "the lease is not over"
    );
    assert!(
        a.api.handle(ask.clone()).await.expect("the request succeeds").is_some(),
        "renewed at the last moment"
    );
    fixture.advance(LEASE_MS - 1);
    assert!(b.api.handle(ask.clone()).await.expect("the request succeeds").is_none());

    fixture.restart();
    let (a, b) = (fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await);
    fixture.advance(LEASE_MS - 1);
    assert!(
        b.api.handle(ask.clone()).await.expect("the request succeeds").is_none(),
        "one full lease since the start"
    );
    assert!(
        a.api.handle(ask.clone()).await.expect("the request succeeds").is_some(),
        "its holder renews at once"
    );
    fixture.advance(LEASE_MS);
    let taken = b.api.handle(ask.clone()).await.expect("the request succeeds");
    assert_eq!(taken.map(|lease| lease.generation), Some(2));
    assert!(a.api.handle(ask.clone()).await.expect("the request succeeds").is_none());
    b.api.handle(Claim { epoch: 1, release: true }).await.expect("the request succeeds");
    assert!(a.api.handle(ask).await.expect("the request succeeds").is_some(), "released: granted at once");
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
    let ask = Claim { epoch: 1, release: false };
    let granted = a.api.handle(ask.clone()).await.expect("the request succeeds").expect("nobody else leads");
    // the last moment at which `is-leader` returns true
    fixture.advance(LEASE_MS - 30_000);
    assert!(b.api.handle(ask.clone()).await.expect("the request succeeds").is_none());
    fixture.advance(29_000);
    assert!(b.api.handle(ask.clone()).await.expect("the request succeeds").is_none());
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
