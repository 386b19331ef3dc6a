//! Problems of a charm, and the checker that collects them.
//!
//! Everything is checked before anything is created, and all problems are reported at once (spec/clients.md 4.8).
//! Therefore a check adds a problem and continues instead of returning at the first one. Used by every module that
//! reads a part of a charm.

use host::escape::one_line;
use serde_json::{Map, Value};
use std::fmt;

/// One problem of a charm. It is displayed as one line: the file, the location in it, and the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file, or the charm as a whole.
    pub file: String,
    /// A key (`provides.db`) or a position (`line 3, column 5`); empty for the whole file.
    pub location: String,
    /// The problem, as the rest of a sentence about the file or key.
    pub text: String,
}

impl Problem {
    /// A problem with the text `text` at `location` in `file`.
    pub fn new(file: &str, location: &str, text: impl Into<String>) -> Problem {
        Problem { file: file.to_owned(), location: location.to_owned(), text: text.into() }
    }
}

impl fmt::Display for Problem {
    /// Names and keys come from the charm: they are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", one_line(&self.file))?;
        if !self.location.is_empty() {
            write!(f, "{}: ", one_line(&self.location))?;
        }
        f.write_str(&one_line(&self.text))
    }
}

impl std::error::Error for Problem {}

/// Reads values of one file or section and collects their problems.
///
/// Each reading function takes the key of the value (`place`) for the problem.
pub struct Checker {
    file: String,
    section: String,
    /// The problems found so far, in the order of the checks.
    pub problems: Vec<Problem>,
}

impl Checker {
    /// A checker for the whole of `file`.
    pub fn new(file: &str) -> Checker {
        Checker::for_section(file, "")
    }

    /// A checker for the part of `file` below the key `section`. All keys are relative to `section`.
    pub fn for_section(file: &str, section: &str) -> Checker {
        Checker { file: file.to_owned(), section: section.to_owned(), problems: Vec::new() }
    }

    /// Adds a problem of the key `place`; an empty key is the whole section.
    pub fn add(&mut self, place: &str, text: impl Into<String>) {
        let place = if place.is_empty() { self.section.clone() } else { join(&self.section, place) };
        self.problems.push(Problem::new(&self.file, &place, text));
    }

    /// Reads a map. Null and an absent value are an empty map.
    pub fn map(&mut self, place: &str, value: Option<&Value>) -> Map<String, Value> {
        match value {
            Some(Value::Object(map)) => map.clone(),
            None | Some(Value::Null) => Map::new(),
            Some(other) => {
                self.add(place, format!("expected a map, got {}", describe(other)));
                Map::new()
            }
        }
    }

    /// Reads a string; `None` if the value is null or absent.
    pub fn text(&mut self, place: &str, value: Option<&Value>) -> Option<String> {
        match value {
            Some(Value::String(text)) => Some(text.clone()),
            None | Some(Value::Null) => None,
            Some(other) => {
                self.add(place, format!("expected a string, got {}", describe(other)));
                None
            }
        }
    }

    /// Reads any single value as text, as Juju reads the descriptions of options; `None` if the value is null or absent.
    pub fn any_text(&mut self, place: &str, value: Option<&Value>) -> Option<String> {
        match value {
            Some(value @ (Value::Bool(_) | Value::Number(_))) => Some(value.to_string()),
            other => self.text(place, other),
        }
    }

    /// Reads a boolean; false if the value is null or absent.
    pub fn bool(&mut self, place: &str, value: Option<&Value>) -> bool {
        match value {
            Some(Value::Bool(value)) => *value,
            None | Some(Value::Null) => false,
            Some(other) => {
                self.add(place, format!("expected true or false, got {}", describe(other)));
                false
            }
        }
    }

    /// Reads a number from 0 to 2^32 - 1; `None` if the value is null or absent.
    pub fn count(&mut self, place: &str, value: Option<&Value>) -> Option<u32> {
        let value = value.filter(|value| !value.is_null())?;
        let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
        if count.is_none() {
            self.add(place, format!("expected a count, got {}", describe(value)));
        }
        count
    }

    /// Reads one of `words` and returns its meaning. Every other value is a problem, also null and an absent value.
    pub fn choice<T: Copy>(&mut self, place: &str, value: Option<&Value>, words: &[(&str, T)]) -> Option<T> {
        let actual = match value {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => "nothing".to_owned(),
            Some(other) => describe(other),
        };
        let found =
            words.iter().find(|(word, _)| *word == actual && value.is_some()).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.add(place, format!("expected {}, got {actual}", words.join(" or ")));
        }
        found
    }
}

/// Describes a value for a text of the form "expected X, got Y".
pub fn describe(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// Joins two keys: `outer.inner`. An empty outer key is omitted.
pub fn join(outer: &str, inner: &str) -> String {
    if outer.is_empty() { inner.to_owned() } else { format!("{outer}.{inner}") }
}
