//! The list of the recorded runs of a unit: `pintle-agent runs`.

use super::recorded_run::{DocumentFormat, RecordedRun, unit_folder};
use anyhow::Result;
use api::text::start_reason;
use host::escape::one_line;
use serde_json::{Value, json};
use state::unit::hook_context_builder::utc;
use std::path::Path;

/// The columns of the list.
const COLUMNS: [&str; 6] = ["Run", "Operation", "Started", "Took", "Outcome", "Reason"];

/// The kept runs of the unit in the folder `dir`, oldest first: a line for each, or a document.
///
/// # Errors
/// If it is not the folder of a unit.
pub fn list(dir: &Path, format: Option<DocumentFormat>) -> Result<String> {
    let folder = unit_folder(dir)?;
    let runs = folder.kept_runs().into_iter();
    let runs: Vec<RecordedRun> =
        runs.filter_map(|(number, path)| RecordedRun::read_head(number, path)).collect();
    match format {
        Some(format) => format.write(&runs.iter().map(head_to_json).collect()),
        None => Ok(format_table(&runs)),
    }
}

/// The head of a run as a document.
pub(super) fn head_to_json(run: &RecordedRun) -> Value {
    json!({
        "run": run.number,
        "unit": run.file.context.unit,
        "operation": run.operation(),
        "reason": start_reason::describe(&run.file.reason),
        "started": run.started_ms.map(utc),
        "duration-ms": run.duration_ms(),
        "outcome": run.end.text(),
        "folder": run.folder,
    })
}

/// A duration: `12ms`, `1.5s`.
pub(super) fn format_duration(ms: i64) -> String {
    match ms {
        0..=999 => format!("{ms}ms"),
        _ => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
    }
}

fn format_table(runs: &[RecordedRun]) -> String {
    let row = |run: &RecordedRun| {
        [
            run.number.to_string(),
            run.operation(),
            run.started_ms.map(utc).unwrap_or_default(),
            run.duration_ms().map(format_duration).unwrap_or_default(),
            run.end.text(),
            start_reason::describe(&run.file.reason),
        ]
        .map(|cell| one_line(&cell))
    };
    let rows: Vec<[String; 6]> =
        std::iter::once(COLUMNS.map(str::to_owned)).chain(runs.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}
