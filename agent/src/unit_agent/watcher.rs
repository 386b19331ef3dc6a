//! The watching loop takes the view; the claiming loop asks for leadership and renews it.

use crate::outage::Call;
use crate::ports::{Charms, Clock, Memory};
use crate::unit_agent::lease::Lease;
use crate::unit_agent::sender::SendError;
use crate::unit_agent::{End, LINK_BACKOFF, LINK_RETRY_FIRST_MS, LINK_RETRY_MAX_MS, ProcessFacts, Uniter};
use api::error::{ApiError, ErrorCode};
use api::{Claim, Shown, Stream, UnitAgentRequests, Watch, WatchUnit};
use state::terms::position::Position;
use state::unit::snapshot::{Delta, Snapshot};
use std::pin::pin;
use std::sync::Arc;

/// Leadership is renewed this often (design 13).
const RENEW_MS: u64 = 15_000;

impl<M: Memory, A: UnitAgentRequests, H: Charms, C: Clock> Uniter<M, A, H, C> {
    pub(crate) async fn watch_loop(&self) -> End {
        let mut backoff = LINK_BACKOFF;
        loop {
            let epoch = self.until_shown(|facts| facts.epoch).await;
            let from = self.facts.borrow().view.as_ref().map(|view| view.position);
            let error = match self.api.watch(WatchUnit { epoch, from }).await {
                Ok(watch) => {
                    backoff.reset();
                    self.works(Call::Watch);
                    self.facts.borrow_mut().resend_executing = true;
                    self.sending.notify_one();
                    self.watch(watch).await
                }
                Err(error) => error,
            };
            match SendError::from(error) {
                SendError::End(end) => return end,
                SendError::Link(error) | SendError::Refused(error) => self.fails(Call::Watch, &error),
            }
            self.pause(&mut backoff).await;
        }
    }

    /// Waits until `found` finds something among this process's facts.
    async fn until_shown<T>(&self, found: impl Fn(&ProcessFacts) -> Option<T>) -> T {
        loop {
            let mut shown = pin!(self.shown.notified());
            shown.as_mut().enable();
            if let Some(found) = found(&self.facts.borrow()) {
                return found;
            }
            shown.await;
        }
    }

    async fn watch(&self, mut watch: <A as Watch<WatchUnit>>::Stream) -> ApiError {
        loop {
            match watch.next().await {
                Ok(Shown::Delta(delta)) => {
                    self.heard();
                    if let Err(error) = self.take(delta).await {
                        return error;
                    }
                }
                Ok(Shown::Heartbeat(position)) => {
                    self.heard();
                    self.reach(position);
                }
                Err(error) => return error,
            }
            self.doing.notify_one();
        }
    }

    fn heard(&self) {
        let now = self.clock.since_boot_ms();
        let mut facts = self.facts.borrow_mut();
        facts.heard_ms = Some(now);
    }

    async fn take(&self, delta: Delta) -> Result<(), ApiError> {
        if Some(delta.position.store_generation) != self.local.borrow().store_generation {
            // the controller was restored from an older copy: disk and replica are compared at a new attach only
            return Err(ApiError::new(ErrorCode::Gap, "the controller goes on in another history"));
        }
        let taken = {
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
                    return Err(ApiError::new(ErrorCode::Compacted, "a delta without its view"));
                }
            }
            facts.view.clone()
        };
        if let Some(view) = taken {
            self.facts.borrow_mut().drop_moved_lease(&view);
            self.memory.keep_view(&view).await;
        }
        self.shown.notify_waiters();
        Ok(())
    }

    fn reach(&self, position: Position) {
        let mut facts = self.facts.borrow_mut();
        if let Some(view) =
            facts.view.as_mut().filter(|view| view.position.store_generation == position.store_generation)
        {
            let known = view.position.revision;
            if known < position.revision {
                Arc::make_mut(view).position = position;
            }
        }
    }

    /// Leadership is asked for, and renewed, as long as the unit is alive or leaving (spec D.4).
    pub(crate) async fn claim_loop(&self) -> End {
        loop {
            let epoch = self.until_shown(|facts| facts.view.as_ref().and(facts.epoch)).await;
            let sent = self.clocks_now();
            let again_ms = match self.api.handle(Claim { epoch, release: false }).await {
                Ok(claimed) => {
                    let lease = Lease { generation: claimed.generation, sent, term_ms: claimed.term_ms };
                    let mut facts = self.facts.borrow_mut();
                    facts.lease = claimed.granted.then_some(lease);
                    facts.claimed = true;
                    drop(facts);
                    self.doing.notify_one();
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
            // a view that still shows nobody leading lags behind a claim that was refused
            self.clock.sleep_until(self.clock.since_boot_ms() + LINK_RETRY_FIRST_MS).await;
            let timer = pin!(self.clock.sleep_until(again_ms));
            let free = pin!(self.until_shown(ProcessFacts::leadership_is_free));
            tokio::select! { biased; () = timer => {}, () = free => {} }
        }
    }
}
