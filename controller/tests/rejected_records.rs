//! An agent may ask to enter a relation again as soon as it is refused (issue 4, part 7). The controller bounds how
//! often: a refusal is answered late.

mod support;

use api::{Handle, SuspendRelation};
use controller::REFUSED_ENTRY_DELAY_MS;
use controller::store::Store;
use support::*;

/// Everybody who can go on does: one thread, and each of them waits for little.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_refused_entry_is_answered_late_and_one_that_is_granted_at_once() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    story.deploy("db", 1).await;
    let relation = story.integrate().await;
    let mut db = story.agent_of("db/0").await;
    db.enter(relation, "server", "web").await; // no time passes here: it was not made to wait
    story
        .admin
        .handle(SuspendRelation { relation: relation.0, message: "for a while".to_owned() })
        .await
        .expect("it may be");

    let mut web = story.agent_of("web/0").await;
    let before = revision_of(&story.controller).await.revision;
    let entry = web.record(web.entering(relation, "db", "db"));
    let answer = tokio::spawn(async move { web.commit(entry).await });
    story.controller.store.wait_past(before).await; // the record is applied
    settle().await;
    story.pass(REFUSED_ENTRY_DELAY_MS - 1);
    settle().await;
    assert!(!answer.is_finished(), "it would ask again at once");
    story.pass(1);
    assert!(answer.await.expect("it ends").refusal.is_some());
}
