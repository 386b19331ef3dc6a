//! Drafts: transactions under construction.
//!
//! A draft records the reads of a transition as preconditions of the transaction, and collects its writes. No
//! transition writes a precondition by hand, so none can be forgotten (design 5); what [`Draft::get_untracked`],
//! [`Draft::keys_untracked`] and [`Draft::put_once`] read is no precondition, for the reasons that they state. The store applies the
//! finished [`Transaction`] only if every precondition still holds; otherwise the caller reads again and retries.
//!
//! This module also contains the typed [`Key`] of a document and the [`Reader`] that every store engine
//! implements.

use crate::documents::json_text::{Document, Text};
use crate::terms::refusal::transaction::TransactionRefusal;
use crate::terms::secret::SEALED_BYTES_MAX;
use crate::terms::store_engine::StoreEngine;
use crate::unit::writes::{
    HOOK_DOCUMENTS_MAX, HOOK_WRITES_BYTES_MAX, LARGE_HOOK_WRITES_BYTES_MAX, REPORTS_BYTES_MAX, REPORTS_MAX,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

/// The number of a commit of one store, from 1. The revision of a document is that of the commit that last
/// wrote it.
pub type Revision = u64;

/// The most reads of one transaction: three for each write, and 200. etcd accepts 128 operations by default, and these with
/// `--max-txn-ops=2048`.
pub const READS_MAX: usize = 2_000;
/// The most writes of one transaction: 200 of one hook, its 60 reports, 40 documents of the record itself, and new addresses
/// in 300 relations.
pub const WRITES_MAX: usize = 600;
/// The most bytes that one transaction writes with every engine, keys and documents together: 1.25 MiB. etcd accepts 1.5 MiB
/// by default. Documents other than settings of relations are never larger.
pub const BYTES_MAX: usize = (1 << 20) + (256 << 10);
/// The most bytes that one transaction writes with SQLite: as much as above beside the larger writes of a hook, 5.5 MiB.
pub const LARGE_BYTES_MAX: usize = BYTES_MAX - HOOK_WRITES_BYTES_MAX + LARGE_HOOK_WRITES_BYTES_MAX;
const _: () = assert!(HOOK_DOCUMENTS_MAX + REPORTS_MAX + 40 + 300 == WRITES_MAX);
const _: () = assert!(HOOK_WRITES_BYTES_MAX + REPORTS_BYTES_MAX + (272 << 10) == BYTES_MAX);
const _: () = assert!(SEALED_BYTES_MAX == HOOK_WRITES_BYTES_MAX);
/// The most entries of one page. A full page counts as 41 reads: one for each key, and its range.
pub const PAGE_MAX: usize = 40;

/// The key of one document, with the type of that document. The text begins with the model's uuid.
pub struct Key<T> {
    text: String,
    document: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    /// The key with this text, which must be complete: `<model>/<kind>/<parts>`.
    pub fn new(text: String) -> Key<T> {
        Key { text, document: PhantomData }
    }
    /// The text of the key.
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

/// One document as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// The text of its key.
    pub key: String,
    /// The revision at which it was last written.
    pub revision: Revision,
    /// The document as JSON.
    pub value: Text,
}

/// A snapshot of all documents at one revision. Store engines implement it; drafts and views read through it.
pub trait Reader {
    /// The revision of the snapshot.
    fn revision(&self) -> Revision;
    /// The document with this key.
    fn get(&self, key: &str) -> Option<StoredDocument>;
    /// The first `limit` documents whose key begins with `prefix` and is greater than `after`, in key order.
    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument>;
    /// The engine of the store, which bounds what a transaction over this snapshot writes. A reader over another one has the
    /// engine of that one.
    fn engine(&self) -> StoreEngine {
        StoreEngine::default()
    }
    /// Records that a document is damaged: it appears as absent, so a result that depends on it must not be used.
    ///
    /// # Panics
    /// Unless a reader over a disk implements it. The documents of other readers cannot be damaged, because this
    /// program has written them.
    fn record_damage(&self, key: &str, why: &str) {
        panic!("stored documents are what this program wrote: {key}: {why}");
    }
}

/// Reads one document outside a transaction, for views and status.
pub fn read<T: Document>(reader: &dyn Reader, key: &Key<T>) -> Option<T> {
    parse(reader, &reader.get(key.text())?)
}

/// Calls `look` with one document outside a transaction, without copying it: for a large document of which little is
/// needed.
pub fn look<T: Document, R>(reader: &dyn Reader, key: &Key<T>, look: impl FnOnce(&T) -> R) -> Option<R> {
    let stored = reader.get(key.text())?;
    let looked = stored.value.with(look);
    looked.inspect_err(|error| reader.record_damage(&stored.key, &error.to_string())).ok()
}

/// Reads all documents below `prefix`, in key order, with their keys. For views and status; a transition must
/// never call it, because the number of documents has no bound.
pub fn read_all<T: Document>(reader: &dyn Reader, prefix: &str) -> Vec<(String, T)> {
    let stored = reader.scan(prefix, "", usize::MAX);
    stored
        .into_iter()
        .filter_map(|s| {
            let document = parse(reader, &s)?;
            Some((s.key, document))
        })
        .collect()
}

/// The value of a stored document. None if it is not of type `T`, which is noted as damage.
pub fn parse<T: Document>(reader: &dyn Reader, stored: &StoredDocument) -> Option<T> {
    let parsed = stored.value.parse();
    parsed.inspect_err(|error| reader.record_damage(&stored.key, &error.to_string())).ok()
}

/// A range of keys that was read as a whole: exactly `keys` exist in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Page {
    /// The prefix of all keys in the range.
    pub prefix: String,
    /// The exclusive lower end of the range.
    pub after: String,
    /// The inclusive upper end; none if the range reaches to the end of the prefix.
    pub until: Option<String>,
    /// The keys in the range.
    pub keys: Vec<String>,
}

