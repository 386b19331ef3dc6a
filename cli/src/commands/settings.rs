//! Parsing of settings on a command line: `key=value`, `key=@file`, and YAML files.
//!
//! Used by `config`, `model-config`, `model-defaults`, `deploy`, `refresh` and `add-model`. Values stay text: the controller
//! converts them to the types that the charm declares.

use crate::command_error::CommandError;
use crate::render::StructuredFormat;
use api::ConfigChange;
use charms::yaml;
use clap::Args;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Arguments of `model-config` and `model-defaults`.
#[derive(Debug, Args)]
pub struct SettingsArgs {
    /// A key to show, or key=value to set
    pub words: Vec<String>,
    /// Keys to reset to their defaults; comma-separated
    #[arg(long)]
    pub reset: Vec<String>,
    /// A YAML file of settings; settings on the command line take precedence
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Output format; by default a table
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
}

/// What the arguments of such a command request.
pub enum SettingsRequest<'a> {
    /// To show one setting, or all.
    Show(Option<&'a String>),
    /// To change settings.
    Change(ConfigChange),
}

impl SettingsArgs {
    /// What is requested.
    ///
    /// # Errors
    /// If several keys are named, or one beside a change, or a value cannot be read.
    pub fn request(&self) -> Result<SettingsRequest<'_>, CommandError> {
        let (set, keys): (Vec<&String>, Vec<&String>) =
            self.words.iter().partition(|word| word.contains('='));
        let changes = !set.is_empty() || !self.reset.is_empty() || self.file.is_some();
        match keys[..] {
            [] if !changes => Ok(SettingsRequest::Show(None)),
            [] => {
                let mut all =
                    self.file.as_deref().map_or(Ok(BTreeMap::new()), |file| from_file(file, None))?;
                all.extend(parse_pairs(set)?);
                Ok(SettingsRequest::Change(ConfigChange { set: all, reset: reset_words(&self.reset) }))
            }
            [key] if !changes => Ok(SettingsRequest::Show(Some(key))),
            [key] => {
                Err(CommandError::usage(format!("cannot show {key:?} and change settings in one command")))
            }
            _ => Err(CommandError::usage("cannot show several keys: give one key, or none to show all")),
        }
    }
}

/// Splits `key=value`. The value of `key=@file` is the content of the file.
///
/// # Errors
/// If there is no `=`, or the file cannot be read.
pub fn parse_pair(text: &str) -> Result<(String, String), CommandError> {
    let (key, value) = text
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| CommandError::usage(format!("expected key=value, got {text:?}")))?;
    let value = match value.strip_prefix('@') {
        Some(file) => read(Path::new(file))?,
        None => value.to_owned(),
    };
    Ok((key.to_owned(), value))
}

/// Parses all pairs. If a key occurs twice, the last value is used.
///
/// # Errors
/// If a pair is invalid.
pub fn parse_pairs<'a>(
    texts: impl IntoIterator<Item = &'a String>,
) -> Result<BTreeMap<String, String>, CommandError> {
    texts.into_iter().map(|text| parse_pair(text)).collect()
}

/// Parses the values of `--config`: each is `key=value` or a YAML file for [`from_file`]. Later values take
/// precedence.
///
/// # Errors
/// If a pair or a file is invalid.
pub fn from_flags(
    flags: &[String],
    application: Option<&str>,
) -> Result<BTreeMap<String, String>, CommandError> {
    let mut all = BTreeMap::new();
    for flag in flags {
        if flag.contains('=') {
            all.extend([parse_pair(flag)?]);
        } else {
            all.extend(from_file(Path::new(flag), application)?);
        }
    }
    Ok(all)
}

/// Reads a YAML file of settings, either at the top level or below the name of the application. The output of
/// `config APP` is also accepted: those values of its `settings` map are read that a user has set.
///
/// # Errors
/// If the file cannot be read, or is not a map of settings.
pub fn from_file(file: &Path, application: Option<&str>) -> Result<BTreeMap<String, String>, CommandError> {
    let to_error =
        |why: String| CommandError::new(format!("cannot read settings from {}: {why}", file.display()));
    let parsed = yaml::value(&read(file)?).map_err(|error| to_error(error.to_string()))?;
    let mut map = match parsed {
        Value::Object(map) => map,
        _ => return Err(to_error("expected a map".to_owned())),
    };
    if let Some(Value::Object(settings)) = map.get("settings") {
        let user =
            settings.iter().filter(|(_, entry)| entry.get("source").is_some_and(|source| source == "user"));
        map = user.filter_map(|(key, entry)| Some((key.clone(), entry.get("value")?.clone()))).collect();
    } else if let Some(Value::Object(own)) = application.and_then(|name| map.get(name)) {
        map = own.clone();
    }
    map.into_iter()
        .map(|(key, value)| match value {
            Value::String(text) => Ok((key, text)),
            Value::Null => Ok((key, String::new())),
            Value::Bool(_) | Value::Number(_) => Ok((key, value.to_string())),
            Value::Array(_) | Value::Object(_) => {
                Err(to_error(format!("the value of {key:?} is not a scalar")))
            }
        })
        .collect()
}

/// The keys of `--reset a,b`.
pub fn reset_words(flags: &[String]) -> Vec<String> {
    let words = flags.iter().flat_map(|flag| flag.split(',')).map(str::trim);
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Reads a file that a flag names; `-` is the standard input.
///
/// # Errors
/// If it cannot be read.
pub fn read(file: &Path) -> Result<String, CommandError> {
    let content = match file == Path::new("-") {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(file),
    };
    content.map_err(|error| CommandError::new(format!("cannot read {}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_pairs_and_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("some.yaml");
        std::fs::write(&file, "web:\n  port: 80\n  title: 'on'\n  debug: true\n").expect("written");
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
        };
        let flags = [file.display().to_string(), "port=81".to_owned()];
        let all = from_flags(&flags, Some("web")).expect("both understood");
        assert_eq!(all, map(&[("debug", "true"), ("port", "81"), ("title", "on")]));

        std::fs::write(&file, "settings: {a: {source: user, value: 1}, b: {source: default, value: 2}}")
            .expect("written");
        assert_eq!(from_file(&file, Some("web")).expect("own output"), map(&[("a", "1")]));

        std::fs::write(&file, "text").expect("written");
        assert_eq!(
            parse_pair(&format!("key=@{}", file.display())),
            Ok(("key".to_owned(), "text".to_owned()))
        );
        assert!(parse_pair("=x").is_err() && parse_pair("x").is_err());
    }

    #[test]
    fn an_equals_sign_belongs_to_the_value() {
        assert_eq!(parse_pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(parse_pair("a="), Ok(("a".to_owned(), String::new())));
    }

    #[test]
    fn reset_accepts_lists_and_repeated_flags() {
        assert_eq!(reset_words(&["a,b".to_owned(), "c".to_owned()]), ["a", "b", "c"]);
    }
}
