//! Finds the files in a folder that other programs have made, before a program takes the folder as its own.
//!
//! A program names the files by which it recognises a folder of its own, and what it creates before the first of them. A
//! folder that has none of the former and nothing but the latter is new, or its first start was interrupted. Changes
//! nothing.

use crate::file::{exists, ignore_not_found};
use std::fs::{self, DirEntry};
use std::io::{self, ErrorKind};
use std::path::Path;

/// A folder that `mkfs` makes in the root of an empty file system.
const LOST_AND_FOUND: &str = "lost+found";
/// The hexadecimal digits at the end of the name of a temporary file ([`crate::file::write_atomic`]).
const TEMPORARY_DIGITS: usize = 32;

/// The names of the entries in `folder` that other programs have made, in order. None if the folder does not exist, if it has
/// one of the `marks`, or if it has only what is in `created_first`, empty folders for those that end with a slash. Both
/// are paths within the folder.
///
/// # Errors
/// If the folder cannot be read.
pub fn find(folder: &Path, marks: &[&str], created_first: &[&str]) -> io::Result<Vec<String>> {
    for mark in marks {
        if exists(&folder.join(mark))? {
            return Ok(Vec::new());
        }
    }
    let mut found = foreign(folder, "", created_first)?;
    found.sort();
    Ok(found)
}

/// The entries of the folder at `within` that are not in `created_first`.
fn foreign(root: &Path, within: &str, created_first: &[&str]) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(root.join(within)) {
        // the program reports it when it creates its files
        Err(error) if error.kind() == ErrorKind::NotADirectory => None,
        entries => ignore_not_found(entries)?,
    };
    let mut found = Vec::new();
    for entry in entries.into_iter().flatten() {
        let entry = entry?;
        let path = format!("{within}{}", entry.file_name().to_string_lossy());
        let is_folder = fs::metadata(entry.path()).is_ok_and(|found| found.is_dir());
        let as_folder = format!("{path}/");
        if is_folder && created_first.contains(&as_folder.as_str()) {
            found.extend(foreign(root, &as_folder, created_first)?);
            continue;
        }
        let is_own = match is_folder {
            true => path == LOST_AND_FOUND,
            false => created_first.contains(&path.as_str()) || is_temporary(&entry),
        };
        if !is_own {
            found.push(path);
        }
    }
    Ok(found)
}

/// Whether this is the remainder of an interrupted [`crate::file::write_atomic`].
fn is_temporary(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let digits = name.to_str().and_then(|name| name.strip_prefix('.')?.rsplit_once('.')).map(|(_, end)| end);
    digits.is_some_and(|end| end.len() == TEMPORARY_DIGITS && end.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: &[&str] = &["mark", "below/mark"];
    const FIRST: &[&str] = &["log/", "log/a.log", "below/"];

    fn found(folder: &Path) -> Vec<String> {
        find(folder, MARKS, FIRST).expect("readable")
    }

    #[test]
    fn a_new_folder_and_one_of_an_interrupted_start_have_no_foreign_files() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = outer.path().join("data");
        assert_eq!(found(&folder), [""; 0], "it does not exist");
        for made in ["log", "below", LOST_AND_FOUND] {
            fs::create_dir_all(folder.join(made)).expect("made");
            assert_eq!(found(&folder), [""; 0], "{made}");
        }
        fs::write(folder.join("log/a.log"), "").expect("written");
        fs::write(folder.join(format!(".mark.{:032x}", 7)), "").expect("written");
        assert_eq!(found(&folder), [""; 0]);
        assert_eq!(found(&folder.join("log/a.log")), [""; 0], "a file has no entries");
    }

    #[test]
    fn everything_else_is_named_unless_there_is_a_mark() {
        let outer = tempfile::tempdir().expect("a folder");
        let path = |name: &str| outer.path().join(name);
        let files = ["a", ".hidden", ".mark.7", "log/b.log", "below/c", "other/d"];
        for folder in ["log", "below", "other", "below/lost+found"] {
            fs::create_dir(path(folder)).expect("made");
        }
        for file in files {
            fs::write(path(file), "").expect("written");
        }
        let expected = [".hidden", ".mark.7", "a", "below/c", "below/lost+found", "log/b.log", "other"];
        assert_eq!(found(outer.path()), expected);
        for mark in MARKS {
            fs::write(path(mark), "").expect("written");
            assert_eq!(found(outer.path()), [""; 0], "{mark}");
            fs::remove_file(path(mark)).expect("it exists");
        }
        fs::write(path("log.file"), "").expect("written");
        fs::rename(path("log"), path("moved")).expect("moved");
        fs::rename(path("log.file"), path("log")).expect("moved");
        assert!(found(outer.path()).contains(&"log".to_owned()), "a file in place of a folder");
    }
}
