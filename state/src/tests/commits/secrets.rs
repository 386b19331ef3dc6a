//! Secrets: who reads and changes them, and which hooks are due.

use crate::agents::record_validation::Valid;
use crate::agents::secret_read::{self, ReadableSecret, SecretRead};
use crate::documents::key::Kind;
use crate::documents::prelude::{ConsumedSecretsDoc, SecretDoc};
use crate::lifecycle::{cleanup, leadership, user_secret};
use crate::terms::force::Force;
use crate::terms::refusal::secret::SecretRefusal;
use crate::terms::secret::{RotatePolicy, SecretEvent, SecretId, SecretOwnerKind};
use crate::tests::commits::fixture::hook;
use crate::tests::force::fixture::{NOW, force_unit, sweep};
use crate::tests::relations::pair;
use crate::tests::*;
use crate::transitions::due_secrets;
use crate::transitions::force_timer::GRACE_MS;
use crate::unit::secrets::{AccessChange, ConsumedSecretView, SecretRemoval, SecretWrite};

pub(super) fn id() -> SecretId {
    SecretId::from_bits(1 << 90)
}

pub(super) fn sealed(text: &str) -> SecretWrite {
    SecretWrite { sealed: Some(text.to_owned()), ..SecretWrite::default() }
}

pub(super) fn write(world: &mut World, agent: &mut Agent, write: SecretWrite) -> CommitOutcome {
    let mut record = hook(agent);
    record.writes.secrets.insert(id(), write);
    agent.commit(world, record)
}

pub(super) fn read_secret(
    world: &mut World,
    agent: &Agent,
    request: &SecretRead,
) -> Result<ReadableSecret, Refusal> {
    world.run(|draft, _| secret_read::consume(draft, agent.session(), request))
}

pub(super) fn by_id(peek: bool, refresh: bool) -> SecretRead {
    SecretRead { id: Some(id()), label: None, peek, refresh }
}

pub(super) fn refusal(answer: Result<ReadableSecret, Refusal>) -> RefusalReason {
    *answer.expect_err("it is refused").reason
}

#[test]
fn a_secret_is_read_after_its_grant_and_while_the_relation_exists() {
    let mut world = World::new();
    let (relation, mut web, db) = pair(&mut world);
    let number = world.number(relation);
    assert_eq!(
        refusal(read_secret(&mut world, &db, &by_id(false, false))),
        SecretRefusal::NotFound { name: id().to_string() }.into()
    );
    let create = SecretWrite { created: Some(SecretOwnerKind::Unit), ..sealed("one") };
    assert_eq!(write(&mut world, &mut web, create), CommitOutcome::default());
    assert_eq!(
        refusal(read_secret(&mut world, &db, &by_id(false, false))),
        SecretRefusal::PermissionDenied.into()
    );
    let access = vec![AccessChange::Grant { relation: number, application: "db".to_owned(), unit: None }];
    write(&mut world, &mut web, SecretWrite { access, ..SecretWrite::default() });
    let first = read_secret(&mut world, &db, &by_id(false, false)).expect("it is granted");
    assert_eq!((first.revision, first.content.sealed.as_str()), (1, "one"));
    write(&mut world, &mut web, sealed("two"));
    let revision = |world: &mut World, peek, refresh| {
        read_secret(world, &db, &by_id(peek, refresh)).expect("it is granted").revision
    };
    assert_eq!(revision(&mut world, false, false), 1, "the first read has fixed it");
    assert_eq!(revision(&mut world, true, false), 2);
    assert_eq!(revision(&mut world, false, false), 1);
    assert_eq!(revision(&mut world, false, true), 2);
    assert_eq!(revision(&mut world, false, false), 2);
    let access = vec![AccessChange::Revoke { relation: Some(number), application: None, unit: None }];
    write(&mut world, &mut web, SecretWrite { access, ..SecretWrite::default() });
    assert_eq!(
        refusal(read_secret(&mut world, &db, &by_id(false, false))),
        SecretRefusal::PermissionDenied.into()
    );
    write(&mut world, &mut web, SecretWrite { removed: Some(SecretRemoval::All), ..SecretWrite::default() });
    assert_eq!(
        refusal(read_secret(&mut world, &db, &by_id(false, false))),
        SecretRefusal::NotFound { name: id().to_string() }.into()
    );
    let dropped = write(&mut world, &mut web, sealed("three")).dropped;
    assert_eq!(dropped, [DroppedWrite::RemovedSecret { secret: id() }]);
}

