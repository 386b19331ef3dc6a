//! Fetches bags that are omitted from the view (design 9): before a hook that concerns one, and when a tool
//! first reads another one.
//!
//! Also implements [`HookHost`], the requests of a running hook's tools to the agent.

use crate::outage::Channel;
use crate::ports::{Charms, Clock, HookHost, UnitMemory};
use crate::unit_agent::{LINK_BACKOFF, UnitAgent};
use api::UnitAgentRequests;
use host::backoff::Backoff;
use state::terms::settings::Bag;
use state::unit::record::RunReport;
use state::unit::snapshot::BagRequest;
use std::pin::pin;
use std::sync::Arc;

/// How long a tool waits for a bag: as long as relation hooks are started with a view that is not renewed. A
/// controller that restarts answers again within a few seconds.
const TOOL_FETCH_TIMEOUT_MS: u64 = state::unit::resolve::LINK_AGE_MAX_MS;

impl<M: UnitMemory, A: UnitAgentRequests, H: Charms, C: Clock> UnitAgent<M, A, H, C> {
    /// Sends one request. If the bag is not received, or does not match the view, it is requested again after a
    /// delay or a change, as `next` decides.
    pub(crate) async fn fetch(&self, request: BagRequest, backoff: &mut Backoff) {
        let is_kept = match self.api.handle(request.clone()).await {
            Ok(bag) => {
                self.note_success(Channel::Fetch);
                let mut facts = self.facts.borrow_mut();
                bag.zip(facts.view.as_mut())
                    .is_some_and(|(bag, view)| Arc::make_mut(view).keep_fetched(request, bag))
            }
            Err(error) => {
                self.note_failure(Channel::Fetch, &error);
                false
            }
        };
        if is_kept {
            backoff.reset();
            return;
        }
        self.wait_for_change(Some(self.clock.since_boot_ms() + backoff.delay_ms())).await;
        backoff.increase();
    }

    /// Fetches a bag, and retries while the controller is unreachable.
    async fn fetch_until_answered(&self, request: &BagRequest) -> Result<Option<Bag>, String> {
        let mut backoff = LINK_BACKOFF;
        loop {
            match self.api.handle(request.clone()).await {
                Ok(bag) => return Ok(bag.and_then(|bag| bag.values)),
                Err(error) if error.is_transient() => self.pause(&mut backoff).await,
                Err(error) => return Err(error.message),
            }
        }
    }
}

impl<M: UnitMemory, A: UnitAgentRequests, H: Charms, C: Clock> HookHost for UnitAgent<M, A, H, C> {
    fn report(&self, report: &RunReport) {
        self.queue_report(report);
    }

    fn is_leader(&self) -> bool {
        self.is_leader()
    }

    async fn fetch_bag(&self, request: &BagRequest) -> Result<Option<Bag>, String> {
        let late = pin!(self.clock.sleep_until(self.clock.since_boot_ms() + TOOL_FETCH_TIMEOUT_MS));
        let answer = pin!(self.fetch_until_answered(request));
        let answer = tokio::select! {
            biased;
            answer = answer => answer,
            () = late => Err(format!("the controller did not answer for {} s", TOOL_FETCH_TIMEOUT_MS / 1000)),
        };
        answer.map_err(|why| format!("cannot read settings for {}: {why}", request.owner))
    }
}
