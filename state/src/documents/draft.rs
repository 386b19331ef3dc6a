//! A draft: reads are recorded and become the precondition, writes are collected. Nobody writes assertions by hand
//! (design 5).

use crate::documents::json_text::{Document, Text};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

/// Counts commits of one store, from 1. A document's revision is that of the commit that last wrote it.
pub type Revision = u64;

/// Reads, writes and bytes of one transaction: what etcd takes by default (128 operations, 1.5 MiB), with room for
/// the engine's own keys.
pub const READS_MAX: usize = 100;
pub const WRITES_MAX: usize = 100;
pub const BYTES_MAX: usize = 1 << 20;
/// Entries of one page; a page is recorded as single reads, so two pages fit into one transaction.
pub const PAGE_MAX: usize = 40;

/// The place of one document, with its type. The text begins with the model's uuid.
pub struct Key<T> {
    text: String,
    document: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    /// `text` is complete: `<model>/<kind>/<parts>`.
    pub fn new(text: String) -> Key<T> {
        Key { text, document: PhantomData }
    }
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        Key::new(self.text.clone())
    }
}

impl<T> fmt::Display for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// One stored document as a reader shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    pub key: String,
    pub revision: Revision,
    pub value: Text,
}

/// All documents as of one revision. Engines implement it; `Draft` and the views read through it.
pub trait Reader {
    /// The revision everything read here is of.
    fn revision(&self) -> Revision;
    fn get(&self, key: &str) -> Option<StoredDocument>;
    /// The first `limit` documents whose key begins with `prefix` and is greater than `after`, in key order.
    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument>;
}

/// Reads one document outside a transaction (views, status).
pub fn read<T: Document>(reader: &dyn Reader, key: &Key<T>) -> Option<T> {
    reader.get(key.text()).map(|stored| parse(&stored))
}

/// Reads all documents below `prefix`, in key order: key and document. For views and status, never in a transition.
pub fn read_all<T: Document>(reader: &dyn Reader, prefix: &str) -> Vec<(String, T)> {
    let stored = reader.scan(prefix, "", usize::MAX);
    stored
        .into_iter()
        .map(|s| {
            let document = parse(&s);
            (s.key, document)
        })
        .collect()
}

fn parse<T: Document>(stored: &StoredDocument) -> T {
    stored
        .value
        .parse()
        .unwrap_or_else(|e| panic!("stored documents are what this program wrote: {}: {e}", stored.key))
}

/// A range of keys that was read as a whole: exactly `keys` lie in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Page {
    pub prefix: String,
    /// Exclusive lower end.
    pub after: String,
    /// Inclusive upper end; none = to the end of the prefix.
    pub until: Option<String>,
    pub keys: Vec<String>,
}

/// A change to the model as plain data: what must be unchanged, what is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Txn {
    /// Documents read: key and revision, 0 = absent.
    pub keys: BTreeMap<String, Revision>,
    /// Witnesses of "somebody is": these keys exist, at whatever revision.
    pub exist: BTreeSet<String>,
    /// "Nobody else is": no key below the prefix but these.
    pub none: BTreeMap<String, BTreeSet<String>>,
    pub pages: Vec<Page>,
    /// New documents; none removes.
    pub writes: BTreeMap<String, Option<Text>>,
}

/// A precondition of a transaction that no longer holds: which key or set. The caller reads again and retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict(pub String);

/// A transaction past its bound. A bug of the transition, or input that its caller should have bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge(pub String);

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction too large: {}", self.0)
    }
}

