//! Random bits from the kernel, for ids and secrets.

use std::fs::File;
use std::io::{self, Read};
use std::sync::OnceLock;

/// The source, which stays open: each hook needs some ids.
static SOURCE: OnceLock<io::Result<File>> = OnceLock::new();

/// 128 random bits.
///
/// # Panics
/// If `/dev/urandom` cannot be read: without randomness no id is unique and no secret is secret.
pub fn random_u128() -> u128 {
    let mut bytes = [0; 16];
    let source = SOURCE.get_or_init(|| File::open("/dev/urandom")).as_ref();
    source.map(|mut file| file.read_exact(&mut bytes)).expect("the source is there").expect("it has bytes");
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
    fn a_token_has_64_digits_and_never_repeats() {
        let (a, b) = (token(), token());
        assert!(a.len() == 64 && a.bytes().all(|digit| digit.is_ascii_hexdigit()) && a != b, "{a} {b}");
    }
}
