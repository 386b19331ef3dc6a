//! Escaping of text of charms and agents that is printed as one line.

/// Escapes control characters except the tab: the text remains one line and cannot control a terminal.
pub fn one_line(text: &str) -> String {
    let is_unsafe = |c: char| c.is_control() && c != '\t';
    text.chars().flat_map(|c| if is_unsafe(c) { c.escape_default().collect() } else { vec![c] }).collect()
}
