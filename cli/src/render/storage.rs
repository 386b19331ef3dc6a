//! Storage as `storage`, `show-storage` and `storage-pools` print it (spec/clients.md 2.4).

use super::{Table, row};
use crate::times::Zone;
use api::StorageInfo;
use serde_json::{Map, Value, json};
use state::terms::storage::{StorageId, StoragePool};
use std::collections::BTreeMap;

/// All instances by unit; those that no unit has come last.
fn by_unit(storage: &BTreeMap<StorageId, StorageInfo>) -> Vec<(&StorageId, &StorageInfo)> {
    let mut sorted: Vec<_> = storage.iter().collect();
    sorted.sort_by_key(|(id, info)| (info.unit.is_none(), info.unit.clone(), (*id).clone()));
    sorted
}

fn unit(info: &StorageInfo) -> String {
    info.unit.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// The table of `status --storage`.
pub fn status_table(storage: &BTreeMap<StorageId, StorageInfo>) -> Table<'static> {
    let headings = ["Storage Unit", "Storage ID", "Type", "Pool", "Mountpoint", "Size", "Status", "Message"];
    let mut rows = vec![row(headings)];
    rows.extend(by_unit(storage).into_iter().map(|(id, info)| {
        row([
            &unit(info),
            &id.to_string(),
            info.kind.as_str(),
            info.pool.as_str(),
            info.location.as_deref().unwrap_or_default(),
            &size(info.size_mib),
            info.status.as_str(),
            &info.message,
        ])
    }));
    Table { right: &[], rows }
}

/// The document of `storage` and of `status --storage`.
pub fn documents(storage: &BTreeMap<StorageId, StorageInfo>) -> Value {
    let documents: Map<String, Value> =
        storage.iter().map(|(id, info)| (id.to_string(), document(info))).collect();
    json!({ "storage": documents })
}

/// The table of `storage`.
pub fn table(storage: &BTreeMap<StorageId, StorageInfo>) -> Table<'static> {
    let mut rows = vec![row(["Unit", "Storage ID", "Type", "Pool", "Size", "Status", "Message"])];
    rows.extend(by_unit(storage).into_iter().map(|(id, info)| {
        row([
            &unit(info),
            &id.to_string(),
            info.kind.as_str(),
            info.pool.as_str(),
            &size(info.size_mib),
            info.status.as_str(),
            &info.message,
        ])
    }));
    Table { right: &[], rows }
}

/// A size as Juju writes it: `512 MiB`, `1.0 GiB`, `10 GiB`, with one decimal only below 10 of the unit. Empty for 0.
fn size(mib: u64) -> String {
    const UNITS: [&str; 5] = ["MiB", "GiB", "TiB", "PiB", "EiB"];
    if mib == 0 {
        return String::new();
    }
    let (mut size, mut unit) = (mib as f64, 0);
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        (size, unit) = (size / 1024.0, unit + 1);
    }
    // rounded before the comparison: 9.96 GiB are 10 GiB
    let size = (size * 10.0).round() / 10.0;
    match size < 10.0 {
        true => format!("{size:.1} {}", UNITS[unit]),
        false => format!("{size:.0} {}", UNITS[unit]),
    }
}

/// An instance as JSON and YAML.
pub fn document(info: &StorageInfo) -> Value {
    let mut status = Map::from_iter([
        ("current".to_owned(), info.status.as_str().into()),
        ("since".to_owned(), Zone::new(false).since(info.since_ms).into()),
    ]);
    if !info.message.is_empty() {
        status.insert("message".to_owned(), info.message.clone().into());
    }
    let mut document = Map::from_iter([
        ("kind".to_owned(), info.kind.as_str().into()),
        ("pool".to_owned(), info.pool.as_str().into()),
        ("size".to_owned(), info.size_mib.into()),
        ("life".to_owned(), info.life.to_string().to_lowercase().into()),
        ("status".to_owned(), status.into()),
        ("persistent".to_owned(), info.persistent.into()),
        ("machine".to_owned(), info.machine.clone().into()),
    ]);
    if let Some(unit) = &info.unit {
        let mut attachment = Map::from_iter([("machine".to_owned(), Value::from(info.machine.clone()))]);
        if let Some(location) = &info.location {
            attachment.insert("location".to_owned(), location.clone().into());
        }
        let units = Map::from_iter([(unit.to_string(), attachment.into())]);
        document.insert("attachments".to_owned(), json!({ "units": units }));
    }
    document.into()
}

/// What a pool is.
fn pool_text(pool: StoragePool) -> (&'static str, &'static str) {
    match pool {
        StoragePool::Rootfs => ("filesystem", "a directory on the disk of the machine"),
        StoragePool::Tmpfs => ("filesystem", "in memory; the content ends with its attachment"),
        StoragePool::Loop => ("block", "a device over a file on the disk of the machine; needs root"),
    }
}

const POOLS: [StoragePool; 3] = [StoragePool::Loop, StoragePool::Rootfs, StoragePool::Tmpfs];

/// The table of `storage-pools`.
pub fn pools_table() -> Table<'static> {
    let mut rows = vec![row(["Name", "Provider", "Type", "Description"])];
    rows.extend(POOLS.map(|pool| {
        let (kind, text) = pool_text(pool);
        row([pool.as_str(), pool.as_str(), kind, text])
    }));
    Table { right: &[], rows }
}

/// The pools as JSON and YAML.
pub fn pools_document() -> Value {
    let document = |pool: StoragePool| (pool.as_str().to_owned(), json!({ "provider": pool.as_str() }));
    Value::Object(POOLS.map(document).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_binary_units_and_a_decimal_only_below_ten() {
        let rows = [
            (0, ""),
            (1, "1.0 MiB"),
            (5, "5.0 MiB"),
            (10, "10 MiB"),
            (1023, "1023 MiB"),
            (1024, "1.0 GiB"),
            (10 * 1024 - 1, "10 GiB"),
            (10 * 1024, "10 GiB"),
            (100 * 1024, "100 GiB"),
            (1536 * 1024, "1.5 TiB"),
        ];
        for (mib, text) in rows {
            assert_eq!(size(mib), text, "{mib} MiB");
        }
    }
}