impl Txn {
    /// Evaluates the recorded preconditions against the newest documents.
    pub fn check(&self, reader: &dyn Reader) -> Result<(), Conflict> {
        for (key, revision) in &self.keys {
            if reader.get(key).map_or(0, |stored| stored.revision) != *revision {
                return Err(Conflict(key.clone()));
            }
        }
        for key in &self.exist {
            if reader.get(key).is_none() {
                return Err(Conflict(key.clone()));
            }
        }
        for (prefix, except) in &self.none {
            let present = reader.scan(prefix, "", except.len() + 1);
            if present.iter().any(|stored| !except.contains(&stored.key)) {
                return Err(Conflict(prefix.clone()));
            }
        }
        for page in &self.pages {
            let present = reader.scan(&page.prefix, &page.after, page.keys.len() + 1);
            let inside = |key: &String| page.until.as_ref().is_none_or(|until| key <= until);
            if !present.iter().map(|stored| &stored.key).filter(|key| inside(key)).eq(page.keys.iter()) {
                return Err(Conflict(page.prefix.clone()));
            }
        }
        Ok(())
    }
}

/// A change being made. Reads go to the reader, or to what the draft itself wrote.
pub struct Draft<'r> {
    reader: &'r dyn Reader,
    txn: Txn,
}

impl<'r> Draft<'r> {
    pub fn new(reader: &'r dyn Reader) -> Draft<'r> {
        Draft { reader, txn: Txn::default() }
    }

    /// Reads one document; its revision (or absence) becomes part of the precondition.
    pub fn get<T: Document>(&mut self, key: &Key<T>) -> Option<T> {
        if let Some(written) = self.txn.writes.get(key.text()) {
            let value = written.as_ref()?;
            return Some(value.parse().expect("a draft reads back what it wrote"));
        }
        let stored = self.reader.get(key.text());
        self.txn.keys.insert(key.text().to_owned(), stored.as_ref().map_or(0, |s| s.revision));
        stored.map(|s| parse(&s))
    }

    /// Reads without recording, what is committed alone: only for what cannot change unless something recorded changes in
    /// the same commit, or may change only so that the answer stays allowed.
    pub fn get_untracked<T: Document>(&self, key: &Key<T>) -> Option<T> {
        read(self.reader, key)
    }

    /// The keys below `prefix`, read in the same way.
    pub fn keys_untracked(&self, prefix: &str, limit: usize) -> Vec<String> {
        self.reader.scan(prefix, "", limit).into_iter().map(|stored| stored.key).collect()
    }

    /// The revision of a document as read; 0 = absent or written in this draft.
    pub fn revision_of<T: Document>(&mut self, key: &Key<T>) -> Revision {
        if self.txn.writes.contains_key(key.text()) {
            return 0;
        }
        let revision = self.reader.get(key.text()).map_or(0, |s| s.revision);
        self.txn.keys.insert(key.text().to_owned(), revision);
        revision
    }

    /// Writes one document. Unconditional by itself; what makes it safe is what was read.
    pub fn put<T: Document + Serialize>(&mut self, key: &Key<T>, document: &T) {
        self.txn.writes.insert(key.text().to_owned(), Some(Text::of(document)));
    }

    /// Writes a document that never changes once it is there; one that is there already is left alone. Nothing is
    /// recorded: whoever came first wrote the same.
    pub fn put_once<T: Document + Serialize>(&mut self, key: &Key<T>, document: &T) {
        if self.reader.get(key.text()).is_none() {
            self.put(key, document);
        }
    }

    pub fn remove<T>(&mut self, key: &Key<T>) {
        self.txn.writes.insert(key.text().to_owned(), None);
    }

    /// Some key below `prefix` other than `except`, or none. Records exactly what the answer rests on: the one
    /// witness, or that nobody else is there.
    pub fn first(&mut self, prefix: &str, except: &[&str]) -> Option<String> {
        let removed =
            self.txn.writes.iter().filter(|(key, value)| value.is_none() && key.starts_with(prefix));
        let mut excepted: BTreeSet<String> = removed.map(|(key, _)| key.clone()).collect();
        excepted.extend(except.iter().map(|key| key.to_string()));
        let written = self
            .txn
            .writes
            .iter()
            .find(|(key, value)| value.is_some() && key.starts_with(prefix) && !excepted.contains(*key));
        if let Some((key, _)) = written {
            return Some(key.clone());
        }
        let present = self.reader.scan(prefix, "", excepted.len() + 1);
        match present.into_iter().find(|stored| !excepted.contains(&stored.key)) {
            Some(witness) => {
                self.txn.exist.insert(witness.key.clone());
                Some(witness.key)
            }
            None => {
                // Both this answer and an earlier one for the same prefix must keep holding: nobody outside of
                // what both excepted.
                let none = self.txn.none.entry(prefix.to_owned()).or_insert_with(|| excepted.clone());
                none.retain(|key| excepted.contains(key));
                None
            }
        }
    }

    /// Up to `limit` (at least 1, at most [`PAGE_MAX`]) documents below `prefix` after `after`, committed ones only: a page is
    /// read before its members are written. The page as a whole becomes part of the precondition.
    pub fn page<T: Document>(&mut self, prefix: &str, after: &str, limit: usize) -> Vec<(String, T)> {
        let limit = limit.clamp(1, PAGE_MAX);
        let present = self.reader.scan(prefix, after, limit);
        let until = (present.len() == limit).then(|| present.last().map(|s| s.key.clone())).flatten();
        let keys = present.iter().map(|s| s.key.clone()).collect();
        for stored in &present {
            self.txn.keys.insert(stored.key.clone(), stored.revision);
        }
        self.txn.pages.push(Page { prefix: prefix.to_owned(), after: after.to_owned(), until, keys });
        present
            .into_iter()
            .map(|s| {
                let document = parse(&s);
                (s.key, document)
            })
            .collect()
    }

    /// The keys of such a page.
    pub fn page_keys(&mut self, prefix: &str, after: &str, limit: usize) -> Vec<String> {
        self.page::<serde_json::Value>(prefix, after, limit).into_iter().map(|(key, _)| key).collect()
    }

    /// The finished transaction, within its bounds.
    pub fn finish(self) -> Result<Txn, TooLarge> {
        let txn = self.txn;
        // "Nobody else is" costs one range between each two excepted keys, a page one beside its keys.
        let ranges: usize = txn.none.values().map(|except| except.len() + 1).sum();
        let reads = txn.keys.len() + txn.exist.len() + ranges + txn.pages.len();
        let bytes: usize = txn.writes.iter().map(|(k, v)| k.len() + v.as_ref().map_or(0, |v| v.len())).sum();
        if reads > READS_MAX {
            return Err(TooLarge(format!("{reads} reads, at most {READS_MAX}")));
        }
        if txn.writes.len() > WRITES_MAX {
            return Err(TooLarge(format!("{} writes, at most {WRITES_MAX}", txn.writes.len())));
        }
        if bytes > BYTES_MAX {
            return Err(TooLarge(format!("{bytes} bytes, at most {BYTES_MAX}")));
        }
        Ok(txn)
    }
}

#[cfg(test)]
mod tests {
    use crate::documents::draft::*;

