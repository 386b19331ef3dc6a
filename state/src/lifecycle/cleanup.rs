//! The cleanup of documents that a removal leaves behind (design 5, "sideways"; I14).
//!
//! A removed relation or model may leave more documents than one transaction can delete, for example settings
//! bags. The removal stores a cleanup document with their key prefixes instead, and the janitor deletes what is
//! below them in batches. Nothing refers to these documents any more.

use crate::documents::draft::{Draft, Key, PAGE_MAX};
use crate::documents::key::Kind;
use crate::documents::prelude::Model;
use crate::lifecycle::secret;
use crate::terms::names::Uuid;
use serde_json::Value;

/// The trackers of a removed secret that are deleted in one batch. With each the document of what its unit reads is
/// written: at most 500 entries with labels of 256 bytes, in JSON up to 768 KiB of a transaction's 1.25 MiB.
const TRACKERS_PER_BATCH: usize = 1;

/// Deletes the next batch of one cleanup document, at most one page. Returns whether more remains.
pub fn clean_batch(draft: &mut Draft, model: Model, id: Uuid) -> bool {
    let key = model.cleanup(id);
    let Some(mut prefixes) = draft.get(&key) else {
        return false;
    };
    let Some(prefix) = prefixes.first().cloned() else {
        draft.remove(&key);
        return false;
    };
    let are_trackers = prefix.starts_with(&model.prefix(Kind::SecretTracker));
    let count = if are_trackers { TRACKERS_PER_BATCH } else { PAGE_MAX };
    let page = draft.page::<Value>(&prefix, "", count);
    for (leftover, _) in &page {
        if are_trackers {
            secret::forget(draft, model, leftover);
        }
        draft.remove(&Key::<Value>::new(leftover.clone()));
    }
    // nothing else is below a prefix that is a whole key
    let is_whole_key = page.iter().any(|(leftover, _)| *leftover == prefix);
    if page.len() == count && !is_whole_key {
        return true;
    }
    prefixes.remove(0);
    if prefixes.is_empty() {
        draft.remove(&key);
        return false;
    }
    draft.put(&key, &prefixes);
    true
}
