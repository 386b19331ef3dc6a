//! Small files that are there whole or not at all, and randomness.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes beside, syncs, renames, syncs the folder. Only its owner may read it.
pub fn replace_private(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().expect("a file lies in a folder");
    let beside = folder.join(format!(".{}", random_hex(8)?));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path))
        .and_then(|()| File::open(folder)?.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(&beside); // a hidden file that nobody reads
    }
    written
}

/// A fresh token: 256 bits from the kernel, as 64 digits of lower case hex.
pub fn fresh_token() -> io::Result<String> {
    random_hex(32)
}

/// 128 random bits from the kernel.
pub fn random_u128() -> u128 {
    let mut random = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
    read.expect("the kernel gives randomness");
    u128::from_be_bytes(random)
}

fn random_hex(bytes: usize) -> io::Result<String> {
    let mut random = vec![0; bytes];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_private_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.yaml");
        replace_private(&path, "long text").expect("written");
        replace_private(&path, "short").expect("written again");
        assert_eq!(fs::read_to_string(&path).expect("there"), "short");
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1);
    }

    #[test]
    fn a_token_has_64_hex_digits_and_is_never_the_same() {
        let (a, b) = (fresh_token().expect("randomness"), fresh_token().expect("randomness"));
        assert!(a.len() == 64 && a.bytes().all(|b| b.is_ascii_hexdigit()) && a != b, "{a} {b}");
    }
}
