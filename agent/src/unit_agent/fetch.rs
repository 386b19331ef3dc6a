//! Fetches bags that are omitted from the view (design 9): before a hook that concerns one, and when a tool
//! first reads another one.
//!
//! Also implements [`HookHost`], the requests of a running hook's tools to the controller: omitted bags, leader settings,
//! secrets, resources. Each is repeated while the controller is unavailable, for 30 s.

use super::agent_state::AgentState;
use crate::outage::{Channel, LINK_BACKOFF, jittered_delay_ms};
use crate::ports::{Clock, HookHost, UnitStorage};
use api::error::{ApiError, ErrorCode};
use api::text::error::full_text;
use api::{
    FetchResource, OpenSecret, ReadSecret, SealSecret, SealedSecret, UnitAgentRequests, WriteLeaderSettings,
};
use commands::{ResourceRequest, SecretAnswer, SecretRequest};
use host::backoff::Backoff;
use state::terms::leader_settings::LeaderSettingsView;
use state::terms::settings::{Bag, BagChange};
use state::transitions::leader_settings::LeaderWrite;
use state::unit::record::RunReport;
use state::unit::relation_view::BagRequest;
use std::cell::RefCell;
use std::pin::pin;
use std::sync::Arc;

/// How long a tool waits for the controller: as long as relation hooks are started with a view that is not renewed. A
/// controller that restarts answers again within a few seconds.
const TOOL_REQUEST_TIMEOUT_MS: u64 = state::unit::decision::LINK_AGE_MAX_MS;

/// Sends one request. If the bag is not received, or does not match the view, it is requested again after a
/// delay or a change, as `next` decides.
pub(super) async fn fetch<S: UnitStorage, A: UnitAgentRequests, C: Clock>(
    shared: &AgentState<S, A, C>,
    request: BagRequest,
    backoff: &mut Backoff,
) {
    let is_kept = match shared.api.handle(request.clone()).await {
        Ok(bag) => {
            shared.record_success(Channel::Fetch);
            let mut volatile = shared.volatile.borrow_mut();
            bag.zip(volatile.view.as_mut())
                .is_some_and(|(bag, view)| Arc::make_mut(view).keep_fetched(request, bag))
        }
        Err(error) => {
            shared.record_failure(Channel::Fetch, &error);
            false
        }
    };
    if is_kept {
        backoff.reset();
        return;
    }
    shared
        .wait_for_change(Some(shared.clock.since_boot_ms() + jittered_delay_ms(backoff, &shared.clock)))
        .await;
    backoff.increase();
}

/// One attempt to make a request.
enum Attempt<T> {
    /// The request was sent: the response, or the error of the connection.
    Made(Result<T, ApiError>),
    /// The agent is not attached.
    NotAttached,
    /// The request must not be made any more, for this reason.
    Ended(String),
}

/// Whether an error is the response to a tool's request, which the tool then reports. An error is no response if the store
/// was restored and does not have the session: another loop then ends this agent, and the tool repeats its call to the next
/// agent. The charm has not failed.
fn is_response(error: &ApiError) -> bool {
    !error.is_transient() && error.code != ErrorCode::Gap
}

/// Makes a request, and retries while the controller is unreachable or unavailable, for the time of a tool's request.
///
/// # Errors
/// Why there is no response, for the message of a tool.
async fn until_response<S: UnitStorage, A: UnitAgentRequests, C: Clock, T>(
    shared: &AgentState<S, A, C>,
    attempt: impl AsyncFn() -> Attempt<T>,
) -> Result<T, String> {
    let last_error = RefCell::new(None);
    let timeout = pin!(shared.clock.sleep_until(shared.clock.since_boot_ms() + TOOL_REQUEST_TIMEOUT_MS));
    let response = pin!(async {
        let mut backoff = LINK_BACKOFF;
        loop {
            match attempt().await {
                Attempt::Made(Ok(response)) => return Ok(response),
                Attempt::Made(Err(error)) if !is_response(&error) => *last_error.borrow_mut() = Some(error),
                Attempt::Made(Err(error)) => return Err(full_text(&error, shared.clock.wall_ms())),
                Attempt::NotAttached => {}
                Attempt::Ended(why) => return Err(why),
            }
            shared.pause(&mut backoff).await;
        }
    });
    tokio::select! {
        biased;
        response = response => response,
        () = timeout => Err(no_response(last_error.take().as_ref(), shared.clock.wall_ms())),
    }
}

/// Why a request had no response: the last error of the controller, or that it was not reached.
fn no_response(last_error: Option<&ApiError>, now_ms: i64) -> String {
    match last_error {
        Some(error) if error.code != ErrorCode::Unreachable => full_text(error, now_ms),
        _ => no_response_in_time(),
    }
}

/// The message of a tool whose request has no response in time.
pub fn no_response_in_time() -> String {
    format!("the controller did not answer for {} s", TOOL_REQUEST_TIMEOUT_MS / 1000)
}

