//! The model: its name, its configuration, and the view of it that agents receive.
//!
//! A model that is not Alive accepts no new application, unit, machine or relation ([`require_alive`]). Its
//! destruction is in [`crate::transitions::destruction`].
//!
//! A setting that hooks see passes through [`model_view`], `unit::snapshot` (`ModelView`), `unit::hook_context_builder`,
//! `unit::hook_context` (`HookModel`) and `unit::environment`.

use crate::documents::document_reads::Documents;
use crate::documents::draft::Draft;
use crate::documents::prelude::{GLOBAL, Kind, Model, ModelDoc};
use crate::documents::refusal::Refusal;
use crate::machine::provision::HarvestMode;
use crate::terms::duration;
use crate::terms::life::Life;
use crate::terms::names::{NAME_LENGTH_MAX, Uuid, is_model_name};
use crate::terms::proxy::Proxies;
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::model::{ModelRefusal, SettingValues};
use crate::unit::logging_config::LoggingConfig;
use crate::unit::snapshot::{HOOK_RETRIES_DEFAULT, ModelView};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The default of `update-status-hook-interval`: 5 minutes (spec A.17).
const UPDATE_STATUS_INTERVAL_DEFAULT: &str = "5m";
/// The default of `provisioner-harvest-mode` (spec F.3).
const HARVEST_MODE_DEFAULT: &str = "destroyed";

/// The setting of models in which charms are developed: their clock can be advanced, and they can have fake applications.
const DEVELOPMENT: &str = "development";
/// The setting with which warm parents fork the hooks of Python charms.
const WARM_DISPATCH: &str = "warm-dispatch";

/// The exclusive upper limit of the durations that a user sets: 8760 hours, a year. Sums of times and durations
/// therefore never overflow.
const INTERVAL_MS_MAX: u64 = 8760 * 3600 * 1000;

/// The default of `teardown-budget`: a unit may be Dying without limit (spec A.7: opt-in).
const TEARDOWN_BUDGET_DEFAULT: &str = "off";

/// The most bytes of the value of a setting. Hooks receive settings as environment variables, and Linux starts no program
/// with a variable of 128 KiB or more (MAX_ARG_STRLEN, with its name): half of that leaves room for every name.
const SETTING_BYTES_MAX: usize = 64 << 10;

/// Creates a model. Its name must be valid and free.
///
/// # Errors
/// If the name is invalid, too long, or taken; the name of a model that is being removed is taken.
pub fn create(draft: &mut Draft, id: Uuid, name: &str, now_ms: i64) -> Result<(), Refusal> {
    if !is_model_name(name) {
        return Err(ModelRefusal::InvalidName { name: name.to_owned() }.into());
    }
    if name.len() > NAME_LENGTH_MAX {
        return Err(ModelRefusal::NameTooLong { length: name.len(), max: NAME_LENGTH_MAX }.into());
    }
    if let Some(holder) = draft.get(&GLOBAL.model_name(name)) {
        let name = name.to_owned();
        if draft.get(&Model(holder).model_life()) == Some(Life::Alive) {
            return Err(ModelRefusal::AlreadyExists { name }.into());
        }
        return Err(ModelRefusal::PredecessorExists { name }.into());
    }
    let model = Model(id);
    draft.put(&GLOBAL.model_name(name), &id);
    draft.put(&model.model(), &ModelDoc { name: name.to_owned(), created_ms: now_ms, advanced_ms: 0 });
    draft.put(&model.model_life(), &Life::Alive);
    let defaults = draft.get(&GLOBAL.model_config()).unwrap_or_default();
    draft.put(&model.model_config(), &defaults);
    Ok(())
}

/// Creates a model with these settings, as [`create`] and [`configure`] do, and returns its document.
///
/// # Errors
/// As these two.
pub fn create_configured(
    draft: &mut Draft,
    id: Uuid,
    name: &str,
    settings: &BTreeMap<String, String>,
    now_ms: i64,
) -> Result<ModelDoc, Refusal> {
    create(draft, id, name, now_ms)?;
    configure(draft, Model(id), settings, &[])?;
    Ok(ModelDoc { name: name.to_owned(), created_ms: now_ms, advanced_ms: 0 })
}

