//! What the process of an action has left: its exit code and what it printed (spec/hook-tools.md 2.7).
//!
//! The agent reads both from the run's folder, and the action's document keeps them beside the results that the charm
//! set. Juju's map of results, which has them under fixed keys, is made by the command (`cli/src/render/task.rs`).

use serde::{Deserialize, Serialize};

/// How a process has exited, and the beginning and the end of what it printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessResult {
    /// The exit code.
    pub exit_code: i32,
    /// What it printed to stdout; none if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<StreamOutput>,
    /// What it printed to stderr; none if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<StreamOutput>,
}

/// What a process printed to one of its streams, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StreamOutput {
    /// Text in UTF-8.
    Text(String),
    /// Other bytes, as base64.
    Base64(String),
}

impl StreamOutput {
    /// The text as it is stored: base64 for bytes that are no text.
    pub fn stored_text(&self) -> &str {
        match self {
            StreamOutput::Text(text) | StreamOutput::Base64(text) => text,
        }
    }
}
