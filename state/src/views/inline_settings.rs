//! The selection of the settings that are inlined in a unit's view (design 9): the smallest bags, as many as
//! fit. The settings of the other bags are omitted; the view contains only their versions, and they are fetched
//! when a hook needs them.
//!
//! The selection is a function of the sizes alone, so that applying the deltas gives the full view. The smallest
//! bags are inlined first, so that a large bag slows down only the units that read it. Sizes are rounded, so that a
//! write that changes a few bytes does not cause other bags to be inlined or omitted; a write that does costs as much
//! as a full view.

use crate::terms::names::RelationNumber;
use crate::terms::owner::Owner;
use crate::unit::relation_view::{BagView, RelationView};
use crate::unit::snapshot::{Change, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of bytes of settings, as JSON, that are inlined in a view: 1 MiB.
pub const INLINE_BYTES_MAX: usize = 1 << 20;

/// Identifies a bag in a view: the relation and the owner.
pub type BagKey = (RelationNumber, Owner);

/// The size in bytes of every bag that a unit sees, inlined or omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BagSizes(BTreeMap<BagKey, usize>);

impl BagSizes {
    /// The sizes of the bags in a snapshot.
    pub fn from_snapshot(snapshot: &Snapshot) -> BagSizes {
        let bags = |(number, view): (&RelationNumber, &RelationView)| {
            let size = |(owner, bag): &(Owner, BagView)| ((*number, owner.clone()), bag.bytes);
            view.bags.iter().map(size).collect::<Vec<_>>()
        };
        BagSizes(snapshot.relations.iter().flat_map(bags).collect())
    }

    /// Applies changes that are sent.
    pub fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Bag { relation, owner, bag } => {
                    let key = (*relation, owner.clone());
                    match bag {
                        Some(bag) => drop(self.0.insert(key, bag.bytes)),
                        None => drop(self.0.remove(&key)),
                    }
                }
                Change::Relation { relation, head: None } => {
                    self.0.retain(|(number, _), _| number != relation);
                }
                Change::Relation { head: Some(_), .. }
                | Change::Model(_)
                | Change::Unit(_)
                | Change::Charm(_)
                | Change::Config(_)
                | Change::Trust(_)
                | Change::Leader(_)
                | Change::LeaderSettings(_)
                | Change::Secret { .. }
                | Change::Storage { .. }
                | Change::Resolved(_)
                | Change::Action { .. }
                | Change::Member { .. }
                | Change::Status { .. }
                | Change::ApplicationStatus(_)
                | Change::MachinePorts { .. }
                | Change::Removed => {}
            }
        }
    }

    /// Whether the view contains this bag.
    pub fn contains(&self, relation: RelationNumber, owner: &Owner) -> bool {
        self.0.contains_key(&(relation, owner.clone()))
    }

    /// The bags whose settings are omitted if at most `bytes_max` bytes are inlined.
    pub fn omitted(&self, bytes_max: usize) -> BTreeSet<BagKey> {
        if self.0.values().map(|bytes| rounded_bytes(*bytes)).sum::<usize>() <= bytes_max {
            return BTreeSet::new();
        }
        let mut smallest: Vec<(usize, &BagKey)> =
            self.0.iter().map(|(key, bytes)| (rounded_bytes(*bytes), key)).collect();
        smallest.sort();
        let mut sum = 0;
        let mut fits = |(bytes, _): &(usize, &BagKey)| {
            sum += bytes;
            sum <= bytes_max
        };
        let inline = smallest.iter().take_while(|bag| fits(bag)).count();
        smallest[inline..].iter().map(|(_, key)| (*key).clone()).collect()
    }
}

/// The size, rounded up by an eighth at most.
fn rounded_bytes(bytes: usize) -> usize {
    let step = (bytes / 16).next_power_of_two();
    bytes.next_multiple_of(step)
}

/// The bag that a change concerns, if any.
pub(crate) fn bag_key(change: &Change) -> Option<BagKey> {
    if let Change::Bag { relation, owner, .. } = change { Some((*relation, owner.clone())) } else { None }
}

/// Removes the values of omitted bags from the changes.
pub(crate) fn omit_values(changes: &mut [Change], omitted: &BTreeSet<BagKey>) {
    for change in changes {
        if bag_key(change).is_some_and(|key| omitted.contains(&key))
            && let Change::Bag { bag: Some(bag), .. } = change
        {
            bag.values = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::views::inline_settings::*;

    fn sizes(bytes: &[usize]) -> BagSizes {
        let key = |n: usize| (3, Owner::Unit(crate::terms::names::UnitName::new("db", n as u32)));
        BagSizes(bytes.iter().enumerate().map(|(n, bytes)| (key(n), *bytes)).collect())
    }

    fn omitted(bytes: &[usize], bound: usize) -> Vec<String> {
        let keys = sizes(bytes).omitted(bound).into_iter();
        keys.map(|(_, owner)| match owner {
            Owner::Unit(unit) => unit.to_string(),
            Owner::Application(name) => name,
        })
        .collect()
    }

    #[test]
    fn all_bags_are_inlined_if_they_fit() {
        assert_eq!(omitted(&[], 0), [""; 0]);
        assert_eq!(omitted(&[512 << 10, 512 << 10], INLINE_BYTES_MAX), [""; 0]);
    }

    #[test]
    fn the_largest_bags_are_omitted_and_of_equal_ones_the_last() {
        assert_eq!(omitted(&[600 << 10, 100, 600 << 10], INLINE_BYTES_MAX), ["db/2"]);
        assert_eq!(omitted(&[2 << 20, 600 << 10, 100], INLINE_BYTES_MAX), ["db/0"]);
        assert_eq!(omitted(&[2, 2], 0), ["db/0", "db/1"]);
    }

    #[test]
    fn inlined_bytes_never_exceed_the_limit() {
        for bound in [0, 1, 100, 1_000, 10_000] {
            let all: Vec<usize> = (0..40).map(|n| n * n).collect();
            let sizes = sizes(&all);
            let omitted = sizes.omitted(bound);
            let inline: usize =
                sizes.0.iter().filter(|(key, _)| !omitted.contains(*key)).map(|(_, bytes)| bytes).sum();
            assert!(inline <= bound, "{inline} > {bound}");
        }
    }

    #[test]
    fn a_write_of_a_few_bytes_moves_no_other_bag() {
        for bytes in 200_000..200_100 {
            assert_eq!(omitted(&[bytes, 300_000, 500_000], 1_000_050), ["db/2"]);
        }
    }
}
