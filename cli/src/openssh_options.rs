//! The options of OpenSSH in the arguments of `ssh` and `scp`.
//!
//! A machine of this host is entered without a connection, so that options about a connection (its key, its address, its
//! ciphers) have no effect there: suites give `-i KEY` to every machine. Each is answered with a warning. Options about the
//! terminal and the messages of OpenSSH are ignored in silence, as they are for other commands (`crate::arguments`).

use crate::command_error::CommandError;
use std::slice::Iter;

/// One option, with its value if it takes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSshOption<'a> {
    /// The letter after the dash.
    pub letter: char,
    /// The rest of the word, or the next word.
    pub value: Option<&'a str>,
}

/// Whether a word consists of options.
pub fn is_options(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && word != "--"
}

/// The options of a word for which [`is_options`] holds. `with_value`: the letters that take a value, which is the rest of
/// the word or, if that is empty, the next of `words`.
///
/// # Errors
/// If a value is missing.
pub fn options_of<'a>(
    word: &'a str,
    with_value: &str,
    words: &mut Iter<'a, String>,
) -> Result<Vec<OpenSshOption<'a>>, CommandError> {
    let mut options = Vec::new();
    for (at, letter) in word.char_indices().skip(1) {
        if !with_value.contains(letter) {
            options.push(OpenSshOption { letter, value: None });
            continue;
        }
        let attached = Some(&word[at + letter.len_utf8()..]).filter(|rest| !rest.is_empty());
        let value = attached.or_else(|| words.next().map(String::as_str));
        let value = value.ok_or_else(|| CommandError::usage(format!("-{letter} requires a value")))?;
        options.push(OpenSshOption { letter, value: Some(value) });
        break;
    }
    Ok(options)
}

/// The warning about an option that concerns a connection, where none is made.
pub fn no_connection(letter: char) -> String {
    format!("-{letter} has no effect: machines of this host are entered without a connection")
}
