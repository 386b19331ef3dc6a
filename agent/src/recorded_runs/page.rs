//! The text that `show-run` and `replay` print: lines in sections, each line safe for a terminal.
//!
//! A value longer than [`VALUE_CHARS_MAX`] is cut, and a section has at most [`SECTION_LINES_MAX`] lines. What is left out
//! is always mentioned at the end of its section ([`Page::end_section`]), and never takes the place of a later section.
//! Called by `show`, `differences` and `replay`, which decide what is in a section and where the rest of it can be read.

use host::escape::one_line;
use serde_json::Value;

/// The length from which a value is cut: two lines of a terminal. The file of the run has all of it.
pub(super) const VALUE_CHARS_MAX: usize = 160;
/// The number of lines of one section, after which the rest is left out: the calls of a busy hook.
pub(super) const SECTION_LINES_MAX: usize = 400;

/// A text in sections.
#[derive(Default)]
pub(super) struct Page {
    text: String,
    lines: usize,
    is_cut: bool,
}

impl Page {
    /// Adds a line without indentation, which begins a section.
    pub(super) fn head(&mut self, line: &str) {
        self.text += &format!("{}\n", one_line(line));
        self.begin_section();
    }

    fn begin_section(&mut self) {
        (self.lines, self.is_cut) = (0, false);
    }

    /// Adds a line to the section.
    pub(super) fn line(&mut self, depth: usize, line: &str) {
        self.lines += 1;
        if self.lines > SECTION_LINES_MAX {
            self.is_cut = true;
            return;
        }
        self.text += &format!("{}{}\n", "  ".repeat(depth + 1), one_line(line));
    }

    /// Adds a line with a value, which is cut if it is long.
    pub(super) fn value(&mut self, depth: usize, name: &str, value: &str) {
        let (shown, is_cut) = cut(value);
        self.is_cut |= is_cut;
        self.line(depth, &format!("{name}{shown}"));
    }

    /// Ends a section, with a note if something was left out: where everything is. The next line begins a section without
    /// a line of its own.
    pub(super) fn end_section(&mut self, everything: &str) {
        if self.is_cut {
            self.text += &format!("  … is left out here; all of it is {}\n", one_line(everything));
        }
        self.begin_section();
    }

    /// The text.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// The beginning of a value in one line, and whether something is missing.
pub(super) fn cut(value: &str) -> (String, bool) {
    let value = value.trim_end_matches('\n');
    match value.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => (format!("{}…", one_line(&value[..end])), true),
        None => (one_line(value), false),
    }
}

/// A setting or a parameter as a person would write it.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_a_charm_reorders_a_line() {
        let mut page = Page::default();
        page.head("\u{202e}a");
        page.line(0, "\u{2066}b");
        page.value(0, "c = ", "\u{200f}d");
        let text = page.into_text();
        assert!(text.chars().all(|c| c == '\n' || !host::escape::is_unsafe(c)), "{text:?}");
    }

    #[test]
    fn a_section_that_is_cut_takes_no_line_from_the_next_one() {
        let mut page = Page::default();
        page.head("first");
        (0..=SECTION_LINES_MAX).for_each(|n| page.line(0, &n.to_string()));
        page.end_section("FILE");
        page.line(0, "second");
        page.end_section("OTHER");
        let text = page.into_text();
        assert!(text.contains("FILE") && text.ends_with("second\n"), "{text}");
    }
}
