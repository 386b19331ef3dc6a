//! Names of contents: sha256 in lower case hexadecimal.

use sha2::{Digest, Sha256};
use std::io::{self, Read};

/// The sha256 of `bytes`.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The sha256 of what `reader` gives until its end.
pub fn sha256_of(mut reader: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut reader, &mut hash)?;
    Ok(hex(&hash.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