#[test]
fn only_the_leader_changes_a_secret_of_its_application() {
    let mut world = World::new();
    let (_, mut web, _) = pair(&mut world);
    let create = || SecretWrite { created: Some(SecretOwnerKind::Application), ..sealed("one") };
    let refused = write(&mut world, &mut web, create()).refusal;
    assert_eq!(refused, Some(SecretRefusal::NotLeader { unit: UnitName::new("web", 0) }.into()));
    assert_eq!(read::<SecretDoc>(world.reader(), &MODEL.secret(id())), None);
}

#[test]
fn a_rotation_is_due_once_for_each_interval() {
    let mut world = World::new();
    let (_, mut web, _) = pair(&mut world);
    let rotate = Some(RotatePolicy::Hourly);
    write(
        &mut world,
        &mut web,
        SecretWrite { created: Some(SecretOwnerKind::Unit), rotate, ..sealed("one") },
    );
    let doc = |world: &World| read::<SecretDoc>(world.reader(), &MODEL.secret(id())).expect("it exists");
    let at_ms = doc(&world).rotate_at_ms.expect("it is rotated");
    let mark = |world: &mut World, now_ms| {
        world.run(|draft, _| Ok(due_secrets::mark_due(draft, MODEL, now_ms))).expect("it is allowed")
    };
    assert!(!mark(&mut world, at_ms - 1) && !doc(&world).rotation_due);
    assert!(!mark(&mut world, at_ms) && doc(&world).rotation_due);
    let operation = Operation::Hook(Hook::Secret {
        secret: id(),
        label: String::new(),
        revision: 1,
        event: SecretEvent::Rotate,
        leader_only: false,
    });
    let hour_ms = 3_600_000;
    let ended = |world: &mut World, web: &mut Agent, ended_ms, content: Option<&str>| {
        let mut record = Record { at_ms: ended_ms, ..web.record(operation.clone(), Outcome::Ok) };
        record.writes.secrets.extend(content.map(|content| (id(), sealed(content))));
        let (session, sent) =
            (web.session(), Valid::record(record.clone()).expect("a correct agent sends it"));
        let committed = world.run(|draft, ids| {
            let creation = Creation { now_ms: ended_ms, ids };
            record_commit::commit(draft, session, &sent, None, LogLines::ALL, creation)
        });
        assert_eq!(committed, Ok(CommitOutcome::default()));
        let sequence = record.sequence;
        web.local.apply(&Event::Finished(record));
        web.local.apply(&Event::Acknowledged { sequence, revision: 0, refusal: None, retry: None });
        assert!(!doc(world).rotation_due);
        doc(world).rotate_at_ms.expect("it is rotated again")
    };
    let rotated = |world: &mut World, web: &mut Agent, ended_ms| ended(world, web, ended_ms, Some("next"));
    // the charm could not rotate it, for example because a relation was missing
    let again_ms = ended(&mut world, &mut web, at_ms + 1_000, None);
    assert_eq!(again_ms, at_ms + 1_000 + 300_000);
    mark(&mut world, again_ms);
    let next_ms = rotated(&mut world, &mut web, again_ms + 1_000);
    assert_eq!(next_ms, again_ms + 1_000 + hour_ms);
    assert_eq!(rotated(&mut world, &mut web, 1), next_ms, "a hook that was not due changes nothing");
    // the controller was away for a day, and its clock is wrong
    for (ended_ms, intervals) in [(-(1 << 53), 1), (1 << 53, 2)] {
        let found_ms = doc(&world).rotate_at_ms.expect("it is rotated") + 24 * hour_ms;
        mark(&mut world, found_ms);
        assert_eq!(rotated(&mut world, &mut web, ended_ms), found_ms + intervals * hour_ms);
    }
}

