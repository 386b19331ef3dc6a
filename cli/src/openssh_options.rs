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

/// The options of OpenSSH's ssh with a value.
pub const SSH_WITH_VALUE: &str = "BbcDEeFIiJLlmOoPpQRSWw";
/// The options of OpenSSH's scp with a value.
pub const SCP_WITH_VALUE: &str = "cDFiJloPSX";
/// The flags of the commands themselves that take a value, of those that can be before the options of OpenSSH.
const OWN_WITH_VALUE: [&str; 6] = ["--data", "--model", "-m", "--output", "-o", "--container"];

/// The command line with the options of OpenSSH of `ssh` and `scp` behind a `--`, and those of `ssh` behind its target.
/// Without it, `-o` would be the flag of all commands that names a file for the result, and an option before the target an
/// unknown one.
pub fn separated(words: Vec<String>) -> Vec<String> {
    let is_flag = |word: &str| word.starts_with('-');
    let length = |word: &str| if OWN_WITH_VALUE.contains(&word) { 2 } else { 1 };
    let mut verb = 1;
    while let Some(word) = words.get(verb).filter(|word| is_flag(word)) {
        verb += length(word);
    }
    let with_value = match words.get(verb).map(String::as_str) {
        Some("ssh") => SSH_WITH_VALUE,
        Some("scp") => SCP_WITH_VALUE,
        _ => return words,
    };
    let is_ssh = words[verb] == "ssh";
    let (mut own, mut options) = (words[..=verb].to_vec(), Vec::new());
    let mut next = verb + 1;
    while let Some(word) = words.get(next).filter(|word| is_flag(word)) {
        let is_own = word.starts_with("--") || matches!(word.as_str(), "-m" | "-h");
        let value = word.find(|letter| with_value.contains(letter)).is_some_and(|at| at + 1 == word.len());
        let taken = if is_own { length(word) } else { 1 + usize::from(value) };
        let taken = words[next..].iter().take(taken).cloned();
        match is_own {
            // the user has separated them
            true if word == "--" => return words,
            true => own.extend(taken.inspect(|_| next += 1)),
            false => options.extend(taken.inspect(|_| next += 1)),
        }
    }
    if is_ssh {
        own.extend(words.get(next).cloned());
        next += 1;
    }
    let rest = words.get(next..).unwrap_or_default();
    let is_output = is_ssh && rest.first().is_some_and(|word| word.starts_with("-o"));
    if options.is_empty() && !is_output {
        return words;
    }
    [own, vec!["--".to_owned()], options, rest.to_vec()].concat()
}

/// The warning about an option that concerns a connection, where none is made.
pub fn no_connection(letter: char) -> String {
    format!("-{letter} has no effect: machines of this host are entered without a connection")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_openssh_are_separated_from_those_of_the_command() {
        for (line, expected) in [
            ("pintle ssh web/0 -o A=no ls -o", "pintle ssh web/0 -- -o A=no ls -o"),
            ("pintle ssh -o A=no -oB=no -tt web/0 ls", "pintle ssh web/0 -- -o A=no -oB=no -tt ls"),
            ("pintle -m dev ssh --proxy -L 1:a:2 web/0", "pintle -m dev ssh --proxy web/0 -- -L 1:a:2"),
            ("pintle ssh -m dev -i k web/0", "pintle ssh -m dev web/0 -- -i k"),
            ("pintle scp -r -o A=no a web/0:b", "pintle scp -- -r -o A=no a web/0:b"),
            ("pintle --data d scp a web/0:b", "pintle --data d scp a web/0:b"),
            ("pintle ssh web/0 ls -o", "pintle ssh web/0 ls -o"),
            ("pintle ssh -- web/0", "pintle ssh -- web/0"),
            ("pintle status -o file", "pintle status -o file"),
            ("pintle ssh -o", "pintle ssh -- -o"),
            ("pintle -m", "pintle -m"),
        ] {
            let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(separated(words(line)), words(expected), "{line}");
        }
    }
}
