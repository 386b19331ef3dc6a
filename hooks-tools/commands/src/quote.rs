//! Quotes text as `%q` of Go does. All names in messages of tools are quoted in this way.

use std::fmt::Write;

/// Quotes one text: `a"b` becomes `"a\"b"`.
pub fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            ' '..='~' => quoted.push(c),
            _ if is_printable(c) => quoted.push(c),
            _ => {
                let code = u32::from(c);
                match code {
                    0..=0x7f => write!(quoted, "\\x{code:02x}"),
                    0x80..=0xffff => write!(quoted, "\\u{code:04x}"),
                    _ => write!(quoted, "\\U{code:08x}"),
                }
                .expect("a String takes any text");
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Quotes a list of words: `["a" "b"]`.
pub fn quote_all(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
    format!("[{}]", quoted.join(" "))
}

/// Whether Go prints the character unescaped: letters, marks, numbers, punctuation and symbols. `Debug` of the standard
/// library uses the same classes, but escapes a mark at the beginning of a text, so a letter precedes the character
/// here.
fn is_printable(c: char) -> bool {
    !format!("{:?}", format!("a{c}")).contains('\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_letters_are_not() {
        assert_eq!(quote("a\"b\\\n\u{1}é☕\u{200b}\u{e000}"), "\"a\\\"b\\\\\\n\\x01é☕\\u200b\\ue000\"");
        assert_eq!(quote_all(&["a".to_owned(), String::new()]), "[\"a\" \"\"]");
    }
}