#[test]
fn secret_expired_runs_again_until_the_revision_is_removed() {
    let mut world = World::new();
    let (_, mut web, _) = pair(&mut world);
    let created = Some(SecretOwnerKind::Unit);
    write(&mut world, &mut web, SecretWrite { created, expire_at_ms: Some(10_000), ..sealed("one") });
    write(&mut world, &mut web, sealed("two"));
    let is_shown = |world: &World| {
        let view = view::full_view(world.reader(), MODEL, web.unit).expect("the unit exists");
        let view = Snapshot::from_full(view.delta).expect("a full view is complete");
        view.secrets[&id()].owned.as_ref().is_some_and(|owned| !owned.expired.is_empty())
    };
    let mark = |world: &mut World, now_ms| {
        world.run(|draft, _| Ok(due_secrets::mark_due(draft, MODEL, now_ms))).expect("it is allowed")
    };
    mark(&mut world, 10_000);
    assert!(is_shown(&world));
    let (secret, label, revision) = (id(), String::new(), 2);
    let event = SecretEvent::Expired;
    let operation = Operation::Hook(Hook::Secret { secret, label, revision, event, leader_only: false });
    let record = web.record(operation.clone(), Outcome::Ok);
    let sent = Valid::record(record).expect("a correct agent sends it");
    let committed = world.run(|draft, ids| {
        let creation = Creation { now_ms: 20_000, ids };
        record_commit::commit(draft, web.session(), &sent, None, LogLines::ALL, creation)
    });
    assert_eq!(committed, Ok(CommitOutcome::default()));
    assert!(!is_shown(&world));
    mark(&mut world, 319_999);
    assert!(!is_shown(&world), "five minutes have not passed");
    mark(&mut world, 320_000);
    assert!(is_shown(&world));
}

#[test]
fn a_hook_reads_the_number_that_its_new_revision_gets() {
    let mut world = World::new();
    let (_, mut web, _) = pair(&mut world);
    write(&mut world, &mut web, SecretWrite { created: Some(SecretOwnerKind::Unit), ..sealed("one") });
    write(&mut world, &mut web, sealed("two"));
    let removed = Some(SecretRemoval::Revisions([2].into()));
    write(&mut world, &mut web, SecretWrite { removed, ..SecretWrite::default() });
    let view = view::full_view(world.reader(), MODEL, web.unit).expect("the unit exists");
    let view = Snapshot::from_full(view.delta).expect("a full view is complete");
    let secret = view.secrets[&id()].owned.as_ref().expect("it owns it").secret.clone();
    let mut context = hook_context::context();
    context.secrets = BTreeMap::from([(id(), secret)]);
    assert_eq!(context.own_secret(id()).map(|secret| secret.revision), Some(1));
    context.write_secret(id(), sealed("three")).expect("it is short");
    assert_eq!(context.own_secret(id()).map(|secret| secret.revision), Some(3), "2 is not used again");
    write(&mut world, &mut web, sealed("three"));
    let stored = read::<SecretDoc>(world.reader(), &MODEL.secret(id())).expect("it exists");
    assert_eq!(stored.newest(), 3);
}

#[test]
fn a_unit_that_does_not_lead_ends_no_secret_hook_of_its_application() {
    let mut world = World::new();
    let (_, mut web, _) = pair(&mut world);
    world.run(|draft, _| leadership::claim(draft, MODEL, web.unit, false)).expect("nobody leads");
    let rotate = Some(RotatePolicy::Hourly);
    let created = Some(SecretOwnerKind::Application);
    write(&mut world, &mut web, SecretWrite { created, rotate, ..sealed("one") });
    let doc = |world: &World| read::<SecretDoc>(world.reader(), &MODEL.secret(id())).expect("it exists");
    let at_ms = doc(&world).rotate_at_ms.expect("it is rotated");
    world.run(|draft, _| Ok(due_secrets::mark_due(draft, MODEL, at_ms))).expect("it is allowed");
    let app = read(world.reader(), &MODEL.application_name("web")).expect("the application exists");
    let lose = |draft: &mut Draft, _: &mut dyn FnMut() -> Uuid| {
        draft.remove(&MODEL.leader(app));
        Ok(())
    };
    world.run(lose).expect("it is allowed");
    let operation = Operation::Hook(Hook::Secret {
        secret: id(),
        label: String::new(),
        revision: 1,
        event: SecretEvent::Rotate,
        leader_only: true,
    });
    let record = web.record(operation, Outcome::Ok);
    assert_eq!(web.commit(&mut world, record), CommitOutcome::default());
    assert!(doc(&world).rotation_due, "its leader runs the hook");
}

