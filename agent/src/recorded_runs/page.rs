//! The text of one run: sections with indented lines, in which long values are cut.

use host::escape::one_line;
use serde_json::Value;
use std::path::Path;

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

    /// Ends a section: names the file that has everything if something was left out.
    pub(super) fn end_section(&mut self, file: &Path) {
        if self.is_cut {
            self.text += &format!("  … is left out here; all of it is in {}\n", file.display());
        }
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