/// Creates the first model of a controller that has never served: it has neither a model nor a token. A model that was
/// destroyed does not come back.
///
/// # Errors
/// As [`create`].
pub fn create_first(draft: &mut Draft, id: Uuid, name: &str, now_ms: i64) -> Result<(), Refusal> {
    let has_served = |draft: &mut Draft, kind| draft.any_key(&GLOBAL.prefix(kind), &[]).is_some();
    match has_served(draft, Kind::ModelName) || has_served(draft, Kind::TokenOf) {
        true => Ok(()),
        false => create(draft, id, name, now_ms),
    }
}

/// The default values of all settings that this version supports. What people are shown and what takes effect both come
/// from here.
static DEFAULTS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let mut defaults = BTreeMap::from([
        ("automatically-retry-hooks".to_owned(), Value::from(true)),
        (DEVELOPMENT.to_owned(), Value::from(false)),
        ("logging-config".to_owned(), Value::from("<root>=INFO")),
        ("max-hook-retries".to_owned(), Value::from(HOOK_RETRIES_DEFAULT)),
        ("parallel".to_owned(), Value::from(false)),
        ("provisioner-harvest-mode".to_owned(), Value::from(HARVEST_MODE_DEFAULT)),
        ("teardown-budget".to_owned(), Value::from(TEARDOWN_BUDGET_DEFAULT)),
        ("update-status-hook-interval".to_owned(), Value::from(UPDATE_STATUS_INTERVAL_DEFAULT)),
        (WARM_DISPATCH.to_owned(), Value::from(false)),
    ]);
    defaults.extend(Proxies::SETTINGS.map(|name| (name.to_owned(), Value::from(Proxies::default_of(name)))));
    defaults
});

/// The default values of all settings that this version supports.
pub fn defaults() -> &'static BTreeMap<String, Value> {
    &DEFAULTS
}

/// The value of a setting in effect: that which a user has set, or its default.
fn effective<'a>(config: &'a BTreeMap<String, Value>, name: &str) -> Option<&'a Value> {
    config.get(name).or_else(|| DEFAULTS.get(name))
}

/// Sets and resets settings, all or none. A key that this version does not support is stored as text and has no
/// effect (spec/clients.md 3.9); the returned names are those keys, for a warning.
///
/// # Errors
/// If the model does not exist, or a value is too long or invalid for its setting.
pub fn configure(
    draft: &mut Draft,
    model: Model,
    set: &BTreeMap<String, String>,
    reset: &[String],
) -> Result<Vec<String>, Refusal> {
    let before =
        draft.get(&model.model_config()).ok_or_else(|| Refusal::not_found(EntityKind::Model, model.0))?;
    change_settings(draft, model, before, set, reset)
}

/// Sets and resets the settings with which new models begin, as [`configure`] does for a model. They are the settings of
/// the model of documents that belong to no model.
///
/// # Errors
/// If a value is too long or invalid for its setting.
pub fn configure_defaults(
    draft: &mut Draft,
    set: &BTreeMap<String, String>,
    reset: &[String],
) -> Result<Vec<String>, Refusal> {
    let before = draft.get(&GLOBAL.model_config()).unwrap_or_default();
    change_settings(draft, GLOBAL, before, set, reset)
}

fn change_settings(
    draft: &mut Draft,
    model: Model,
    before: BTreeMap<String, Value>,
    set: &BTreeMap<String, String>,
    reset: &[String],
) -> Result<Vec<String>, Refusal> {
    let (mut config, mut unknown) = (before.clone(), Vec::new());
    for name in reset {
        config.remove(name);
    }
    for (name, text) in set {
        if text.len() > SETTING_BYTES_MAX {
            let (setting, bytes) = (name.clone(), text.len());
            return Err(ModelRefusal::SettingTooLong { setting, bytes, max: SETTING_BYTES_MAX }.into());
        }
        let value = setting(name, text).map_err(|expected| ModelRefusal::InvalidSetting {
            setting: name.clone(),
            value: text.clone(),
            expected,
        })?;
        if !defaults().contains_key(name) {
            unknown.push(name.clone());
        }
        config.insert(name.clone(), value);
    }
    if config != before {
        draft.put(&model.model_config(), &config);
    }
    Ok(unknown)
}