#[test]
fn the_end_of_a_relation_revokes_what_was_granted_in_it() {
    let mut world = World::new();
    let (relation, mut web, mut db) = pair(&mut world);
    let number = world.number(relation);
    let access = vec![AccessChange::Grant { relation: number, application: "db".to_owned(), unit: None }];
    write(
        &mut world,
        &mut web,
        SecretWrite { created: Some(SecretOwnerKind::Unit), access, ..sealed("one") },
    );
    assert!(read_secret(&mut world, &db, &by_id(false, false)).is_ok());
    world
        .run(|draft, _| crate::lifecycle::relation::destroy(draft, MODEL, relation))
        .expect("it is destroyed");
    for agent in [&mut web, &mut db] {
        agent.leave_by_broken(&mut world, relation);
    }
    assert!(world.is_removed(relation), "nobody is in its scope");
    assert_eq!(
        refusal(read_secret(&mut world, &db, &by_id(false, false))),
        SecretRefusal::PermissionDenied.into()
    );
    assert_eq!(consumed(&world, db.unit), None, "the view shows nothing of it");
}

fn view_of(world: &World, unit: Uuid) -> Snapshot {
    Snapshot::from_full(view::full_view(world.reader(), MODEL, unit).expect("the unit exists").delta)
        .expect("it is whole")
}

fn consumed(world: &World, unit: Uuid) -> Option<ConsumedSecretView> {
    view_of(world, unit).secrets.get(&id())?.consumed.clone()
}

#[test]
fn secret_changed_is_due_once_for_the_newest_revision() {
    let mut world = World::new();
    let (relation, mut web, mut db) = pair(&mut world);
    let number = world.number(relation);
    let access = vec![AccessChange::Grant { relation: number, application: "db".to_owned(), unit: None }];
    write(
        &mut world,
        &mut web,
        SecretWrite { created: Some(SecretOwnerKind::Unit), access, ..sealed("one") },
    );
    read_secret(&mut world, &db, &by_id(false, false)).expect("it is granted");
    let changed = |world: &World, unit| consumed(world, unit).map(|shown| (shown.latest, shown.changed));
    assert_eq!(changed(&world, db.unit), Some((1, false)));
    write(&mut world, &mut web, sealed("two"));
    write(&mut world, &mut web, sealed("three"));
    assert_eq!(changed(&world, db.unit), Some((3, true)), "only the newest one is reported");
    let hook = Operation::Hook(Hook::Secret {
        secret: id(),
        label: String::new(),
        revision: 3,
        event: SecretEvent::Changed,
        leader_only: false,
    });
    let record = db.record(hook, Outcome::Ok);
    db.commit(&mut world, record);
    assert_eq!(changed(&world, db.unit), Some((3, false)), "it has run, whatever revision the unit reads");
    write(&mut world, &mut web, sealed("four"));
    assert_eq!(changed(&world, db.unit), Some((4, true)));
    read_secret(&mut world, &db, &by_id(false, true)).expect("it is granted");
    assert_eq!(changed(&world, db.unit), Some((4, false)), "the unit reads the newest one");
}

/// The fixture compares the fold of the deltas with the full view after each write.
#[test]
fn a_secret_that_is_granted_again_is_in_the_view_of_its_earlier_reader() {
    let mut world = World::new();
    let (relation, mut web, db) = pair(&mut world);
    let number = world.number(relation);
    let grant = || vec![AccessChange::Grant { relation: number, application: "db".to_owned(), unit: None }];
    let create = SecretWrite { created: Some(SecretOwnerKind::Unit), access: grant(), ..sealed("one") };
    write(&mut world, &mut web, create);
    read_secret(&mut world, &db, &by_id(false, false)).expect("it is granted");
    let access = vec![AccessChange::Revoke { relation: Some(number), application: None, unit: None }];
    write(&mut world, &mut web, SecretWrite { access, ..sealed("two") });
    assert_eq!(consumed(&world, db.unit), None, "its grant is revoked");
    write(&mut world, &mut web, SecretWrite { access: grant(), ..SecretWrite::default() });
    let shown = consumed(&world, db.unit).expect("it is granted again");
    assert_eq!((shown.latest, shown.changed), (2, true));
}

#[test]
fn a_secret_whose_owner_is_removed_is_not_in_the_view_of_its_reader() {
    let mut world = World::new();
    let (relation, mut web, db) = pair(&mut world);
    let grant =
        AccessChange::Grant { relation: world.number(relation), application: "db".to_owned(), unit: None };
    let create = SecretWrite { created: Some(SecretOwnerKind::Unit), access: vec![grant], ..sealed("one") };
    write(&mut world, &mut web, create);
    read_secret(&mut world, &db, &by_id(false, false)).expect("it is granted");
    force_unit(&mut world, web.unit, Force::AfterWait, NOW);
    for periods in [1, 2] {
        sweep(&mut world, NOW + periods * GRACE_MS);
    }
    assert!(world.is_removed(web.unit) && !world.is_removed(relation));
    assert!(read::<SecretDoc>(world.reader(), &MODEL.secret(id())).is_some(), "the janitor deletes it later");
    assert_eq!(consumed(&world, db.unit), None);
}

