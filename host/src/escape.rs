//! Escaping of text of charms and agents: for a line of output, and for a file that is JSON and YAML at once.

use std::borrow::Cow;

/// Whether a character can control a terminal, or make a text look like another one: a control character (C0, DEL, C1), a
/// line or paragraph separator, a direction mark, or one that is invisible. The joiners U+200C and U+200D are letters of
/// many languages.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// Escapes unsafe characters ([`is_unsafe`]) except the tab: the text remains one line and is displayed in its order.
pub fn one_line(text: &str) -> String {
    escape(text, is_unsafe)
}

/// Escapes control characters except the tab. Every other character is kept: for a document that programs read.
pub fn without_controls(text: &str) -> String {
    escape(text, char::is_control)
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match is_escaped(c) && c != '\t' {
            true => escaped.extend(c.escape_default()),
            false => escaped.push(c),
        }
    }
    escaped
}

/// JSON that every parser of YAML reads as the same value. YAML allows no control characters, which JSON requires to be
/// escaped below U+0020 only, and YAML 1.1 takes U+0085, U+2028 and U+2029 for line breaks. Direction marks and invisible
/// characters ([`is_unsafe`]) are escaped, too, because people read these files. Outside of strings, JSON has none of them.
pub fn json_as_yaml(json: &str) -> Cow<'_, str> {
    // below U+0020 there are only line breaks and blanks of the layout
    let is_other = |c: char| (c >= '\u{7f}' && is_unsafe(c)) || matches!(c, '\u{fffe}' | '\u{ffff}');
    if !json.contains(is_other) {
        return Cow::Borrowed(json);
    }
    let escaped = |c: char| match is_other(c) {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    json.chars().map(escaped).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_neither_control_a_terminal_nor_reorder_what_it_displays() {
        let text = "a\tb\u{1b}[31m\n\u{9b}\u{202e}c\u{2066}d\u{200f}\u{feff} größe 大";
        let controls = "a\tb\\u{1b}[31m\\n\\u{9b}";
        let marks = "\\u{202e}c\\u{2066}d\\u{200f}\\u{feff} größe 大";
        assert_eq!(one_line(text), format!("{controls}{marks}"));
        assert_eq!(without_controls(text), format!("{controls}\u{202e}c\u{2066}d\u{200f}\u{feff} größe 大"));
    }

    #[test]
    fn characters_that_yaml_does_not_allow_are_escaped_as_in_json() {
        assert_eq!(json_as_yaml("{\"a\": \"é😀\\n\"}"), "{\"a\": \"é😀\\n\"}");
        assert_eq!(json_as_yaml("\"\u{7f}\u{85}\u{2028}\u{ffff}\""), r#""\u007f\u0085\u2028\uffff""#);
        assert_eq!(json_as_yaml("\"\u{202e}\u{feff}\""), r#""\u202e\ufeff""#);
    }
}