/// A transaction as plain data: what must be unchanged, and what is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Transaction {
    /// The documents that were read: key and revision, 0 if the document was absent.
    pub keys: BTreeMap<String, Revision>,
    /// The keys that must exist, at any revision: those that [`Draft::any_key`] has found.
    pub exist: BTreeSet<String>,
    /// The prefixes below which no key may exist except these: where [`Draft::any_key`] has found none.
    pub none: BTreeMap<String, BTreeSet<String>>,
    /// The ranges that were read as a whole.
    pub pages: Vec<Page>,
    /// The new documents by key; none deletes the document.
    pub writes: BTreeMap<String, Option<Text>>,
}

/// A precondition that no longer holds: the key or the prefix. The caller reads again and retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict(pub String);

impl Transaction {
    /// Evaluates the preconditions against the newest documents.
    ///
    /// # Errors
    /// The first document that has another revision than was read, or that does not exist any more.
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

/// A transaction under construction. Reads return what the draft itself wrote, otherwise what the reader
/// contains.
pub struct Draft<'r> {
    reader: &'r dyn Reader,
    transaction: Transaction,
}

impl<'r> Draft<'r> {
    /// An empty draft over the snapshot of `reader`.
    pub fn new(reader: &'r dyn Reader) -> Draft<'r> {
        Draft { reader, transaction: Transaction::default() }
    }

    /// The engine of the store.
    pub fn engine(&self) -> StoreEngine {
        self.reader.engine()
    }

    /// Reads one document. Its revision, or its absence, becomes a precondition.
    ///
    /// A stored document that is not of type `T` is damaged ([`Reader::record_damage`]).
    pub fn get<T: Document>(&mut self, key: &Key<T>) -> Option<T> {
        if let Some(written) = self.transaction.writes.get(key.text()) {
            let value = written.as_ref()?;
            return Some(value.parse().expect("a draft reads back what it wrote"));
        }
        let stored = self.reader.get(key.text());
        self.transaction.keys.insert(key.text().to_owned(), stored.as_ref().map_or(0, |s| s.revision));
        parse(self.reader, &stored?)
    }

    /// Runs a part of a transition whose refusal does not end the transition. If it refuses, what it has written is taken
    /// back; what it has read stays a precondition.
    ///
    /// # Errors
    /// The refusal of the part.
    pub fn attempt<T, R>(&mut self, part: impl FnOnce(&mut Draft<'r>) -> Result<T, R>) -> Result<T, R> {
        let written = self.transaction.writes.clone();
        let result = part(self);
        if result.is_err() {
            self.transaction.writes = written;
        }
        result
    }

    /// Reads one committed document without recording a precondition. Allowed only for what cannot change
    /// unless something that was recorded changes in the same commit, or whose change leaves the decision
    /// allowed.
    pub fn get_untracked<T: Document>(&self, key: &Key<T>) -> Option<T> {
        read(self.reader, key)
    }

    /// The first `limit` committed keys below `prefix`, without recording a precondition (see
    /// [`Self::get_untracked`]).
    pub fn keys_untracked(&self, prefix: &str, limit: usize) -> Vec<String> {
        self.reader.scan(prefix, "", limit).into_iter().map(|stored| stored.key).collect()
    }

    /// Writes one document. The write itself is unconditional; the reads make it safe.
    pub fn put<T: Document + Serialize>(&mut self, key: &Key<T>, document: &T) {
        self.transaction.writes.insert(key.text().to_owned(), Some(Text::of(document)));
    }

    /// Writes a document that never changes after it was created. If it exists already it is left alone. No
    /// precondition is recorded, because a concurrent creator writes the same content.
    pub fn put_once<T: Document + Serialize>(&mut self, key: &Key<T>, document: &T) {
        if self.reader.get(key.text()).is_none() {
            self.put(key, document);
        }
    }

    /// The number of further documents that the transaction may write.
    pub fn writes_left(&self) -> usize {
        WRITES_MAX.saturating_sub(self.transaction.writes.len())
    }

    /// The bytes that the transaction writes below `prefix`, keys and documents together.
    pub fn bytes_written(&self, prefix: &str) -> u64 {
        let below = self.transaction.writes.iter().filter(|(key, _)| key.starts_with(prefix));
        below.map(|(key, value)| (key.len() + value.as_ref().map_or(0, |value| value.len())) as u64).sum()
    }

    /// Deletes one document.
    pub fn remove<T>(&mut self, key: &Key<T>) {
        self.transaction.writes.insert(key.text().to_owned(), None);
    }

    /// Any key below `prefix` that is not in `except`, or none. Records exactly what the answer depends on: one
    /// witness, or the absence of all other keys.
    pub fn any_key(&mut self, prefix: &str, except: &[&str]) -> Option<String> {
        let removed =
            self.transaction.writes.iter().filter(|(key, value)| value.is_none() && key.starts_with(prefix));
        let mut excluded: BTreeSet<String> = removed.map(|(key, _)| key.clone()).collect();
        excluded.extend(except.iter().map(|key| key.to_string()));
        let written = self
            .transaction
            .writes
            .iter()
            .find(|(key, value)| value.is_some() && key.starts_with(prefix) && !excluded.contains(*key));
        if let Some((key, _)) = written {
            return Some(key.clone());
        }
        let present = self.reader.scan(prefix, "", excluded.len() + 1);
        match present.into_iter().find(|stored| !excluded.contains(&stored.key)) {
            Some(witness) => {
                self.transaction.exist.insert(witness.key.clone());
                Some(witness.key)
            }
            None => {
                // This answer and an earlier one for the same prefix must both continue to hold: no key exists
                // but those that both excluded.
                let none = self.transaction.none.entry(prefix.to_owned()).or_insert_with(|| excluded.clone());
                none.retain(|key| excluded.contains(key));
                None
            }
        }
    }

    /// Up to `limit` (at least 1, at most [`PAGE_MAX`]) documents below `prefix` after `after`. It contains
    /// committed documents only: a page is read before its members are written. The page as a whole becomes a
    /// precondition.
    pub fn page<T: Document>(&mut self, prefix: &str, after: &str, limit: usize) -> Vec<(String, T)> {
        let limit = limit.clamp(1, PAGE_MAX);
        let present = self.reader.scan(prefix, after, limit);
        let until = (present.len() == limit).then(|| present.last().map(|s| s.key.clone())).flatten();
        let keys = present.iter().map(|s| s.key.clone()).collect();
        for stored in &present {
            self.transaction.keys.insert(stored.key.clone(), stored.revision);
        }
        self.transaction.pages.push(Page { prefix: prefix.to_owned(), after: after.to_owned(), until, keys });
        present
            .into_iter()
            .filter_map(|s| {
                let document = parse(self.reader, &s)?;
                Some((s.key, document))
            })
            .collect()
    }

    /// The keys of such a page ([`Self::page`]).
    pub fn page_keys(&mut self, prefix: &str, after: &str, limit: usize) -> Vec<String> {
        self.page::<serde_json::Value>(prefix, after, limit).into_iter().map(|(key, _)| key).collect()
    }

    /// The finished transaction, or an error if it exceeds a bound.
    pub fn finish(self) -> Result<Transaction, TransactionRefusal> {
        let bytes_max = transaction_bytes_max(self.reader.engine());
        let transaction = self.transaction;
        // An absence is checked as the ranges between its excluded keys, and a page as one range besides its keys.
        let ranges: usize = transaction.none.values().map(|except| except.len() + 1).sum();
        let reads = transaction.keys.len() + transaction.exist.len() + ranges + transaction.pages.len();
        let bytes: usize =
            transaction.writes.iter().map(|(k, v)| k.len() + v.as_ref().map_or(0, |v| v.len())).sum();
        if reads > READS_MAX {
            return Err(TransactionRefusal::TooManyReads { count: reads, max: READS_MAX });
        }
        if transaction.writes.len() > WRITES_MAX {
            let count = transaction.writes.len();
            return Err(TransactionRefusal::TooManyWrites { count, max: WRITES_MAX });
        }
        if bytes > bytes_max {
            return Err(TransactionRefusal::TooLarge { bytes, max: bytes_max });
        }
        Ok(transaction)
    }
}

/// The most bytes that one transaction writes with this engine.
pub fn transaction_bytes_max(engine: StoreEngine) -> usize {
    match engine {
        StoreEngine::Sqlite => LARGE_BYTES_MAX,
        StoreEngine::Etcd => BYTES_MAX,
    }
}

/// Returns the answer of a transition that writes nothing. None if it writes, or refuses.
pub fn without_writes<A, R>(
    reader: &dyn Reader,
    transition: impl FnOnce(&mut Draft<'_>) -> Result<A, R>,
) -> Option<A> {
    let mut draft = Draft::new(reader);
    let answer = transition(&mut draft).ok()?;
    draft.transaction.writes.is_empty().then_some(answer)
}

#[cfg(test)]
mod tests;
