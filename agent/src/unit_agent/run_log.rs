//! Logs a run: a span around it, and one line with its outcome and duration.
//!
//! The line has the sequence of the run's record, which the log of the controller has too.

use api::text::refusal;
use state::terms::failure_reason::FailureReason;
use state::unit::local::Run;
use state::unit::outcome::RunExit;

/// The log span of one run. It is called `hook` for every operation, also for the installation of a charm.
pub(super) fn span(run: &Run) -> tracing::Span {
    tracing::info_span!("hook", operation = %run.operation, run = run.number)
}

/// How a run has ended, for a person.
pub(crate) fn outcome(exit: &RunExit) -> String {
    match exit {
        RunExit::Code(0) => "ok".to_owned(),
        RunExit::Code(code) => format!("exit code {code}"),
        RunExit::Signal(signal) => refusal::failure(&FailureReason::signal(*signal)),
        RunExit::Interrupted => "interrupted".to_owned(),
        RunExit::Missing => "not implemented by the charm".to_owned(),
        RunExit::Cancelled => "cancelled".to_owned(),
        RunExit::Failed(reason) => refusal::failure(reason),
    }
}

/// Logs how a run has ended. `sequence` is that of its record, if it has one.
pub(super) fn finished(exit: &RunExit, duration_ms: u64, sequence: Option<u64>) {
    let outcome = outcome(exit);
    match exit {
        RunExit::Code(0) | RunExit::Interrupted | RunExit::Missing | RunExit::Cancelled => {
            tracing::info!(duration_ms, sequence, "finished: {outcome}");
        }
        RunExit::Code(_) | RunExit::Signal(_) | RunExit::Failed(_) => {
            tracing::warn!(duration_ms, sequence, "failed: {outcome}");
        }
    }
}
