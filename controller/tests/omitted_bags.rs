//! Settings beyond the limit of design 9 are omitted from the view and fetched on demand.

mod support;

use api::{Deploy, Handle, Watch, WatchUnit};
use controller::Controller;
use state::documents::prelude::TokenHolder;
use state::terms::names::{UnitName, Uuid};
use state::terms::owner::Owner;
use state::terms::position::Position;
use state::terms::settings::Bag;
use state::unit::relation_view::BagRequest;
use state::unit::snapshot::{Change, Delta, Snapshot};
use state::views::inline_settings;
use support::*;
use test_support::memory_store::MemoryStore;

/// Bytes of one bag: three of them exceed the limit.
const LARGE_BAG_BYTES: usize = 480 << 10;
/// Revisions in the change log.
const CHANGES_KEPT: u64 = 10;
/// More than a view has without its settings: a charm's declarations, relations, members and statuses.
const VIEW_OVERHEAD_BYTES: usize = 8 << 10;

fn db(number: u32) -> Owner {
    Owner::Unit(UnitName::new("db", number))
}

fn bytes(delta: &Delta) -> usize {
    serde_json::to_vec(delta).expect("plain data").len()
}

fn bag_request((_, relation): (u32, Uuid), owner: Owner, position: Position) -> BagRequest {
    BagRequest { relation, owner, position }
}

fn omitted(view: &Snapshot, relation: u32) -> Vec<Owner> {
    let bags = view.relations[&relation].bags.iter();
    bags.filter(|(_, bag)| bag.values.is_none()).map(|(owner, _)| owner.clone()).collect()
}

#[tokio::test]
async fn a_view_is_bounded_however_large_the_settings_and_the_rest_is_fetched() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 3).await;
    let relation = fixture.integrate().await;
    let mut web = fixture.attach_agent("web/0").await;
    web.enter(relation, "db", "db").await;
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: None }).await.expect("the stream opens");
    let mut view = Snapshot::from_full(next_delta(&mut watch).await).expect("the view is full");
    for number in 0..3 {
        let mut db = fixture.attach_agent(&format!("db/{number}")).await;
        db.enter(relation, "server", "web").await;
        view.apply(next_delta(&mut watch).await);
        let record = db.settings_record(relation.0, "key", &"x".repeat(LARGE_BAG_BYTES));
        db.commit(record).await;
        let sent = next_delta(&mut watch).await;
        assert!(bytes(&sent) <= LARGE_BAG_BYTES + VIEW_OVERHEAD_BYTES, "{} bytes for one bag", bytes(&sent));
        view.apply(sent);
    }
    let mut again =
        web.api.watch(WatchUnit { epoch: web.epoch, from: None }).await.expect("the stream opens");
    let sent = next_delta(&mut again).await;
    assert!(
        bytes(&sent) <= inline_settings::INLINE_BYTES_MAX + VIEW_OVERHEAD_BYTES,
        "{} bytes",
        bytes(&sent)
    );
    let mut full_view = Snapshot::from_full(sent).expect("the view is full");
    full_view.position = view.position;
    assert_eq!(view, full_view, "the deltas add up to the full view");
    let omitted = omitted(&view, relation.0);
    assert!(!omitted.is_empty() && omitted.len() < 3, "{omitted:?}");
    for owner in omitted {
        let bag = web
            .api
            .handle(bag_request(relation, owner.clone(), view.position))
            .await
            .expect("the request succeeds");
        let bag = bag.expect("it exists");
        assert_eq!(bag.values.as_ref().map(|values| values["key"].len()), Some(LARGE_BAG_BYTES));
        assert_eq!(bag.counter, view.relations[&relation.0].bag(&owner).expect("shown").counter);
        assert!(view.keep_fetched(bag_request(relation, owner.clone(), view.position), bag));
        assert!(view.values(relation.0, &owner).is_some());
    }
}

