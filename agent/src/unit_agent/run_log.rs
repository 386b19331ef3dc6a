//! Logs a run: a span around it, and one line with its outcome and duration.
//!
//! The line has the sequence of the run's record, which the log of the controller has too.

use api::text::refusal;
use state::unit::local::Run;
use state::unit::outcome::Exit;

/// The log span of one run.
pub(super) fn span(run: &Run) -> tracing::Span {
    tracing::info_span!("hook", operation = %run.operation, run = run.number)
}

/// Logs how a run has ended. `sequence` is that of its record, if it has one.
pub(super) fn finished(exit: &Exit, duration_ms: u64, sequence: Option<u64>) {
    let outcome = match exit {
        Exit::Code(0) => "ok".to_owned(),
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("killed by signal {signal}"),
        Exit::Interrupted => "interrupted".to_owned(),
        Exit::Missing => "not implemented by the charm".to_owned(),
        Exit::Cancelled => "cancelled".to_owned(),
        Exit::Failed(reason) => refusal::failure(reason),
    };
    match exit {
        Exit::Code(0) | Exit::Interrupted | Exit::Missing | Exit::Cancelled => {
            tracing::info!(duration_ms, sequence, "finished: {outcome}");
        }
        Exit::Code(_) | Exit::Signal(_) | Exit::Failed(_) => {
            tracing::warn!(duration_ms, sequence, "failed: {outcome}");
        }
    }
}
