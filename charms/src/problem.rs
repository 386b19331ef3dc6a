//! What is wrong with a charm. Everything is checked before anything is created and all problems are reported at once
//! (spec/clients.md 4.8), so checks collect problems instead of stopping at the first.

use serde_json::{Map, Value};
use std::fmt;

/// One thing that is wrong, in one line: the file, the place in it (a key, or line and column), and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub file: String,
    /// `provides.db`, `line 3, column 5`, or empty for the file as a whole.
    pub place: String,
    pub text: String,
}

impl Problem {
    pub fn new(file: &str, place: &str, text: impl Into<String>) -> Problem {
        Problem { file: file.to_owned(), place: place.to_owned(), text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", one_line(&self.file))?;
        if !self.place.is_empty() {
            write!(f, "{}: ", one_line(&self.place))?;
        }
        f.write_str(&one_line(&self.text))
    }
}

/// Names and keys come from the charm: whatever is in them, a problem stays one line and moves no cursor.
fn one_line(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

impl std::error::Error for Problem {}

/// Collects what is wrong with one file, and reads its loosely typed parts.
pub struct Checker {
    file: String,
    section: String,
    pub problems: Vec<Problem>,
}

impl Checker {
    pub fn new(file: &str) -> Checker {
        Checker::of_section(file, "")
    }

    /// For a part of a file: all places are given below `section`.
    pub fn of_section(file: &str, section: &str) -> Checker {
        Checker { file: file.to_owned(), section: section.to_owned(), problems: Vec::new() }
    }

    pub fn say(&mut self, place: &str, text: impl Into<String>) {
        let place = if place.is_empty() { self.section.clone() } else { join(&self.section, place) };
        self.problems.push(Problem::new(&self.file, &place, text));
    }

    /// A map; null and absent are an empty one.
    pub fn map(&mut self, place: &str, value: Option<&Value>) -> Map<String, Value> {
        match value {
            Some(Value::Object(map)) => map.clone(),
            None | Some(Value::Null) => Map::new(),
            Some(other) => {
                self.say(place, format!("expected a map, got {}", kind(other)));
                Map::new()
            }
        }
    }

    /// A text; none when null or absent.
    pub fn text(&mut self, place: &str, value: Option<&Value>) -> Option<String> {
        match value {
            Some(Value::String(text)) => Some(text.clone()),
            None | Some(Value::Null) => None,
            Some(other) => {
                self.say(place, format!("expected a string, got {}", kind(other)));
                None
            }
        }
    }

    /// True or false; false when null or absent.
    pub fn flag(&mut self, place: &str, value: Option<&Value>) -> bool {
        match value {
            Some(Value::Bool(flag)) => *flag,
            None | Some(Value::Null) => false,
            Some(other) => {
                self.say(place, format!("expected true or false, got {}", kind(other)));
                false
            }
        }
    }

    /// A count from 0; none when null or absent.
    pub fn count(&mut self, place: &str, value: Option<&Value>) -> Option<u32> {
        let value = value.filter(|value| !value.is_null())?;
        let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
        if count.is_none() {
            self.say(place, format!("expected a count, got {}", kind(value)));
        }
        count
    }

    /// One of several words; none, after a problem, for any other.
    pub fn word<T: Copy>(&mut self, place: &str, value: Option<&Value>, words: &[(&str, T)]) -> Option<T> {
        let given = match value {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => "nothing".to_owned(),
            Some(other) => kind(other),
        };
        let found =
            words.iter().find(|(word, _)| *word == given && value.is_some()).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.say(place, format!("expected {}, got {given}", words.join(" or ")));
        }
        found
    }
}

/// A value in words, for "expected X, got …".
pub fn kind(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// `outer.inner`.
pub fn join(outer: &str, inner: &str) -> String {
    if outer.is_empty() { inner.to_owned() } else { format!("{outer}.{inner}") }
}
