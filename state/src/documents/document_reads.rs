//! Reads of documents that a transition and a view share: [`Documents`].
//!
//! A function over [`Documents`] gets the same result from both, if the transition has not written what it lists. In a
//! transition, each of its reads becomes a precondition of the commit.

use crate::documents::draft::{Draft, Key, Reader, read};
use crate::documents::json_text::Document;
use crate::documents::key::last_id;
use crate::terms::names::Uuid;
use crate::terms::store_engine::StoreEngine;
use serde_json::Value;

/// Reads through a draft, which records them, or through a reader, for views. A transition and a view derive the same
/// effective life with it.
pub trait Documents {
    /// Reads one document.
    fn document<T: Document>(&mut self, key: &Key<T>) -> Option<T>;
    /// Up to `limit` committed keys below `prefix`, in order.
    fn keys(&mut self, prefix: &str, limit: usize) -> Vec<String>;
    /// Whether any key exists below `prefix`.
    fn any(&mut self, prefix: &str) -> bool;
    /// The engine of the store.
    fn engine(&self) -> StoreEngine;

    /// The entities that an index contains: the last part of each key.
    fn ids(&mut self, prefix: &str, limit: usize) -> Vec<Uuid> {
        self.keys(prefix, limit).iter().filter_map(|key| last_id(key)).collect()
    }
}

impl Documents for Draft<'_> {
    fn document<T: Document>(&mut self, key: &Key<T>) -> Option<T> {
        self.get(key)
    }
    fn keys(&mut self, prefix: &str, limit: usize) -> Vec<String> {
        self.page::<Value>(prefix, "", limit).into_iter().map(|(key, _)| key).collect()
    }
    fn any(&mut self, prefix: &str) -> bool {
        self.any_key(prefix, &[]).is_some()
    }
    fn engine(&self) -> StoreEngine {
        Draft::engine(self)
    }
}

impl Documents for &dyn Reader {
    fn document<T: Document>(&mut self, key: &Key<T>) -> Option<T> {
        read(*self, key)
    }
    fn keys(&mut self, prefix: &str, limit: usize) -> Vec<String> {
        self.scan(prefix, "", limit).into_iter().map(|stored| stored.key).collect()
    }
    fn any(&mut self, prefix: &str) -> bool {
        !self.scan(prefix, "", 1).is_empty()
    }
    fn engine(&self) -> StoreEngine {
        Reader::engine(*self)
    }
}
