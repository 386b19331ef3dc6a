//! Labels of secrets of several owners.

use super::secrets::{by_id, read_secret, refusal, sealed, write};
use crate::agents::secret_read::SecretRead;
use crate::terms::refusal::secret::SecretRefusal;
use crate::terms::secret::{SecretId, SecretOwnerKind};
use crate::tests::commits::fixture::hook;
use crate::tests::relations::pair;
use crate::tests::*;
use crate::unit::secrets::{AccessChange, SecretWrite};

/// The own secret is the one that a read by this label returns.
#[test]
fn the_label_of_an_own_secret_is_refused_as_that_of_another_secret() {
    let mut world = World::new();
    let (relation, mut web, mut db) = pair(&mut world);
    let relation = world.number(relation);
    let access = vec![AccessChange::Grant { relation, application: "db".to_owned(), unit: None }];
    let create = SecretWrite { created: Some(SecretOwnerKind::Unit), access, ..sealed("one") };
    assert_eq!(write(&mut world, &mut web, create), CommitOutcome::default());
    let created = Some(SecretOwnerKind::Unit);
    let own = SecretWrite { created, label: Some("mine".to_owned()), ..sealed("two") };
    let mut record = hook(&db);
    record.writes.secrets.insert(SecretId::from_bits(1 << 91), own);
    assert_eq!(db.commit(&mut world, record), CommitOutcome::default());
    let labelled = |label: &str| SecretRead { label: Some(label.to_owned()), ..by_id(false, false) };
    assert_eq!(
        refusal(read_secret(&mut world, &db, &labelled("mine"))),
        SecretRefusal::LabelExists { label: "mine".to_owned() }.into()
    );
    assert!(read_secret(&mut world, &db, &labelled("theirs")).is_ok());
}
