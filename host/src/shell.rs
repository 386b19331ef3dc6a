//! Quotes words for a shell, and joins the words of a command line into one line.
//!
//! `juju exec`, and `juju-exec` on a machine, run one word as it is and quote several (spec/hook-tools.md 6). Also used
//! for scripts that the agent writes, and for the commands that are printed in hints.

/// Returns the line for these words: one word as it is, several quoted where the shell would interpret them.
pub fn line(words: &[String]) -> String {
    match words {
        [line] => line.clone(),
        words => words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "),
    }
}

/// Returns the word as a shell reads it back: quoted if the shell would interpret a character of it.
pub fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=:,./@%^".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_a_line_and_several_are_quoted() {
        let line = |words: &[&str]| line(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(line(&["echo $HOME; ls"]), "echo $HOME; ls");
        assert_eq!(
            line(&["JUJU_DISPATCH_PATH=hooks/start", "/a/dispatch"]),
            "JUJU_DISPATCH_PATH=hooks/start /a/dispatch"
        );
        assert_eq!(line(&["echo", "it's", "", "a b", "$x"]), r"echo 'it'\''s' '' 'a b' '$x'");
    }
}
