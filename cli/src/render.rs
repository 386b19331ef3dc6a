//! Rendering of results: tables, JSON and YAML, and natural order of names.
//!
//! One submodule per document. Their layouts are prescribed by spec/clients.md 2.4 and 3.3 to 3.7, because clients
//! parse them.

pub mod application_config;
pub mod cause;
pub mod colour;
pub mod dry_run;
pub mod log_line;
pub mod resource;
pub mod secret;
pub mod status_json;
pub mod status_summary;
pub mod status_table;
pub mod storage;
pub mod task;
pub mod terminal_page;
pub mod unit;

use crate::command_error::CommandError;
use crate::terminal_escape;
use colour::Colour;
use host::escape::json_as_yaml;
use serde::Serialize;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Spaces between columns.
const COLUMN_GAP: usize = 2;

/// A table whose first row is the headings. Columns are separated by two spaces, lines have no trailing spaces. Cells
/// may contain text of charms, so each is escaped to one safe line.
pub struct Table<'a> {
    /// Indices of the right-aligned columns.
    pub right: &'a [usize],
    /// All rows, headings first.
    pub rows: Vec<Vec<String>>,
}

/// The colours of cells, by row and column.
pub type Colours = BTreeMap<(usize, usize), Colour>;

/// The longest cell, in characters: every row is padded to it. The last cell of a row is not padded.
const CELL_MAX: usize = 200;

/// The characters of the last column, which is a message, that must fit beside the others on a terminal.
const LAST_CELL_MIN: usize = 20;

fn shortened(cell: String, is_last: bool) -> String {
    match cell.char_indices().nth(CELL_MAX) {
        Some((end, _)) if !is_last => format!("{}…", &cell[..end]),
        _ => cell,
    }
}

impl Table<'_> {
    /// The table as text.
    pub fn text(&self) -> String {
        self.coloured_text(&Colours::new())
    }

    /// The table as it fits a terminal of this width: columns of `order` are left out, one after the other, until the
    /// others fit; of the last column, at least `LAST_CELL_MIN` characters count. What is still longer, the terminal wraps.
    pub fn fitted_text(&self, colours: &Colours, width: usize, order: &[usize]) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
            if at + 1 == columns { widest.min(LAST_CELL_MIN) } else { widest.min(CELL_MAX) + COLUMN_GAP }
        };
        let mut kept: Vec<usize> = (0..columns).collect();
        for dropped in order {
            if kept.iter().map(|at| width_of(*at)).sum::<usize>() <= width {
                break;
            }
            kept.retain(|at| at != dropped);
        }
        let place = |at: usize| kept.iter().position(|known| *known == at);
        let right: Vec<usize> = self.right.iter().filter_map(|at| place(*at)).collect();
        let colours = colours.iter().filter_map(|((row, at), colour)| Some(((*row, place(*at)?), *colour)));
        let rows = self.rows.iter();
        let rows = rows.map(|row| kept.iter().filter_map(|at| row.get(*at).cloned()).collect()).collect();
        Table { right: &right, rows }.coloured_text(&colours.collect())
    }

    /// The table as text, in which some cells have a colour. It has no other control characters.
    pub fn coloured_text(&self, colours: &Colours) -> String {
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| {
                let last = row.len().saturating_sub(1);
                let cells = row.iter().enumerate();
                cells.map(|(at, cell)| shortened(terminal_escape::safe_line(cell), at == last)).collect()
            })
            .collect();
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|at| {
                rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for (number, row) in rows.iter().enumerate() {
            let mut line = String::new();
            for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let padding = " ".repeat(width - cell.chars().count());
                let (before, after) =
                    if self.right.contains(&at) { (padding.as_str(), "") } else { ("", padding.as_str()) };
                let cell = colours.get(&(number, at)).map_or(cell.clone(), |colour| colour.of_text(cell));
                line += &format!("{before}{cell}{after}{}", " ".repeat(COLUMN_GAP));
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// The name of a model with its owner: `admin/dev`.
pub fn owned_name(model: &str) -> String {
    format!("{}/{model}", api::FIRST_USER)
}

/// Builds a row of a table.
pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.iter().map(|cell| cell.to_string()).collect()
}

/// JSON in one line, as Juju prints it. Characters that reorder or hide text are escapes.
pub fn json(value: &Value) -> String {
    format!("{}\n", json_as_yaml(&value.to_string()))
}

/// YAML that every parser reads back as `value`: strings that look like another type are quoted.
///
/// # Errors
/// If the value cannot be represented.
pub fn yaml(value: &Value) -> Result<String, CommandError> {
    serialized(value, StructuredFormat::Yaml)
}

/// JSON or YAML, as selected with `--format`.
///
/// # Errors
/// If the value cannot be represented.
pub fn structured(value: &Value, format: StructuredFormat) -> Result<String, CommandError> {
    serialized(value, format)
}

/// Like [`structured`], for any document that can be serialized.
///
/// # Errors
/// If the document cannot be represented.
pub fn serialized(document: &impl Serialize, format: StructuredFormat) -> Result<String, CommandError> {
    let written = match format {
        StructuredFormat::Json => serde_json::to_string(document)
            .map(|text| json_as_yaml(&text).into_owned())
            .map_err(|error| error.to_string()),
        StructuredFormat::Yaml => charms::yaml::to_string(document).map_err(|error| error.to_string()),
    };
    let mut text =
        written.map_err(|error| CommandError::new(format!("cannot write the document: {error}")))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// The structured formats of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StructuredFormat {
    Json,
    Yaml,
}

/// Compares names so that numbers in them order by value: `a/2` before `a/10`.
pub fn compare_natural(a: &str, b: &str) -> Ordering {
    natural_sort_key(a).cmp(&natural_sort_key(b)).then_with(|| a.cmp(b))
}

/// The entries of a map, with their names in natural order.
pub fn natural_entries<V>(map: &BTreeMap<String, V>) -> Vec<(&String, &V)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by(|(a, _), (b, _)| compare_natural(a, b));
    entries
}

