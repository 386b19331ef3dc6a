//! The files of a charm without which none of its hooks can run.
//!
//! `unit::required_files` decides what it means that one of them is missing.

use serde::{Deserialize, Serialize};

/// A file without which each hook of a charm that has it would be skipped or fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RequiredFile {
    /// What the charm declares.
    Metadata,
    /// The program that runs every hook.
    Dispatch,
}

impl RequiredFile {
    /// All of them.
    pub const ALL: [RequiredFile; 2] = [RequiredFile::Metadata, RequiredFile::Dispatch];

    /// The path in the folder of the charm.
    pub fn path(self) -> &'static str {
        match self {
            RequiredFile::Metadata => "metadata.yaml",
            RequiredFile::Dispatch => "dispatch",
        }
    }
}
