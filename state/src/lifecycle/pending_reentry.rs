//! Relations that a unit considers itself in, but that a restored store could not let it re-enter (design 4).
//!
//! They are part of the unit's session. The view shows them as suspended, so that the unit leaves them and enters
//! them again as soon as possible. Called by the unit lifecycle, by the transitions of scopes and by resyncs.

use crate::documents::draft::Draft;
use crate::documents::prelude::Model;
use crate::terms::names::Uuid;
use std::collections::BTreeSet;

/// Adds a relation to those that the unit must re-enter.
pub(crate) fn add(draft: &mut Draft, model: Model, unit: Uuid, relation: Uuid) {
    change(draft, model, unit, |all| {
        all.insert(relation);
    });
}

/// Removes a relation from those that the unit must re-enter.
pub(crate) fn remove(draft: &mut Draft, model: Model, unit: Uuid, relation: Uuid) {
    change(draft, model, unit, |all| {
        all.remove(&relation);
    });
}

/// Removes all relations from those that the unit must re-enter.
pub(crate) fn clear(draft: &mut Draft, model: Model, unit: Uuid) {
    change(draft, model, unit, BTreeSet::clear);
}

fn change(draft: &mut Draft, model: Model, unit: Uuid, change: impl FnOnce(&mut BTreeSet<Uuid>)) {
    let mut session = draft.get(&model.session(unit)).unwrap_or_default();
    let before = session.pending_reentry.clone();
    change(&mut session.pending_reentry);
    if session.pending_reentry != before {
        draft.put(&model.session(unit), &session);
    }
}
