//! Documents of the debug log: one per line.
//!
//! Agents report log lines; the janitor deletes the oldest (`transitions::log_retention`).

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::names::{UnitName, Uuid};
use crate::unit::writes::Level;
use serde::{Deserialize, Serialize};

/// One line of the debug log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogDoc {
    /// When the agent wrote the line.
    pub at_ms: i64,
    /// The severity.
    pub level: Level,
    /// The module: `unit.web/0.juju-log`.
    pub module: String,
    /// The unit whose agent wrote the line.
    pub unit: UnitName,
    /// The text of the line.
    pub text: String,
}

impl Model {
    /// One log line. `hook`, the number of the run, and `call` number the line within its unit, so that a line that is
    /// sent twice is stored once.
    pub fn log(&self, unit: Uuid, hook: u64, call: u32) -> Key<LogDoc> {
        self.key_with_rest(Kind::Log, format_args!("{unit}/{hook:010}/{call:06}"))
    }
    /// The line that counts the lines which were dropped before [`Self::log`] of the same numbers.
    pub fn dropped_lines(&self, unit: Uuid, hook: u64, call: u32) -> Key<LogDoc> {
        self.key_with_rest(Kind::Log, format_args!("{unit}/{hook:010}/{call:06}-dropped"))
    }
    /// The prefix of the log lines of a unit, which sort by their age.
    pub fn logs_of(&self, unit: Uuid) -> String {
        self.prefix_below(Kind::Log, &[unit])
    }
    /// The prefix of all log lines of the model.
    pub fn logs(&self) -> String {
        self.prefix_below(Kind::Log, &[])
    }
}
