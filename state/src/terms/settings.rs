//! A settings bag: the key-value pairs that one unit or application publishes in one relation.
//!
//! Values are strings. Writing an empty value removes the key.

use std::collections::BTreeMap;

/// The values of one bag. No value is empty: a key with an empty value does not exist (spec/uniter.md C.3).
pub type Bag = BTreeMap<String, String>;

/// A change to a bag: the new value of each key; the empty string removes the key.
pub type BagChange = BTreeMap<String, String>;

/// The largest bag in bytes, keys and values together: 4 MiB. What a hook writes has a smaller bound if the store is in etcd
/// (`terms::store_engine`).
pub const BAG_BYTES_MAX: usize = 4 << 20;

/// Applies `change` to `bag`. Returns whether the content differs afterwards: a change without effect
/// increments no version and triggers no hook (I7).
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

/// The first key of a bag, or of a change, that contains NUL or whose value does; no setting may contain it.
pub fn key_with_nul(bag: &BagChange) -> Option<&str> {
    let found = bag.iter().find(|(key, value)| key.contains('\0') || value.contains('\0'));
    found.map(|(key, _)| key.as_str())
}

/// The bytes of all keys and values.
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
    fn an_empty_value_removes_the_key() {
        let mut settings = bag(&[("a", "1"), ("b", "2")]);
        assert!(apply(&mut settings, &bag(&[("a", "")])));
        assert_eq!(settings, bag(&[("b", "2")]));
    }

    #[test]
    fn apply_returns_false_if_nothing_changes() {
        let mut settings = bag(&[("a", "1")]);
        assert!(!apply(&mut settings, &bag(&[("a", "1"), ("gone", "")])));
    }
}
