//! The tokens of agents.
//!
//! A token is valid as long as its unit or machine exists (S15): the controller does not authenticate the agent
//! of a removed entity. The exception is a machine that is manually provisioned, or whose instance is kept, and
//! that was removed while its agent was unreachable: its token remains stored to tell the agent why it is
//! rejected.

use crate::documents::draft::Draft;
use crate::documents::prelude::{GLOBAL, TokenHolder};
use crate::terms::names::Uuid;

/// Gives `entity` the token with the hash `sha256`, and revokes its previous one. Idempotent.
pub fn set(draft: &mut Draft, entity: Uuid, holder: &TokenHolder, sha256: &str) {
    let before = draft.get(&GLOBAL.token_of(entity));
    if before.as_deref() == Some(sha256) && draft.get(&GLOBAL.token(sha256)).as_ref() == Some(holder) {
        return;
    }
    if let Some(before) = before {
        draft.remove(&GLOBAL.token(&before));
    }
    draft.put(&GLOBAL.token_of(entity), &sha256.to_owned());
    draft.put(&GLOBAL.token(sha256), holder);
}

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
