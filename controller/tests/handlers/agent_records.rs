//! Tests the handlers by which a unit agent attaches, commits its records and resyncs (design 4).
//!
//! At most one session of a unit may write: an attach is refused while an older session is in use, and a fenced agent
//! can neither read nor write. A record is applied exactly once however often it arrives, and a record that cannot be
//! applied is shown to users until the unit commits another one.
//!
//! The transitions behind the handlers are tested in `state/src/tests/commits/`.

use crate::support::*;
use api::error::ErrorCode;
use api::{Attach, Claim, Commit, GetStatus, Handle, Report, Watch, WatchUnit};
use controller::store::Store;
use state::documents::draft::read;
use state::terms::names::Uuid;
use state::terms::operation::{Hook, Operation, RelationEvent};
use state::terms::refusal::record::RecordRefusal;
use state::terms::status_message::StatusMessage;
use state::unit::local::{Event, Local, RelationLocal};
use state::unit::record::{DroppedWrite, Outcome};

#[tokio::test]
async fn a_repeated_commit_is_applied_once_with_the_same_response() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let relation = fixture.integrate().await;
    let mut db = fixture.attach_agent("db/0").await;
    db.enter(relation, "server", "web").await;
    let record = db.settings_record(relation.0, "password", "x");
    let first = db.commit(record.clone()).await;
    let before = fixture.controller.store.newest_revision();
    let second = db.commit(record.clone()).await;
    assert_eq!(fixture.controller.store.newest_revision(), before, "nothing was written again");
    assert_eq!(first.answer, second.answer);
    let (model, unit) = (fixture.model, fixture.unit("db/0").await);
    let bag = fixture.controller.read(move |reader| read(reader, &model.bag(relation.1, unit))).await;
    assert_eq!(bag.expect("it exists").counter, 2, "entering with settings, and one write");

    let mut other = db.settings_record(relation.0, "password", "y");
    other.sequence = record.sequence;
    let forked = db.api.handle(Commit { epoch: db.epoch, record: other }).await.expect_err("another content");
    assert_eq!(forked.code, ErrorCode::Forked);
    let mut later = db.settings_record(relation.0, "password", "z");
    later.sequence += 1;
    let gap =
        db.api.handle(Commit { epoch: db.epoch, record: later }).await.expect_err("a record is missing");
    let missing =
        RecordRefusal::RecordsMissing { sequence: record.sequence + 2, expected: record.sequence + 1 };
    assert_eq!((gap.code, gap.reason), (ErrorCode::Gap, Some(Box::new(missing.into()))));
}

#[tokio::test]
async fn an_attach_is_repeatable_with_its_nonce_and_refused_with_another_while_the_session_is_in_use() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let old = fixture.attach_agent("web/0").await;
    let store_generation = Some(fixture.controller.store.store_generation());
    let attach = |nonce| Attach {
        nonce: Uuid(nonce),
        epoch: old.epoch,
        store_generation,
        teardown_started: false,
        boot: String::new(),
    };
    let mut watch =
        old.api.watch(WatchUnit { epoch: old.epoch, from: None }).await.expect("the stream opens");
    assert!(next_delta(&mut watch).await.full);
    let again = old.api.handle(attach(1)).await.expect("the response was lost");
    assert_eq!(again.answer.epoch, old.epoch);
    let concurrent = old.api.handle(attach(2)).await;
    assert_eq!(concurrent.expect_err("the session is in use").code, ErrorCode::Blocked);
    drop(watch);
    let new = Agent::attach(old.api.clone(), 2).await;
    assert_eq!(new.epoch, old.epoch + 1);
    let copy = old.api.handle(attach(3)).await.expect_err("the folder is a copy");

    let record = old.record(Operation::Hook(Hook::Install));
    let commit = old.api.handle(Commit { epoch: old.epoch, record }).await.expect_err("the agent is fenced");
    let report =
        Report { epoch: old.epoch, run: 1, reports: Vec::new(), executing: None, executing_for_ms: 0 };
    let report = old.api.handle(report).await.expect_err("the agent is fenced");
    let claim = old
        .api
        .handle(Claim { epoch: old.epoch, release: false, view: None })
        .await
        .expect_err("the agent is fenced");
    let reopened =
        old.api.watch(WatchUnit { epoch: old.epoch, from: None }).await.err().expect("the agent is fenced");
    for error in [copy, commit, report, claim, reopened] {
        assert_eq!(error.code, ErrorCode::Fenced, "{error}");
    }
}

#[tokio::test]
async fn a_resync_enters_the_scopes_that_the_store_lacks_and_drops_unknown_relations() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let (relation, id) = fixture.integrate().await;
    let mut web = fixture.attach_agent("web/0").await;
    let unit = fixture.unit("web/0").await;
    let mut local = Local::new(unit, "web/0".parse().expect("a unit"));
    let mut entered = web.record(Operation::Hook(Hook::UpdateStatus));
    entered.operation = web.enter_scope_operation((relation, id), "db", "db");
    local.apply(&Event::Finished(entered));
    local.apply(&Event::Acknowledged { sequence: 1, revision: 1, refusal: None, retry: None });
    local.sequence = 40;
    // the store contains only the first of many relations
    let unknown = RelationLocal { uuid: Uuid(404), ..local.relations[&relation].clone() };
    local.relations.extend((1000..1020).map(|number| (number, unknown.clone())));
    let mut resync = local.record(Operation::Resync, Outcome::Ok, 5);
    resync.resync_local = Some(Box::new(local));
    let dropped = web.commit(resync).await.answer.dropped;
    let number = |write: &DroppedWrite| match write {
        DroppedWrite::Entry { relation, .. } => Some(*relation),
        _ => None,
    };
    let numbers: Vec<_> = dropped.iter().filter_map(number).collect();
    assert_eq!(numbers, (1000..1020).collect::<Vec<_>>());
    let model = fixture.model;
    let scope =
        fixture.controller.read(move |reader| read(reader, &model.scope(id, Uuid(0), unit)).is_some()).await;
    assert!(scope, "it is in the relation's scope again");
}

#[tokio::test]
async fn a_record_that_cannot_be_applied_is_shown_until_another_one_is_applied() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let mut web = fixture.attach_agent("web/0").await;
    let workload = async || {
        let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
        let unit = status.applications["web"].units.values().next().expect("one unit").clone();
        (unit.workload.current.to_string(), unit.workload.message.clone())
    };
    let (relation, endpoint) = (9, "db".to_owned());
    let hook = Hook::Relation { relation, endpoint, event: RelationEvent::Broken };
    let record = web.record(Operation::Hook(hook));
    for _ in 0..2 {
        let commit = Commit { epoch: web.epoch, record: record.clone() };
        assert_eq!(web.api.handle(commit).await.expect_err("malformed").code, ErrorCode::Invalid);
    }
    let reason = Box::new(RecordRefusal::ScopeNeverEntered { relation: 9 }.into());
    let refused = StatusMessage::RecordRefused { sequence: 1, reason };
    assert_eq!(workload().await, ("error".to_owned(), refused));
    let record = web.record(Operation::Hook(Hook::UpdateStatus));
    web.commit(record).await;
    assert_ne!(workload().await.0, "error");
}
