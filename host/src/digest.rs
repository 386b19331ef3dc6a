//! SHA-256 of contents in lower-case hexadecimal.
//!
//! Digests name archives and files, and replace tokens that must not be stored.

use sha2::{Digest, Sha256};
use std::io::{self, Read};

/// The SHA-256 of `bytes`: 64 hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// The first 64 bits of the SHA-256, in hexadecimal. It detects torn and flipped bytes, not forgery.
pub fn checksum(bytes: &[u8]) -> String {
    sha256(bytes)[..16].to_owned()
}

/// Whether a text has the form of [`sha256`]: 64 lower-case hexadecimal digits.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// A file whose first line is the checksum of the rest, as a comment of YAML.
pub fn with_checksum(body: &str) -> String {
    format!("# checksum {}\n{body}", checksum(body.as_bytes()))
}

/// The body of a file that [`with_checksum`] made. None if it is not whole.
pub fn verified(file: &[u8]) -> Option<&str> {
    let (first, body) = std::str::from_utf8(file).ok()?.split_once('\n')?;
    (first.strip_prefix("# checksum ")? == checksum(body.as_bytes())).then_some(body)
}

/// The SHA-256 of everything that `reader` yields, as 64 hexadecimal digits.
///
/// # Errors
/// The first error of `reader`.
pub fn sha256_of(mut reader: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut reader, &mut hash)?;
    Ok(format!("{:x}", hash.finalize()))
}

/// The SHA-256 of contents that are added one after the other.
#[derive(Clone, Debug, Default)]
pub struct Hash(Sha256);

impl Hash {
    /// Adds contents.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The SHA-256 of everything that was added, as 64 hexadecimal digits.
    pub fn finish(self) -> String {
        format!("{:x}", self.0.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_or_changed_file_has_another_checksum() {
        let file = with_checksum("a: 1\nb: 2\n");
        assert_eq!(verified(file.as_bytes()), Some("a: 1\nb: 2\n"));
        assert_eq!(verified(&file.as_bytes()[..file.len() - 1]), None);
        assert_eq!(verified(file.replace("b: 2", "b: 3").as_bytes()), None);
    }

    #[test]
    fn the_digest_of_abc_is_the_value_of_the_standard() {
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
        assert_eq!(sha256_of(&b"abc"[..]).expect("memory is readable"), abc);
        let mut hash = Hash::default();
        hash.update(b"a");
        hash.update(b"bc");
        assert_eq!(hash.finish(), abc);
    }
}
