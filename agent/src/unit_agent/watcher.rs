//! The watch loop, which applies deltas to the view.
//!
//! A delta is never applied to a view of another store generation: after a restore the agent attaches again first.

use super::agent_state::AgentState;
use super::end::{RequestError, UnitAgentEnd};
use super::volatile_state::VolatileState;
use crate::outage::{Channel, LINK_BACKOFF};
use crate::ports::{Clock, UnitStorage};
use api::error::{ApiError, ErrorCode};
use api::{Stream, UnitAgentRequests, UnitWatchEvent, WATCH_SILENCE_MS, Watch, WatchUnit};
use state::unit::snapshot::{Delta, Snapshot};
use std::pin::pin;
use std::sync::Arc;

/// The delay before a changed view is cached, so that changes that follow each other are written once. After a crash,
/// the agent continues with an older view until it is connected (`state::unit::retry::interrupted`).
const CACHE_DELAY_MS: u64 = 100;

/// The watch loop of one unit agent.
pub(super) struct Watcher<'a, S, A, C>(pub(super) &'a AgentState<S, A, C>);

impl<S: UnitStorage, A: UnitAgentRequests, C: Clock> Watcher<'_, S, A, C> {
    /// Watches the unit's view and applies its deltas, until the agent must end.
    pub(super) async fn run(&self) -> UnitAgentEnd {
        let mut backoff = LINK_BACKOFF;
        loop {
            let epoch = self.0.wait_for_volatile(|volatile| volatile.epoch).await;
            let from = self.0.volatile.borrow().view.as_ref().map(|view| view.position);
            let error = match self.0.api.watch(WatchUnit { epoch, from }).await {
                Ok(watch) => {
                    backoff.reset();
                    self.0.record_success(Channel::Watch);
                    self.0.volatile.borrow_mut().resend_activity = true;
                    self.0.send_changed.notify_one();
                    self.watch(watch).await
                }
                Err(error) => error,
            };
            match RequestError::from(error) {
                RequestError::End(end) => return end,
                RequestError::Retry(error) | RequestError::Refused(error) => {
                    self.0.record_failure(Channel::Watch, &error)
                }
            }
            self.0.pause(&mut backoff).await;
        }
    }

    /// Receives the events of one watch until it fails or is silent; returns the error.
    async fn watch(&self, mut watch: <A as Watch<WatchUnit>>::Stream) -> ApiError {
        let opened_ms = self.0.clock.since_boot_ms();
        loop {
            match self.next_event(&mut watch, opened_ms).await {
                Some(Ok(UnitWatchEvent::Delta(delta))) => {
                    self.record_contact();
                    if let Err(error) = self.apply_delta(delta).await {
                        return error;
                    }
                }
                Some(Ok(UnitWatchEvent::Heartbeat(position))) => {
                    self.record_contact();
                    self.0.volatile.borrow_mut().advance_position(position);
                }
                Some(Err(error)) => return error,
                None => return watch.give_up(),
            }
            self.0.act_changed.notify_one();
        }
    }

    /// Returns the next event, or none if neither an event nor the response to a claim has confirmed the view for too long:
    /// the connection has died without being closed, or what is sent on it does not arrive.
    async fn next_event(
        &self,
        watch: &mut <A as Watch<WatchUnit>>::Stream,
        opened_ms: u64,
    ) -> Option<Result<UnitWatchEvent, ApiError>> {
        let deadline_ms = || {
            let last_ms = self.0.volatile.borrow().last_contact_ms;
            last_ms.unwrap_or_default().max(opened_ms) + WATCH_SILENCE_MS
        };
        let mut event = pin!(watch.next());
        while self.0.clock.since_boot_ms() < deadline_ms() {
            let silence = pin!(self.0.clock.sleep_until(deadline_ms()));
            tokio::select! { biased; event = &mut event => return Some(event), () = silence => {} }
        }
        None
    }

    /// Records that the controller was reachable just now.
    fn record_contact(&self) {
        let now = self.0.clock.since_boot_ms();
        self.0.volatile.borrow_mut().record_contact(now);
    }

    /// Applies a delta to the view, which is cached later.
    async fn apply_delta(&self, delta: Delta) -> Result<(), ApiError> {
        if Some(delta.position.store_generation) != self.0.local().store_generation {
            // the controller was restored from a backup: the disk and the replica are compared at the next
            // attach only
            return Err(ApiError::new(ErrorCode::Gap, "the store of the controller has changed generation"));
        }
        let life_of = |volatile: &VolatileState| volatile.view.as_ref().map(|view| view.unit.life);
        let life_before = life_of(&self.0.volatile.borrow());
        let applied = {
            let mut volatile = self.0.volatile.borrow_mut();
            match volatile.view.as_mut() {
                _ if delta.full => {
                    let mut view = Snapshot::from_full(delta).map_err(|_| {
                        ApiError::new(ErrorCode::Broken, "the controller sent an incomplete view")
                    })?;
                    if let Some(before) = &volatile.view {
                        view.keep_written_leader_settings(before);
                    }
                    volatile.set_view(Arc::new(view));
                }
                Some(view) if view.position.store_generation == delta.position.store_generation => {
                    if delta.position.revision > view.position.revision {
                        Arc::make_mut(view).apply(delta);
                    }
                }
                Some(_) | None => {
                    return Err(ApiError::new(
                        ErrorCode::Compacted,
                        "received a delta without the view that it is based on",
                    ));
                }
            }
            volatile.view.clone()
        };
        if let Some(view) = applied {
            if life_before.is_some_and(|before| before != view.unit.life) {
                tracing::info!(revision = view.position.revision, "the unit is now {:?}", view.unit.life);
            }
            self.0.volatile.borrow_mut().drop_superseded_lease(&view);
            self.0.cache_outdated.notify_one();
        }
        self.0.view_changed.notify_waiters();
        Ok(())
    }

    /// Caches the view on disk after it has changed. Never ends. A hook that the change starts does not wait for this.
    pub(super) async fn keep_cached(&self) -> UnitAgentEnd {
        loop {
            self.0.cache_outdated.notified().await;
            self.0.clock.sleep_until(self.0.clock.since_boot_ms() + CACHE_DELAY_MS).await;
            if let Some(view) = self.0.view() {
                self.0.storage.cache_view(&view).await;
            }
        }
    }
}
