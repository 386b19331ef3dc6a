//! A settings bag: what one unit or application says in one relation. Strings only; an empty value removes.

use std::collections::BTreeMap;

/// The values of one bag. A key with an empty value does not exist (spec/uniter.md C.3).
pub type Bag = BTreeMap<String, String>;

/// A change to a bag: each key's new value; the empty string removes the key.
pub type BagChange = BTreeMap<String, String>;

/// Largest bag, keys and values together, in bytes (design 17).
pub const BAG_BYTES_MAX: usize = 1 << 20;

/// Applies `change` to `bag`. True when the content differs afterwards: a change that changes nothing bumps no
/// version and wakes nobody (seed 000, invariant I7).
pub fn apply(bag: &mut Bag, change: &BagChange) -> bool {
    let mut changed = false;
    for (key, value) in change {
        changed |= if value.is_empty() {
            bag.remove(key).is_some()
        } else {
            bag.insert(key.clone(), value.clone()).as_ref() != Some(value)
        };
    }
    changed
}

/// Bytes of all keys and values.
pub fn size(bag: &Bag) -> usize {
    bag.iter().map(|(key, value)| key.len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use crate::terms::settings::*;

    fn bag(pairs: &[(&str, &str)]) -> Bag {
        pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    #[test]
    fn empty_value_removes_the_key() {
        let mut settings = bag(&[("a", "1"), ("b", "2")]);
        assert!(apply(&mut settings, &bag(&[("a", "")])));
        assert_eq!(settings, bag(&[("b", "2")]));
    }

    #[test]
    fn a_change_that_changes_nothing_says_so() {
        let mut settings = bag(&[("a", "1")]);
        assert!(!apply(&mut settings, &bag(&[("a", "1"), ("gone", "")])));
    }
}
