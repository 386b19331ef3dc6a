//! An agent's token lives as long as its unit or machine (S15): what was removed is nobody to the controller, but for a
//! machine that a person brought, or whose instance is kept, and that was removed while it was away.

use crate::documents::draft::Draft;
use crate::documents::keys::GLOBAL;
use crate::terms::names::Uuid;

/// Leaves the token with a holder that was removed. It lets nobody in, but tells who carries it why.
pub(crate) fn retire(draft: &mut Draft, entity: Uuid) {
    draft.remove(&GLOBAL.token_of(entity));
}

/// Takes the token that `entity` has, if it has one.
pub(crate) fn revoke(draft: &mut Draft, entity: Uuid) {
    if let Some(hash) = draft.get(&GLOBAL.token_of(entity)) {
        draft.remove(&GLOBAL.token_of(entity));
        draft.remove(&GLOBAL.token(&hash));
    }
}
