//! The state of the service of a unit agent, as `systemctl show` prints it. This module does no I/O.
//!
//! Called by `systemd`, which must report each end of an agent once: systemd shows the last end until the next start,
//! which may be half a minute later.

use state::terms::health::ProcessEnd;

/// The argument of `systemctl show` for what [`ServiceState::parse`] reads.
pub(super) const PROPERTIES: &str =
    "--property=ActiveState,ExecMainStartTimestampMonotonic,ExecMainCode,ExecMainStatus";

/// The state of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceState {
    /// Whether the service runs, is being started, or waits for its next start.
    pub is_active: bool,
    /// When its main process was started last, in microseconds since boot; 0 if it never was.
    pub started_us: u64,
    /// How its main process has ended since; unobserved while it runs.
    pub end: ProcessEnd,
}

impl ServiceState {
    /// The state that systemd shows. What is missing is that of a service that was never started.
    pub fn parse(shown: &str) -> ServiceState {
        let property = |name: &str| {
            shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=').map(str::trim))
        };
        let number = |name: &str| property(name)?.parse::<i32>().ok();
        // the code is that of `siginfo_t`: 1 for an exit, 2 or 3 for a signal
        let end = match (number("ExecMainCode"), number("ExecMainStatus")) {
            (Some(1), Some(code)) => ProcessEnd::Code(code),
            (Some(2 | 3), Some(signal)) => ProcessEnd::Signal(signal),
            _ => ProcessEnd::Unobserved,
        };
        let started = property("ExecMainStartTimestampMonotonic").and_then(|text| text.parse().ok());
        ServiceState {
            is_active: matches!(property("ActiveState"), Some("active" | "activating" | "reloading")),
            started_us: started.unwrap_or(0),
            end,
        }
    }

    /// How a process has ended that had not ended when the state `before` was observed. None if none has.
    pub fn end_since(&self, before: &ServiceState) -> Option<ProcessEnd> {
        let is_new = self.started_us != before.started_us || before.end == ProcessEnd::Unobserved;
        Some(self.end).filter(|end| is_new && *end != ProcessEnd::Unobserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_service_is_read_as_systemd_shows_it() {
        let end = |shown| ServiceState::parse(shown).end;
        assert_eq!(end("ExecMainCode=1\nExecMainStatus=90\n"), ProcessEnd::Code(90));
        assert_eq!(end("ExecMainStatus=9\nExecMainCode=2\n"), ProcessEnd::Signal(9));
        assert_eq!(end("ExecMainCode=0\nExecMainStatus=0\n"), ProcessEnd::Unobserved);
    }

    #[test]
    fn a_service_that_waits_for_its_next_start_is_active() {
        let state = |active: &str| {
            ServiceState::parse(&format!("ActiveState={active}\nExecMainStartTimestampMonotonic=7\n"))
        };
        assert_eq!(
            state("activating"),
            ServiceState { is_active: true, started_us: 7, end: ProcessEnd::Unobserved }
        );
        let before = state("active");
        let ended = ServiceState { end: ProcessEnd::Code(1), ..before.clone() };
        assert_eq!(ended.end_since(&before), Some(ProcessEnd::Code(1)), "it ran");
        assert_eq!(ended.end_since(&ended), None);
        assert!(
            !state("failed").is_active && !state("inactive").is_active && !ServiceState::parse("").is_active
        );
    }
}
