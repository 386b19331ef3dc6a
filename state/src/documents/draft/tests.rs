//! Tests of drafts: preconditions, sizes, and what an attempt takes back.

use crate::documents::draft::*;

/// The documents of a test: key and revision. The value is the revision as JSON.
struct Documents(BTreeMap<&'static str, Revision>);

impl Reader for Documents {
    fn revision(&self) -> Revision {
        self.0.values().copied().max().unwrap_or(0)
    }
    fn get(&self, key: &str) -> Option<StoredDocument> {
        let revision = *self.0.get(key)?;
        Some(StoredDocument { key: key.to_owned(), revision, value: revision.to_string().into() })
    }
    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        let inside = self.0.keys().filter(|key| key.starts_with(prefix) && **key > after);
        inside.take(limit).filter_map(|key| self.get(key)).collect()
    }
}

fn documents(entries: &[(&'static str, Revision)]) -> Documents {
    Documents(entries.iter().copied().collect())
}

fn key(text: &str) -> Key<u64> {
    Key::new(text.to_owned())
}

fn set(keys: &[&str]) -> BTreeSet<String> {
    keys.iter().map(|key| key.to_string()).collect()
}

#[test]
fn reads_are_recorded_with_their_revision_and_absence_as_zero() {
    let documents = documents(&[("m/a", 3)]);
    let mut draft = Draft::new(&documents);
    assert_eq!(draft.get(&key("m/a")), Some(3));
    assert_eq!(draft.get(&key("m/b")), None);
    let transaction = draft.finish().expect("small");
    assert_eq!(transaction.keys, BTreeMap::from([("m/a".to_owned(), 3), ("m/b".to_owned(), 0)]));
    assert!(transaction.writes.is_empty());
}

#[test]
fn a_draft_reads_its_own_writes_and_records_nothing_for_them() {
    let documents = documents(&[("m/a", 3), ("m/b", 3)]);
    let mut draft = Draft::new(&documents);
    draft.put(&key("m/a"), &10);
    draft.remove(&key("m/b"));
    assert_eq!(draft.get(&key("m/a")), Some(10));
    assert_eq!(draft.get(&key("m/b")), None);
    let transaction = draft.finish().expect("small");
    assert!(transaction.keys.is_empty());
    assert_eq!(
        transaction.writes,
        BTreeMap::from([("m/a".to_owned(), Some(Text::of(&10))), ("m/b".to_owned(), None)])
    );
}

#[test]
fn a_found_key_is_recorded_as_one_witness() {
    let documents = documents(&[("m/x/a", 1), ("m/x/b", 2), ("m/x/c", 3)]);
    let mut draft = Draft::new(&documents);
    assert_eq!(draft.any_key("m/x/", &["m/x/a"]), Some("m/x/b".to_owned()));
    let transaction = draft.finish().expect("small");
    assert_eq!(transaction.exist, set(&["m/x/b"]));
    assert!(transaction.none.is_empty() && transaction.keys.is_empty());
}

#[test]
fn an_absence_considers_what_the_draft_removed_and_wrote() {
    let documents = documents(&[("m/x/a", 1), ("m/x/b", 2)]);
    let mut draft = Draft::new(&documents);
    draft.remove(&key("m/x/a"));
    assert_eq!(draft.any_key("m/x/", &["m/x/b"]), None);
    draft.put(&key("m/x/c"), &1);
    assert_eq!(draft.any_key("m/x/", &["m/x/b"]), Some("m/x/c".to_owned()));
    let transaction = draft.finish().expect("small");
    assert_eq!(transaction.none, BTreeMap::from([("m/x/".to_owned(), set(&["m/x/a", "m/x/b"]))]));
    assert!(transaction.exist.is_empty(), "its own write is no witness");
}

#[test]
fn two_absences_of_one_prefix_both_remain_preconditions() {
    // 1. The draft reads that no key but a exists. 2. It reads that no key but a and b exists.
    // 3. Meanwhile b is created: the first answer no longer holds.
    let before = documents(&[("m/x/a", 1)]);
    let mut draft = Draft::new(&before);
    assert_eq!(draft.any_key("m/x/", &["m/x/a"]), None);
    assert_eq!(draft.any_key("m/x/", &["m/x/a", "m/x/b"]), None);
    let transaction = draft.finish().expect("small");
    assert_eq!(transaction.check(&before), Ok(()));
    assert_eq!(
        transaction.check(&documents(&[("m/x/a", 1), ("m/x/b", 2)])),
        Err(Conflict("m/x/".to_owned()))
    );
    assert_eq!(transaction.check(&documents(&[])), Ok(()), "fewer keys are still no other key");
}

#[test]
fn a_full_page_ends_at_its_last_key_and_a_short_one_at_the_end_of_the_prefix() {
    let documents = documents(&[("m/x/a", 1), ("m/x/b", 2), ("m/x/c", 3), ("m/y", 4)]);
    let mut draft = Draft::new(&documents);
    assert_eq!(draft.page::<u64>("m/x/", "", 2), [("m/x/a".to_owned(), 1), ("m/x/b".to_owned(), 2)]);
    assert_eq!(draft.page::<u64>("m/x/", "m/x/b", 2), [("m/x/c".to_owned(), 3)]);
    let transaction = draft.finish().expect("small");
    let ends: Vec<Option<&str>> = transaction.pages.iter().map(|page| page.until.as_deref()).collect();
    assert_eq!(ends, [Some("m/x/b"), None]);
    assert_eq!(transaction.keys.len(), 3);
}

#[test]
fn a_page_with_limit_zero_reads_one_document() {
    let documents = documents(&[("m/x/a", 1)]);
    let mut draft = Draft::new(&documents);
    assert_eq!(draft.page::<u64>("m/x/", "", 0).len(), 1);
    assert_eq!(draft.finish().expect("small").check(&documents), Ok(()));
}

#[test]
fn transactions_beyond_a_bound_are_rejected_and_at_the_bound_accepted() {
    let nothing = documents(&[]);
    let write = |count: usize, bytes: usize| {
        let mut draft = Draft::new(&nothing);
        for i in 0..count {
            draft.put(&Key::new(format!("{i:04}")), &"x".repeat(bytes));
        }
        draft.finish()
    };
    assert!(write(WRITES_MAX, 1).is_ok());
    assert!(write(WRITES_MAX + 1, 1).is_err());
    // The key has four bytes, the JSON text two quotes.
    assert!(write(1, BYTES_MAX - 6).is_ok());
    assert!(write(1, BYTES_MAX - 5).is_err());
    let read = |count: usize| {
        let mut draft = Draft::new(&nothing);
        (0..count).for_each(|i| assert_eq!(draft.get(&key(&i.to_string())), None));
        draft.finish()
    };
    assert!(read(READS_MAX).is_ok());
    assert!(read(READS_MAX + 1).is_err());
    let mut draft = Draft::new(&nothing);
    let except: Vec<String> = (0..READS_MAX).map(|i| i.to_string()).collect();
    draft.any_key("m/", &except.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(draft.finish().is_err(), "each excluded key costs a range");
}

#[test]
fn a_refused_attempt_takes_back_what_it_has_written_and_keeps_what_it_has_read() {
    let documents = documents(&[("a", 3), ("b", 4)]);
    let mut draft = Draft::new(&documents);
    draft.put(&key("a"), &10);
    let attempt = |draft: &mut Draft<'_>, is_refused: bool| {
        draft.attempt(|draft| {
            let read = draft.get(&key("b"));
            draft.put(&key("a"), &11);
            draft.remove(&key("b"));
            if is_refused { Err(read) } else { Ok(()) }
        })
    };
    assert_eq!(attempt(&mut draft, true), Err(Some(4)));
    assert_eq!((draft.get(&key("a")), draft.get(&key("b"))), (Some(10), Some(4)));
    assert_eq!(draft.transaction.keys.get("b"), Some(&4));
    assert_eq!(attempt(&mut draft, false), Ok(()));
    assert_eq!((draft.get(&key("a")), draft.get(&key("b"))), (Some(11), None));
}
