//! The stream of a unit agent: which changes it receives, and from which position it resumes.

use crate::support::*;
use api::error::ErrorCode;
use api::{Claim, Handle, Stream, UnitWatchEvent, Watch, WatchUnit};
use controller::store::Store;
use state::documents::draft::Draft;
use state::terms::force::Force;
use state::terms::names::Uuid;
use state::terms::owner::Owner;
use state::terms::position::Position;
use state::terms::refusal::session::SessionRefusal;
use state::transitions::force;
use state::unit::snapshot::Change;
use std::fmt::Debug;
use std::future::Future;
use std::pin::{Pin, pin};

#[tokio::test]
async fn a_committed_setting_is_sent_to_the_counterpart_and_nothing_else() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let relation = fixture.integrate().await;
    let (mut web, mut db) = (fixture.attach_agent("web/0").await, fixture.attach_agent("db/0").await);
    web.enter(relation, "db", "db").await;
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: None }).await.expect("the stream opens");
    let whole = next_delta(&mut watch).await;
    assert!(whole.full);
    assert_eq!(whole.position.store_generation, fixture.controller.store.store_generation());
    db.enter(relation, "server", "web").await;
    let entered = next_delta(&mut watch).await;
    assert!(!entered.full);
    let joined = |change: &Change| matches!(change, Change::Member { unit, incarnation: Some(_), .. } if unit.to_string() == "db/0");
    assert!(entered.changes.iter().any(joined), "{:?}", entered.changes);
    let record = db.settings_record(relation.0, "password", "x");
    let committed = db.commit(record).await;
    let set = next_delta(&mut watch).await;
    assert_eq!(set.position.revision, committed.revision);
    let [Change::Bag { owner: Owner::Unit(owner), bag: Some(bag), .. }] = &set.changes[..] else {
        panic!("one bag and nothing else: {:?}", set.changes)
    };
    let values = bag.values.as_ref().expect("the values are inlined");
    assert_eq!((owner.to_string().as_str(), values["password"].as_str()), ("db/0", "x"));
}

/// A delta for each of them would read the documents at ten revisions, and the streams of a busy controller fall behind.
#[tokio::test]
async fn ten_changes_while_disconnected_are_one_delta_after_the_reconnect() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let relation = fixture.integrate().await;
    let (web, mut db) = (fixture.attach_agent("web/0").await, fixture.attach_agent("db/0").await);
    db.enter(relation, "server", "web").await;
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: None }).await.expect("the stream opens");
    let position = next_delta(&mut watch).await.position;
    drop(watch);
    let mut last = 0;
    for n in 0..10 {
        let record = db.settings_record(relation.0, "n", &n.to_string());
        last = db.commit(record).await.revision;
    }
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: Some(position) }).await.expect("the stream opens");
    let next = next_delta(&mut watch).await;
    assert!(!next.full && next.position.revision == last, "{next:?}");
    let [Change::Bag { bag: Some(bag), .. }] = &next.changes[..] else { panic!("{:?}", next.changes) };
    assert_eq!(bag.values.as_ref().expect("the values are inlined")["n"], "9");
    fixture.advance(api::HEARTBEAT_MS);
    assert!(matches!(watch.next().await, Ok(UnitWatchEvent::Heartbeat(_))), "nothing else is left");
}

#[tokio::test]
async fn a_position_of_another_store_generation_gets_a_full_view() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let elsewhere = Position { store_generation: Uuid(5), revision: 1 };
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: Some(elsewhere) }).await.expect("the stream opens");
    assert!(next_delta(&mut watch).await.full);
}

#[tokio::test]
async fn unrelated_changes_are_not_sent_and_a_heartbeat_has_the_position() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: None }).await.expect("the stream opens");
    next_delta(&mut watch).await;
    fixture.deploy("db", 3).await;
    let newest = newest_position(&fixture.controller).await;
    let next = async { watch.next().await.expect("the stream continues") };
    let pass = async { fixture.advance(api::HEARTBEAT_MS) };
    let (shown, ()) = tokio::join!(next, pass);
    let UnitWatchEvent::Heartbeat(position) = shown else { panic!("{shown:?}") };
    assert!(position <= newest);
    fixture.advance(api::HEARTBEAT_MS);
    assert_eq!(watch.next().await, Ok(UnitWatchEvent::Heartbeat(newest)));
}

#[tokio::test]
async fn the_stream_of_a_unit_that_is_removed_by_force_is_refused_for_that_reason() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let (model, unit) = (fixture.model, fixture.unit("web/0").await);
    let force =
        move |draft: &mut Draft<'_>| force::destroy_unit(draft, model, unit, Force::AtOnce, 1).map(drop);
    fixture.controller.run(force).await.expect("the forced removal is accepted");
    // The first batch only fences the agent.
    let fence = move |draft: &mut Draft<'_>| force::force_batch(draft, model, unit, 1).map(drop);
    fixture.controller.run(fence).await.expect("it is due");
    let refused =
        web.api.watch(WatchUnit { epoch: web.epoch, from: None }).await.err().expect("it is fenced");
    let reason = api::text::refusal::message(&SessionRefusal::RemovedByForce.into());
    assert_eq!((refused.code, refused.message), (ErrorCode::Fenced, reason));
}

/// 1. The agent of web/0 is idle: its claims confirm its view, and its watch sends no heartbeat.
/// 2. A change of another application is confirmed as well.
/// 3. A delta is sent, which the agent does not receive: nothing is confirmed until it has it.
/// 4. Its claims end. The watch sends a heartbeat again.
#[tokio::test]
async fn a_claim_confirms_the_view_instead_of_a_heartbeat() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let claim = async |view: Position| {
        let claim = Claim { epoch: web.epoch, release: false, view: Some(view) };
        web.api.handle(claim).await.expect("the request succeeds").current_to
    };
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: None }).await.expect("the stream opens");
    assert_eq!(claim(newest_position(&fixture.controller).await).await, None, "no view was sent");
    let mut view = next_delta(&mut watch).await.position;
    assert_eq!(view, newest_position(&fixture.controller).await, "the grant of the claim is in it");
    {
        let mut next = pin!(watch.next());
        for _ in 0..8 {
            fixture.advance(api::PRESENCE_INTERVAL_MS);
            assert_eq!(before(next.as_mut(), claim(view)).await, Some(view), "no heartbeat");
        }
        before(next.as_mut(), fixture.deploy("db", 1)).await;
        let unrelated = newest_position(&fixture.controller).await;
        assert!(unrelated > view);
        assert_eq!(before(next.as_mut(), claim(view)).await, Some(unrelated));
        view = unrelated;
        fixture.advance(api::HEARTBEAT_MS);
        assert_eq!(next.await, Ok(UnitWatchEvent::Heartbeat(view)), "its agent has sent no claim");
    }
    fixture.integrate().await;
    let sent = next_delta(&mut watch).await.position;
    assert_eq!(before(pin!(watch.next()), claim(view)).await, None);
    assert!(before(pin!(watch.next()), claim(sent)).await.is_some_and(|current_to| current_to >= sent));
    drop(watch);
    assert_eq!(claim(sent).await, None, "there is no watch");
}

/// Returns what `other` does; the stream is polled meanwhile, and sends nothing.
async fn before<T>(next: Pin<&mut impl Future<Output: Debug>>, other: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        done = other => done,
        event = next => panic!("{event:?}"),
    }
}
