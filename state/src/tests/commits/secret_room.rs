//! The contents of all secrets of one owner are bounded together, and the documents that a hook changes of secrets.

use crate::agents::secret_read::{self, SecretRead};
use crate::documents::key::Kind;
use crate::documents::prelude::{OwnedSecretDoc, OwnedSecretsDoc, SecretContentDoc, SecretDoc, SecretOwner};
use crate::lifecycle::{leadership, secret, secret_content, user_secret};
use crate::terms::refusal::secret::SecretRefusal;
use crate::terms::secret::{OWNED_BYTES_MAX, RotatePolicy, SecretId, SecretOwnerKind};
use crate::tests::commits::fixture::hook;
use crate::tests::relations::pair;
use crate::tests::*;
use crate::unit::secrets::{SecretRemoval, SecretWrite};

fn id(n: u128) -> SecretId {
    SecretId::from_bits(n << 90)
}

fn sealed(text: &str) -> SecretWrite {
    SecretWrite { sealed: Some(text.to_owned()), ..SecretWrite::default() }
}

fn created(kind: SecretOwnerKind, text: &str) -> SecretWrite {
    SecretWrite { created: Some(kind), ..sealed(text) }
}

/// Stores a secret with revisions 1 and 2, whose contents have these bytes according to its metadata.
fn fill(world: &mut World, owner: SecretOwner, bytes: [u64; 2]) {
    let mut doc = SecretDoc { latest: 2, ..secret::new_secret(owner, 1) };
    for (revision, bytes) in (1..).zip(bytes) {
        doc.revisions.entry(revision).or_default().bytes = bytes;
    }
    let index = OwnedSecretDoc { label: String::new(), bytes: doc.content_bytes() };
    let content = SecretContentDoc { sealed_for: Uuid(0), sealed: "stored".to_owned() };
    let put = world.run(|draft, _| {
        draft.put(&MODEL.secret(id(1)), &doc);
        for revision in [1, 2] {
            draft.put(&MODEL.secret_content(id(1), revision), &content);
        }
        draft.put(&MODEL.secrets_of(owner.id), &OwnedSecretsDoc::from([(id(1), index.clone())]));
        Ok(())
    });
    put.expect("no refusal");
}

fn owned_bytes(world: &World, owner: Uuid) -> u64 {
    let owned = read(world.reader(), &MODEL.secrets_of(owner)).unwrap_or_default();
    owned.values().map(|secret| secret.bytes).sum()
}

fn no_room(more: u64) -> RefusalReason {
    SecretRefusal::NoRoom { bytes: OWNED_BYTES_MAX + more, max: OWNED_BYTES_MAX }.into()
}

/// A person who has the token of one unit could fill the disk of the controller: 200 secrets with 200 revisions of 768
/// KiB each.
#[test]
fn the_contents_of_a_unit_are_bounded_together() {
    let mut world = World::new();
    let (_, mut web, _) = pair(&mut world);
    let owner = SecretOwner { kind: SecretOwnerKind::Unit, id: web.unit };
    fill(&mut world, owner, [100, OWNED_BYTES_MAX - 106]);
    let commit = |world: &mut World, web: &mut Agent, writes: Vec<(u128, SecretWrite)>| {
        let mut record = hook(web);
        record.writes.secrets = writes.into_iter().map(|(n, write)| (id(n), write)).collect();
        web.commit(world, record).refusal
    };
    let room = |world: &World, bytes| {
        secret_content::require_room(&mut world.reader(), MODEL, web.unit, SecretOwnerKind::Unit, bytes)
    };
    assert_eq!(room(&world, 6), Ok(()));
    assert_eq!(room(&world, 7).map_err(RefusalReason::from), Err(no_room(1)), "the tool is told so at once");
    let unit = SecretOwnerKind::Unit;
    let two = vec![(1, sealed("four")), (2, created(unit, "fiv"))];
    assert_eq!(commit(&mut world, &mut web, two), Some(no_room(1)));
    assert_eq!(owned_bytes(&world, web.unit), OWNED_BYTES_MAX - 6, "all of them are refused");
    assert_eq!(
        commit(&mut world, &mut web, vec![(2, created(unit, "sixsix"))]),
        None,
        "as large as possible"
    );
    assert_eq!(commit(&mut world, &mut web, vec![(2, sealed("x"))]), Some(no_room(1)));
    let label = SecretWrite { label: Some("token".to_owned()), ..SecretWrite::default() };
    assert_eq!(commit(&mut world, &mut web, vec![(2, label)]), None, "without a content");

    let removed = SecretRemoval::Revisions([1].into());
    let removed = SecretWrite { removed: Some(removed), ..SecretWrite::default() };
    let exchange = vec![(1, removed), (2, sealed("seven77"))];
    assert_eq!(commit(&mut world, &mut web, exchange), None, "what is removed makes room in the same hook");
    assert_eq!(owned_bytes(&world, web.unit), OWNED_BYTES_MAX - 93);
    let all = SecretWrite { removed: Some(SecretRemoval::All), ..SecretWrite::default() };
    assert_eq!(commit(&mut world, &mut web, vec![(1, all)]), None);
    assert_eq!(owned_bytes(&world, web.unit), 13);
}

