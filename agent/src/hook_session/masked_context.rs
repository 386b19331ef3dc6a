//! `context.masked.yaml`: the context of a run as people are shown it, if it contains the content of a secret that the hook
//! has read or written. A charm may have published the content in a relation, where the context has it.
//!
//! The context itself stays as it is, because a later agent answers the tools from it. The masked copy is written before
//! the call that brings the content is answered.

use super::calls_file::{CallsFile, CallsLine};
use crate::hook_process::run_files::read_run_file;
use host::escape::json_as_yaml;
use host::file::write_atomic_unsynced;
use serde_json::Value;
use state::unit::hook_context::{HookContext, HookTrigger};
use state::unit::secret_mask::SecretMask;
use std::fs;
use std::io;
use std::path::Path;

/// The file, in the folder of the run.
const FILE: &str = "context.masked.yaml";

/// Writes the masked context of a run with the bags that were fetched for it, unless it contains no content. If an earlier
/// agent knew contents that this one does not know, the bags that were fetched since its last masked context are left out.
///
/// # Errors
/// If the file cannot be read or written.
pub(super) fn store(run_folder: &Path, secrets: &SecretMask, has_unknown_contents: bool) -> io::Result<()> {
    let recorded = || read_run_file(run_folder).map(|run_file| run_file.context);
    let earlier = if has_unknown_contents { read(run_folder)? } else { None };
    let Some(mut context) = earlier.or_else(recorded) else { return Ok(()) };
    let lines = if has_unknown_contents { None } else { CallsFile::read(run_folder) };
    for line in lines.unwrap_or_default() {
        if let CallsLine::Bag(bag) = line {
            context.insert_bag(&bag.fetched, bag.values);
        }
    }
    if !mask(&mut context, secrets) && !has_unknown_contents {
        return Ok(());
    }
    let text = serde_json::to_string_pretty(&context).expect("contexts are plain data");
    write_atomic_unsynced(&run_folder.join(FILE), json_as_yaml(&text).as_bytes())
}

/// The masked context of a run, with the bags that were fetched for it. None if its context can be shown as it is.
pub(crate) fn read(run_folder: &Path) -> io::Result<Option<HookContext>> {
    match host::file::ignore_not_found(fs::read(run_folder.join(FILE)))? {
        Some(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        None => Ok(None),
    }
}

/// Masks the texts of a context that charms and users write. Returns whether one contained a content.
fn mask(context: &mut HookContext, secrets: &SecretMask) -> bool {
    let mut found = false;
    let mut text = |text: &mut String| {
        if let Some(masked) = secrets.masked(text) {
            *text = masked;
            found = true;
        }
    };
    for relation in context.relations.values_mut() {
        relation.unit_bags.values_mut().flat_map(|bag| bag.values_mut()).for_each(&mut text);
        relation.application_bags.values_mut().flat_map(|bag| bag.values_mut()).for_each(&mut text);
        relation.omitted.pending_application_writes.values_mut().for_each(&mut text);
    }
    context.leader_settings.values_mut().for_each(&mut text);
    context.charm_state.values_mut().for_each(&mut text);
    context.config.values_mut().for_each(|setting| mask_value(setting, &mut text));
    let statuses = &mut context.statuses;
    let all = [&mut statuses.unit, &mut statuses.application].into_iter().chain(statuses.units.values_mut());
    all.for_each(|status| text(&mut status.message));
    match &mut context.trigger {
        HookTrigger::Action(action) => {
            action.params.values_mut().for_each(|param| mask_value(param, &mut text));
        }
        HookTrigger::Commands(commands) => text(&mut commands.script),
        HookTrigger::Hook(_)
        | HookTrigger::Relation { .. }
        | HookTrigger::Storage { .. }
        | HookTrigger::Secret { .. }
        | HookTrigger::Workload { .. } => {}
    }
    found
}

fn mask_value(value: &mut Value, text: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(string) => text(string),
        Value::Array(items) => items.iter_mut().for_each(|item| mask_value(item, text)),
        Value::Object(map) => map.values_mut().for_each(|item| mask_value(item, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
