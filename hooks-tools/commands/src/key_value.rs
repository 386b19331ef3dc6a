//! Parses `key=value` arguments (spec/hook-tools.md 1.7). Called by relation-set, leader-set, state-set and add-metric.

use crate::quote::quote;
use std::collections::BTreeMap;

/// Parses pairs. Keys and values are trimmed, empty words are skipped, and empty values are kept.
///
/// # Errors
/// The text of a usage error.
pub fn parse(words: &[String]) -> Result<BTreeMap<String, String>, String> {
    parse_pairs(words, true)
}

/// Parses pairs as [`parse`], but refuses empty values.
///
/// # Errors
/// The text of a usage error.
pub fn parse_nonempty(words: &[String]) -> Result<BTreeMap<String, String>, String> {
    parse_pairs(words, false)
}

fn parse_pairs(words: &[String], allows_empty_values: bool) -> Result<BTreeMap<String, String>, String> {
    let mut pairs = BTreeMap::new();
    for word in words.iter().filter(|word| !word.is_empty()) {
        let expected = |word: &str| format!("expected \"key=value\", got {}", quote(word));
        let (key, value) = word.split_once('=').ok_or_else(|| expected(word))?;
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || (value.is_empty() && !allows_empty_values) {
            return Err(expected(&format!("{key}={value}")));
        }
        if pairs.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(format!("key {} specified more than once", quote(key)));
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<BTreeMap<String, String>, String> {
        super::parse(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn pairs_are_trimmed_and_split_at_the_first_equals_sign() {
        let pairs = parsed(&["", " a = b=c\n", "d="]).unwrap();
        assert_eq!(
            pairs,
            BTreeMap::from([("a".to_owned(), "b=c".to_owned()), ("d".to_owned(), String::new())])
        );
    }

    #[test]
    fn an_invalid_pair_is_reported() {
        assert_eq!(parsed(&["haha"]), Err("expected \"key=value\", got \"haha\"".to_owned()));
        assert_eq!(parsed(&["=haha"]), Err("expected \"key=value\", got \"=haha\"".to_owned()));
        assert_eq!(parsed(&["a=1", " a=2"]), Err("key \"a\" specified more than once".to_owned()));
    }
}
