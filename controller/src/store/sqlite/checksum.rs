//! The checksums of the store's rows: CRC-32 of everything that a row contains.
//!
//! A checksum detects damage of the file, such as flipped bits, and not forgery. The writer stores one with each row,
//! and `reads` verifies it whenever a row is read.

use crc32fast::Hasher;

/// Returns the checksum of a document. Its upper half is the checksum of the key alone, which shows whether the key of
/// a damaged document is intact.
pub(super) fn of_document(key: &str, revision: i64, value: &str) -> i64 {
    let mut hasher = Hasher::new();
    add(&mut hasher, key, Some((revision, value)));
    (i64::from(crc32fast::hash(key.as_bytes())) << 32) | i64::from(hasher.finalize())
}

/// Whether the key of a damaged document is intact.
pub(super) fn is_key_intact(key: &str, revision: i64, value: &str, checksum: i64) -> bool {
    let expected = of_document(key, revision, value);
    expected >> 32 == checksum >> 32 || expected as u32 == checksum as u32
}

/// Returns the checksum of a row of the change log. `before` is the document that the commit replaced or deleted.
pub(super) fn of_change(revision: i64, key: &str, value: Option<&str>, before: Option<(i64, &str)>) -> i64 {
    let mut hasher = Hasher::new();
    hasher.update(&revision.to_le_bytes());
    add(&mut hasher, key, value.map(|value| (revision, value)));
    add(&mut hasher, key, before);
    i64::from(hasher.finalize())
}

/// Returns the original key of a damaged document if its only damage is one flipped bit of the key. A search for the
/// original key does not find such a document.
pub(super) fn original_key(key: &[u8], revision: i64, value: &str, checksum: i64) -> Option<String> {
    let mut bytes = key.to_vec();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok(original) = std::str::from_utf8(&bytes)
            && of_document(original, revision, value) == checksum
        {
            return Some(original.to_owned());
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    None
}

/// Hashes a document, or its absence. Each text is preceded by its length, so that different documents are hashed as
/// different bytes.
fn add(hasher: &mut Hasher, key: &str, document: Option<(i64, &str)>) {
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key.as_bytes());
    match document {
        None => hasher.update(&[0]),
        Some((revision, value)) => {
            hasher.update(&[1]);
            hasher.update(&revision.to_le_bytes());
            hasher.update(&(value.len() as u64).to_le_bytes());
            hasher.update(value.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_row_is_in_its_checksum() {
        let document = of_document("m/a", 1, "10");
        for other in [("m/b", 1, "10"), ("m/a", 2, "10"), ("m/a", 1, "11"), ("m/a1", 1, "0")] {
            assert_ne!(of_document(other.0, other.1, other.2), document, "{other:?}");
        }
        let change = of_change(2, "m/a", Some("10"), Some((1, "9")));
        assert_ne!(of_change(3, "m/a", Some("10"), Some((1, "9"))), change);
        assert_ne!(of_change(2, "m/a", None, Some((1, "9"))), change);
        assert_ne!(of_change(2, "m/a", Some("10"), Some((0, "9"))), change);
        assert_ne!(of_change(2, "m/a", Some("10"), None), change);
    }

    #[test]
    fn a_flipped_bit_of_a_key_is_found() {
        let checksum = of_document("m/unit/a", 7, "true");
        assert_eq!(original_key(b"m/unit/c", 7, "true", checksum), Some("m/unit/a".to_owned()));
        assert_eq!(original_key(b"m/unit/a", 7, "trud", checksum), None, "the value is damaged");
        assert!(is_key_intact("m/unit/a", 7, "trud", checksum), "the value is damaged");
        assert!(is_key_intact("m/unit/a", 7, "true", checksum ^ 1 << 40), "the checksum is damaged");
        assert!(!is_key_intact("m/unit/aa", 7, "true", checksum));
    }
}
