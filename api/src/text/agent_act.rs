//! What a unit agent does now or would do next, in English.
//!
//! An act that waits for something, fetches something or reboots is explained by a cause instead (`text::cause`). Called by
//! `pintle-agent why`.

use crate::text::start_reason;
use state::terms::names::UnitName;
use state::terms::run_lock::RunLock;
use state::unit::decision::Act;
use state::unit::local::Run;

/// The line about a run in progress: `web/0: running install hook (run 1): the charm is deployed`.
pub fn running(unit: &UnitName, run: &Run) -> String {
    let reason = start_reason::describe(&run.reason);
    format!("{unit}: running {} (run {}): {reason}", run.operation, run.number)
}

/// The line about the next act. `None` if causes explain the act.
pub fn next(unit: &UnitName, act: &Act) -> Option<String> {
    let next = match act {
        Act::Wait(wait) if wait.causes.is_empty() => "idle, waits for nothing".to_owned(),
        Act::Start(run) => {
            format!("next operation: {}: {}", run.operation, start_reason::describe(&run.reason))
        }
        Act::RecordOutcome(record) => format!("next operation: {}", record.operation),
        Act::Reattach(run) => format!("{} was started by an agent that has ended", run.operation),
        Act::ChangeLeadership(_) => "next: store that its leadership has changed".to_owned(),
        Act::AcquireLock(RunLock::Group(group)) => {
            format!("next: an action, once the lock of execution group {group:?} is free")
        }
        Act::AcquireLock(RunLock::Machine) => "next: a hook, once the hook lock is free".to_owned(),
        Act::AcquireLock(RunLock::Unit) => {
            "next: a hook or an action, beside those of other units".to_owned()
        }
        Act::Finish => "finished".to_owned(),
        Act::Wait(_) | Act::FetchBag(_) | Act::FetchCharm(_) | Act::Reboot => return None,
    };
    Some(format!("{unit}: {next}"))
}
