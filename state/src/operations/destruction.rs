//! A model on its way out: Dying at once, and all that is in it in bites, each small enough for one transaction and each
//! leaving to the documents what is next, so that a crash between any two loses nothing.
//!
//! 1. Its applications are destroyed, one a bite: life of units and relations is derived from theirs, and their agents do
//!    what they owe. With force each is marked as if it had been removed so (see `force`).
//! 2. Its machines become Dying, a few a bite: their agents end once their units are gone, and the provider takes them
//!    away. Nothing new comes in meanwhile: a model that is not Alive takes no application, relation or machine.
//! 3. When none is left the model goes, its name is free, and a tombstone stays. What it leaves behind (numbers,
//!    tombstones, logs, actions) is a cleanup of no model, for the janitor.

use crate::documents::draft::Draft;
use crate::documents::keys::{DestructionDoc, GLOBAL, Kind, Model, TombstoneDoc, last_id};
use crate::documents::refusal::Refusal;
use crate::lifecycle::{application, machine};
use crate::operations::force::{self, Force};
use crate::terms::life::Life;
use crate::terms::names::Uuid;

/// Applications that are destroyed in a bite: one may write as much as a transaction takes but the bite's own document.
const APPLICATIONS_AT_ONCE: usize = 1;
/// Machines that become Dying in a bite: 3 reads and 2 writes each, beside the page.
const MACHINES_AT_ONCE: usize = 20;
/// All that was in the model was destroyed; it may not be gone yet.
const DONE: &str = "done";

/// The user's destroy-model. Again, it forces what was not forced, or takes the waiting off; without force it changes
/// nothing.
pub fn destroy(draft: &mut Draft, model: Model, force: Option<Force>, now_ms: i64) -> Result<(), Refusal> {
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
        // from the first on: what is destroyed already is forced too
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

/// One bite of a model that is being destroyed; true = there is more to do now.
pub fn bite(draft: &mut Draft, model: Model) -> Result<bool, Refusal> {
    let Some(doc) = draft.get(&model.model_destruction()) else {
        return Ok(false);
    };
    let (applications, machines) = (model.all(Kind::Application), model.all(Kind::Machine));
    if doc.after == DONE {
        let held = [applications, machines].iter().any(|prefix| draft.first(prefix, &[]).is_some());
        if !held {
            remove(draft, model);
        }
        // what it leaves behind is cleared next
        return Ok(!held);
    }
    let force = doc.forced_ms.map(|now_ms| Force { no_wait: doc.no_wait, now_ms });
    let at_machines = doc.after.starts_with(&machines);
    let (prefix, at_once) =
        if at_machines { (&machines, MACHINES_AT_ONCE) } else { (&applications, APPLICATIONS_AT_ONCE) };
    let page = draft.page_keys(prefix, &doc.after, at_once);
    for id in page.iter().filter_map(|key| last_id(key)) {
        if at_machines {
            end_machine(draft, model, id, force)?
        } else {
            end_application(draft, model, id, force)?
        }
    }
    let after = match page.last() {
        Some(last) if page.len() == at_once => last.clone(),
        _ if at_machines => DONE.to_owned(),
        _ => machines,
    };
    draft.put(&model.model_destruction(), &DestructionDoc { after, ..doc });
    Ok(true)
}

fn end_application(draft: &mut Draft, model: Model, id: Uuid, force: Option<Force>) -> Result<(), Refusal> {
    match force {
        Some(force) => force::application(draft, model, id, force).map(drop),
        None => application::destroy(draft, model, id).map(drop),
    }
}

/// Its units are Dying with their applications, so that none of them keeps it.
fn end_machine(draft: &mut Draft, model: Model, id: Uuid, force: Option<Force>) -> Result<(), Refusal> {
    match force {
        Some(force) => force::machine(draft, model, id, force),
        None => {
            machine::set_dying(draft, model, id);
            Ok(())
        }
    }
}

/// Nothing is left in it.
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
