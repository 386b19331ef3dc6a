//! Records when the view of the machine agent was last known to be current: its watch has received an event, or a response
//! to a report of presence has confirmed the view.
//!
//! The agent closes a watch that nothing has confirmed for [`api::WATCH_SILENCE_MS`]: its connection has died without being
//! closed, or what is sent on it does not arrive. Used by the machine agent's loop; the watcher of a unit agent
//! (`unit_agent::watcher`) has the same deadline.

use crate::ports::Clock;
use api::error::ApiError;
use api::{MachineView, MachineWatchEvent, PresenceResponse, ReportPresence, Stream};
use state::terms::position::Position;
use std::cell::Cell;

/// When the view of one watch was last confirmed. Times are in milliseconds since boot.
#[derive(Default)]
pub(super) struct WatchContact {
    /// The position of the newest view; none until the watch has sent one.
    view: Cell<Option<Position>>,
    /// When the watch was opened, or later when the view was last confirmed.
    last_ms: Cell<u64>,
}

impl WatchContact {
    /// Records that a watch was opened, which has sent nothing yet.
    pub(super) fn note_opened(&self, now_ms: u64) {
        self.view.set(None);
        self.last_ms.set(now_ms);
    }

    /// Returns the next view. A heartbeat is not returned, because it causes no plan: failed steps have their own retries.
    pub(super) async fn next_view(
        &self,
        watch: &mut impl Stream<Item = MachineWatchEvent>,
        clock: &impl Clock,
    ) -> Result<MachineView, ApiError> {
        loop {
            let event = watch.next().await?;
            self.record_current(clock.since_boot_ms());
            if let MachineWatchEvent::View(newest) = event {
                self.view.set(Some(newest.position));
                return Ok(newest);
            }
        }
    }

    /// The report of presence in this boot, which the controller answers for this view.
    pub(super) fn report(&self, boot: String) -> ReportPresence {
        ReportPresence { view: self.view.get(), boot }
    }

    /// Records the response to a report that was sent at this time.
    pub(super) fn note_response(&self, response: PresenceResponse, sent_ms: u64) {
        if response.current_to.is_some() {
            self.record_current(sent_ms);
        }
    }

    fn record_current(&self, at_ms: u64) {
        self.last_ms.set(self.last_ms.get().max(at_ms));
    }

    /// Completes when nothing has confirmed the view for [`api::WATCH_SILENCE_MS`].
    pub(super) async fn silence(&self, clock: &impl Clock) {
        let deadline_ms = || self.last_ms.get() + api::WATCH_SILENCE_MS;
        while clock.since_boot_ms() < deadline_ms() {
            clock.sleep_until(deadline_ms()).await;
        }
    }
}