#[tokio::test]
async fn a_bag_is_fetched_as_of_the_requested_position_or_else_the_newest() {
    let store = MemoryStore::with_changes_kept(Uuid(77), CHANGES_KEPT);
    let fixture = Fixture::new(Controller::new(store, FakeEnvironment::new(), Uuid(1))).await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let relation = fixture.integrate().await;
    let (mut web, mut db_0) = (fixture.attach_agent("web/0").await, fixture.attach_agent("db/0").await);
    web.enter(relation, "db", "db").await;
    db_0.enter(relation, "server", "web").await;
    let record = db_0.settings_record(relation.0, "key", "old");
    db_0.commit(record).await;
    let then = newest_position(&fixture.controller).await;
    let record = db_0.settings_record(relation.0, "key", "new");
    db_0.commit(record).await;
    let reader = fixture
        .controller
        .caller(TokenHolder::Unit { model: fixture.model, unit: fixture.unit("web/0").await });
    let key = async |at| {
        let bag = reader
            .handle(bag_request(relation, db(0), at))
            .await
            .expect("the request succeeds")
            .expect("it exists");
        let values: Bag = bag.values.expect("a fetched bag has its values");
        (bag.counter, values["key"].clone())
    };
    assert_eq!(key(then).await, (2, "old".to_owned()));
    assert_eq!(key(newest_position(&fixture.controller).await).await, (3, "new".to_owned()));
    assert_eq!(
        key(Position { store_generation: Uuid(4), ..then }).await,
        (3, "new".to_owned()),
        "another generation"
    );
    for n in 0..CHANGES_KEPT {
        let record = web.settings_record(relation.0, "n", &n.to_string());
        web.commit(record).await;
    }
    assert_eq!(key(then).await, (3, "new".to_owned()), "the change log no longer contains that position");
}

#[tokio::test]
async fn a_unit_cannot_fetch_a_bag_of_a_relation_of_other_applications() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    fixture.deploy("db", 1).await;
    let application = Some("other".to_owned());
    let other = Deploy { application, sha256: "web".to_owned(), units: 1, ..Deploy::default() };
    fixture.admin.handle(other).await.expect("it deploys");
    let relation = fixture.integrate().await;
    let mut web = fixture.attach_agent("web/0").await;
    web.enter(relation, "db", "db").await;
    let at = newest_position(&fixture.controller).await;
    let of_web = || bag_request(relation, Owner::Unit(UnitName::new("web", 0)), at);
    // in Juju, units of one application read each other's settings in every relation
    for (unit, sees) in [("db/0", true), ("web/0", true), ("web/1", true), ("other/0", false)] {
        let reader = fixture
            .controller
            .caller(TokenHolder::Unit { model: fixture.model, unit: fixture.unit(unit).await });
        assert_eq!(reader.handle(of_web()).await.expect("the request succeeds").is_some(), sees);
    }
    let nowhere = BagRequest { relation: Uuid(99), ..of_web() };
    assert_eq!(web.api.handle(nowhere).await, Ok(None));
}

/// A change of an inlined bag is sent with its values.
#[tokio::test]
async fn settings_within_the_limit_are_inlined_completely() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let relation = fixture.integrate().await;
    let (mut web, mut db) = (fixture.attach_agent("web/0").await, fixture.attach_agent("db/0").await);
    web.enter(relation, "db", "db").await;
    db.enter(relation, "server", "web").await;
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: None }).await.expect("the stream opens");
    assert_eq!(
        omitted(&Snapshot::from_full(next_delta(&mut watch).await).expect("the view is full"), relation.0),
        Vec::<Owner>::new()
    );
    let record = db.settings_record(relation.0, "key", &"x".repeat(LARGE_BAG_BYTES));
    db.commit(record).await;
    let sent = next_delta(&mut watch).await;
    let [Change::Bag { bag: Some(bag), .. }] = &sent.changes[..] else { panic!("one bag and nothing else") };
    assert!(bag.values.is_some());
}
