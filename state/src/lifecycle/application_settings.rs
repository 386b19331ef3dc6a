//! The settings of applications: the options of their charms, whether they are trusted, and whether they are exposed.
//!
//! Trust is a setting beside the options, as in Juju: `trust APP` and `config APP trust=true` are the same. A charm that
//! declares an option of this name hides it. Called by the lifecycle of applications and by the handlers of users.

use crate::charm::options::{self, Settings};
use crate::charm::{Charm, ConfigOption, OptionType};
use crate::documents::application::charm_of;
use crate::documents::draft::{Draft, Key};
use crate::documents::prelude::Model;
use crate::documents::refusal::Refusal;
use crate::terms::names::Uuid;
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::application::ApplicationRefusal;
use serde_json::Value;
use std::collections::BTreeMap;

/// The setting of every application that says whether it is trusted.
const TRUST: &str = "trust";

/// The settings of an application while they are changed.
pub(crate) struct ChangedSettings {
    /// The options that users have set.
    pub(crate) options: Settings,
    /// Whether the application is trusted.
    pub(crate) is_trusted: bool,
}

impl ChangedSettings {
    /// Parses and applies settings, all or none; the refusal lists all invalid ones.
    pub(crate) fn change(
        &mut self,
        charm: &Charm,
        set: &BTreeMap<String, String>,
        reset: &[String],
    ) -> Result<(), Refusal> {
        if charm.config.contains_key(TRUST) {
            return change_options(charm, &mut self.options, set, reset);
        }
        let kind = OptionType::Boolean;
        let trust = ConfigOption { kind, default: Some(Value::from(false)), description: String::new() };
        let mut with_trust = charm.clone();
        with_trust.config.insert(TRUST.to_owned(), trust);
        let mut settings = self.options.clone();
        settings.insert(TRUST.to_owned(), Value::from(self.is_trusted));
        change_options(&with_trust, &mut settings, set, reset)?;
        self.is_trusted = settings.remove(TRUST) == Some(Value::from(true));
        self.options = settings;
        Ok(())
    }
}

fn change_options(
    charm: &Charm,
    settings: &mut Settings,
    set: &BTreeMap<String, String>,
    reset: &[String],
) -> Result<(), Refusal> {
    let change = options::parse_change(charm, set);
    let back = options::reset_change(charm, reset.iter().map(String::as_str));
    match (change, back) {
        (Ok(change), Ok(back)) => {
            options::apply_change(settings, &back);
            options::apply_change(settings, &change);
            Ok(())
        }
        (change, back) => {
            let problems = [change.err(), back.err()].into_iter().flatten().flatten().collect::<Vec<_>>();
            Err(ApplicationRefusal::InvalidSettings { problems }.into())
        }
    }
}

/// The user's `config`: sets and resets settings together, coerced to the types that the charm declares. Nothing is
/// written if no value changes.
///
/// # Errors
/// If the application does not exist, a setting is unknown, or a value is not of its type.
pub fn configure(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    set: &BTreeMap<String, String>,
    reset: &[String],
) -> Result<(), Refusal> {
    let (_, charm) =
        charm_of(draft, model, id).ok_or_else(|| Refusal::not_found(EntityKind::Application, id))?;
    let before = draft.get(&model.application_config(id)).unwrap_or_default();
    let is_trusted = draft.get(&model.application_trust(id)).unwrap_or_default();
    let mut changed = ChangedSettings { options: before.clone(), is_trusted };
    changed.change(&charm, set, reset)?;
    if changed.options != before {
        draft.put(&model.application_config(id), &changed.options);
    }
    set_trust(draft, model, id, changed.is_trusted);
    Ok(())
}

/// The user's `trust`: whether the units of an application may read the credential of their cloud. All of them run
/// config-changed if it differs (spec/uniter.md B.1).
pub fn set_trust(draft: &mut Draft, model: Model, id: Uuid, trusted: bool) {
    set_flag(draft, &model.application_trust(id), trusted);
}

/// The user's `expose` and `unexpose` (spec/clients.md 3.2): only the status shows it, as no provider has a firewall.
pub fn set_exposed(draft: &mut Draft, model: Model, id: Uuid, exposed: bool) {
    set_flag(draft, &model.application_exposed(id), exposed);
}

/// Writes a document that is absent while it is false. No change of the value is no change of the document.
fn set_flag(draft: &mut Draft, key: &Key<bool>, value: bool) {
    match (draft.get(key).unwrap_or_default(), value) {
        (false, true) => draft.put(key, &true),
        (true, false) => draft.remove(key),
        (true, true) | (false, false) => {}
    }
}