/// Parses the textual value of a setting. The error describes the values that the setting accepts.
fn setting(name: &str, text: &str) -> Result<Value, SettingValues> {
    if text.contains('\0') {
        return Err(SettingValues::Text);
    }
    match name {
        "provisioner-harvest-mode" => match HarvestMode::parse(text) {
            Some(_) => Ok(Value::from(text)),
            None => Err(SettingValues::HarvestMode),
        },
        "automatically-retry-hooks" | DEVELOPMENT | "parallel" | WARM_DISPATCH => match text {
            "true" | "True" | "1" => Ok(Value::from(true)),
            "false" | "False" | "0" => Ok(Value::from(false)),
            _ => Err(SettingValues::Boolean),
        },
        "logging-config" => match LoggingConfig::parse(text) {
            Some(_) => Ok(Value::from(text)),
            None => Err(SettingValues::Logging),
        },
        "max-hook-retries" if text == "unlimited" => Ok(Value::from(text)),
        "max-hook-retries" => text.parse::<u32>().map(Value::from).map_err(|_| SettingValues::Retries),
        "update-status-hook-interval" => match interval_ms(text) {
            Some(INTERVAL_MS_MAX..) => Err(SettingValues::BelowOneYear),
            Some(_) => Ok(Value::from(text)),
            None => Err(SettingValues::Interval),
        },
        "teardown-budget" if text == TEARDOWN_BUDGET_DEFAULT => Ok(Value::from(text)),
        "teardown-budget" => match interval_ms(text) {
            Some(INTERVAL_MS_MAX..) => Err(SettingValues::BelowOneYear),
            Some(_) => Ok(Value::from(text)),
            None => Err(SettingValues::Budget),
        },
        _ => Ok(Value::from(text)),
    }
}

/// The time after which a Dying unit of a model with this configuration is removed by force; none if there is
/// no limit.
pub fn teardown_budget_ms(config: &BTreeMap<String, Value>) -> Option<i64> {
    let budget = effective(config, "teardown-budget").and_then(Value::as_str).and_then(interval_ms)?;
    i64::try_from(budget).ok().filter(|budget| *budget > 0)
}

/// Parses a duration in the format of Go (`1h2m3.5s`, `250ms`) into milliseconds; `0` and `never` are 0. Returns
/// `None` if the text is not a duration, or if the duration is positive but shorter than a millisecond.
fn interval_ms(text: &str) -> Option<u64> {
    if text == "never" {
        return Some(0);
    }
    let ns = duration::parse_ns(text)?;
    let ms = (ns / 1e6) as u64;
    (ms > 0 || ns == 0.0).then_some(ms)
}

/// Whether charms are developed in the model: the setting `development`.
pub fn is_for_development(documents: &mut impl Documents, model: Model) -> bool {
    let config = documents.document(&model.model_config()).unwrap_or_default();
    effective(&config, DEVELOPMENT).and_then(Value::as_bool) == Some(true)
}

/// Refuses unless charms are developed in the model.
///
/// # Errors
/// If they are not, or the model does not exist.
pub(crate) fn require_development(draft: &mut Draft, model: Model) -> Result<(), Refusal> {
    let doc = draft.get(&model.model()).ok_or_else(|| Refusal::not_found(EntityKind::Model, model.0))?;
    match is_for_development(draft, model) {
        true => Ok(()),
        false => Err(ModelRefusal::NotForDevelopment { name: doc.name }.into()),
    }
}

/// Advances the clock of a model in which charms are developed: update-status, the retries of failed hooks, and the
/// rotations and expiries of secrets become due as if this time had passed. No other time is affected: not leases, tokens,
/// certificates, the presence of agents or the timers of removals. Returns how far the clock is advanced altogether.
///
/// # Errors
/// If no charms are developed in the model, the model does not exist, or for a year or more.
pub fn advance(draft: &mut Draft, model: Model, by_ms: u64) -> Result<u64, Refusal> {
    require_development(draft, model)?;
    if by_ms >= INTERVAL_MS_MAX {
        return Err(ModelRefusal::AdvancedTooFar.into());
    }
    let doc = draft.get(&model.model()).ok_or_else(|| Refusal::not_found(EntityKind::Model, model.0))?;
    let advanced_ms = doc.advanced_ms.saturating_add(by_ms);
    draft.put(&model.model(), &ModelDoc { advanced_ms, ..doc });
    Ok(advanced_ms)
}

