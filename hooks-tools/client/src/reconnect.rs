//! Delays between the attempts of one call to reach a unit agent that is being restarted (design 12).
//!
//! The total delay of a call is bounded, so that a hook does not hang on an agent that does not return. Used by
//! `pintle-hook`, by `juju-exec` and by the simulator.

/// Total delay of one call in milliseconds. It is many times the restart of an agent (tens of milliseconds for the
/// replay of a journal of 1 MiB, some seconds for the restart delay of a service manager) and far below the time limit
/// of a hook.
pub const DELAY_SUM_MAX_MS: u32 = 30_000;
/// The first delay in milliseconds: about the time of a fast restart.
pub const DELAY_FIRST_MS: u32 = 5;
/// The longest delay in milliseconds, so that a hook continues soon after its agent.
pub const DELAY_MAX_MS: u32 = 500;

/// The delays of one call in milliseconds: each is twice the previous one up to `DELAY_MAX_MS`, and their sum is
/// `DELAY_SUM_MAX_MS`. They do not start again within a call, so a call that crashes the agent also ends.
#[derive(Clone, Copy, Debug)]
pub struct ReconnectDelays {
    next_ms: u32,
    left_ms: u32,
}

impl ReconnectDelays {
    /// The delays of a call that has not waited yet.
    #[must_use]
    pub const fn new() -> Self {
        ReconnectDelays { next_ms: DELAY_FIRST_MS, left_ms: DELAY_SUM_MAX_MS }
    }
}

impl Default for ReconnectDelays {
    fn default() -> Self {
        ReconnectDelays::new()
    }
}

impl Iterator for ReconnectDelays {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.left_ms == 0 {
            return None;
        }
        let delay_ms = self.next_ms.min(self.left_ms);
        self.left_ms -= delay_ms;
        self.next_ms = (self.next_ms * 2).min(DELAY_MAX_MS);
        Some(delay_ms)
    }
}
