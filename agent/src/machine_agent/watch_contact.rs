//! When the view of the machine agent was last known to be current, by its watch or by the response to a report of presence.
//!
//! A watch that nothing has confirmed for [`api::WATCH_SILENCE_MS`] is given up: its connection has died without being
//! closed, or what is sent on it does not arrive. Used by the machine agent's loop; performs no I/O.

use state::terms::position::Position;
use std::cell::Cell;

/// The contact of one watch.
#[derive(Default)]
pub(super) struct WatchContact {
    view: Cell<Option<Position>>,
    last_ms: Cell<u64>,
}

impl WatchContact {
    /// Notes that a watch was opened, which has sent nothing yet. Times are in milliseconds since boot.
    pub(super) fn note_opened(&self, now_ms: u64) {
        self.view.set(None);
        self.last_ms.set(now_ms);
    }

    /// Notes that the watch has sent the view of this position.
    pub(super) fn note_view(&self, position: Position) {
        self.view.set(Some(position));
    }

    /// Notes that the view was current at this time.
    pub(super) fn note_current(&self, at_ms: u64) {
        self.last_ms.set(self.last_ms.get().max(at_ms));
    }

    /// The position of the view.
    pub(super) fn view(&self) -> Option<Position> {
        self.view.get()
    }

    /// When the watch is given up.
    pub(super) fn silent_ms(&self) -> u64 {
        self.last_ms.get() + api::WATCH_SILENCE_MS
    }
}
