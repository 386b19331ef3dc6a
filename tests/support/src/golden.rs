//! Compares texts that a person reads with the golden files in `tests/golden`: one file per family of messages.
//!
//! All other tests assert on types (`tests/tests/tidy/english.rs`). The expected texts are written by hand from words.md,
//! "Messages"; `UPDATE=1` rewrites a file after a change of wording, and the difference is reviewed.

use std::path::Path;

/// Compares a text with the golden file of this name, such as `causes.txt`.
///
/// # Panics
/// If they differ, or the file cannot be read.
pub fn compare(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, text).expect("the golden file is writable");
    }
    let expected = std::fs::read_to_string(&file).expect("the golden file is readable");
    assert_eq!(text, expected, "see {}; UPDATE=1 rewrites it", file.display());
}
