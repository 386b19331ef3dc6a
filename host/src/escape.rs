//! Escaping of text of charms and agents: for a line of output, and for a file that is JSON and YAML at once.

use std::borrow::Cow;

/// Escapes control characters except the tab: the text remains one line and cannot control a terminal.
pub fn one_line(text: &str) -> String {
    let is_unsafe = |c: char| c.is_control() && c != '\t';
    text.chars().flat_map(|c| if is_unsafe(c) { c.escape_default().collect() } else { vec![c] }).collect()
}

/// JSON that every parser of YAML reads as the same value. YAML allows no control characters, which JSON requires to be
/// escaped below U+0020 only, and YAML 1.1 takes U+0085, U+2028 and U+2029 for line breaks. Outside of strings, JSON has
/// none of them.
pub fn json_as_yaml(json: &str) -> Cow<'_, str> {
    let is_other = |c: char| {
        matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
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
    fn characters_that_yaml_does_not_allow_are_escaped_as_in_json() {
        assert_eq!(json_as_yaml("{\"a\": \"é😀\\n\"}"), "{\"a\": \"é😀\\n\"}");
        assert_eq!(json_as_yaml("\"\u{7f}\u{85}\u{2028}\u{ffff}\""), r#""\u007f\u0085\u2028\uffff""#);
    }
}
