//! The mount points of this host.
//!
//! Programs that delete folders read them first: a deletion must not follow a mount into another file system. Hence a
//! list that cannot be read is an error, never an empty one.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The mount points of this host, innermost last.
///
/// # Errors
/// If the list cannot be read.
pub fn mount_points() -> io::Result<Vec<PathBuf>> {
    Ok(parse(&fs::read("/proc/self/mounts")?))
}

/// Verifies that nothing is mounted at this path or below it, so that a deletion does not follow it.
///
/// # Errors
/// If something is mounted there; the error names where. Or if the path does not exist, or the list cannot be read.
pub fn verify_nothing_mounted(path: &Path) -> io::Result<()> {
    // the list has resolved paths
    let resolved = fs::canonicalize(path)?;
    match mount_points()?.iter().find(|mounted| mounted.starts_with(&resolved)) {
        Some(mounted) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!("{} is still mounted", mounted.display()),
        )),
        None => Ok(()),
    }
}

/// The second fields of the lines. A path may have any bytes.
fn parse(list: &[u8]) -> Vec<PathBuf> {
    let fields = list.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(1));
    fields.map(|path| PathBuf::from(OsString::from_vec(unescaped(path)))).collect()
}

/// Decodes a path of /proc/self/mounts, where a space, a tab, a line end and a backslash are three octal digits.
fn unescaped(mut path: &[u8]) -> Vec<u8> {
    const CODES: [(&[u8], u8); 4] =
        [(b"\\040", b' '), (b"\\011", b'\t'), (b"\\012", b'\n'), (b"\\134", b'\\')];
    let mut decoded = Vec::with_capacity(path.len());
    while let Some((first, rest)) = path.split_first() {
        let escaped = CODES.iter().find_map(|(code, byte)| Some((*byte, path.strip_prefix(*code)?)));
        let (byte, after) = escaped.unwrap_or((*first, rest));
        decoded.push(byte);
        path = after;
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_spaces_and_backslashes() {
        assert_eq!(parse(b"tmpfs /a\\040b\\134040c tmpfs rw 0 0\n"), [PathBuf::from("/a b\\040c")]);
        assert!(mount_points().expect("a list").contains(&PathBuf::from("/proc")));
    }

    #[test]
    fn a_path_that_is_no_utf8_hides_no_other_one() {
        let found = parse(b"tmpfs /\xff tmpfs rw 0 0\nproc /proc proc rw 0 0\n");
        assert_eq!(found, [PathBuf::from(OsString::from_vec(b"/\xff".to_vec())), PathBuf::from("/proc")]);
    }
}
