//! The debug log: the names of what writes its lines, as Juju has them (spec/clients.md 3.6), and the lines that agents
//! add to it.
//!
//! Called by the filters of the debug log, by the command that prints it, and by the agents.

use crate::text::refusal::failed_hook;
use state::documents::prelude::LogSource;
use state::terms::activity::Activity;
use state::terms::names::UnitName;
use state::unit::outcome::RunTexts;
use std::borrow::Cow;

/// What an agent adds to the log of a run.
pub const RUN_TEXTS: RunTexts = RunTexts { failed_hook, omitted_lines };

/// The module of a line: `unit.web/0.juju-log`, `unit.web/0.config-changed`.
pub fn module(unit: &UnitName, source: &LogSource) -> String {
    let last = match source {
        LogSource::JujuLog => "juju-log".to_owned(),
        LogSource::DroppedLines(_) => "log".to_owned(),
        LogSource::Run(activity) => match activity {
            Activity::Hook { name, .. } => name.to_string(),
            Activity::Action { id, name } => format!("action {name} {id}"),
            Activity::Commands => "commands".to_owned(),
            Activity::InstallCharm => "install charm".to_owned(),
            Activity::EnterScope { relation, endpoint } => format!("enter scope {endpoint}:{relation}"),
            Activity::LeaveScope { relation } => format!("leave scope {relation}"),
            Activity::Resync => "resync".to_owned(),
            Activity::SetDead => "set dead".to_owned(),
        },
    };
    format!("unit.{unit}.{last}")
}

/// The text of a line: what its author has written, or what the controller states about the log itself.
pub fn line<'a>(source: &LogSource, text: &'a str) -> Cow<'a, str> {
    match source {
        LogSource::DroppedLines(lines) => {
            format!("{lines} earlier lines are dropped; the unit logs too fast").into()
        }
        LogSource::JujuLog | LogSource::Run(_) => text.into(),
    }
}

/// The line about earlier lines of a run that the log lacks.
pub fn omitted_lines(count: usize, run: u64) -> String {
    format!("{count} earlier lines are omitted; they are in hooks/{run:06}-*/output.log")
}

/// The line instead of an output in which the contents of secrets could not be masked.
pub const OMITTED_OUTPUT: &str = "the output is left out: it may contain secrets, which the agent that has read them would mask, \
    and another agent has continued the hook";

/// What follows a text that is cut.
pub fn more_bytes(count: usize) -> String {
    format!("... ({count} more bytes)")
}
