//! The destruction of a model, in batches that each fit into one transaction.
//!
//! The model becomes Dying with the request. Each batch stores in the destruction document where the next one
//! starts, so a crash between two batches loses nothing. The janitor calls [`destroy_batch`] until it returns
//! false.
//!
//! 1. The applications are destroyed, one per batch: the lives of units and relations are derived from theirs,
//!    and the agents run the remaining hooks. With force, each application is also marked as by
//!    `remove-application --force` (see [`force`]).
//! 2. The machines become Dying, a few per batch: their agents finish once their units are removed, and the
//!    provider terminates them. Nothing is added meanwhile, because a model that is not Alive accepts no
//!    application, relation or machine.
//! 3. When no application and no machine is left, the model is removed, its name is free, and a tombstone
//!    stays. The remaining documents (sequences, tombstones, logs, actions) are listed in a cleanup document that
//!    belongs to no model, and the janitor deletes them.

use crate::documents::draft::Draft;
use crate::documents::prelude::{
    DestructionDoc, DestructionPhase, GLOBAL, Kind, Model, TombstoneDoc, TombstoneKind, last_id,
};
use crate::documents::refusal::Refusal;
use crate::lifecycle::machine;
use crate::terms::force::Force;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::refusal::EntityKind;
use crate::transitions::force;

/// Applications that are destroyed in one batch: one writes at most 91 documents, beside the destruction document.
const APPLICATIONS_PER_BATCH: usize = 1;
/// Machines that become Dying in one batch: 3 reads and 2 writes each, beside the page.
const MACHINES_PER_BATCH: usize = 20;

/// The user's `destroy-model`. Repeating the request with force turns the destruction into a forced one, or removes
/// the grace period of a forced one; without force it changes nothing.
///
/// # Errors
/// If the model does not exist.
pub fn destroy(draft: &mut Draft, model: Model, force: Force, now_ms: i64) -> Result<(), Refusal> {
    if draft.get(&model.model()).is_none() {
        return Err(Refusal::not_found(EntityKind::Model, model.0));
    }
    let known = draft.get(&model.model_destruction());
    if known.is_none() {
        draft.put(&model.model_life(), &Life::Dying);
    }
    let before = known.clone().unwrap_or(DestructionDoc { since_ms: now_ms, ..DestructionDoc::default() });
    let next = match (before.force, force) {
        // start again at the first application: entities that are Dying already must be forced, too
        (Force::No, Force::AfterWait | Force::AtOnce) | (Force::AfterWait, Force::AtOnce) => DestructionDoc {
            since_ms: before.since_ms,
            force,
            forced_ms: Some(now_ms),
            phase: DestructionPhase::default(),
        },
        (_, Force::No) | (Force::AfterWait | Force::AtOnce, Force::AfterWait) | (Force::AtOnce, _) => before,
    };
    if known.as_ref() != Some(&next) {
        draft.put(&model.model_destruction(), &next);
    }
    Ok(())
}

/// Destroys the next batch of a model that is being destroyed. Returns whether there is more to do now.
///
/// # Errors
/// The refusal of one of its removals.
pub fn destroy_batch(draft: &mut Draft, model: Model) -> Result<bool, Refusal> {
    let Some(doc) = draft.get(&model.model_destruction()) else {
        return Ok(false);
    };
    let (applications, machines) = (model.prefix(Kind::Application), model.prefix(Kind::Machine));
    let (force, forced_ms) = (doc.force, doc.forced_ms.unwrap_or(doc.since_ms));
    let phase = match &doc.phase {
        DestructionPhase::Applications { after } => {
            let page = draft.page_keys(&applications, after, APPLICATIONS_PER_BATCH);
            for id in page.iter().filter_map(|key| last_id(key)) {
                force::destroy_application(draft, model, id, force, forced_ms).map(drop)?;
            }
            match last_of_full_page(page, APPLICATIONS_PER_BATCH) {
                Some(after) => DestructionPhase::Applications { after },
                None => DestructionPhase::Machines { after: String::new() },
            }
        }
        DestructionPhase::Machines { after } => {
            let page = draft.page_keys(&machines, after, MACHINES_PER_BATCH);
            for id in page.iter().filter_map(|key| last_id(key)) {
                destroy_machine(draft, model, id, force, forced_ms)?
            }
            match last_of_full_page(page, MACHINES_PER_BATCH) {
                Some(after) => DestructionPhase::Machines { after },
                None => DestructionPhase::AwaitingRemoval,
            }
        }
        DestructionPhase::AwaitingRemoval => {
            let held = [applications, machines].iter().any(|prefix| draft.any_key(prefix, &[]).is_some());
            if !held {
                remove(draft, model);
            }
            // the cleanup of a removed model is the next task of the janitor
            return Ok(!held);
        }
    };
    draft.put(&model.model_destruction(), &DestructionDoc { phase, ..doc });
    Ok(true)
}

/// The last key of a page, or `None` if the page is the last one.
fn last_of_full_page(mut page: Vec<String>, per_page: usize) -> Option<String> {
    if page.len() == per_page { page.pop() } else { None }
}

/// Destroys a machine. Its units are Dying with their applications, so none of them blocks it.
fn destroy_machine(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    force: Force,
    forced_ms: i64,
) -> Result<(), Refusal> {
    if force != Force::No {
        return force::destroy_machine(draft, model, id, force, forced_ms);
    }
    machine::set_dying(draft, model, id);
    Ok(())
}

/// Removes a model without applications and machines.
fn remove(draft: &mut Draft, model: Model) {
    let Some(doc) = draft.get(&model.model()) else { return };
    draft.remove(&model.model());
    draft.remove(&model.model_life());
    draft.remove(&model.model_config());
    draft.remove(&model.ssh_keys());
    draft.remove(&model.constraints(model.0));
    draft.remove(&model.model_destruction());
    draft.remove(&GLOBAL.model_name(&doc.name));
    // the tombstones of machines are deleted with the model: for agents that were away, retired tokens are the evidence
    draft.put(&GLOBAL.tombstone(model.0), &TombstoneDoc::new(TombstoneKind::Model, doc.name));
    draft.put(&GLOBAL.cleanup(model.0), &vec![format!("{}/", model.0)]);
}
