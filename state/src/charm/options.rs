//! Configuration values: parsing a user's text into a value of the declared type, and the values that a charm
//! sees.
//!
//! Values are strings, integers, floats and booleans, never anything else (spec/clients.md 4.4).

use super::{Charm, ConfigOption, OptionType};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The values that a user has set, by option. The charm's defaults are not included: they belong to the charm
/// revision (spec/charms.md, lesson 7).
pub type Settings = BTreeMap<String, Value>;

/// A change of settings: the new value of an option, or none to return to the charm's default.
pub type SettingsChange = BTreeMap<String, Option<Value>>;

/// Why an option of a charm is not set or reset. The English is in `api::text::refusal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OptionProblem {
    /// The charm does not declare the option.
    Unknown {
        /// The option.
        option: String,
    },
    /// The value contains NUL.
    ContainsNul {
        /// The option.
        option: String,
    },
    /// The value is not of the type of the option.
    WrongType {
        /// The option.
        option: String,
        /// Its type.
        expected: OptionType,
        /// The value.
        value: String,
    },
}

impl OptionType {
    /// The name of this type in config.yaml and in error messages.
    pub fn name(self) -> &'static str {
        match self {
            OptionType::String => "string",
            OptionType::Int => "int",
            OptionType::Float => "float",
            OptionType::Boolean => "boolean",
            OptionType::Secret => "secret",
        }
    }

    /// Converts `value` to this type; none if it is of another type. An integer is accepted for a float.
    pub fn coerce(self, value: &Value) -> Option<Value> {
        let fits = match (self, value) {
            (OptionType::String, Value::String(_)) | (OptionType::Boolean, Value::Bool(_)) => true,
            (OptionType::Int, Value::Number(number)) => number.is_i64(),
            (OptionType::Float, Value::Number(number)) => return Some(Value::from(number.as_f64()?)),
            (OptionType::Secret, Value::String(uri)) => uri.is_empty() || uri.starts_with("secret:"),
            _ => false,
        };
        fits.then(|| value.clone())
    }
}

/// Parses the value of option `name` from `text` of a command line. `Ok(None)` unsets the option: an empty text
/// means that for every type except string.
///
/// # Errors
/// If the text is not of the option's type, or contains NUL.
fn parse_config_value(name: &str, option: &ConfigOption, text: &str) -> Result<Option<Value>, OptionProblem> {
    if text.is_empty() && option.kind != OptionType::String {
        return Ok(None);
    }
    if text.contains('\0') {
        return Err(OptionProblem::ContainsNul { option: name.to_owned() });
    }
    let value = match option.kind {
        OptionType::String | OptionType::Secret => option.kind.coerce(&Value::from(text)),
        OptionType::Int => text.parse::<i64>().ok().map(Value::from),
        OptionType::Float => text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from),
        // The words that Go's strconv.ParseBool accepts, because Juju accepts them.
        OptionType::Boolean => match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(Value::from(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(Value::from(false)),
            _ => None,
        },
    };
    value.map(Some).ok_or_else(|| OptionProblem::WrongType {
        option: name.to_owned(),
        expected: option.kind,
        value: text.to_owned(),
    })
}

fn unknown(name: &str) -> OptionProblem {
    OptionProblem::Unknown { option: name.to_owned() }
}

/// The change that `pintle config APP a=1 b=2` requests. Several options are one change: if any is invalid,
/// nothing is changed and the error lists every problem.
///
/// # Errors
/// One problem for each invalid option.
pub fn parse_change(
    charm: &Charm,
    texts: &BTreeMap<String, String>,
) -> Result<SettingsChange, Vec<OptionProblem>> {
    collect(texts.iter().map(|(name, text)| {
        let option = charm.config.get(name).ok_or_else(|| unknown(name))?;
        Ok((name.clone(), parse_config_value(name, option, text)?))
    }))
}

/// The change that `pintle config APP --reset a,b` requests.
///
/// # Errors
/// One problem for each option that the charm does not declare.
pub fn reset_change<'a>(
    charm: &Charm,
    names: impl Iterator<Item = &'a str>,
) -> Result<SettingsChange, Vec<OptionProblem>> {
    collect(names.map(|name| match charm.config.contains_key(name) {
        true => Ok((name.to_owned(), None)),
        false => Err(unknown(name)),
    }))
}

