//! Numbers with their nouns in English.

use state::terms::cause::Count;

/// A number with its noun: `1 unit`, `2 units`, `100 or more units`.
pub(crate) fn counted(count: impl Into<Count>, noun: &str) -> String {
    let Count { number, more } = count.into();
    let plural = if number == 1 && !more { "" } else { "s" };
    let more = if more { " or more" } else { "" };
    format!("{number}{more} {noun}{plural}")
}