/// Inserts a text, unless it is empty: clients require that a missing value is omitted.
pub fn insert_unless_empty(map: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        map.insert(key.to_owned(), text.into());
    }
}

/// Splits a text into digits, as (0, value), and other characters, as (1, text): digits order first, as in ASCII.
fn natural_sort_key(text: &str) -> Vec<(u8, u128, &str)> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let digits = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        match piece.parse() {
            Ok(number) if digits => pieces.push((0, number, "")),
            _ => pieces.push((1, 0, piece)),
        }
        rest = after;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_in_names_order_by_value() {
        let mut names = vec!["a/10", "b/0", "a/2", "a", "10", "9"];
        names.sort_by(|a, b| compare_natural(a, b));
        assert_eq!(names, ["9", "10", "a", "a/2", "a/10", "b/0"]);
    }

    #[test]
    fn columns_are_padded_by_two_and_lines_end_without_blanks() {
        let table =
            Table { right: &[1], rows: vec![row(["App", "00000", "Message"]), row(["w/0", "1/2", ""])] };
        assert_eq!(table.text(), "App  00000  Message\nw/0    1/2\n");
    }

    #[test]
    fn a_colour_changes_no_column_and_no_other_control_character_is_printed() {
        let table =
            Table { right: &[], rows: vec![row(["Unit", "Agent", "M"]), row(["a", "idle", "\x1b[31m"])] };
        let coloured = table.coloured_text(&[((1, 1), Colour::Green)].into());
        assert_eq!(coloured.replace("\x1b[32m", "").replace("\x1b[0m", ""), table.text());
        assert_eq!(coloured.matches('\x1b').count(), 2, "{coloured:?}");
    }

    #[test]
    fn columns_are_left_out_in_order_until_the_table_fits() {
        let table = Table {
            right: &[2],
            rows: vec![row(["Unit", "Address", "Rev", "Message"]), row(["web/0", "10.0.0.17", "3", "ready"])],
        };
        let colours: Colours = [((1, 2), Colour::Green)].into();
        let text = |width| table.fitted_text(&colours, width, &[1, 0]);
        let columns = |width| text(width).split_whitespace().take_while(|word| *word != "Message").count();
        assert_eq!(text(30), table.coloured_text(&colours));
        // "Unit Address Rev", then "Unit Rev", then "Rev"
        assert_eq!([30, 29, 5].map(columns), [3, 2, 1]);
        assert!(
            text(5).lines().last().is_some_and(|line| line == "  \x1b[32m3\x1b[0m  ready"),
            "{}",
            text(5)
        );
    }

    #[test]
    fn yaml_quotes_strings_that_look_like_another_type() {
        let text = yaml(&json!({"a": "yes", "b": "1.10", "c": true, "d": ""})).expect("plain data");
        let back: Value = charms::yaml::from_str(&text).expect("our own YAML");
        assert_eq!(back, json!({"a": "yes", "b": "1.10", "c": true, "d": ""}), "{text}");
    }
}
