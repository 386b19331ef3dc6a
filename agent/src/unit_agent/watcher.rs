//! The watch loop, which applies deltas to the view, and the claim loop, which claims and renews leadership.
//!
//! The view is never applied across store generations: after a restore the agent attaches again first.

use crate::outage::Channel;
use crate::ports::{Charms, Clock, UnitMemory};
use crate::unit_agent::lease::Lease;
use crate::unit_agent::sender::SendError;
use crate::unit_agent::{
    LINK_BACKOFF, LINK_RETRY_FIRST_MS, LINK_RETRY_MAX_MS, ProcessFacts, UnitAgent, UnitAgentEnd,
};
use api::error::{ApiError, ErrorCode};
use api::{Claim, Stream, UnitAgentRequests, UnitWatchEvent, Watch, WatchUnit};
use state::terms::position::Position;
use state::unit::snapshot::{Delta, Snapshot};
use std::pin::pin;
use std::sync::Arc;

/// Leadership is renewed this often (design 13).
const RENEW_MS: u64 = 15_000;

impl<M: UnitMemory, A: UnitAgentRequests, H: Charms, C: Clock> UnitAgent<M, A, H, C> {
    /// Watches the unit's view and applies its deltas, until the agent must end.
    pub(crate) async fn watch_loop(&self) -> UnitAgentEnd {
        let mut backoff = LINK_BACKOFF;
        loop {
            let epoch = self.wait_for_fact(|facts| facts.epoch).await;
            let from = self.facts.borrow().view.as_ref().map(|view| view.position);
            let error = match self.api.watch(WatchUnit { epoch, from }).await {
                Ok(watch) => {
                    backoff.reset();
                    self.note_success(Channel::Watch);
                    self.facts.borrow_mut().resend_executing = true;
                    self.send_changed.notify_one();
                    self.watch(watch).await
                }
                Err(error) => error,
            };
            match SendError::from(error) {
                SendError::End(end) => return end,
                SendError::Link(error) | SendError::Refused(error) => {
                    self.note_failure(Channel::Watch, &error)
                }
            }
            self.pause(&mut backoff).await;
        }
    }

    /// Waits until `found` returns a value for the facts of this process.
    async fn wait_for_fact<T>(&self, found: impl Fn(&ProcessFacts) -> Option<T>) -> T {
        loop {
            let mut changed = pin!(self.view_changed.notified());
            changed.as_mut().enable();
            if let Some(found) = found(&self.facts.borrow()) {
                return found;
            }
            changed.await;
        }
    }

    /// Receives the events of one watch until it fails; returns the error.
    async fn watch(&self, mut watch: <A as Watch<WatchUnit>>::Stream) -> ApiError {
        loop {
            match watch.next().await {
                Ok(UnitWatchEvent::Delta(delta)) => {
                    self.note_contact();
                    if let Err(error) = self.apply_delta(delta).await {
                        return error;
                    }
                }
                Ok(UnitWatchEvent::Heartbeat(position)) => {
                    self.note_contact();
                    self.advance_position(position);
                }
                Err(error) => return error,
            }
            self.act_changed.notify_one();
        }
    }

    /// Notes that the controller was reachable just now.
    fn note_contact(&self) {
        let now = self.clock.since_boot_ms();
        let mut facts = self.facts.borrow_mut();
        facts.last_contact_ms = Some(now);
    }

    /// Applies a delta to the view, and caches the view.
    async fn apply_delta(&self, delta: Delta) -> Result<(), ApiError> {
        if Some(delta.position.store_generation) != self.local.borrow().store_generation {
            // the controller was restored from a backup: the disk and the replica are compared at the next
            // attach only
            return Err(ApiError::new(ErrorCode::Gap, "the store of the controller has changed generation"));
        }
        let applied = {
            let mut facts = self.facts.borrow_mut();
            match facts.view.as_mut() {
                _ if delta.full => {
                    let view = Snapshot::from_full(delta).map_err(|_| {
                        ApiError::new(ErrorCode::Broken, "the controller sent an incomplete view")
                    })?;
                    facts.view = Some(Arc::new(view));
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
            facts.view.clone()
        };
        if let Some(view) = applied {
            self.facts.borrow_mut().drop_superseded_lease(&view);
            self.memory.cache_view(&view).await;
        }
        self.view_changed.notify_waiters();
        Ok(())
    }

    /// Notes that the view is current up to a later position.
    fn advance_position(&self, position: Position) {
        let mut facts = self.facts.borrow_mut();
        if let Some(view) =
            facts.view.as_mut().filter(|view| view.position.store_generation == position.store_generation)
            && view.position.revision < position.revision
        {
            Arc::make_mut(view).position = position;
        }
    }

    /// Claims leadership, and renews it, as long as the unit is Alive or Dying (spec D.4).
    pub(crate) async fn claim_loop(&self) -> UnitAgentEnd {
        loop {
            let epoch = self.wait_for_fact(|facts| facts.view.as_ref().and(facts.epoch)).await;
            let sent = self.clocks_now();
            let again_ms = match self.api.handle(Claim { epoch, release: false }).await {
                Ok(claimed) => {
                    let mut facts = self.facts.borrow_mut();
                    facts.lease = claimed.map(|term| Lease { term, sent });
                    facts.is_leader_known = true;
                    drop(facts);
                    self.act_changed.notify_one();
                    sent.since_boot_ms + RENEW_MS
                }
                Err(error) => match SendError::from(error) {
                    SendError::End(end) => return end,
                    SendError::Link(_) | SendError::Refused(_) => {
                        let again_ms = self.clock.since_boot_ms() + LINK_RETRY_MAX_MS;
                        self.clock.sleep_until(again_ms).await;
                        continue;
                    }
                },
            };
            // a view without a leader may be older than the claim that was refused
            self.clock.sleep_until(self.clock.since_boot_ms() + LINK_RETRY_FIRST_MS).await;
            let timer = pin!(self.clock.sleep_until(again_ms));
            let free = pin!(self.wait_for_fact(ProcessFacts::leadership_is_free));
            tokio::select! { biased; () = timer => {}, () = free => {} }
        }
    }
}
