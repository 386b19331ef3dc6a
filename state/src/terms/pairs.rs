//! Serialises a map as a list of pairs, because a key that is not text is no key of a JSON object.
//!
//! Used by `#[serde(with = "crate::terms::pairs")]`. Of two pairs with the same key, the later one is read.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// Writes the map as a list of pairs, in the order of its keys.
///
/// # Errors
/// Those of the serialiser.
pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
    map: &BTreeMap<K, V>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(map)
}

/// Reads a map from a list of pairs.
///
/// # Errors
/// If the data is no list of such pairs.
pub fn deserialize<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<K, V>, D::Error> {
    Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
}
