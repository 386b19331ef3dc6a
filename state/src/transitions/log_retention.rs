//! The bound of a model's debug log, and which lines are deleted when it is exceeded.
//!
//! The bound is shared by the units of the model: a unit that logs less than its share keeps all of its lines, and the
//! rest of its share is divided among the others, so that a flood of one unit evicts only lines of that unit. Of each
//! unit the oldest lines are deleted first. Called by the janitor, which measures the log in pages and deletes in
//! batches.

use crate::documents::draft::{Draft, Key, PAGE_MAX, Reader, StoredDocument};
use crate::documents::prelude::{LogDoc, Model};
use crate::terms::names::Uuid;
use std::collections::BTreeMap;

/// Bytes of log lines kept per model, keys and documents together: 8 MiB. A line of 80 characters takes some 300 bytes
/// (its key 100, its fields 120), so that the log holds some 28,000 lines.
pub const DEBUG_LOG_BYTES_MAX: u64 = 8 << 20;

/// The bytes of one stored line.
pub fn line_bytes(stored: &StoredDocument) -> u64 {
    (stored.key.len() + stored.value.len()) as u64
}

/// The bytes by which each unit exceeds its share, if all lines together exceed `bytes_max`; units that keep all of
/// their lines are absent. `usage` may be a partial measurement: the shares are then never too small.
pub fn excess(usage: &BTreeMap<Uuid, u64>, bytes_max: u64) -> BTreeMap<Uuid, u64> {
    if usage.values().sum::<u64>() <= bytes_max {
        return BTreeMap::new();
    }
    let mut ascending: Vec<u64> = usage.values().copied().collect();
    ascending.sort_unstable();
    let (mut left, mut share) = (bytes_max, bytes_max);
    for (smaller, bytes) in ascending.iter().enumerate() {
        share = left / (ascending.len() - smaller) as u64;
        if *bytes > share {
            break;
        }
        left -= bytes;
    }
    let beyond = usage.iter().filter(|(_, bytes)| **bytes > share);
    beyond.map(|(unit, bytes)| (*unit, bytes - share)).collect()
}

/// The keys of the oldest lines of a unit that hold `excess` bytes, at most one page, and the bytes that remain to be
/// deleted; 0 if the unit has no more lines. A line never changes, so the keys may be deleted without being read again,
/// and a damaged line, which the reader skips, does not prevent the deletion of others.
pub fn oldest(reader: &dyn Reader, model: Model, unit: Uuid, excess: u64) -> (Vec<String>, u64) {
    // The keys of a unit's lines ascend with their runs and calls.
    let page = reader.scan(&model.logs_of(unit), "", PAGE_MAX);
    let (mut keys, mut left, is_last) = (Vec::new(), excess, page.len() < PAGE_MAX);
    for line in page {
        if left == 0 {
            break;
        }
        left = left.saturating_sub(line_bytes(&line));
        keys.push(line.key);
    }
    (keys, if is_last { 0 } else { left })
}

/// Deletes these lines of a unit ([`oldest`]).
pub fn delete(draft: &mut Draft, keys: &[String]) {
    keys.iter().for_each(|key| draft.remove(&Key::<LogDoc>::new(key.clone())));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(bytes: &[u64]) -> BTreeMap<Uuid, u64> {
        bytes.iter().enumerate().map(|(unit, bytes)| (Uuid(unit as u128), *bytes)).collect()
    }

    #[test]
    fn a_flood_of_one_unit_costs_no_other_unit_a_line() {
        assert_eq!(excess(&usage(&[10, 900, 20]), 100), usage(&[0, 830]).into_iter().skip(1).collect());
    }

    #[test]
    fn units_above_their_share_keep_the_same_amount() {
        let excess = excess(&usage(&[100, 60, 10]), 100);
        assert_eq!(excess, BTreeMap::from([(Uuid(0), 55), (Uuid(1), 15)]));
    }

    #[test]
    fn nothing_is_deleted_within_the_bound() {
        assert_eq!(excess(&usage(&[50, 50]), 100), BTreeMap::new());
        assert_eq!(excess(&usage(&[]), 0), BTreeMap::new());
    }

    #[test]
    fn what_is_kept_is_at_most_the_bound_and_a_partial_measurement_deletes_no_more() {
        for shape in [&[7, 13, 29, 31, 64][..], &[100, 1, 1, 1], &[50, 50, 50], &[1_000]] {
            let (all, bytes_max) = (usage(shape), 97);
            let excess_of = |part: &BTreeMap<Uuid, u64>| excess(part, bytes_max);
            let deleted: u64 = excess_of(&all).values().sum();
            assert!(all.values().sum::<u64>() - deleted <= bytes_max, "{shape:?}");
            let part: BTreeMap<Uuid, u64> = all.iter().take(2).map(|(unit, bytes)| (*unit, *bytes)).collect();
            for (unit, bytes) in excess_of(&part) {
                assert!(excess_of(&all)[&unit] >= bytes, "{shape:?}");
            }
        }
    }
}
