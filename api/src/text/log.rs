//! The debug log: the names of what writes its lines, as Juju has them (spec/clients.md 3.6), and the lines that agents
//! add to it.
//!
//! Called by the filters of the debug log, by the command that prints it, and by the agents.

use crate::text::refusal::failure;
use state::documents::prelude::LogSource;
use state::terms::hook_name::HookName;
use state::terms::log_module;
use state::terms::names::UnitName;
use state::unit::hook_log::{HookEnd, HookHandler};
use state::unit::outcome::RunTexts;
use std::borrow::Cow;

/// What an agent adds to the log of a run.
pub const RUN_TEXTS: RunTexts = RunTexts { omitted_lines };

/// The module of a line: `unit.web/0.juju-log`, `unit.web/0.config-changed`, `juju.worker.uniter.operation`.
pub fn module(unit: &UnitName, source: &LogSource) -> String {
    match source {
        LogSource::JujuLog => log_module::juju_log(unit),
        LogSource::Run(activity) => log_module::of_run(unit, activity),
        LogSource::HookEnd { .. } => log_module::UNITER_OPERATION.to_owned(),
        LogSource::DroppedLines(_) => format!("unit.{unit}.log"),
    }
}

/// The text of a line: what its author has written, or what the controller states about the log itself.
pub fn line<'a>(source: &LogSource, text: &'a str) -> Cow<'a, str> {
    match source {
        LogSource::DroppedLines(lines) => {
            format!("{lines} earlier lines are dropped; the unit logs too fast").into()
        }
        LogSource::HookEnd { hook, handler, end } => hook_end(hook, *handler, end).into(),
        LogSource::JujuLog | LogSource::Run(_) => text.into(),
    }
}

/// The line about a hook that has ended. Clients match it (spec/clients.md 1.8).
fn hook_end(hook: &HookName, handler: Option<HookHandler>, end: &HookEnd) -> String {
    let via = match handler {
        Some(HookHandler::Dispatch) => "hook dispatching script: dispatch",
        Some(HookHandler::Explicit) => "explicit, bespoke hook script",
        None => "unknown/invalid hook handler",
    };
    match end {
        HookEnd::Ran => format!("ran \"{hook}\" hook (via {via})"),
        HookEnd::Missing => format!("skipped \"{hook}\" hook (missing)"),
        HookEnd::Failed(reason) => format!("hook \"{hook}\" (via {via}) failed: {}", failure(reason)),
    }
}

/// The line about earlier lines of a run that the log lacks.
pub fn omitted_lines(count: usize, run: u64) -> String {
    format!("{count} earlier lines are omitted; they are in hooks/{run:06}-*/output.log")
}

/// The line instead of an output in which the contents of secrets could not be masked.
pub const OMITTED_OUTPUT: &str = "the output is left out: it may contain secrets, which the agent that has read them would mask, \
    and another agent has continued the hook";

/// What stands between the beginning and the end of a text that is shortened.
pub fn omitted_bytes(count: usize) -> String {
    format!("... ({count} bytes are left out) ...")
}
