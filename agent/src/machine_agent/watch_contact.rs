//! When the view of the machine agent was last known to be current, by its watch or by the response to a report of presence.
//!
//! A watch that nothing has confirmed for [`api::WATCH_SILENCE_MS`] is given up: its connection has died without being
//! closed, or what is sent on it does not arrive. Used by the machine agent's loop.

use crate::ports::Clock;
use api::error::ApiError;
use api::{MachineView, MachineWatchEvent, PresenceResponse, ReportPresence, Stream};
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

    /// Returns the next view. Nothing is planned for a heartbeat: what has failed is tried again by itself.
    pub(super) async fn next_view(
        &self,
        watch: &mut impl Stream<Item = MachineWatchEvent>,
        clock: &impl Clock,
    ) -> Result<MachineView, ApiError> {
        loop {
            let event = watch.next().await?;
            self.note_current(clock.since_boot_ms());
            if let MachineWatchEvent::View(newest) = event {
                self.view.set(Some(newest.position));
                return Ok(newest);
            }
        }
    }

    /// The report of presence that the controller answers for this view.
    pub(super) fn report(&self) -> ReportPresence {
        ReportPresence { view: self.view.get() }
    }

    /// Notes the response to a report that was sent at this time.
    pub(super) fn note_response(&self, response: PresenceResponse, sent_ms: u64) {
        if response.current_to.is_some() {
            self.note_current(sent_ms);
        }
    }

    fn note_current(&self, at_ms: u64) {
        self.last_ms.set(self.last_ms.get().max(at_ms));
    }

    /// Returns when nothing has confirmed the view for too long.
    pub(super) async fn silence(&self, clock: &impl Clock) {
        while clock.since_boot_ms() < self.last_ms.get() + api::WATCH_SILENCE_MS {
            clock.sleep_until(self.last_ms.get() + api::WATCH_SILENCE_MS).await;
        }
    }
}
