//! Bags that did not come along with the view (design 9): before a hook that is about one, and when a tool first reads
//! another.

use crate::outage::Call;
use crate::ports::{Charms, Clock, HookHost, Memory};
use crate::unit_agent::{LINK_BACKOFF, Uniter};
use api::UnitAgentRequests;
use host::backoff::Backoff;
use state::terms::settings::Bag;
use state::unit::record::Said;
use state::unit::snapshot::BagRequest;
use std::pin::pin;
use std::sync::Arc;

/// A tool waits this long for a bag: as long as relation hooks begin on a view that is not renewed. A controller that
/// restarts answers again within a few seconds.
const TOOL_WAITS_MS: u64 = state::unit::resolve::LINK_AGE_MAX_MS;

impl<M: Memory, A: UnitAgentRequests, H: Charms, C: Clock> Uniter<M, A, H, C> {
    /// Asks once. What does not come, or is not what the view shows, is asked for again later, or when something has
    /// changed: `next` decides.
    pub(crate) async fn fetch(&self, asked: BagRequest, backoff: &mut Backoff) {
        let kept = match self.api.handle(asked.clone()).await {
            Ok(bag) => {
                self.works(Call::Fetch);
                let mut facts = self.facts.borrow_mut();
                bag.zip(facts.view.as_mut())
                    .is_some_and(|(bag, view)| Arc::make_mut(view).keep_fetched(asked, bag))
            }
            Err(error) => {
                self.fails(Call::Fetch, &error);
                false
            }
        };
        if kept {
            backoff.reset();
            return;
        }
        self.until_changed(Some(self.clock.since_boot_ms() + backoff.delay_ms())).await;
        backoff.increase();
    }

    async fn until_answered(&self, asked: &BagRequest) -> Result<Option<Bag>, String> {
        let mut backoff = LINK_BACKOFF;
        loop {
            match self.api.handle(asked.clone()).await {
                Ok(bag) => return Ok(bag.and_then(|bag| bag.values)),
                Err(error) if error.is_passing() => self.pause(&mut backoff).await,
                Err(error) => return Err(error.message),
            }
        }
    }
}

impl<M: Memory, A: UnitAgentRequests, H: Charms, C: Clock> HookHost for Uniter<M, A, H, C> {
    fn said(&self, said: &Said) {
        self.say(said);
    }

    fn leads(&self) -> bool {
        self.is_leader()
    }

    async fn bag(&self, asked: &BagRequest) -> Result<Option<Bag>, String> {
        let late = pin!(self.clock.sleep_until(self.clock.since_boot_ms() + TOOL_WAITS_MS));
        let answered = pin!(self.until_answered(asked));
        let answer = tokio::select! {
            biased;
            answer = answered => answer,
            () = late => Err(format!("the controller did not answer for {} s", TOOL_WAITS_MS / 1000)),
        };
        answer.map_err(|why| format!("cannot read settings for {}: {why}", asked.owner))
    }
}
