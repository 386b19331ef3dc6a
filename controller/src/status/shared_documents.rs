//! A reader that reads each document only once if the status of many entities depends on it: models, applications,
//! relations, and the lives of the members of relations. A document that is read once is also parsed once, however many
//! parts read it ([`state::documents::json_text`]).
//!
//! It is used for one request and one revision. It does not keep the documents that only one unit's status depends on,
//! which are the largest.

use state::documents::draft::{Reader, Revision, StoredDocument};
use state::documents::key::{KeyParts, Kind};
use state::terms::store_engine::StoreEngine;
use std::cell::RefCell;
use std::collections::HashMap;

/// The kinds of documents that are kept.
const DOCUMENTS: [Kind; 18] = [
    Kind::Model,
    Kind::ModelConfig,
    Kind::ModelLife,
    Kind::ModelDestruction,
    Kind::Archive,
    Kind::Machine,
    Kind::MachineLife,
    Kind::Application,
    Kind::ApplicationLife,
    Kind::ApplicationCharm,
    Kind::ApplicationConfig,
    Kind::ApplicationStatus,
    Kind::Leader,
    Kind::Unit,
    Kind::UnitLife,
    Kind::Relation,
    Kind::RelationLife,
    Kind::RelationSuspended,
];
/// The kinds of documents of which whole ranges are kept.
const RANGES: [Kind; 4] = [Kind::RelationOf, Kind::SubordinateLink, Kind::Scope, Kind::Bag];

type Range = (String, String, usize);

/// A reader that keeps what it has read.
pub(super) struct SharedDocuments<'r> {
    reader: &'r dyn Reader,
    documents: RefCell<HashMap<String, Option<StoredDocument>>>,
    ranges: RefCell<HashMap<Range, Vec<StoredDocument>>>,
}

impl<'r> SharedDocuments<'r> {
    pub(super) fn new(reader: &'r dyn Reader) -> SharedDocuments<'r> {
        SharedDocuments { reader, documents: RefCell::default(), ranges: RefCell::default() }
    }
}

fn is_of(kinds: &[Kind], key: &str) -> bool {
    KeyParts::of(key).is_some_and(|parts| kinds.contains(&parts.kind))
}

impl Reader for SharedDocuments<'_> {
    fn engine(&self) -> StoreEngine {
        self.reader.engine()
    }

    fn revision(&self) -> Revision {
        self.reader.revision()
    }

    fn get(&self, key: &str) -> Option<StoredDocument> {
        if !is_of(&DOCUMENTS, key) {
            return self.reader.get(key);
        }
        let mut documents = self.documents.borrow_mut();
        documents.entry(key.to_owned()).or_insert_with(|| self.reader.get(key)).clone()
    }

    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        if !is_of(&RANGES, prefix) {
            return self.reader.scan(prefix, after, limit);
        }
        let mut ranges = self.ranges.borrow_mut();
        let range = (prefix.to_owned(), after.to_owned(), limit);
        ranges.entry(range).or_insert_with(|| self.reader.scan(prefix, after, limit)).clone()
    }

    fn record_damage(&self, key: &str, why: &str) {
        self.reader.record_damage(key, why);
    }
}
