//! Requests for pages of the debug log.

use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use state::documents::prelude::LogSource;
use state::terms::names::UnitName;
use state::unit::writes::Level;

requests! { LogRequests {
    LogQuery = post "/v1/models/{model}/debug-log", Reader => LogPage;
} }

/// The most lines of one page.
pub const LOG_PAGE_LINES: u32 = 1_000;

/// The most entries of all filters of one query: each one is compared with every unit and module of the log.
pub const LOG_FILTERS_MAX: usize = 32;
/// The most bytes of an entry of a filter. The longest module is that of a hook: `unit.`, a name of 63 letters and a
/// number, an endpoint of 60 and the name of the event, some 150.
pub const LOG_FILTER_BYTES_MAX: usize = 512;

/// Returns lines of the debug log. A line is selected if it matches every filter that is not empty; it matches
/// a filter if it matches one of its entries (spec/clients.md 3.6).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogQuery {
    /// The cursor of an earlier page, after which this one begins; none for the first line, or for the newest
    /// `newest` lines.
    #[serde(default)]
    pub after: Option<String>,
    /// Without a cursor: the maximum number of lines to return, which are the newest ones that match.
    #[serde(default)]
    pub newest: Option<u32>,
    /// Whether to hold the response until a line matches, at most [`crate::LONG_POLL_MS`].
    #[serde(default)]
    pub wait: bool,
    /// The lowest level.
    #[serde(default)]
    pub level: Option<Level>,
    /// Entities to include: `web/0`, `unit-web-0`, `unit-web-*`, `machine-0`, or an application, which selects
    /// its units.
    #[serde(default)]
    pub include: Vec<String>,
    /// Entities to exclude, in the same forms.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Prefixes of modules to include.
    #[serde(default)]
    pub include_module: Vec<String>,
    /// Prefixes of modules to exclude.
    #[serde(default)]
    pub exclude_module: Vec<String>,
}

/// One line of the debug log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// When the agent wrote the line.
    pub at_ms: i64,
    /// The level.
    pub level: Level,
    /// The unit whose agent wrote it.
    pub unit: UnitName,
    /// What wrote it.
    pub source: LogSource,
    /// The text.
    pub text: String,
}

/// Lines in the order in which they were stored, at most [`LOG_PAGE_LINES`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogPage {
    /// The lines.
    pub lines: Vec<LogLine>,
    /// Where the next page begins; also set on an empty page.
    pub cursor: String,
    /// Whether there are more lines already.
    pub more: bool,
}
