//! The tokens of agents.
//!
//! A token is valid as long as its unit or machine exists (S15): the controller does not authenticate the agent
//! of a removed entity. The exception is a machine that is manually provisioned, or whose instance is kept, and
//! that was removed while its agent was unreachable: its token is retired. It only tells the agent that its machine was
//! removed, until the agent has confirmed that, or newer ones need the room ([`RETIRED_TOKENS_MAX`]).

use crate::documents::draft::Draft;
use crate::documents::prelude::{GLOBAL, Model, TokenHolder};
use crate::terms::names::Uuid;

/// Retired tokens that are kept, in all models together: the token and its index, some 500 bytes each, 500 KiB.
pub const RETIRED_TOKENS_MAX: usize = 1_000;
/// Retired tokens ended by one transaction, with two reads each: 80, below the 100 of a transaction.
pub const RETIRED_TOKENS_PER_BATCH: usize = 40;

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

/// Retires the token of a machine that is removed without its agent.
pub(crate) fn retire(draft: &mut Draft, model: Model, machine: Uuid) {
    if let Some(hash) = draft.get(&GLOBAL.token_of(machine)) {
        draft.remove(&GLOBAL.token_of(machine));
        draft.put(&GLOBAL.token(&hash), &TokenHolder::RemovedMachine { model, machine });
        draft.put(&GLOBAL.retired_token(machine), &hash);
    }
}

/// Ends the retired tokens of these machines, at most [`RETIRED_TOKENS_PER_BATCH`] at a time: their agents have confirmed
/// the removal, or are not waited for any more. An agent that comes back then is not authorised: it deletes nothing, and
/// its host is cleaned up by hand. Repeating it changes nothing.
pub fn end_retired(draft: &mut Draft, machines: &[Uuid]) {
    for machine in machines.iter().take(RETIRED_TOKENS_PER_BATCH) {
        if let Some(hash) = draft.get(&GLOBAL.retired_token(*machine)) {
            draft.remove(&GLOBAL.retired_token(*machine));
            draft.remove(&GLOBAL.token(&hash));
        }
    }
}

/// Deletes the token of `entity`, if it has one.
pub(crate) fn revoke(draft: &mut Draft, entity: Uuid) {
    if let Some(hash) = draft.get(&GLOBAL.token_of(entity)) {
        draft.remove(&GLOBAL.token_of(entity));
        draft.remove(&GLOBAL.token(&hash));
    }
}
