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
//!    stays. The remaining documents (sequences, tombstones, logs, actions) are deleted by a cleanup document
//!    of no model.

use crate::documents::draft::Draft;
use crate::documents::keys::{DestructionDoc, GLOBAL, Kind, Model, TombstoneDoc, last_id};
use crate::documents::refusal::Refusal;
use crate::lifecycle::{application, machine};
use crate::operations::force::{self, ForceRequest};
use crate::terms::life::Life;
use crate::terms::names::Uuid;

/// Applications that are destroyed in one batch: one may write all that a transaction permits, except for the
/// destruction document.
const APPLICATIONS_PER_BATCH: usize = 1;
/// Machines that become Dying in one batch: 3 reads and 2 writes each, beside the page.
const MACHINES_PER_BATCH: usize = 20;
/// The cursor after all applications and machines were destroyed; some may not be removed yet.
const DONE: &str = "done";

/// The user's `destroy-model`. Repeating the request with force forces what was not forced before, or removes
/// the grace period; without force it changes nothing.
pub fn destroy(
    draft: &mut Draft,
    model: Model,
    force: Option<ForceRequest>,
    now_ms: i64,
) -> Result<(), Refusal> {
    if draft.get(&model.model()).is_none() {
        return Err(Refusal::not_found("model", model.0));
    }
    let known = draft.get(&model.model_destruction());
    if known.is_none() {
        draft.put(&model.model_life(), &Life::Dying);
    }
    let before = known.clone().unwrap_or(DestructionDoc { since_ms: now_ms, ..DestructionDoc::default() });
    let more = force.is_some_and(|force| before.forced_ms.is_none() || force.no_wait && !before.no_wait);
    let next = match force {
        // start again at the first application: what is destroyed already must be forced, too
        Some(force) if more => DestructionDoc {
            since_ms: before.since_ms,
            forced_ms: Some(force.now_ms),
            no_wait: force.no_wait,
            after: String::new(),
        },
        Some(_) | None => before,
    };
    if known.as_ref() != Some(&next) {
        draft.put(&model.model_destruction(), &next);
    }
    Ok(())
}

/// Destroys the next batch of a model that is being destroyed. Returns whether there is more to do now.
pub fn destroy_batch(draft: &mut Draft, model: Model) -> Result<bool, Refusal> {
    let Some(doc) = draft.get(&model.model_destruction()) else {
        return Ok(false);
    };
    let (applications, machines) = (model.all(Kind::Application), model.all(Kind::Machine));
    if doc.after == DONE {
        let held = [applications, machines].iter().any(|prefix| draft.first(prefix, &[]).is_some());
        if !held {
            remove(draft, model);
        }
        // the cleanup of a removed model is the next task of the janitor
        return Ok(!held);
    }
    let force = doc.forced_ms.map(|now_ms| ForceRequest { no_wait: doc.no_wait, now_ms });
    let at_machines = doc.after.starts_with(&machines);
    let (prefix, per_batch) =
        if at_machines { (&machines, MACHINES_PER_BATCH) } else { (&applications, APPLICATIONS_PER_BATCH) };
    let page = draft.page_keys(prefix, &doc.after, per_batch);
    for id in page.iter().filter_map(|key| last_id(key)) {
        if at_machines {
            destroy_machine(draft, model, id, force)?
        } else {
            destroy_application(draft, model, id, force)?
        }
    }
    let after = match page.last() {
        Some(last) if page.len() == per_batch => last.clone(),
        _ if at_machines => DONE.to_owned(),
        _ => machines,
    };
    draft.put(&model.model_destruction(), &DestructionDoc { after, ..doc });
    Ok(true)
}

fn destroy_application(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    force: Option<ForceRequest>,
) -> Result<(), Refusal> {
    match force {
        Some(force) => force::application(draft, model, id, force).map(drop),
        None => application::destroy(draft, model, id).map(drop),
    }
}

/// Destroys a machine. Its units are Dying with their applications, so none of them blocks it.
fn destroy_machine(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    force: Option<ForceRequest>,
) -> Result<(), Refusal> {
    match force {
        Some(force) => force::machine(draft, model, id, force),
        None => {
            machine::set_dying(draft, model, id);
            Ok(())
        }
    }
}

/// Removes a model without applications and machines.
fn remove(draft: &mut Draft, model: Model) {
    let doc = draft.get(&model.model()).expect("what is being destroyed is there");
    draft.remove(&model.model());
    draft.remove(&model.model_life());
    draft.remove(&model.model_config());
    draft.remove(&model.model_destruction());
    draft.remove(&GLOBAL.model_name(&doc.name));
    draft.put(&GLOBAL.tombstone(model.0), &TombstoneDoc { kind: "model".to_owned(), name: doc.name });
    draft.put(&GLOBAL.cleanup(model.0), &vec![format!("{}/", model.0)]);
}
