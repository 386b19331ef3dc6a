//! A refused scope entry is answered with a delay, because an agent may repeat it immediately (issue 4, part 7).

mod support;

use api::{Handle, SuspendRelation};
use controller::REFUSED_ENTRY_DELAY_MS;
use controller::store::Store;
use support::*;

/// Lets all other tasks of the single-threaded runtime run until they wait.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_refused_scope_entry_is_delayed_and_an_accepted_one_is_not() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let relation = fixture.integrate().await;
    let mut db = fixture.attach_agent("db/0").await;
    db.enter(relation, "server", "web").await; // no time passes here: it was not made to wait
    fixture
        .admin
        .handle(SuspendRelation { relation: relation.0, message: "for a while".to_owned() })
        .await
        .expect("the relation can be suspended");

    let mut web = fixture.attach_agent("web/0").await;
    let before = newest_position(&fixture.controller).await.revision;
    let entry = web.record(web.enter_scope_operation(relation, "db", "db"));
    let answer = tokio::spawn(async move { web.commit(entry).await });
    fixture.controller.store.wait_past(before).await; // the record is applied
    settle().await;
    fixture.advance(REFUSED_ENTRY_DELAY_MS - 1);
    settle().await;
    assert!(!answer.is_finished(), "the response is delayed");
    fixture.advance(1);
    assert!(answer.await.expect("it ends").answer.refusal.is_some());
}