/// Reads of the documents are what a stream costs: each commit reaches each stream.
#[test]
fn a_commit_about_other_secrets_computes_no_view_again() {
    let mut world = World::new();
    let (_, web, db) = pair(&mut world);
    world.run(|draft, _| user_secret::add(draft, MODEL, id(), &sealed("one"), 1)).expect("it is added");
    assert_eq!(world.computed, BTreeSet::new(), "nobody may read it");
    let names = ["db".to_owned()];
    world.run(move |draft, _| user_secret::grant(draft, MODEL, id(), &names)).expect("it is granted");
    assert_eq!(world.computed, BTreeSet::new(), "nobody has read it");
    read_secret(&mut world, &db, &by_id(false, false)).expect("it is granted");
    assert_eq!(world.computed, BTreeSet::from([db.unit]));
    let names = ["db".to_owned()];
    world.run(move |draft, _| user_secret::revoke(draft, MODEL, id(), &names)).expect("it is revoked");
    assert!(world.computed.contains(&db.unit) && !world.computed.contains(&web.unit));
}

#[test]
fn a_secret_of_users_is_read_between_its_grant_and_its_revocation() {
    let mut world = World::new();
    let (_, _, db) = pair(&mut world);
    let add = |name: &str| SecretWrite { label: Some(name.to_owned()), ..sealed("one") };
    world.run(|draft, _| user_secret::add(draft, MODEL, id(), &add("password"), 1)).expect("it is added");
    let other = SecretId::from_bits(1 << 91);
    let taken = world.run(|draft, _| user_secret::add(draft, MODEL, other, &add("password"), 1));
    assert_eq!(refused(taken).1, SecretRefusal::LabelExists { label: "password".to_owned() }.into());
    assert_eq!(
        refusal(read_secret(&mut world, &db, &by_id(false, false))),
        SecretRefusal::PermissionDenied.into()
    );
    let grant = |world: &mut World, name: &str| {
        let names = ["db".to_owned(), name.to_owned()];
        world.run(move |draft, _| user_secret::grant(draft, MODEL, id(), &names))
    };
    let unknown = refused(grant(&mut world, "shop")).1;
    assert_eq!(unknown, SecretRefusal::UnknownReader { name: "shop".to_owned() }.into());
    assert!(read_secret(&mut world, &db, &by_id(false, false)).is_err(), "none is granted or all are");
    grant(&mut world, "web").expect("both exist");
    assert_eq!(read_secret(&mut world, &db, &by_id(false, false)).expect("it is granted").revision, 1);
    let text = format!("secret://{}/{}", MODEL.0, id());
    for text in ["password", &id().to_string(), &format!("secret:{}", id()), &text] {
        let found = world.run(|draft, _| user_secret::find(draft, MODEL, text)).expect("it is found").0;
        assert_eq!(found, id(), "{text}");
    }
    let elsewhere = format!("secret://{}/{}", Uuid(77), id());
    assert!(world.run(|draft, _| user_secret::find(draft, MODEL, &elsewhere)).is_err());
    let names = ["db".to_owned()];
    world.run(move |draft, _| user_secret::revoke(draft, MODEL, id(), &names)).expect("it is revoked");
    assert_eq!(
        refusal(read_secret(&mut world, &db, &by_id(false, false))),
        SecretRefusal::PermissionDenied.into()
    );
    world.run(|draft, ids| user_secret::remove(draft, MODEL, id(), None, ids())).expect("it is removed");
    world
        .run(|draft, _| user_secret::add(draft, MODEL, other, &add("password"), 1))
        .expect("the name is free");
}

