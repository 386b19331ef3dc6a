//! The mount points of this host.

use std::fs;
use std::path::PathBuf;

/// The mount points of this host, innermost last; empty if they cannot be read.
pub fn mount_points() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split(' ').nth(1))
        .map(|path| PathBuf::from(unescaped(path)))
        .collect()
}

/// Decodes a path of /proc/self/mounts, where a space, a tab, a line end and a backslash are three octal digits.
fn unescaped(text: &str) -> String {
    let known = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    known.iter().fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_blanks() {
        assert_eq!(unescaped("/a\\040b\\134c"), "/a b\\c");
        assert!(mount_points().contains(&PathBuf::from("/proc")), "{:?}", mount_points());
    }
}
