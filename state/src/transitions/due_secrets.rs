//! Marks the rotations and expiries of secrets that are due, by the clock of the controller and what the
//! clock of the model was advanced (spec/uniter.md A.14).
//!
//! The janitor marks what is due, so that no agent decides by a clock of its own; the record of a secret hook removes
//! the mark (`agents::secret_writes`). Called by the janitor.

use crate::documents::document_reads::Documents;
use crate::documents::draft::{Draft, Reader};
use crate::documents::prelude::Model;
use crate::lifecycle::model::model_time_ms;
use crate::lifecycle::secret::{find, put};
use crate::terms::secret::SecretId;

/// The most timers that one transaction handles: each reads three documents and writes three.
const TIMERS_PER_BATCH: usize = 20;

/// Whether the time of any secret has come.
pub fn is_any_due(reader: &dyn Reader, model: Model, now_ms: i64) -> bool {
    let Some(first) = (&mut { reader }).keys(&model.secret_timers(), 1).pop() else { return false };
    let now_ms = model_time_ms(&mut { reader }, model, now_ms);
    timer_of(&first).is_some_and(|(at_ms, _)| at_ms <= now_ms)
}

fn timer_of(key: &str) -> Option<(i64, SecretId)> {
    let mut parts = key.rsplit('/');
    let id = parts.next()?.parse().ok()?;
    Some((parts.next()?.parse().ok()?, id))
}

/// Marks the secrets whose time of rotation or expiry has come; the views of their owners then show it. Returns whether
/// more may be due.
pub fn mark_due(draft: &mut Draft, model: Model, now_ms: i64) -> bool {
    let now_ms = model_time_ms(draft, model, now_ms);
    let keys = draft.page_keys(&model.secret_timers(), "", TIMERS_PER_BATCH);
    let count = keys.len();
    let mut all_due = true;
    for key in keys {
        let Some((at_ms, id)) = timer_of(&key) else { continue };
        if at_ms > now_ms {
            all_due = false;
            break;
        }
        draft.remove(&model.secret_timer(at_ms, id));
        let Ok(before) = find(draft, model, id) else { continue };
        let mut after = before.clone();
        if after.rotate_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            // from here the next rotation is reckoned, however late this one is
            (after.rotation_due, after.rotate_at_ms) = (true, Some(now_ms));
        }
        if after.expire_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            let newest = after.newest();
            if let Some(revision) = after.revisions.get_mut(&newest) {
                revision.expired = true;
            }
        }
        for revision in after.revisions.values_mut() {
            revision.expire_again_ms = revision.expire_again_ms.filter(|at_ms| *at_ms > now_ms);
        }
        put(draft, model, id, Some(&before), &after);
    }
    all_due && count == TIMERS_PER_BATCH
}