#[test]
fn a_pruned_revision_is_removed_when_its_last_reader_goes_on() {
    let mut world = World::new();
    let (_, _, db) = pair(&mut world);
    world.run(|draft, _| user_secret::add(draft, MODEL, id(), &sealed("one"), 1)).expect("it is added");
    let names = ["db".to_owned()];
    world.run(move |draft, _| user_secret::grant(draft, MODEL, id(), &names)).expect("it is granted");
    read_secret(&mut world, &db, &by_id(false, false)).expect("it is granted");
    let revisions = |world: &World| -> Vec<u64> {
        let doc = read::<SecretDoc>(world.reader(), &MODEL.secret(id())).expect("it exists");
        let revisions: Vec<u64> = doc.revisions.into_keys().collect();
        for revision in 1..=doc.latest {
            let content = world.reader().get(MODEL.secret_content(id(), revision).text());
            assert_eq!(content.is_some(), revisions.contains(&revision), "content {revision}");
        }
        revisions
    };
    let update = |world: &mut World, text: &str, prune: Option<bool>| {
        let write = sealed(text);
        world
            .run(move |draft, _| user_secret::update(draft, MODEL, id(), &write, prune, 2))
            .expect("it is changed");
    };
    update(&mut world, "two", None);
    update(&mut world, "three", None);
    assert_eq!(revisions(&world), [1, 2, 3], "nothing is removed unless the user wants it");
    update(&mut world, "four", Some(true));
    assert_eq!(revisions(&world), [1, 4], "a unit reads the first");
    read_secret(&mut world, &db, &by_id(false, true)).expect("it is granted");
    assert_eq!(revisions(&world), [4]);
}

#[test]
fn users_change_no_secret_of_a_charm() {
    let mut world = World::new();
    let (_, mut web, _) = pair(&mut world);
    write(&mut world, &mut web, SecretWrite { created: Some(SecretOwnerKind::Unit), ..sealed("one") });
    let expected = SecretRefusal::OfCharm { id: id() };
    let names = ["db".to_owned()];
    let refusals = [
        world.run(|draft, _| user_secret::update(draft, MODEL, id(), &sealed("two"), None, 2)),
        world.run(|draft, _| user_secret::grant(draft, MODEL, id(), &names)),
        world.run(|draft, _| user_secret::revoke(draft, MODEL, id(), &names)),
        world.run(|draft, ids| user_secret::remove(draft, MODEL, id(), None, ids())),
    ];
    for refusal in refusals {
        assert_eq!(refused(refusal).1, expected.clone().into());
    }
}

/// What a unit may read is bounded: a removed secret does not count.
#[test]
fn a_removed_secret_is_forgotten_by_its_readers() {
    let mut world = World::new();
    let (relation, mut web, db) = pair(&mut world);
    let number = world.number(relation);
    let access = vec![AccessChange::Grant { relation: number, application: "db".to_owned(), unit: None }];
    let create = SecretWrite { created: Some(SecretOwnerKind::Unit), access, ..sealed("one") };
    write(&mut world, &mut web, create);
    read_secret(&mut world, &db, &by_id(false, false)).expect("it is granted");
    let consumed =
        |world: &World| read::<ConsumedSecretsDoc>(world.reader(), &MODEL.secrets_consumed(db.unit));
    assert!(consumed(&world).expect("it reads one").contains_key(&id()));
    write(&mut world, &mut web, SecretWrite { removed: Some(SecretRemoval::All), ..SecretWrite::default() });
    let cleanups = read_all::<Vec<String>>(world.reader(), &MODEL.prefix(Kind::Cleanup));
    assert_eq!(cleanups.len(), 1);
    let cleanup = last_id(&cleanups[0].0).expect("its id");
    while world.run(|draft, _| Ok(cleanup::clean_batch(draft, MODEL, cleanup))).expect("no refusal") {}
    assert_eq!(consumed(&world), None, "no document is left that the removal of the unit would not find");
    assert!(read_all::<()>(world.reader(), &MODEL.secret_trackers_of(id())).is_empty());
}

#[test]
fn each_tracker_of_a_removed_unit_is_one_batch() {
    let mut world = World::new();
    let (_, _, db) = pair(&mut world);
    let trackers: Vec<_> = (1..=3).map(|revision| MODEL.secret_tracker(id(), revision, db.unit)).collect();
    world
        .run(|draft, _| {
            trackers.iter().for_each(|tracker| draft.put(tracker, &()));
            let keys = trackers.iter().map(|tracker| tracker.text().to_owned()).collect();
            draft.put(&MODEL.cleanup(db.unit), &keys);
            Ok(())
        })
        .expect("no refusal");
    let mut batch =
        || world.run(|draft, _| Ok(cleanup::clean_batch(draft, MODEL, db.unit))).expect("no refusal");
    assert_eq!([batch(), batch(), batch()], [true, true, false]);
    assert!(read_all::<()>(world.reader(), &MODEL.secret_trackers_of(id())).is_empty());
}
