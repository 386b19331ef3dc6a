//! No Rust file has more than 500 lines, unless `sizes.txt` gives the reason.

use super::list::{read, rewrite, updating};
use super::source::sources;

/// The size up to which a reader can keep the whole file in mind.
const LINES_MAX: usize = 500;

#[test]
fn no_file_has_more_than_500_lines() {
    let long: Vec<(String, usize)> = sources()
        .into_iter()
        .map(|source| (source.path, source.text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .collect();
    let mut listed = read("sizes.txt");
    if updating() {
        // this only removes lines that are no longer needed; a new line needs a reason, which a person writes
        listed.retain(|path, _| long.iter().any(|(name, _)| name == path));
        rewrite("sizes.txt", &listed);
    }
    let unlisted: Vec<_> = long.iter().filter(|(path, _)| !listed.contains_key(path)).collect();
    assert!(
        unlisted.is_empty(),
        "longer than {LINES_MAX} lines: {unlisted:#?}\nhint: split them, or add them with a reason to tests/tests/tidy/sizes.txt"
    );
    let unneeded: Vec<_> = listed.keys().filter(|path| !long.iter().any(|(name, _)| name == *path)).collect();
    assert!(
        unneeded.is_empty(),
        "no longer needed in sizes.txt (UPDATE=1 cargo tidy removes them): {unneeded:#?}"
    );
    let unexplained: Vec<_> = listed.iter().filter(|(_, reason)| reason.is_empty()).collect();
    assert!(unexplained.is_empty(), "in sizes.txt without a reason: {unexplained:#?}");
}
