//! How results look: tables, JSON and YAML, and the order people expect.

pub mod application_config;
pub mod cause;
pub mod dry_run;
pub mod log_line;
pub mod status_json;
pub mod status_table;
pub mod task;
pub mod unit;

use crate::command_error::Failure;
use crate::terminal;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Blanks between columns.
const GAP: usize = 2;

/// A table whose first row is the headings; columns are padded by two blanks, `right` names the right-aligned ones.
/// Cells may hold what charms wrote: each is made one safe line. Lines end without blanks.
pub struct Table<'a> {
    pub right: &'a [usize],
    pub rows: Vec<Vec<String>>,
}

impl Table<'_> {
    pub fn text(&self) -> String {
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(|cell| terminal::safe_line(cell)).collect()).collect();
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|at| {
                rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for row in &rows {
            let mut line = String::new();
            for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let padding = " ".repeat(width - cell.chars().count());
                let (before, after) =
                    if self.right.contains(&at) { (padding.as_str(), "") } else { ("", padding.as_str()) };
                line += &format!("{before}{cell}{after}{}", " ".repeat(GAP));
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// A row of a table.
pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.iter().map(|cell| cell.to_string()).collect()
}

/// JSON in one line, as Juju prints it.
pub fn json(value: &Value) -> String {
    format!("{value}\n")
}

/// YAML that every reader reads back as `value`: strings that look like something else are quoted.
pub fn yaml(value: &Value) -> Result<String, Failure> {
    let options = serde_yaml::ser_options! { prefer_block_scalars: false };
    let mut text = String::new();
    serde_yaml::to_fmt_writer_with_options(&mut text, value, options)
        .map_err(|error| Failure::new(format!("cannot write YAML: {error}")))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// JSON or YAML, by the word given to `--format`.
pub fn structured(value: &Value, format: Format) -> Result<String, Failure> {
    match format {
        Format::Json => Ok(json(value)),
        Format::Yaml => yaml(value),
    }
}

/// The structured formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Json,
    Yaml,
}

/// Numbers inside names order as numbers: `a/2` before `a/10`.
pub fn compare_natural(a: &str, b: &str) -> Ordering {
    pieces(a).cmp(&pieces(b)).then_with(|| a.cmp(b))
}

/// A map's entries with its names in natural order.
pub fn natural_entries<V>(map: &BTreeMap<String, V>) -> Vec<(&String, &V)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by(|(a, _), (b, _)| compare_natural(a, b));
    entries
}

/// A text that is left out where there is none.
pub fn put_text(map: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        map.insert(key.to_owned(), text.into());
    }
}

/// Runs of digits as (0, their value), runs of other characters as (1, themselves): digits first, as in ASCII.
fn pieces(text: &str) -> Vec<(u8, u128, &str)> {
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
    fn numbers_in_names_order_as_numbers() {
        let mut names = vec!["a/10", "b/0", "a/2", "a", "10", "9"];
        names.sort_by(|a, b| compare_natural(a, b));
        assert_eq!(names, ["9", "10", "a", "a/2", "a/10", "b/0"]);
    }

    #[test]
    fn columns_are_padded_by_two_and_lines_end_without_blanks() {
        let table =
            Table { right: &[1], rows: vec![row(["App", "Scale", "Message"]), row(["web", "1/2", ""])] };
        assert_eq!(table.text(), "App  Scale  Message\nweb    1/2\n");
    }

    #[test]
    fn yaml_quotes_what_would_read_as_something_else() {
        let text = yaml(&json!({"a": "yes", "b": "1.10", "c": true, "d": ""})).expect("plain data");
        let back: Value = serde_yaml::from_str(&text).expect("our own YAML");
        assert_eq!(back, json!({"a": "yes", "b": "1.10", "c": true, "d": ""}), "{text}");
    }
}
