//! The tokens of agents.
//!
//! A token is valid as long as its unit or machine exists (S15): the controller does not authenticate the agent
//! of a removed entity. The exception is a machine that is manually provisioned, or whose instance is kept, and
//! that was removed while its agent was unreachable: its token remains stored to tell the agent why it is
//! rejected.

use crate::documents::draft::Draft;
use crate::documents::keys::GLOBAL;
use crate::terms::names::Uuid;

/// Keeps the token of a removed entity without its index. The token no longer grants access, but the controller
/// can tell its holder why.
pub(crate) fn retire(draft: &mut Draft, entity: Uuid) {
    draft.remove(&GLOBAL.token_of(entity));
}

/// Deletes the token of `entity`, if it has one.
pub(crate) fn revoke(draft: &mut Draft, entity: Uuid) {
    if let Some(hash) = draft.get(&GLOBAL.token_of(entity)) {
        draft.remove(&GLOBAL.token_of(entity));
        draft.remove(&GLOBAL.token(&hash));
    }
}
