//! Random bits of the kernel, for ids and access tokens.
//!
//! Every call reads `/dev/urandom`; the functions panic instead of returning predictable bits. The simulator does not use
//! this module: it draws ids from its seed.

use std::fs::File;
use std::io::{self, Read};
use std::sync::OnceLock;

/// `/dev/urandom`, which stays open because every hook needs several ids.
static SOURCE: OnceLock<io::Result<File>> = OnceLock::new();

/// 128 random bits.
///
/// # Panics
/// If `/dev/urandom` cannot be read: without randomness no id is unique and no secret is secret.
pub fn random_u128() -> u128 {
    let mut bytes = [0; 16];
    let source = SOURCE.get_or_init(|| File::open("/dev/urandom")).as_ref();
    source
        .map(|mut file| file.read_exact(&mut bytes))
        .expect("/dev/urandom can be opened")
        .expect("it can be read");
    u128::from_be_bytes(bytes)
}

/// A new access token: 256 random bits as 64 digits of lower-case hexadecimal.
pub fn token() -> String {
    format!("{:032x}{:032x}", random_u128(), random_u128())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_64_lower_case_digits_and_two_tokens_differ() {
        let (a, b) = (token(), token());
        let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
        assert!(a.len() == 64 && a.bytes().all(is_digit) && a != b, "{a} {b}");
    }
}
