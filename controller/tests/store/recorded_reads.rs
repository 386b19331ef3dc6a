//! Every kind of read that a draft records is validated at commit against concurrent writes.

use super::fixture::{key, write};
use controller::store::{ApplyError, Store};
use state::documents::draft::Draft;

type Read = fn(&mut Draft<'_>);
type Meanwhile = &'static [(&'static str, Option<u64>)];

/// The cases, each with the reads of a draft, a concurrent write, and whether the reads are still valid. The store
/// contains `m/x/a`, `m/x/b`, `m/x/d` and `m/one/k`, each with the value 1.
const RECORDED_READS: &[(&str, Read, Meanwhile, bool)] = &[
    ("a key, changed", |d| assert!(d.get(&key("m/x/a")).is_some()), &[("m/x/a", Some(2))], false),
    ("a key, written the same", |d| assert!(d.get(&key("m/x/a")).is_some()), &[("m/x/a", Some(1))], false),
    ("a key, removed", |d| assert!(d.get(&key("m/x/a")).is_some()), &[("m/x/a", None)], false),
    (
        "a key, its neighbour changed",
        |d| assert!(d.get(&key("m/x/a")).is_some()),
        &[("m/x/b", Some(2))],
        true,
    ),
    ("an absent key, created", |d| assert!(d.get(&key("m/x/c")).is_none()), &[("m/x/c", Some(1))], false),
    (
        "an absent key, another created",
        |d| assert!(d.get(&key("m/x/c")).is_none()),
        &[("m/x/e", Some(1))],
        true,
    ),
    (
        "a found document, deleted",
        |d| assert!(d.any_key("m/one/", &[]).is_some()),
        &[("m/one/k", None)],
        false,
    ),
    (
        "a found document, changed",
        |d| assert!(d.any_key("m/one/", &[]).is_some()),
        &[("m/one/k", Some(2))],
        true,
    ),
    (
        "a found document, another is added after it",
        |d| assert!(d.any_key("m/one/", &[]).is_some()),
        &[("m/one/l", Some(1))],
        true,
    ),
    (
        "a found document, another is added before it",
        |d| assert!(d.any_key("m/one/", &[]).is_some()),
        &[("m/one/a", Some(1))],
        true,
    ),
    (
        "no document, one is added",
        |d| assert!(d.any_key("m/none/", &[]).is_none()),
        &[("m/none/k", Some(1))],
        false,
    ),
    (
        "no other document, one is added before the exception",
        |d| assert!(d.any_key("m/one/", &["m/one/k"]).is_none()),
        &[("m/one/a", Some(1))],
        false,
    ),
    (
        "no other document, one is added after the exception",
        |d| assert!(d.any_key("m/one/", &["m/one/k"]).is_none()),
        &[("m/one/z", Some(1))],
        false,
    ),
    (
        "no other document, the exception is deleted",
        |d| assert!(d.any_key("m/one/", &["m/one/k"]).is_none()),
        &[("m/one/k", None)],
        true,
    ),
    (
        "no other document, another replaces the exception",
        |d| assert!(d.any_key("m/one/", &["m/one/k"]).is_none()),
        &[("m/one/k", None), ("m/one/l", Some(1))],
        false,
    ),
    (
        "a page, grown inside",
        |d| assert_eq!(d.page::<u64>("m/x/", "", 2).len(), 2),
        &[("m/x/aa", Some(1))],
        false,
    ),
    ("a page, shrunk", |d| assert_eq!(d.page::<u64>("m/x/", "", 2).len(), 2), &[("m/x/b", None)], false),
    (
        "a page, a member changed",
        |d| assert_eq!(d.page::<u64>("m/x/", "", 2).len(), 2),
        &[("m/x/b", Some(2))],
        false,
    ),
    (
        "a page, grown behind it",
        |d| assert_eq!(d.page::<u64>("m/x/", "", 2).len(), 2),
        &[("m/x/c", Some(1))],
        true,
    ),
    (
        "a page, shrunk behind it",
        |d| assert_eq!(d.page::<u64>("m/x/", "", 2).len(), 2),
        &[("m/x/d", None)],
        true,
    ),
    (
        "a page, one member for another",
        |d| assert_eq!(d.page::<u64>("m/x/", "", 2).len(), 2),
        &[("m/x/b", None), ("m/x/aa", Some(1))],
        false,
    ),
    (
        "a page, grown before it",
        |d| assert_eq!(d.page::<u64>("m/x/", "m/x/a", 2).len(), 2),
        &[("m/x/0", Some(1))],
        true,
    ),
    (
        "a last page, grown at the end",
        |d| assert_eq!(d.page::<u64>("m/x/", "m/x/b", 2).len(), 1),
        &[("m/x/e", Some(1))],
        false,
    ),
    (
        "an empty page, one appears",
        |d| assert_eq!(d.page::<u64>("m/none/", "", 2).len(), 0),
        &[("m/none/k", Some(1))],
        false,
    ),
];

pub async fn every_kind_of_recorded_read_is_checked<S: Store, G>(open: impl AsyncFn(u64) -> (S, G)) {
    for (case, read, meanwhile, holds) in RECORDED_READS {
        let (store, _guard) = open(100).await;
        let first = [("m/x/a", Some(1)), ("m/x/b", Some(1)), ("m/x/d", Some(1)), ("m/one/k", Some(1))];
        let first = write(&store, &first).await;
        let drafted = || async {
            let transaction = store
                .read(|reader| {
                    let mut draft = Draft::new(reader);
                    read(&mut draft);
                    draft.put(&key("m/written"), &1);
                    draft.finish()
                })
                .await;
            transaction.expect("small")
        };
        let (unchanged, overtaken) = (drafted().await, drafted().await);
        assert!(store.apply(unchanged).await.is_ok_and(|second| second > first), "{case}: nothing happened");
        write(&store, meanwhile).await;
        let before = store.newest_revision();
        match store.apply(overtaken).await {
            Ok(revision) => assert!(*holds && revision > before, "{case}: went unnoticed"),
            Err(ApplyError::Conflict(_)) => {
                assert!(!holds, "{case}: is no conflict");
                assert_eq!(store.newest_revision(), before, "{case}: a conflict wrote");
            }
            Err(error) => panic!("{case}: {error:?}"),
        }
    }
}
