//! The files of a charm without which none of its hooks can run.
//!
//! `unit::charm_programs` decides what it means that one of them is missing.

use serde::{Deserialize, Serialize};

/// A file without which each hook of a charm that has it would be skipped or fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CharmProgram {
    /// What the charm declares.
    Metadata,
    /// The program that runs every hook.
    Dispatch,
}

impl CharmProgram {
    /// All of them.
    pub const ALL: [CharmProgram; 2] = [CharmProgram::Metadata, CharmProgram::Dispatch];

    /// The path in the folder of the charm.
    pub fn path(self) -> &'static str {
        match self {
            CharmProgram::Metadata => "metadata.yaml",
            CharmProgram::Dispatch => "dispatch",
        }
    }
}
