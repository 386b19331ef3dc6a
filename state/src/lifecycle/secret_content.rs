//! What the content of a secret may be: checked before it is sealed, because nothing but the key of the controller opens
//! it afterwards.
//!
//! Called by the handlers that seal and open contents; the sealing itself is an effect of the controller.

use crate::documents::document_reads::Documents;
use crate::documents::prelude::Model;
use crate::lifecycle::secret;
use crate::terms::names::{Uuid, beginning};
use crate::terms::refusal::secret::{SecretLimit, SecretRefusal};
use crate::terms::secret::{
    SEALED_BYTES_MAX, SecretContent, SecretId, SecretOwnerKind, VALUES_BYTES_MAX, is_content_key,
};

fn too_large() -> SecretRefusal {
    SecretRefusal::TooMany { what: SecretLimit::ContentBytes, max: VALUES_BYTES_MAX }
}

/// Checks the size of a content before it is sealed.
///
/// # Errors
/// If it is larger than [`VALUES_BYTES_MAX`].
pub fn require_size(content: &SecretContent) -> Result<(), SecretRefusal> {
    let bytes: usize = content.0.values().map(String::len).sum();
    if bytes <= VALUES_BYTES_MAX { Ok(()) } else { Err(too_large()) }
}

/// Checks the content that a unit sends. `secret-add key#base64=value` stores the value as it is given, so that it may be
/// no base64 (spec/hook-tools.md 2.6).
///
/// # Errors
/// If it is empty, or has an invalid key.
pub fn require_keys(content: &SecretContent) -> Result<(), SecretRefusal> {
    require(content, |key, _| is_content_key(key))
}

/// Checks the content that a user sends.
///
/// # Errors
/// If it is empty, or has an invalid key or a value that is not in base64.
pub fn require_valid(content: &SecretContent) -> Result<(), SecretRefusal> {
    require(content, |key, value| is_content_key(key) && is_base64(value))
}

fn require(content: &SecretContent, is_valid: fn(&str, &str) -> bool) -> Result<(), SecretRefusal> {
    if content.0.is_empty() {
        return Err(SecretRefusal::Empty);
    }
    match content.0.iter().find(|(key, value)| !is_valid(key, value)) {
        Some((key, _)) => Err(SecretRefusal::BadContent { key: beginning(key).to_owned() }),
        None => Ok(()),
    }
}

/// Whether a text is in the standard alphabet of base64 (RFC 4648 section 4), with padding and without stray bits in its
/// last digit.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=').as_bytes();
    let digit = |byte: &u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    // a group of two digits is one byte and four bits, one of three digits two bytes and two bits
    let stray_bits = match (digits.len() % 4, text.len() - digits.len()) {
        (0, 0) => 0,
        (2, 2) => 0b1111,
        (3, 1) => 0b11,
        (_, _) => return false,
    };
    digits.iter().all(|byte| digit(byte).is_some())
        && digits.last().and_then(digit).is_none_or(|last| last & stray_bits == 0)
}

/// Refuses the sealed content of a unit whose owner has no room for it. What the same hook has written before is not
/// counted; the commit of its record counts it.
///
/// # Errors
/// If the contents of the owner would be larger altogether than an owner may have.
pub fn require_room(
    documents: &mut impl Documents,
    model: Model,
    unit: Uuid,
    owner: SecretOwnerKind,
    sealed_bytes: usize,
) -> Result<(), SecretRefusal> {
    let owner = match owner {
        SecretOwnerKind::Unit => Some(unit),
        SecretOwnerKind::Application => documents.document(&model.unit(unit)).map(|doc| doc.application),
        SecretOwnerKind::Model => None,
    };
    let owned = owner.and_then(|owner| documents.document(&model.secrets_of(owner)));
    secret::require_room(&owned.unwrap_or_default(), sealed_bytes as u64)
}

/// The sealed content; none if it could not be sealed.
///
/// # Errors
/// If it could not be sealed, or is larger than [`SEALED_BYTES_MAX`].
pub fn require_sealed(sealed: Option<String>) -> Result<String, SecretRefusal> {
    sealed.filter(|sealed| sealed.len() <= SEALED_BYTES_MAX).ok_or_else(too_large)
}

/// The opened content of a secret.
///
/// # Errors
/// If it could not be opened.
pub fn require_opened(id: SecretId, content: Option<SecretContent>) -> Result<SecretContent, SecretRefusal> {
    content.ok_or(SecretRefusal::Sealed { id })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(key: &str, value: &str) -> SecretContent {
        SecretContent([(key.to_owned(), value.to_owned())].into())
    }

    #[test]
    fn a_content_of_a_user_is_one_that_hooks_could_have_written() {
        for valid in ["", "czNjcmV0", "czNjcmV0cw==", "czNjcmV0czE=", "+/+/"] {
            assert_eq!(require_valid(&content("password", valid)), Ok(()), "{valid}");
        }
        let bad = |key: &str| Err(SecretRefusal::BadContent { key: key.to_owned() });
        for invalid in
            ["c", "cz", "czN", "czNjcmV0cw=", "czNjcmV0cw===", "czNjcmV0cx==", "czNj-_==", "c=Nj", "===="]
        {
            assert_eq!(require_valid(&content("password", invalid)), bad("password"), "{invalid}");
        }
        assert_eq!(require_valid(&content("1", "")), bad("1"));
        assert_eq!(require_valid(&SecretContent::default()), Err(SecretRefusal::Empty));
        assert_eq!(require_keys(&content("password", "no base64")), Ok(()), "a charm may store it");
        assert!(require_keys(&content("bad key\n\u{1b}[31m", "")).is_err());
        let long = require_keys(&content(&"K".repeat(300_000), "")).expect_err("upper case");
        assert!(format!("{long:?}").len() < 200, "a refusal repeats only the beginning of a key");
        assert_eq!(require_keys(&SecretContent::default()), Err(SecretRefusal::Empty));
    }

    #[test]
    fn a_content_is_bounded_before_and_after_it_is_sealed() {
        let of_bytes = |bytes: usize| content("k", &"a".repeat(bytes));
        assert_eq!(require_size(&of_bytes(VALUES_BYTES_MAX)), Ok(()));
        assert_eq!(require_size(&of_bytes(VALUES_BYTES_MAX + 1)), Err(too_large()));
        let sealed = |bytes: usize| Some("a".repeat(bytes));
        assert!(require_sealed(sealed(SEALED_BYTES_MAX)).is_ok());
        assert_eq!(require_sealed(sealed(SEALED_BYTES_MAX + 1)), Err(too_large()));
        assert_eq!(require_sealed(None), Err(too_large()));
    }
}