/// The whole change, or every problem in it.
fn collect(
    each: impl Iterator<Item = Result<(String, Option<Value>), OptionProblem>>,
) -> Result<SettingsChange, Vec<OptionProblem>> {
    let (mut change, mut problems) = (SettingsChange::new(), Vec::new());
    for item in each {
        match item {
            Ok((name, value)) => drop(change.insert(name, value)),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(change) } else { Err(problems) }
}

/// Applies `change` to `settings`.
pub fn apply_change(settings: &mut Settings, change: &SettingsChange) {
    for (name, value) in change {
        match value {
            Some(value) => drop(settings.insert(name.clone(), value.clone())),
            None => drop(settings.remove(name)),
        }
    }
}

/// The values that `config-get` prints: the settings over the charm's defaults. An option with neither is
/// absent.
pub fn with_defaults(charm: &Charm, settings: &Settings) -> Settings {
    let value =
        |name: &String, option: &ConfigOption| settings.get(name).or(option.default.as_ref()).cloned();
    charm.config.iter().filter_map(|(name, option)| Some((name.clone(), value(name, option)?))).collect()
}

/// The settings that remain valid after a refresh to `charm`: those whose option still exists and accepts the
/// value. An integer becomes a float if the option is a float now.
pub fn retain_compatible(charm: &Charm, settings: &Settings) -> Settings {
    let keep = |name: &String, value: &Value| charm.config.get(name)?.kind.coerce(value);
    settings.iter().filter_map(|(name, value)| Some((name.clone(), keep(name, value)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn option(kind: OptionType, default: Value) -> ConfigOption {
        ConfigOption { kind, default: (!default.is_null()).then_some(default), description: String::new() }
    }

    fn charm() -> Charm {
        let config = [
            ("name", option(OptionType::String, json!("none"))),
            ("port", option(OptionType::Int, json!(80))),
            ("ratio", option(OptionType::Float, Value::Null)),
            ("debug", option(OptionType::Boolean, json!(false))),
            ("key", option(OptionType::Secret, Value::Null)),
        ];
        Charm { config: config.map(|(name, option)| (name.to_owned(), option)).into(), ..Charm::default() }
    }

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
    }

    #[test]
    fn text_is_parsed_by_the_options_type() {
        let change = parse_change(
            &charm(),
            &texts(&[
                ("name", "17"),
                ("port", "-17"),
                ("ratio", "2"),
                ("debug", "True"),
                ("key", "secret:abc"),
            ]),
        );
        let expected = [
            ("name".to_owned(), Some(json!("17"))),
            ("port".to_owned(), Some(json!(-17))),
            ("ratio".to_owned(), Some(json!(2.0))),
            ("debug".to_owned(), Some(json!(true))),
            ("key".to_owned(), Some(json!("secret:abc"))),
        ];
        assert_eq!(change, Ok(expected.into()));
    }

    #[test]
    fn all_errors_of_a_change_are_reported_together() {
        let change =
            texts(&[("port", "x"), ("colour", "red"), ("debug", "yes"), ("key", "plain"), ("name", "ok")]);
        let wrong = |option: &str, expected, value: &str| OptionProblem::WrongType {
            option: option.to_owned(),
            expected,
            value: value.to_owned(),
        };
        let problems = vec![
            unknown("colour"),
            wrong("debug", OptionType::Boolean, "yes"),
            wrong("key", OptionType::Secret, "plain"),
            wrong("port", OptionType::Int, "x"),
        ];
        assert_eq!(parse_change(&charm(), &change), Err(problems));
    }

    #[test]
    fn an_empty_text_unsets_every_type_except_string() {
        let change =
            parse_change(&charm(), &texts(&[("name", ""), ("port", ""), ("debug", ""), ("key", "")]));
        let mut settings =
            Settings::from([("port".to_owned(), json!(8080)), ("debug".to_owned(), json!(true))]);
        apply_change(&mut settings, &change.expect("valid"));
        assert_eq!(settings, Settings::from([("name".to_owned(), json!(""))]));
    }

    #[test]
    fn settings_override_the_charms_defaults_and_options_without_value_are_absent() {
        let settings = Settings::from([("port".to_owned(), json!(8080))]);
        let expected = [("debug", json!(false)), ("name", json!("none")), ("port", json!(8080))];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(with_defaults(&charm(), &settings), Settings::from(expected));
    }

    #[test]
    fn a_refresh_drops_settings_whose_option_vanished_or_changed_type() {
        let mut next = charm();
        next.config.remove("name");
        next.config.insert("port".to_owned(), option(OptionType::String, json!("http")));
        let settings = [("name", json!("a")), ("port", json!(81)), ("debug", json!(true))];
        let settings = Settings::from(settings.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(retain_compatible(&next, &settings), Settings::from([("debug".to_owned(), json!(true))]));
        assert_eq!(
            with_defaults(&next, &retain_compatible(&next, &settings)).get("port"),
            Some(&json!("http"))
        );
    }

    #[test]
    fn only_known_options_can_be_reset() {
        assert_eq!(
            reset_change(&charm(), ["port"].into_iter()),
            Ok(SettingsChange::from([("port".to_owned(), None)]))
        );
        assert_eq!(reset_change(&charm(), ["x"].into_iter()), Err(vec![unknown("x")]));
    }
}
