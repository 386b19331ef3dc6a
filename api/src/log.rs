//! Pages of log lines.

use crate::request::requests;
use serde::{Deserialize, Serialize};

requests! { LogRequests {
    LogQuery = post "/v1/models/{model}/debug-log", Reader => LogPage;
} }

/// Most lines of one debug-log page.
pub const LOG_PAGE_LINES: u32 = 1_000;

/// Which log lines. Inside a group a line needs one match, and it must pass every group (spec/clients.md 3.6).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogQuery {
    /// Lines after this cursor of an earlier page; none = from the first line, or from the newest `newest` on.
    #[serde(default)]
    pub after: Option<String>,
    /// Without a cursor: only the newest so many of the lines that match.
    #[serde(default)]
    pub newest: Option<u32>,
    /// Hold the answer until there is a line, or [`LONG_POLL_MS`].
    #[serde(default)]
    pub wait: bool,
    /// Least level: TRACE, DEBUG, INFO, WARNING, ERROR.
    #[serde(default)]
    pub level: Option<String>,
    /// Entities: `web/0`, `unit-web-0`, `unit-web-*`, `machine-0`, or an application, which means its units.
    #[serde(default)]
    pub include: Vec<String>,
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Prefixes of module names.
    #[serde(default)]
    pub include_module: Vec<String>,
    #[serde(default)]
    pub exclude_module: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    pub at_ms: i64,
    pub level: String,
    /// `unit.web/0.juju-log`.
    pub module: String,
    /// `unit-web-0`.
    pub entity: String,
    pub text: String,
}

/// Lines in the order they were stored, at most [`LOG_PAGE_LINES`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPage {
    pub lines: Vec<LogLine>,
    /// Where the next page begins; also set on an empty page.
    pub cursor: String,
    /// There are more lines now.
    pub more: bool,
}