/// Changes the leader settings while the unit leads without interruption. A retry under the same session has the number
/// of the first attempt, and is applied once; under a later one, it changes nothing if the first one was applied.
async fn write_leader_settings<S: UnitStorage, A: UnitAgentRequests, C: Clock>(
    shared: &AgentState<S, A, C>,
    run: u64,
    call: u32,
    change: &BagChange,
) -> Result<LeaderSettingsView, String> {
    let leadership = || shared.volatile.borrow().leader_generation(shared.clocks_now());
    let not_leader = || "not the leader".to_owned();
    let generation = leadership().ok_or_else(not_leader)?;
    until_response(shared, async || {
        if leadership() != Some(generation) {
            return Attempt::Ended(not_leader());
        }
        let Some(epoch) = shared.epoch() else { return Attempt::NotAttached };
        let write = LeaderWrite { generation, run, call, change: change.clone() };
        Attempt::Made(shared.api.handle(WriteLeaderSettings { epoch, write }).await)
    })
    .await
}

/// Makes a request about a secret. Reading is idempotent, and what was sealed by an attempt without an answer is stored
/// nowhere.
async fn request_secret<S: UnitStorage, A: UnitAgentRequests, C: Clock>(
    shared: &AgentState<S, A, C>,
    request: &SecretRequest,
) -> Result<SecretAnswer, String> {
    until_response(shared, async || {
        let Some(epoch) = shared.epoch() else { return Attempt::NotAttached };
        Attempt::Made(match request.clone() {
            SecretRequest::Seal { secret, owner, content } => {
                let sealed = shared.api.handle(SealSecret { epoch, secret, owner, content }).await;
                sealed.map(|SealedSecret { secret, sealed }| SecretAnswer::Sealed { secret, sealed })
            }
            SecretRequest::Read(read) => {
                shared.api.handle(ReadSecret { epoch, read }).await.map(SecretAnswer::Content)
            }
            SecretRequest::Open { secret, sealed } => {
                let opened = shared.api.handle(OpenSecret { epoch, secret, sealed }).await;
                opened.map(SecretAnswer::Content)
            }
        })
    })
    .await
}

/// Fetches the file of a resource. An attempt that is under way is not ended, because a transfer may take minutes; a
/// failed one is repeated until the time of a tool's request has passed since the call.
async fn fetch_resource<S: UnitStorage, A: UnitAgentRequests, C: Clock>(
    shared: &AgentState<S, A, C>,
    request: &ResourceRequest,
) -> Result<Vec<u8>, String> {
    let until_ms = shared.clock.since_boot_ms() + TOOL_REQUEST_TIMEOUT_MS;
    let mut backoff = LINK_BACKOFF;
    loop {
        let fetch = FetchResource { resource: request.name.clone(), sha256: request.sha256.clone() };
        let error = match shared.api.handle(fetch).await {
            Ok(file) => return Ok(file.0),
            Err(error) => error,
        };
        if !error.is_transient() {
            return Err(full_text(&error, shared.clock.wall_ms()));
        }
        if shared.clock.since_boot_ms() >= until_ms {
            return Err(no_response(Some(&error), shared.clock.wall_ms()));
        }
        shared.pause(&mut backoff).await;
    }
}

impl<S: UnitStorage, A: UnitAgentRequests, C: Clock> HookHost for AgentState<S, A, C> {
    fn report(&self, report: &RunReport) {
        self.volatile.borrow_mut().pending_reports.push(report);
        self.send_changed.notify_one();
    }

    fn is_leader(&self) -> bool {
        AgentState::is_leader(self)
    }

    async fn fetch_bag(&self, request: &BagRequest) -> Result<Option<Bag>, String> {
        let fetched =
            until_response(self, async || Attempt::Made(self.api.handle(request.clone()).await)).await;
        let bag = fetched.map_err(|why| format!("cannot read settings for {}: {why}", request.owner))?;
        Ok(bag.and_then(|bag| bag.values))
    }

    async fn write_leader_settings(&self, run: u64, call: u32, change: &BagChange) -> Result<(), String> {
        let written = write_leader_settings(self, run, call, change).await?;
        let view = {
            let mut volatile = self.volatile.borrow_mut();
            let Some(view) = volatile.view.as_mut() else { return Ok(()) };
            Arc::make_mut(view).store_written_leader_settings(written);
            view.clone()
        };
        self.storage.cache_view(&view).await;
        Ok(())
    }

    async fn request_secret(&self, request: &SecretRequest) -> Result<SecretAnswer, String> {
        request_secret(self, request).await
    }

    async fn fetch_resource(&self, request: &ResourceRequest) -> Result<Vec<u8>, String> {
        fetch_resource(self, request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::terms::refusal::RefusalReason;
    use state::terms::refusal::session::SessionRefusal;

    #[test]
    fn a_session_that_a_restored_store_lacks_is_no_response_to_a_tool() {
        let error = |refusal: SessionRefusal| ApiError::from(RefusalReason::from(refusal));
        assert!(!is_response(&error(SessionRefusal::EpochOfOtherGeneration {
            epoch: 3,
            newest: 3,
            expected: 7
        })));
        assert!(!is_response(&ApiError::new(ErrorCode::Unreachable, "no response")));
        assert!(is_response(&error(SessionRefusal::NewerAgent { newest: 4, epoch: 3 })));
        assert!(is_response(&RefusalReason::NotAuthorised.into()));
    }
}
