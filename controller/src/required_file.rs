//! The files that the controller needs at its start: how they are read, and the error for one that cannot be used.
//!
//! Each error names the file. Used by `installation`, `certificates`, `secret_keys` and `etcd_arguments`; `program`
//! recognises the error.

use anyhow::{Context, Result};
use host::file::{ignore_not_found, write_atomic};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::{Path, PathBuf};

/// A file of the controller that cannot be used until a person acts. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {}: {why}\nhint: {remedy}", file.display())]
pub struct UnusableFile {
    /// The file.
    pub file: PathBuf,
    /// Why it cannot be used.
    pub why: String,
    /// What a person can do.
    pub remedy: String,
}

/// What helps for a file that is not made again.
pub(crate) const FROM_A_BACKUP: &str = "put the file back from a backup of the whole folder";

/// Replaces a file by this document.
pub(crate) fn write_yaml(file: &Path, document: &impl Serialize) -> Result<()> {
    let text = charms::yaml::to_string(document).expect("plain data");
    write_atomic(file, text.as_bytes()).with_context(|| format!("cannot write {}", file.display()))
}

/// Reads a file in YAML; none if it is absent. The parser's text is not part of the error: it could show a token.
pub(crate) fn read_yaml<T: DeserializeOwned>(file: &Path, remedy: &str) -> Result<Option<T>> {
    let Some(text) = read_optional(file)? else { return Ok(None) };
    charms::yaml::from_str(&text).map(Some).map_err(|error| {
        let at = if error.line == 0 { String::new() } else { format!(" (line {})", error.line) };
        let why = format!("it is damaged{at}");
        UnusableFile { file: file.to_owned(), why, remedy: remedy.to_owned() }.into()
    })
}

/// Reads a file; none if it is absent.
pub(crate) fn read_optional(file: &Path) -> Result<Option<String>> {
    ignore_not_found(fs::read_to_string(file)).with_context(|| format!("cannot read {}", file.display()))
}
