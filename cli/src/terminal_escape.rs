//! Escaping of untrusted text for a terminal (spec/security.md S31).
//!
//! Text of charms and of the controller can neither move the cursor nor reorder what is displayed; escaped characters
//! stay visible. Every table, error and log line passes through this module, and so does all that [`Output`] prints on a
//! terminal.
//!
//! [`Output`]: crate::output::Output

use host::escape::is_unsafe;

/// Returns one safe line: control and direction characters are escaped, line breaks and tabs become spaces.
pub fn safe_line(text: &str) -> String {
    safe_text(text).replace(['\n', '\t'], " ")
}

/// Returns safe text: like [`safe_line`], but line breaks and tabs are kept.
pub fn safe_text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => safe.push(c),
            c if is_unsafe(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_return_and_direction_marks_do_not_reach_the_terminal() {
        assert_eq!(safe_line("a\u{1b}[31mb"), "a\\u{1b}[31mb");
        assert_eq!(safe_line("ready\rERROR"), "ready\\u{d}ERROR");
        assert_eq!(safe_line("\u{202e}evil\u{2066}"), "\\u{202e}evil\\u{2066}");
        assert_eq!(safe_line("\u{9b}2J"), "\\u{9b}2J");
        assert_eq!(safe_line("1\n2\t3"), "1 2 3");
        assert_eq!(safe_text("two\nlines\u{7}"), "two\nlines\\u{7}");
    }

    #[test]
    fn letters_of_all_languages_are_kept() {
        assert_eq!(safe_line("größe 大 мир"), "größe 大 мир");
    }
}
