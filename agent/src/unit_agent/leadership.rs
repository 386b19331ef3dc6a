//! The leadership loop, which claims leadership and renews it.
//!
//! A claim is also what an idle agent sends to show that it runs, and its response shows that the view is current.
//! The duration of a lease is counted from the time at which its claim was sent (`lease`).

use super::agent_state::AgentState;
use super::end::{RequestError, UnitAgentEnd};
use crate::outage::{LINK_RETRY_FIRST_MS, LINK_RETRY_MAX_MS};
use crate::ports::{Clock, UnitStorage};
use api::{Claim, ClaimResponse, UnitAgentRequests};
use state::agents::lease::Lease;
use std::pin::pin;

/// Leadership is renewed this often (design 13).
const RENEW_MS: u64 = api::PRESENCE_INTERVAL_MS;

/// Claims leadership, and renews it, as long as the unit is Alive or Dying (spec D.4).
pub(super) async fn claim_loop<S: UnitStorage, A: UnitAgentRequests, C: Clock>(
    shared: &AgentState<S, A, C>,
) -> UnitAgentEnd {
    loop {
        let epoch = shared.wait_for_volatile(|volatile| volatile.view.as_ref().and(volatile.epoch)).await;
        let sent = shared.clocks_now();
        let view = shared.view().map(|view| view.position);
        let again_ms = match shared.api.handle(Claim { epoch, release: false, view }).await {
            Ok(ClaimResponse { lease, current_to }) => {
                let mut volatile = shared.volatile.borrow_mut();
                volatile.lease = lease.map(|granted| Lease { granted, sent });
                volatile.is_leader_known = true;
                if let Some(position) = current_to {
                    volatile.record_contact(sent.since_boot_ms);
                    volatile.advance_position(position);
                }
                drop(volatile);
                shared.act_changed.notify_one();
                sent.since_boot_ms + RENEW_MS
            }
            Err(error) => match RequestError::from(error) {
                RequestError::End(end) => return end,
                RequestError::Retry(_) | RequestError::Refused(_) => {
                    let again_ms = shared.clock.since_boot_ms() + LINK_RETRY_MAX_MS;
                    shared.clock.sleep_until(again_ms).await;
                    continue;
                }
            },
        };
        // a view without a leader may be older than the claim that was refused
        shared.clock.sleep_until(shared.clock.since_boot_ms() + LINK_RETRY_FIRST_MS).await;
        let timer = pin!(shared.clock.sleep_until(again_ms));
        let free = pin!(shared.wait_for_volatile(|volatile| volatile.is_leadership_free().then_some(())));
        tokio::select! { biased; () = timer => {}, () = free => {} }
    }
}
