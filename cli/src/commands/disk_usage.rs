//! `disk-usage`: shows the space that the store, the models, the charm archives and the files of resources take on the
//! controller, and the units on their machines.

use crate::command_error::CommandError;
use crate::render::{self, StructuredFormat, Table, row};
use crate::session::CommandSession;
use api::{DiskUsage, GetDiskUsage, UserPort};
use charms::package_cache::{self, PackageCacheUsage};
use clap::Args;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// The number of digits of a digest in the table: as many as Git shows.
const DIGEST_DIGITS: usize = 12;

/// Arguments of `disk-usage`.
#[derive(Debug, Args)]
pub struct DiskUsageArgs {
    /// Output format, with all sizes in bytes; by default tables
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
}

pub async fn run<A: UserPort>(args: &DiskUsageArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let usage = session.api.handle(GetDiskUsage).await?;
    let cache = package_cache::measure(&session.dir.charm_cache());
    match args.format {
        Some(format) => {
            let mut document =
                serde_json::to_value(&usage).map_err(|error| CommandError::new(error.to_string()))?;
            let PackageCacheUsage { sets, sets_bytes, wheels_bytes } = cache;
            document["package_cache"] =
                json!({"sets": sets, "sets_bytes": sets_bytes, "wheels_bytes": wheels_bytes});
            session.output.print(&render::structured(&hyphenated(document), format)?)
        }
        None => session.output.print(&(tables(usage) + &cache_table(cache))),
    }
}

/// The table of the package cache on this host; empty if it is unused.
fn cache_table(cache: PackageCacheUsage) -> String {
    if cache == PackageCacheUsage::default() {
        return String::new();
    }
    let sizes = [size(cache.sets_bytes), size(cache.wheels_bytes)];
    let values = [cache.sets.to_string()].into_iter().chain(sizes).collect();
    let rows = vec![row(["Package-sets", "Size", "Wheels"]), values];
    format!("\n{}", Table { right: &[0, 1, 2], rows }.text())
}

/// The same document with hyphens in its keys, as in the other listings.
fn hyphenated(document: Value) -> Value {
    match document {
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (key.replace('_', "-"), hyphenated(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(hyphenated).collect(),
        other => other,
    }
}

/// The tables of the store, the models, the units, the machines and the archives. Units and archives are listed largest
/// first.
fn tables(usage: DiskUsage) -> String {
    let store = &usage.store;
    let mut rows = vec![row(["Database", "WAL", "Change-log", "Global", "Retired-tokens"])];
    let files = [store.database_bytes, store.wal_bytes, store.change_log_bytes];
    let documents = [store.global_bytes, store.retired_tokens_bytes];
    rows.push(files.into_iter().chain(documents).map(size).collect());
    let mut text = Table { right: &[0, 1, 2, 3, 4], rows }.text();

    let mut rows = vec![row(["Model", "Documents", "Log", "Actions", "Tombstones"])];
    for model in &usage.models {
        let parts = [model.documents_bytes, model.log_bytes, model.actions_bytes, model.tombstones_bytes];
        rows.push([model.model.clone()].into_iter().chain(parts.map(size)).collect());
    }
    text += "\n";
    text += &Table { right: &[1, 2, 3, 4], rows }.text();

    let units =
        usage.models.iter().flat_map(|model| model.units.iter().map(move |unit| (&model.model, unit)));
    let mut units: Vec<_> = units.collect();
    let total = |unit: &api::UnitDisk| unit.on_machine.map_or(0, |usage| usage.total_bytes());
    units.sort_by_key(|(_, unit)| Reverse(total(unit).saturating_add(unit.log_bytes)));
    if !units.is_empty() {
        let headings = [
            "Unit",
            "Model",
            "Machine",
            "On-machine",
            "Runs",
            "Charm",
            "Agent-logs",
            "State",
            "Measured",
            "Debug-log",
        ];
        let mut rows = vec![row(headings)];
        for (model, unit) in units {
            let reported = unit.on_machine.map(|usage| {
                let parts = [usage.runs_bytes, usage.charm_bytes, usage.logs_bytes, usage.state_bytes];
                let ago_ms = unit.measured_ago_ms.and_then(|ms| i64::try_from(ms).ok()).unwrap_or(0);
                let measured = format!("{} ago", api::ago(ago_ms));
                let sizes = [size(usage.total_bytes())].into_iter().chain(parts.map(size));
                sizes.chain([measured]).collect::<Vec<_>>()
            });
            let reported = reported.unwrap_or_else(|| vec!["-".to_owned(); 6]);
            let names = [unit.unit.clone(), model.clone(), unit.machine.clone()];
            rows.push(names.into_iter().chain(reported).chain([size(unit.log_bytes)]).collect());
        }
        text += "\n";
        text += &Table { right: &[3, 4, 5, 6, 7, 8, 9], rows }.text();
    }
    let machines = usage
        .models
        .iter()
        .flat_map(|model| model.machines.iter().map(move |machine| (&model.model, machine)));
    let machines: Vec<Vec<String>> = machines
        .map(|(model, machine)| vec![machine.machine.clone(), model.clone(), size(machine.quarantined_bytes)])
        .collect();
    if !machines.is_empty() {
        let rows = [vec![row(["Machine", "Model", "Quarantine"])], machines].concat();
        text += "\n";
        text += &Table { right: &[2], rows }.text();
    }
    if !usage.archives.is_empty() {
        let mut rows = vec![row(["Archive", "Charm", "Size", "Used by"])];
        for archive in &usage.archives {
            let digest: String = archive.sha256.chars().take(DIGEST_DIGITS).collect();
            let used_by = match archive.used_by.is_empty() {
                true => "nothing".to_owned(),
                false => archive.used_by.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            };
            rows.push(vec![
                digest,
                archive.charm.clone().unwrap_or_else(|| "-".to_owned()),
                size(archive.bytes),
                used_by,
            ]);
        }
        text += "\n";
        text += &Table { right: &[2], rows }.text();
    }
    text
}

/// A size for people: `0`, `512B`, `1.5K`, `20M`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "K", "M", "G", "T"];
    let (mut tenths, mut unit) = (u128::from(bytes) * 10, 0);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        (tenths, unit) = (tenths.div_ceil(1024), unit + 1);
    }
    match (bytes, unit, tenths) {
        (0, _, _) => "0".to_owned(),
        (_, 0, _) => format!("{bytes}B"),
        (_, _, ..100) => format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[unit]),
        _ => format!("{}{}", tenths.div_ceil(10), UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_two_digits() {
        let sizes = [0, 1, 1023, 1024, 1537, 10_240, 1 << 20, (1 << 30) - 1, 5 << 40];
        assert_eq!(sizes.map(size), ["0", "1B", "1023B", "1.0K", "1.6K", "10K", "1.0M", "1.0G", "5.0T"]);
    }
}
