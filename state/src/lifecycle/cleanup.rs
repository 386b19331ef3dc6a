//! What a removal leaves for later, in bounded bites (design 5, "sideways"; I14). Nothing refers to it any more.

use crate::documents::draft::{Draft, Key, PAGE_MAX};
use crate::documents::keys::Model;
use crate::terms::names::Uuid;
use serde_json::Value;

/// One bite of one cleanup document; true while there is more to do.
pub fn bite(draft: &mut Draft, model: Model, id: Uuid) -> bool {
    let key = model.cleanup(id);
    let Some(mut prefixes) = draft.get(&key) else {
        return false;
    };
    let Some(prefix) = prefixes.first().cloned() else {
        draft.remove(&key);
        return false;
    };
    let page = draft.page::<Value>(&prefix, "", PAGE_MAX);
    for (leftover, _) in &page {
        draft.remove(&Key::<Value>::new(leftover.clone()));
    }
    if page.len() == PAGE_MAX {
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
