//! Which settings come along with a unit's view (design 9): the smallest bags, as many as fit; the others are withheld,
//! all but their versions, and are fetched when a hook wants them.
//!
//! A function of the sizes alone, so that the fold of deltas is the full view. The smallest first, so that a large bag
//! costs nobody but those who read it. Sizes count coarsely, so that a write that changes a few bytes moves no other
//! bag; one that does costs what a full view costs.

use crate::terms::names::RelationNumber;
use crate::terms::owner::Owner;
use crate::unit::snapshot::{BagView, Change, RelationView, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of settings, as JSON, that come along with a view.
pub const BYTES_MAX: usize = 1 << 20;

/// Whose bag in which relation.
pub type Place = (RelationNumber, Owner);

/// Bytes of every bag a unit is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BagSizes(BTreeMap<Place, usize>);

impl BagSizes {
    pub fn of(snapshot: &Snapshot) -> BagSizes {
        let bags = |(number, view): (&RelationNumber, &RelationView)| {
            let size = |(owner, bag): &(Owner, BagView)| ((*number, owner.clone()), bag.bytes);
            view.bags.iter().map(size).collect::<Vec<_>>()
        };
        BagSizes(snapshot.relations.iter().flat_map(bags).collect())
    }

    /// Takes what is sent.
    pub fn take(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Bag { relation, owner, bag } => {
                    let place = (*relation, owner.clone());
                    match bag {
                        Some(bag) => drop(self.0.insert(place, bag.bytes)),
                        None => drop(self.0.remove(&place)),
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
                | Change::Leader(_)
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

    pub fn has(&self, relation: RelationNumber, owner: &Owner) -> bool {
        self.0.contains_key(&(relation, owner.clone()))
    }

    /// The bags that stay behind when `bound` bytes may come along.
    pub fn withheld(&self, bound: usize) -> BTreeSet<Place> {
        if self.0.values().map(|bytes| counted(*bytes)).sum::<usize>() <= bound {
            return BTreeSet::new();
        }
        let mut smallest: Vec<(usize, &Place)> =
            self.0.iter().map(|(place, bytes)| (counted(*bytes), place)).collect();
        smallest.sort();
        let mut sum = 0;
        let mut fits = |(bytes, _): &(usize, &Place)| {
            sum += bytes;
            sum <= bound
        };
        let along = smallest.iter().take_while(|one| fits(one)).count();
        smallest[along..].iter().map(|(_, place)| (*place).clone()).collect()
    }
}

/// Rounded up by an eighth at most.
fn counted(bytes: usize) -> usize {
    let step = (bytes / 16).next_power_of_two();
    bytes.next_multiple_of(step)
}

/// The bag a change is about.
pub(crate) fn place(change: &Change) -> Option<Place> {
    if let Change::Bag { relation, owner, .. } = change { Some((*relation, owner.clone())) } else { None }
}

/// Takes their values off the bags that stay behind.
pub(crate) fn omit_values(changes: &mut [Change], withheld: &BTreeSet<Place>) {
    for change in changes {
        if place(change).is_some_and(|place| withheld.contains(&place))
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
        let place = |n: usize| (3, Owner::Unit(crate::terms::names::UnitName::new("db", n as u32)));
        BagSizes(bytes.iter().enumerate().map(|(n, bytes)| (place(n), *bytes)).collect())
    }

    fn withheld(bytes: &[usize], bound: usize) -> Vec<String> {
        let places = sizes(bytes).withheld(bound).into_iter();
        places
            .map(|(_, owner)| match owner {
                Owner::Unit(unit) => unit.to_string(),
                Owner::Application(name) => name,
            })
            .collect()
    }

    #[test]
    fn what_fits_comes_along_whole() {
        assert_eq!(withheld(&[], 0), [""; 0]);
        assert_eq!(withheld(&[512 << 10, 512 << 10], BYTES_MAX), [""; 0]);
    }

    #[test]
    fn the_largest_stay_behind_and_among_equals_the_last() {
        assert_eq!(withheld(&[600 << 10, 100, 600 << 10], BYTES_MAX), ["db/2"]);
        assert_eq!(withheld(&[2 << 20, 600 << 10, 100], BYTES_MAX), ["db/0"]);
        assert_eq!(withheld(&[2, 2], 0), ["db/0", "db/1"]);
    }

    #[test]
    fn never_more_than_the_bound_comes_along() {
        for bound in [0, 1, 100, 1_000, 10_000] {
            let all: Vec<usize> = (0..40).map(|n| n * n).collect();
            let sizes = sizes(&all);
            let withheld = sizes.withheld(bound);
            let along: usize =
                sizes.0.iter().filter(|(place, _)| !withheld.contains(*place)).map(|(_, bytes)| bytes).sum();
            assert!(along <= bound, "{along} of {bound}");
        }
    }

    #[test]
    fn a_write_of_a_few_bytes_moves_no_other_bag() {
        for bytes in 200_000..200_100 {
            assert_eq!(withheld(&[bytes, 300_000, 500_000], 1_000_050), ["db/2"]);
        }
    }
}
