//! Fetches bags that are omitted from the view (design 9): before a hook that concerns one, and when a tool
//! first reads another one.
//!
//! Also implements [`HookHost`], the requests of a running hook's tools to the agent; one of them changes the leader
//! settings at the controller.

use super::agent_state::AgentState;
use crate::outage::{Channel, LINK_BACKOFF};
use crate::ports::{Clock, HookHost, UnitStorage};
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
            shared.note_success(Channel::Fetch);
            let mut facts = shared.facts.borrow_mut();
            bag.zip(facts.view.as_mut())
                .is_some_and(|(bag, view)| Arc::make_mut(view).keep_fetched(request, bag))
        }
        Err(error) => {
            shared.note_failure(Channel::Fetch, &error);
            false
        }
    };
    if is_kept {
        backoff.reset();
        return;
    }
    shared.wait_for_change(Some(shared.clock.since_boot_ms() + backoff.delay_ms())).await;
    backoff.increase();
}

/// Fetches a bag, and retries while the controller is unreachable.
async fn fetch_until_answered<S: UnitStorage, A: UnitAgentRequests, C: Clock>(
    shared: &AgentState<S, A, C>,
    request: &BagRequest,
) -> Result<Option<Bag>, String> {
    let mut backoff = LINK_BACKOFF;
    loop {
        match shared.api.handle(request.clone()).await {
            Ok(bag) => return Ok(bag.and_then(|bag| bag.values)),
            Err(error) if error.is_transient() => shared.pause(&mut backoff).await,
            Err(error) => return Err(full_text(&error, shared.clock.wall_ms())),
        }
    }
}

/// Changes the leader settings, and retries while the controller is unreachable and the unit leads without
/// interruption. A retry has the number of the first attempt, so that it is applied once.
async fn write_until_answered<S: UnitStorage, A: UnitAgentRequests, C: Clock>(
    shared: &AgentState<S, A, C>,
    run: u64,
    call: u32,
    change: &BagChange,
) -> Result<LeaderSettingsView, String> {
    let leadership = || shared.facts.borrow().leader_generation(shared.clocks_now());
    let not_leader = || "not the leader".to_owned();
    let (generation, mut backoff) = (leadership().ok_or_else(not_leader)?, LINK_BACKOFF);
    loop {
        if leadership() != Some(generation) {
            return Err(not_leader());
        }
        if let Some(epoch) = shared.epoch() {
            let write = LeaderWrite { generation, run, call, change: change.clone() };
            match shared.api.handle(WriteLeaderSettings { epoch, write }).await {
                Ok(written) => return Ok(written),
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(full_text(&error, shared.clock.wall_ms())),
            }
        }
        shared.pause(&mut backoff).await;
    }
}

/// Makes a request about a secret, and retries while the controller is unreachable. Reading is idempotent, and what was
/// sealed by an attempt without an answer is stored nowhere.
async fn secret_until_answered<S: UnitStorage, A: UnitAgentRequests, C: Clock>(
    shared: &AgentState<S, A, C>,
    need: &SecretRequest,
) -> Result<SecretAnswer, String> {
    let mut backoff = LINK_BACKOFF;
    loop {
        if let Some(epoch) = shared.epoch() {
            let answer = match need.clone() {
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
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(full_text(&error, shared.clock.wall_ms())),
            }
        }
        shared.pause(&mut backoff).await;
    }
}

/// Fetches the file of a resource. An attempt has the time of a transfer; further attempts start while a tool waits for the
/// controller.
async fn fetch_resource<S: UnitStorage, A: UnitAgentRequests, C: Clock>(
    shared: &AgentState<S, A, C>,
    need: &ResourceRequest,
) -> Result<Vec<u8>, String> {
    let until_ms = shared.clock.since_boot_ms() + TOOL_REQUEST_TIMEOUT_MS;
    let mut backoff = LINK_BACKOFF;
    loop {
        let fetch = FetchResource { resource: need.name.clone(), sha256: need.sha256.clone() };
        match shared.api.handle(fetch).await {
            Ok(file) => return Ok(file.0),
            Err(error) if !error.is_transient() => {
                return Err(full_text(&error, shared.clock.wall_ms()));
            }
            Err(_) if shared.clock.since_boot_ms() >= until_ms => return Err(no_answer()),
            Err(_) => shared.pause(&mut backoff).await,
        }
    }
}

fn no_answer() -> String {
    format!("the controller did not answer for {} s", TOOL_REQUEST_TIMEOUT_MS / 1000)
}

impl<S: UnitStorage, A: UnitAgentRequests, C: Clock> HookHost for AgentState<S, A, C> {
    fn report(&self, report: &RunReport) {
        self.facts.borrow_mut().pending_reports.push(report);
        self.send_changed.notify_one();
    }

    fn is_leader(&self) -> bool {
        AgentState::is_leader(self)
    }

    async fn fetch_bag(&self, request: &BagRequest) -> Result<Option<Bag>, String> {
        let late = pin!(self.clock.sleep_until(self.clock.since_boot_ms() + TOOL_REQUEST_TIMEOUT_MS));
        let answer = pin!(fetch_until_answered(self, request));
        let answer = tokio::select! {
            biased;
            answer = answer => answer,
            () = late => Err(no_answer()),
        };
        answer.map_err(|why| format!("cannot read settings for {}: {why}", request.owner))
    }

    async fn write_leader_settings(&self, run: u64, call: u32, change: &BagChange) -> Result<(), String> {
        let late = pin!(self.clock.sleep_until(self.clock.since_boot_ms() + TOOL_REQUEST_TIMEOUT_MS));
        let answer = pin!(write_until_answered(self, run, call, change));
        let written = tokio::select! {
            biased;
            answer = answer => answer?,
            () = late => return Err(no_answer()),
        };
        let view = {
            let mut facts = self.facts.borrow_mut();
            let Some(view) = facts.view.as_mut() else { return Ok(()) };
            Arc::make_mut(view).note_written_leader_settings(written);
            view.clone()
        };
        self.storage.cache_view(&view).await;
        Ok(())
    }

    async fn request_secret(&self, request: &SecretRequest) -> Result<SecretAnswer, String> {
        let late = pin!(self.clock.sleep_until(self.clock.since_boot_ms() + TOOL_REQUEST_TIMEOUT_MS));
        let answer = pin!(secret_until_answered(self, request));
        tokio::select! {
            biased;
            answer = answer => answer,
            () = late => Err(no_answer()),
        }
    }

    async fn fetch_resource(&self, request: &ResourceRequest) -> Result<Vec<u8>, String> {
        fetch_resource(self, request).await
    }
}
