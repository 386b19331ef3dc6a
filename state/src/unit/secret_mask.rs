//! Masks the contents of secrets in what a hook prints (security S43).
//!
//! The mask knows what the hook has read and written in this run, and replaces it line by line. It is best effort: a
//! value that the hook prints in another form, a value of less than [`MASKED_BYTES_MIN`], one that a hook printed before its
//! agent was replaced, and what the hook has read after 1,000 other lines of values, are not found. Used by the agent for the
//! output of a hook that has ended, for its log lines, and for the recorded calls and context that people are shown.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Shorter values are not masked: they occur by chance, and masking `no` would make a log useless.
pub const MASKED_BYTES_MIN: usize = 4;
/// Shorter values are not masked in names: a test password such as `username` is also a key of many charms.
pub const MASKED_IN_NAMES_BYTES_MIN: usize = 16;
/// The most lines of values that a mask knows. A secret has 100 keys at most, and few hooks read ten secrets.
const LINES_MAX: usize = 1_000;

/// The lines of the values of secrets with their placeholders, the longest line first, so that a value which contains
/// another is masked as a whole.
#[derive(Clone, Debug, Default)]
pub struct SecretMask(BTreeMap<(Reverse<usize>, String), String>);

/// A part of a text that is being masked. A placeholder may contain a value, and is not searched.
enum Part<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

impl<'a> Part<'a> {
    fn split(self, value: &str, placeholder: &'a str) -> Vec<Part<'a>> {
        let Part::Text(text) = self else { return vec![self] };
        let mut parts = Vec::new();
        for (index, between) in text.split(value).enumerate() {
            parts.extend((index > 0).then_some(Part::Placeholder(placeholder)));
            parts.push(Part::Text(between));
        }
        parts
    }
}

impl SecretMask {
    /// Adds a value; each of its lines is masked, since output is masked line by line. A line that the mask knows keeps
    /// its placeholder.
    pub fn add(&mut self, value: &str, placeholder: &str) {
        let lines = value.lines().map(str::trim).filter(|line| line.len() >= MASKED_BYTES_MIN);
        for line in lines {
            if self.0.len() < LINES_MAX {
                let line = (Reverse(line.len()), line.to_owned());
                self.0.entry(line).or_insert_with(|| placeholder.to_owned());
            }
        }
    }

    /// The mask of the values in names (keys, labels), by which tools and replays look values up.
    #[must_use]
    pub fn of_names(&self) -> SecretMask {
        let is_long = |((Reverse(bytes), _), _): &(&(Reverse<usize>, String), &String)| {
            *bytes >= MASKED_IN_NAMES_BYTES_MIN
        };
        SecretMask(self.0.iter().filter(is_long).map(|(line, of)| (line.clone(), of.clone())).collect())
    }

    /// Whether the mask knows no value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of lines that the mask knows.
    pub fn lines(&self) -> usize {
        self.0.len()
    }

    /// The placeholder of a value of one line, if the mask knows it.
    pub fn placeholder(&self, value: &str) -> Option<&str> {
        let value = value.trim();
        self.0.get(&(Reverse(value.len()), value.to_owned())).map(String::as_str)
    }

    /// The text with its values replaced; none if it contains none.
    pub fn masked(&self, text: &str) -> Option<String> {
        let contained =
            |((_, value), _): &(&(Reverse<usize>, String), &String)| text.contains(value.as_str());
        let mut found = self.0.iter().filter(contained).peekable();
        found.peek()?;
        let mut parts = vec![Part::Text(text)];
        for ((_, value), placeholder) in found {
            parts = parts.into_iter().flat_map(|part| part.split(value, placeholder)).collect();
        }
        Some(parts.into_iter().map(|(Part::Text(text) | Part::Placeholder(text))| text).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_each_value_is_masked_and_other_text_is_kept() {
        let mut mask = SecretMask::default();
        let values = ["hunter2", "hunter2-long", "-----BEGIN KEY-----\nMIIabc\n", "no", "x y z"];
        for (value, placeholder) in values.into_iter().zip(["<1>", "<2>", "<3>", "<4>", "<5>"]) {
            mask.add(value, placeholder);
        }
        mask.add("hunter2", "<again>");
        let masked = |text: &str| mask.masked(text);
        assert_eq!(masked("a=hunter2-long;hunter2;no").as_deref(), Some("a=<2>;<1>;no"));
        assert_eq!(masked("MIIabc\n(x y z)").as_deref(), Some("<3>\n(<5>)"));
        assert_eq!(masked("nothing"), None);
        assert_eq!((mask.placeholder(" hunter2\n"), mask.placeholder("no")), (Some("<1>"), None));
    }

    #[test]
    fn a_value_in_the_placeholder_of_another_one_is_no_occurrence() {
        let mut mask = SecretMask::default();
        mask.add("long-value", "SECRET(1 password)");
        mask.add("password", "SECRET(2 key)");
        let masked = mask.masked("long-value password");
        assert_eq!(masked.as_deref(), Some("SECRET(1 password) SECRET(2 key)"));
    }

    #[test]
    fn a_mask_is_bounded() {
        let mut mask = SecretMask::default();
        (0..2 * LINES_MAX).for_each(|n| mask.add(&format!("value {n}"), "<1>"));
        assert_eq!(mask.0.len(), LINES_MAX);
    }
}
