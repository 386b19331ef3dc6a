use std::path::Path;

/// The most files that an error names.
const NAMES_MAX: usize = 3;

/// Why a folder is no data folder, after `cannot use FOLDER: `: `it has files that Pintle did not create: a, b`. `files` is not
/// empty.
pub fn foreign_files(files: &[String]) -> String {
    let named = files.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match files.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("it has files that Pintle did not create: {named}{more}")
}

/// What helps then.
pub fn other_folder(folder: &Path) -> String {
    let inside = folder.join("pintle");
    format!("use an empty folder, or one that does not exist, for example --data {}", inside.display())
}
