//! Documents of the debug log: one per line.
//!
//! Agents report log lines; the janitor deletes the oldest (`transitions::log_retention`).

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::activity::Activity;
use crate::terms::hook_name::HookName;
use crate::terms::names::{UnitName, Uuid};
use crate::unit::hook_log::{HookEnd, HookHandler};
use crate::unit::writes::Level;
use serde::{Deserialize, Serialize};

/// One line of the debug log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogDoc {
    /// When the agent wrote the line.
    pub at_ms: i64,
    /// The severity.
    pub level: Level,
    /// The unit whose agent wrote the line.
    pub unit: UnitName,
    /// What wrote it.
    pub source: LogSource,
    /// The text of the line.
    pub text: String,
}

/// What has written a line of the debug log. Its name in Juju's form, the module, is made in `api::text::log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LogSource {
    /// The charm, with the tool juju-log.
    JujuLog,
    /// A program of the charm, by printing the line in this run, or the agent about the run.
    Run(Activity),
    /// The agent, about a hook that has ended; the line has no text of its own.
    HookEnd {
        /// The hook.
        hook: HookName,
        /// The program that ran it; none if no program was started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handler: Option<HookHandler>,
        /// How it has ended.
        end: HookEnd,
    },
    /// The controller: this many earlier lines were dropped, because the unit logs faster than old lines are deleted.
    DroppedLines(u64),
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
