//! How long a tool keeps looking for its agent when that is restarted under a running hook (design 12).

/// All waiting of one call together, in milliseconds: an agent's restart (replay of a journal of 1 MiB takes tens of
/// milliseconds, a service manager's restart delay some seconds) many times over, and still far below a hook's time.
pub const WAIT_MS_MAX: u32 = 30_000;
/// The first pause: about as long as a quick restart takes.
pub const PAUSE_MS_FIRST: u32 = 5;
/// No pause is longer, so that a hook goes on soon after its agent does.
pub const PAUSE_MS_MAX: u32 = 500;

/// The pauses of one call, in milliseconds: doubling, then even, and `WAIT_MS_MAX` in sum.
/// They are never granted anew within a call, so an agent that dies of the call itself ends it, too.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    next_ms: u32,
    left_ms: u32,
}

impl Pauses {
    /// The pauses of a call that has not waited yet.
    #[must_use]
    pub const fn new() -> Self {
        Pauses { next_ms: PAUSE_MS_FIRST, left_ms: WAIT_MS_MAX }
    }
}

impl Default for Pauses {
    fn default() -> Self {
        Pauses::new()
    }
}

impl Iterator for Pauses {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.left_ms == 0 {
            return None;
        }
        let pause_ms = self.next_ms.min(self.left_ms);
        self.left_ms -= pause_ms;
        self.next_ms = (self.next_ms * 2).min(PAUSE_MS_MAX);
        Some(pause_ms)
    }
}
