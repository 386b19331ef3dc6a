//! Secrets: who reads and changes them, and which hooks are due.

use crate::agents::secret_read::{self, ReadableSecret, SecretRead};
use crate::documents::prelude::SecretDoc;
use crate::operations::due_secrets;

use crate::terms::refusal::secret::SecretRefusal;
use crate::terms::secret::{RotatePolicy, SecretEvent, SecretId, SecretOwnerKind};
use crate::tests::commits::fixture::hook;
use crate::tests::relations::pair;
use crate::tests::*;
use crate::unit::secrets::{AccessChange, SecretRemoval, SecretWrite};

fn id() -> SecretId {
    SecretId::from_bits(1 << 90)
}

fn sealed(text: &str) -> SecretWrite {
    SecretWrite { sealed: Some(text.to_owned()), ..SecretWrite::default() }
}

fn write(world: &mut World, agent: &mut Agent, write: SecretWrite) -> CommitOutcome {
    let mut record = hook(agent);
    record.writes.secrets.insert(id(), write);
    agent.commit(world, record)
}

fn read_secret(world: &mut World, agent: &Agent, request: &SecretRead) -> Result<ReadableSecret, Refusal> {
    let (unit, epoch) = (agent.unit, agent.epoch);
    world.run(|draft, _| secret_read::consume(draft, MODEL, unit, epoch, request))
}

fn by_id(peek: bool, refresh: bool) -> SecretRead {
    SecretRead { id: Some(id()), label: None, peek, refresh }
}

fn refusal(answer: Result<ReadableSecret, Refusal>) -> RefusalReason {
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
    let record = web.record(operation, Outcome::Ok);
    assert_eq!(web.commit(&mut world, record), CommitOutcome::default());
    let after = doc(&world);
    assert!(!after.rotation_due && after.rotate_at_ms.is_some());
}