/// A time of the controller's clock by the clock of the model, which decides when secrets are due.
pub fn model_time_ms(documents: &mut impl Documents, model: Model, wall_ms: i64) -> i64 {
    let advanced_ms = documents.document(&model.model()).map_or(0, |doc| doc.advanced_ms);
    wall_ms.saturating_add_unsigned(advanced_ms)
}

/// The part of the model that unit agents receive; none if the model does not exist.
pub fn model_view(documents: &mut impl Documents, model: Model) -> Option<ModelView> {
    let doc = documents.document(&model.model())?;
    let config = documents.document(&model.model_config()).unwrap_or_default();
    let interval = effective(&config, "update-status-hook-interval").and_then(Value::as_str);
    // a text is `unlimited`
    let retries = effective(&config, "max-hook-retries").and_then(Value::as_u64);
    let retries = retries.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let is_automatic = effective(&config, "automatically-retry-hooks").and_then(Value::as_bool) == Some(true);
    let logging = effective(&config, "logging-config").and_then(Value::as_str);
    Some(ModelView {
        uuid: model.0,
        name: doc.name,
        update_status_ms: interval.and_then(interval_ms).expect("only durations are stored"),
        hook_retries_max: if is_automatic { retries } else { Some(0) },
        proxies: Proxies::of(&config),
        parallel: is_parallel(&config),
        logging: logging.and_then(LoggingConfig::parse).unwrap_or_default(),
        advanced_ms: doc.advanced_ms,
        warm_dispatch: effective(&config, WARM_DISPATCH).and_then(Value::as_bool) == Some(true),
        engine: documents.engine(),
    })
}

/// Whether the hooks of a machine's units may run at the same time: the setting `parallel`.
pub fn is_parallel(config: &BTreeMap<String, Value>) -> bool {
    effective(config, "parallel").and_then(Value::as_bool) == Some(true)
}

/// Refuses if the model is not Alive, or does not exist.
pub fn require_alive(draft: &mut Draft, model: Model) -> Result<(), Refusal> {
    match draft.get(&model.model_life()) {
        Some(Life::Alive) => Ok(()),
        Some(Life::Dying | Life::Dead) => {
            let name = draft.get(&model.model()).map_or_else(|| model.0.to_string(), |doc| doc.name);
            Err(ModelRefusal::BeingRemoved { name }.into())
        }
        None => Err(Refusal::not_found(EntityKind::Model, model.0)),
    }
}

#[cfg(test)]
mod tests {
    use crate::lifecycle::model::*;

    #[test]
    fn a_setting_is_refused_with_the_rule_that_it_violates() {
        assert_eq!(setting(DEVELOPMENT, "yes"), Err(SettingValues::Boolean));
        for name in ["update-status-hook-interval", "teardown-budget"] {
            assert_eq!(setting(name, "99999999999999999999h"), Err(SettingValues::BelowOneYear));
            assert_eq!(setting(name, "8759h"), Ok(Value::from("8759h")));
        }
        assert_eq!(setting("http-proxy", "a\0b"), Err(SettingValues::Text));
        assert_eq!(setting("http-proxy", "a\u{1}b"), Ok(Value::from("a\u{1}b")), "stored, and shown escaped");
    }

    #[test]
    fn durations_are_parsed_in_the_format_of_go() {
        for (text, ms) in [
            ("5m", Some(300_000)),
            ("10s", Some(10_000)),
            ("1h2m3.5s", Some(3_723_500)),
            ("250ms", Some(250)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("never", Some(0)),
            ("", None),
            ("5", None),
            ("m", None),
            ("-5m", None),
            ("1ns", None),
            ("5 m", None),
        ] {
            assert_eq!(interval_ms(text), ms, "{text:?}");
        }
    }
}