#[test]
fn the_contents_of_users_are_bounded_together() {
    let mut world = World::new();
    let (_, _, db) = pair(&mut world);
    let owner = SecretOwner { kind: SecretOwnerKind::Model, id: MODEL.0 };
    fill(&mut world, owner, [100, OWNED_BYTES_MAX - 100]);
    let add =
        |world: &mut World| world.run(|draft, _| user_secret::add(draft, MODEL, id(2), &sealed("x"), 1));
    assert_eq!(*add(&mut world).expect_err("there is no room").reason, no_room(1));
    world.run(|draft, ids| user_secret::remove(draft, MODEL, id(1), Some(2), ids())).expect("it is removed");
    assert_eq!(owned_bytes(&world, MODEL.0), 100);
    add(&mut world).expect("there is room");
    assert_eq!(owned_bytes(&world, MODEL.0), 101);

    let names = ["db".to_owned()];
    world.run(move |draft, _| user_secret::grant(draft, MODEL, id(1), &names)).expect("it is granted");
    let consume = |world: &mut World, refresh| {
        let read = SecretRead { id: Some(id(1)), label: None, peek: false, refresh };
        world.run(|draft, _| secret_read::consume(draft, db.session(), &read)).expect("it is granted");
    };
    consume(&mut world, false);
    let update = world.run(|draft, _| user_secret::update(draft, MODEL, id(1), &sealed("y"), Some(true), 2));
    update.expect("there is room");
    assert_eq!(owned_bytes(&world, MODEL.0), 102, "a unit reads the older revision");
    consume(&mut world, true);
    assert_eq!(owned_bytes(&world, MODEL.0), 2, "it is pruned");
}

/// The unit bounds the documents of its hook before it sends the record: the commit must not write more than it counts.
#[test]
fn a_commit_of_secrets_writes_no_more_documents_than_the_hook_counts() {
    let mut world = World::new();
    let (_, mut web, _) = pair(&mut world);
    world.run(|draft, _| leadership::claim(draft, MODEL, web.unit, false)).expect("nobody leads");
    let commit = |world: &mut World, web: &mut Agent, write: &dyn Fn(SecretOwnerKind) -> SecretWrite| {
        let mut record = hook(web);
        let kinds = [(1, SecretOwnerKind::Unit), (2, SecretOwnerKind::Application)];
        record.writes.secrets = kinds.map(|(n, kind)| (id(n), write(kind))).into();
        let counted = record.writes.documents();
        let before = world.documents.clone();
        assert_eq!(web.commit(world, record), CommitOutcome::default());
        let of_secrets = |key: &str| {
            [Kind::Secret, Kind::SecretTimer, Kind::SecretContent, Kind::SecretTracker]
                .into_iter()
                .chain([Kind::SecretsOf, Kind::SecretsConsumed, Kind::Cleanup])
                .any(|kind| key.starts_with(&MODEL.prefix(kind)))
        };
        let keys: BTreeSet<&String> = before.map.keys().chain(world.documents.map.keys()).collect();
        let changed = keys
            .into_iter()
            .filter(|key| of_secrets(key) && before.map.get(*key) != world.documents.map.get(*key));
        (counted, changed.count())
    };
    let hourly = |rotate| SecretWrite { rotate: Some(rotate), refreshed: true, ..sealed("first") };
    commit(&mut world, &mut web, &|kind| SecretWrite { created: Some(kind), ..hourly(RotatePolicy::Hourly) });
    let again = commit(&mut world, &mut web, &|_| SecretWrite {
        sealed: Some("second".to_owned()),
        ..hourly(RotatePolicy::Daily)
    });
    assert_eq!(again, (15, 15), "of each secret 6, two indexes, and the list of what the unit reads");
}
