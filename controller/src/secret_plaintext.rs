//! The content of a secret as bytes, which are sealed.
//!
//! Charms and users give values in base64, and what is sealed is stored in base64 again: a value is decoded before it is
//! sealed, so that it takes the same number of bytes in the store as it was given with. A value that is no base64
//! (`secret-add key#base64=value` does not check it) stays as it is. Used by `secret_keys`.
//!
//! Each value is: the length of its key, the key, whether the value was decoded, its length, and the value. Lengths have
//! four bytes, the most significant one first.

use base64::prelude::{BASE64_STANDARD, Engine};
use state::terms::secret::SecretContent;
use std::collections::BTreeMap;

/// The bytes of a content.
pub(crate) fn to_bytes(content: &SecretContent) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, value) in &content.0 {
        // the decoder accepts one text for each value only, so that encoding it again gives the same text
        let decoded = BASE64_STANDARD.decode(value).ok();
        put(&mut bytes, key.as_bytes());
        bytes.push(u8::from(decoded.is_some()));
        put(&mut bytes, decoded.as_deref().unwrap_or(value.as_bytes()));
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    let length = u32::try_from(part.len()).expect("contents have at most a megabyte");
    bytes.extend(length.to_be_bytes());
    bytes.extend(part);
}

/// The content of these bytes; none if they are no content.
pub(crate) fn from_bytes(mut bytes: &[u8]) -> Option<SecretContent> {
    let mut content = BTreeMap::new();
    while !bytes.is_empty() {
        let key = take(&mut bytes)?;
        let (is_decoded, rest) = bytes.split_first()?;
        bytes = rest;
        let value = take(&mut bytes)?;
        let value = match is_decoded {
            0 => String::from_utf8(value.to_vec()).ok()?,
            _ => BASE64_STANDARD.encode(value),
        };
        content.insert(String::from_utf8(key.to_vec()).ok()?, value);
    }
    Some(SecretContent(content))
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    *bytes = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(pairs: &[(&str, &str)]) -> SecretContent {
        SecretContent(pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
    }

    #[test]
    fn a_content_is_the_same_after_it_was_made_bytes() {
        let values = ["", "czNjcmV0", "czNjcmV0cw==", "no base64", "czNjcmV0cx==", "czNj\nczNj", "ünï"];
        for value in values {
            let original = content(&[("password", value), ("other", "eHg=")]);
            assert_eq!(from_bytes(&to_bytes(&original)), Some(original), "{value:?}");
        }
        assert_eq!(from_bytes(&to_bytes(&content(&[]))), Some(content(&[])));
        let bytes = to_bytes(&content(&[("password", "czNjcmV0")]));
        for end in 1..bytes.len() {
            assert_eq!(from_bytes(&bytes[..end]), None, "{end}");
        }
    }

    #[test]
    fn a_value_takes_as_many_bytes_as_it_has_decoded() {
        let encoded = BASE64_STANDARD.encode([7; 30_000]);
        assert_eq!(to_bytes(&content(&[("k", &encoded)])).len(), 30_000 + 4 + 1 + 1 + 4);
    }
}
