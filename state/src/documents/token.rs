//! The tokens of agents.
//!
//! A token is valid as long as its unit or machine exists (S15): the controller does not authenticate the agent
//! of a removed entity. The exception is a machine that is manually provisioned, or whose instance is kept, and
//! that was removed while its agent was unreachable: its token is retired. With a retired token, the agent can only
//! fetch the removal of its machine and confirm it. The token is deleted once the agent has confirmed the removal, or
//! when there are more than [`RETIRED_TOKENS_MAX`].

use crate::documents::draft::Draft;
use crate::documents::prelude::{GLOBAL, Model, TokenHolder};
use crate::documents::refusal::Refusal;
use crate::terms::names::Uuid;
use crate::terms::refusal::RefusalReason;

/// The most retired tokens that are kept, in all models together: some 500 bytes each with its index, 500 KB together.
pub const RETIRED_TOKENS_MAX: usize = 1_000;
/// The most retired tokens that one transaction deletes, with one read and two writes each: 40 reads and 80 writes, a small
/// part of [`READS_MAX`](crate::documents::draft::READS_MAX) and [`WRITES_MAX`](crate::documents::draft::WRITES_MAX).
pub const RETIRED_TOKENS_PER_BATCH: usize = 40;

/// Gives `entity` the token with the hash `sha256`, and revokes its previous one. Idempotent.
///
/// # Errors
/// If another entity has the token, which would lose it.
pub fn set(draft: &mut Draft, entity: Uuid, holder: &TokenHolder, sha256: &str) -> Result<(), Refusal> {
    let before = draft.get(&GLOBAL.token_digest(entity));
    let holder_before = draft.get(&GLOBAL.token(sha256));
    if before.as_deref() != Some(sha256) && holder_before.is_some() {
        return Err(RefusalReason::NotAuthorised.into());
    }
    if holder_before.as_ref() == Some(holder) {
        return Ok(());
    }
    if let Some(before) = before {
        draft.remove(&GLOBAL.token(&before));
    }
    draft.put(&GLOBAL.token_digest(entity), &sha256.to_owned());
    draft.put(&GLOBAL.token(sha256), holder);
    Ok(())
}

/// Retires the token of a machine that is removed without its agent.
pub(crate) fn retire(draft: &mut Draft, model: Model, machine: Uuid) {
    if let Some(hash) = draft.get(&GLOBAL.token_digest(machine)) {
        draft.remove(&GLOBAL.token_digest(machine));
        draft.put(&GLOBAL.token(&hash), &TokenHolder::RemovedMachine { model, machine });
        draft.put(&GLOBAL.retired_token_digest(machine), &hash);
    }
}

/// Deletes the retired tokens of these machines, at most [`RETIRED_TOKENS_PER_BATCH`] at a time: their agents have
/// confirmed the removal, or the controller no longer waits for them. An agent that connects later is not authorised:
/// it deletes nothing, and a person has to clean up its host. Idempotent.
pub fn delete_retired(draft: &mut Draft, machines: &[Uuid]) {
    for machine in machines.iter().take(RETIRED_TOKENS_PER_BATCH) {
        if let Some(hash) = draft.get(&GLOBAL.retired_token_digest(*machine)) {
            draft.remove(&GLOBAL.retired_token_digest(*machine));
            draft.remove(&GLOBAL.token(&hash));
        }
    }
}

/// Deletes the token of `entity`, if it has one.
pub(crate) fn revoke(draft: &mut Draft, entity: Uuid) {
    if let Some(hash) = draft.get(&GLOBAL.token_digest(entity)) {
        draft.remove(&GLOBAL.token_digest(entity));
        draft.remove(&GLOBAL.token(&hash));
    }
}