    /// Documents of a test: key, revision; the value is the revision as JSON.
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

    fn documents(of: &[(&'static str, Revision)]) -> Documents {
        Documents(of.iter().copied().collect())
    }

    fn key(text: &str) -> Key<u64> {
        Key::new(text.to_owned())
    }

    fn set(of: &[&str]) -> BTreeSet<String> {
        of.iter().map(|key| key.to_string()).collect()
    }

    #[test]
    fn reads_are_recorded_with_their_revision_and_absence_as_zero() {
        let documents = documents(&[("m/a", 3)]);
        let mut draft = Draft::new(&documents);
        assert_eq!(draft.get(&key("m/a")), Some(3));
        assert_eq!(draft.get(&key("m/b")), None);
        assert_eq!(draft.revision_of(&key("m/a")), 3);
        let txn = draft.finish().expect("small");
        assert_eq!(txn.keys, BTreeMap::from([("m/a".to_owned(), 3), ("m/b".to_owned(), 0)]));
        assert!(txn.writes.is_empty());
    }

    #[test]
    fn a_draft_reads_its_own_writes_and_records_nothing_for_them() {
        let documents = documents(&[("m/a", 3), ("m/b", 3)]);
        let mut draft = Draft::new(&documents);
        draft.put(&key("m/a"), &10);
        draft.remove(&key("m/b"));
        assert_eq!(draft.get(&key("m/a")), Some(10));
        assert_eq!(draft.get(&key("m/b")), None);
        assert_eq!(draft.revision_of(&key("m/a")), 0);
        let txn = draft.finish().expect("small");
        assert!(txn.keys.is_empty());
        assert_eq!(
            txn.writes,
            BTreeMap::from([("m/a".to_owned(), Some(Text::of(&10))), ("m/b".to_owned(), None)])
        );
    }

    #[test]
    fn somebody_is_recorded_as_one_witness() {
        let documents = documents(&[("m/x/a", 1), ("m/x/b", 2), ("m/x/c", 3)]);
        let mut draft = Draft::new(&documents);
        assert_eq!(draft.first("m/x/", &["m/x/a"]), Some("m/x/b".to_owned()));
        let txn = draft.finish().expect("small");
        assert_eq!(txn.exist, set(&["m/x/b"]));
        assert!(txn.none.is_empty() && txn.keys.is_empty());
    }

    #[test]
    fn nobody_else_is_counts_what_the_draft_removed_and_wrote() {
        let documents = documents(&[("m/x/a", 1), ("m/x/b", 2)]);
        let mut draft = Draft::new(&documents);
        draft.remove(&key("m/x/a"));
        assert_eq!(draft.first("m/x/", &["m/x/b"]), None);
        draft.put(&key("m/x/c"), &1);
        assert_eq!(draft.first("m/x/", &["m/x/b"]), Some("m/x/c".to_owned()));
        let txn = draft.finish().expect("small");
        assert_eq!(txn.none, BTreeMap::from([("m/x/".to_owned(), set(&["m/x/a", "m/x/b"]))]));
        assert!(txn.exist.is_empty(), "its own write is no witness");
    }

    #[test]
    fn two_answers_of_nobody_hold_together() {
        // 1. The draft learns that nobody but a is there; 2. then that nobody but a and b is there.
        // 3. Meanwhile b appears: the first answer no longer holds.
        let before = documents(&[("m/x/a", 1)]);
        let mut draft = Draft::new(&before);
        assert_eq!(draft.first("m/x/", &["m/x/a"]), None);
        assert_eq!(draft.first("m/x/", &["m/x/a", "m/x/b"]), None);
        let txn = draft.finish().expect("small");
        assert_eq!(txn.check(&before), Ok(()));
        assert_eq!(txn.check(&documents(&[("m/x/a", 1), ("m/x/b", 2)])), Err(Conflict("m/x/".to_owned())));
        assert_eq!(txn.check(&documents(&[])), Ok(()), "fewer are still nobody else");
    }

    #[test]
    fn a_full_page_ends_at_its_last_key_and_a_short_one_at_the_end_of_the_prefix() {
        let documents = documents(&[("m/x/a", 1), ("m/x/b", 2), ("m/x/c", 3), ("m/y", 4)]);
        let mut draft = Draft::new(&documents);
        assert_eq!(draft.page::<u64>("m/x/", "", 2), [("m/x/a".to_owned(), 1), ("m/x/b".to_owned(), 2)]);
        assert_eq!(draft.page::<u64>("m/x/", "m/x/b", 2), [("m/x/c".to_owned(), 3)]);
        let txn = draft.finish().expect("small");
        let untils: Vec<Option<&str>> = txn.pages.iter().map(|page| page.until.as_deref()).collect();
        assert_eq!(untils, [Some("m/x/b"), None]);
        assert_eq!(txn.keys.len(), 3);
    }

    #[test]
    fn a_page_of_none_still_reads_one() {
        let documents = documents(&[("m/x/a", 1)]);
        let mut draft = Draft::new(&documents);
        assert_eq!(draft.page::<u64>("m/x/", "", 0).len(), 1);
        assert_eq!(draft.finish().expect("small").check(&documents), Ok(()));
    }

    #[test]
    fn transactions_past_a_bound_are_refused_and_at_the_bound_taken() {
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
        draft.first("m/", &except.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(draft.finish().is_err(), "each excepted key costs a range");
    }
}
