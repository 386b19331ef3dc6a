//! `context.masked.yaml`: the context of a run as people are shown it, if it contains the content of a secret that the hook
//! has read or written. A charm may have published the content in a relation, where the context has it.
//!
//! The context itself stays as it is, because a later agent answers the tools from it. The masked copy is written before
//! the call that brings the content is answered.

use super::calls_file::{CallsFile, CallsLine};
use crate::hook_process::run_files::{CONTEXT_BYTES_MAX, read_run_file};
use host::escape::json_as_yaml;
use host::file::{read_regular, write_atomic_unsynced};
use serde_json::{Map, Value};
use state::unit::hook_context::{HookContext, HookTrigger};
use state::unit::secret_mask::SecretMask;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The file, in the folder of the run.
const FILE: &str = "context.masked.yaml";

/// Writes the masked context of a run with the bags that were fetched for it, unless the context contains no content. If an
/// earlier agent knew contents that this one does not know, the bags that were fetched since the last masked context of that
/// agent are omitted.
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

/// Reads the masked context of a run, with the bags that were fetched for it. None if the context of the run contains no
/// content and can be shown unchanged.
pub(crate) fn read(run_folder: &Path) -> io::Result<Option<HookContext>> {
    match host::file::ignore_not_found(read_regular(&run_folder.join(FILE), CONTEXT_BYTES_MAX))? {
        Some((bytes, _)) => Ok(Some(serde_json::from_slice(&bytes)?)),
        None => Ok(None),
    }
}

/// Masks the texts of a context that charms and users write. Returns whether one contained a content.
fn mask(context: &mut HookContext, secrets: &SecretMask) -> bool {
    let (names, found) = (secrets.of_names(), Cell::new(false));
    let replace = |secrets: &SecretMask, text: &mut String| {
        if let Some(masked) = secrets.masked(text) {
            *text = masked;
            found.set(true);
        }
    };
    let mut text = |text: &mut String| replace(secrets, text);
    let mut name = |name: &mut String| replace(&names, name);
    for relation in context.relations.values_mut() {
        let bags = relation.unit_bags.values_mut().chain(relation.application_bags.values_mut());
        bags.for_each(|bag| mask_entries(bag, &mut name, &mut text));
        mask_entries(&mut relation.omitted.pending_application_writes, &mut name, &mut text);
    }
    mask_entries(&mut context.leader_settings, &mut name, &mut text);
    mask_entries(&mut context.charm_state, &mut name, &mut text);
    context.config.values_mut().for_each(|setting| mask_value(setting, &mut name, &mut text));
    for secret in context.secrets.values_mut() {
        name(&mut secret.label);
        text(&mut secret.description);
    }
    let statuses = &mut context.statuses;
    let all = [&mut statuses.unit, &mut statuses.application].into_iter().chain(statuses.units.values_mut());
    for status in all {
        text(&mut status.message);
        status.data.values_mut().for_each(|value| mask_value(value, &mut name, &mut text));
    }
    match &mut context.trigger {
        HookTrigger::Action(action) => mask_object(&mut action.params, &mut name, &mut text),
        HookTrigger::Commands(commands) => text(&mut commands.script),
        HookTrigger::Secret { label, .. } => name(label),
        HookTrigger::Hook(_)
        | HookTrigger::Relation { .. }
        | HookTrigger::Storage { .. }
        | HookTrigger::Workload { .. } => {}
    }
    found.get()
}

/// Masks the keys and the values of settings.
fn mask_entries(
    settings: &mut BTreeMap<String, String>,
    name: &mut impl FnMut(&mut String),
    text: &mut impl FnMut(&mut String),
) {
    let masked = std::mem::take(settings).into_iter().map(|(mut key, mut value)| {
        name(&mut key);
        text(&mut value);
        (key, value)
    });
    settings.extend(masked);
}

fn mask_object(
    object: &mut Map<String, Value>,
    name: &mut impl FnMut(&mut String),
    text: &mut impl FnMut(&mut String),
) {
    for (mut key, mut value) in std::mem::take(object) {
        name(&mut key);
        mask_value(&mut value, name, text);
        object.insert(key, value);
    }
}

fn mask_value(value: &mut Value, name: &mut impl FnMut(&mut String), text: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(string) => text(string),
        Value::Array(items) => items.iter_mut().for_each(|item| mask_value(item, name, text)),
        Value::Object(object) => mask_object(object, name, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A context for the tests.
#[cfg(test)]
#[path = "../../../tests/support/src/hook_context.rs"]
mod sample_context;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use state::terms::secret::{SecretEvent, SecretId, SecretOwnerKind};
    use state::unit::hook_context::{HookStatus, RunningAction};
    use state::unit::secrets::HookSecret;

    const CANARY: &str = "canary-77aa-77aa";

    /// A context in which everything that a charm or a user can write contains a content.
    fn context() -> HookContext {
        let mut context = sample_context::context();
        let text = || format!("a {CANARY} b");
        let settings = || BTreeMap::from([(text(), text())]);
        let relation = context.relations.values_mut().next().expect("the sample has a relation");
        relation.unit_bags.insert(context.unit.clone(), settings());
        relation.application_bags.insert("web".to_owned(), settings());
        relation.omitted.pending_application_writes = settings();
        context.leader_settings = settings();
        context.charm_state = settings();
        context.config = BTreeMap::from([("option".to_owned(), json!({ text(): [text()] }))]);
        let data = BTreeMap::from([("key".to_owned(), json!(text()))]);
        context.statuses.unit = HookStatus { message: text(), data, ..HookStatus::default() };
        let secret = HookSecret {
            owner: SecretOwnerKind::Unit,
            label: text(),
            description: text(),
            rotate: None,
            rotate_at_ms: None,
            expire_at_ms: None,
            revision: 1,
            last_revision: 1,
            access: BTreeMap::new(),
        };
        context.secrets.insert(SecretId::from_bits(1), secret);
        context
    }

    #[test]
    fn a_short_content_is_masked_in_values_and_not_in_the_names_that_tools_look_up() {
        let mut secrets = SecretMask::default();
        secrets.add("username", "<secret>");
        let mut context = sample_context::context();
        context.leader_settings = BTreeMap::from([("username".to_owned(), "username".to_owned())]);
        assert!(mask(&mut context, &secrets));
        let expected = BTreeMap::from([("username".to_owned(), "<secret>".to_owned())]);
        assert_eq!(context.leader_settings, expected);
    }

    #[test]
    fn no_text_of_a_charm_or_a_user_shows_a_content() {
        let mut secrets = SecretMask::default();
        secrets.add(CANARY, "<secret>");
        let params = json!({ CANARY: { CANARY: CANARY } }).as_object().expect("an object").clone();
        let action = RunningAction { name: "backup".to_owned(), id: "1".to_owned(), params };
        let (event, id, label) = (SecretEvent::Rotate, SecretId::from_bits(1), CANARY.to_owned());
        for trigger in [HookTrigger::Action(action), HookTrigger::Secret { event, id, label, revision: None }]
        {
            let mut masked = HookContext { trigger, ..context() };
            assert!(mask(&mut masked, &secrets));
            let text = serde_json::to_string(&masked).expect("contexts are plain data");
            assert!(!text.contains(CANARY), "{text}");
            assert!(text.contains("a <secret> b"), "other text is kept");
        }
    }
}
