//! An agent's token lives as long as its unit or machine (S15): what was removed is nobody to the controller.

use super::draft::Draft;
use super::keys::GLOBAL;
use crate::names::Uuid;

/// Takes the token that `entity` has, if it has one.
pub(super) fn revoke(draft: &mut Draft, entity: Uuid) {
    if let Some(hash) = draft.get(&GLOBAL.token_of(entity)) {
        draft.remove(&GLOBAL.token_of(entity));
        draft.remove(&GLOBAL.token(&hash));
    }
}
