//! The link of a unit agent to the controller: requests, and a watch that may break, fall silent, repeat events or lag.

use super::{
    Delivery, Direction, RESPONSE_TIMEOUT_MS, SimCaller, SimNetwork, StreamBreak, TRANSIT_MS, no_response,
    unreachable_error,
};
use crate::sim::fact::Fact;
use crate::sim::mutants::Mutant;
use api::error::{ApiError, ErrorCode};
use api::request::Message;
use api::{
    Archive, Attach, Claim, ClaimResponse, Commit, FetchArchive, FetchResource, Handle, OpenSecret,
    ReadSecret, Report, Request, SealSecret, SealedSecret, Stream, UnitWatchEvent, Watch, WatchUnit,
    WriteLeaderSettings,
};
use controller::store::Store;
use state::agents::session::GrantedSession;
use state::documents::prelude::{Model, TokenHolder};
use state::terms::leader_settings::LeaderSettingsView;
use state::terms::names::Uuid;
use state::terms::position::{Committed, Position};
use state::terms::secret::SecretContent;
use state::terms::settings::Bag;
use state::unit::record::CommitOutcome;
use state::unit::relation_view::{BagRequest, BagView};
use tokio::sync::oneshot;

/// The link of one unit agent to the controller.
#[derive(Clone)]
pub struct Link {
    network: SimNetwork,
    model: Model,
    unit: Uuid,
    /// The folder of the agent: a unit may have a copy of its folder.
    folder: Uuid,
}

impl Link {
    pub fn new(network: SimNetwork, model: Model, unit: Uuid, folder: Uuid) -> Link {
        Link { network, model, unit, folder }
    }

    fn caller(&self) -> SimCaller {
        self.network.caller(TokenHolder::Unit { model: self.model, unit: self.unit })
    }

    /// Encodes and decodes the message as JSON if the profile requires it.
    fn through_json<T: Message>(&self, message: T) -> T {
        if self.network.world.profile().json_messages == 0 {
            return message;
        }
        T::from_bytes(message.into_bytes()).expect("both ends use the same encoding")
    }

    /// Sends a request.
    async fn send<R>(&self, name: &'static str, request: R) -> Result<R::Response, ApiError>
    where
        R: Request + Clone,
        SimCaller: Handle<R>,
    {
        self.send_with(name, request, || {}, self.network.delivery()).await
    }

    /// Sends a request; `arrives` is called each time it arrives.
    async fn send_with<R>(
        &self,
        name: &'static str,
        request: R,
        arrives: impl Fn() + Clone + Send + 'static,
        delivery: Delivery,
    ) -> Result<R::Response, ApiError>
    where
        R: Request + Clone,
        SimCaller: Handle<R>,
    {
        let world = &self.network.world;
        world.pause().await;
        if self.network.is_cut_off(self.folder, Direction::ToController) {
            return Err(no_response(world).await);
        }
        let (sender, receiver) = oneshot::channel();
        let request = self.through_json(request);
        match delivery {
            Delivery::Delivered { duplicated, within_ms } => {
                if duplicated {
                    world.trace(|| format!("network: {name} of {} duplicated", self.unit));
                    self.deliver(request.clone(), arrives.clone(), (world.below(3_000), TRANSIT_MS), None);
                }
                if within_ms > TRANSIT_MS {
                    world.trace(|| format!("network: {name} of {} slow", self.unit));
                }
                self.deliver(request, arrives, (world.below(within_ms), within_ms), Some(sender));
            }
            Delivery::LostBefore => {
                world.trace(|| format!("network: {name} of {} lost", self.unit));
                drop(sender);
            }
            Delivery::LostAfter => {
                world.trace(|| format!("network: response to {name} of {} lost", self.unit));
                self.deliver(request, arrives, (world.below(TRANSIT_MS), TRANSIT_MS), None);
                if world.chance_of(500) {
                    world.sleep(RESPONSE_TIMEOUT_MS).await;
                } else {
                    world.sleep(world.below(40)).await;
                }
                drop(sender);
            }
            Delivery::Late(ms) => {
                world.trace(|| format!("network: {name} of {} late", self.unit));
                self.deliver(request, arrives, (ms, TRANSIT_MS), None);
                world.sleep(RESPONSE_TIMEOUT_MS).await;
                drop(sender);
            }
        }
        match receiver.await {
            Ok(response) => Ok(self.through_json(response?)),
            Err(_) => {
                world.pause().await;
                Err(unreachable_error("the connection broke"))
            }
        }
    }

    fn deliver<R>(
        &self,
        request: R,
        arrives: impl Fn() + Send + 'static,
        (delay_ms, back_within_ms): (u64, u64),
        response_sender: Option<oneshot::Sender<Result<R::Response, ApiError>>>,
    ) where
        R: Request,
        SimCaller: Handle<R>,
    {
        let link = self.clone();
        self.network.world.send(async move {
            let world = &link.network.world;
            world.sleep(delay_ms).await;
            if link.network.is_cut_off(link.folder, Direction::ToController) {
                return;
            }
            arrives();
            let response = link.caller().handle(request).await;
            world.sleep(world.below(back_within_ms / 2)).await;
            if let Some(sender) = response_sender
                && !link.network.is_cut_off(link.folder, Direction::FromController)
            {
                sender.send(response).ok();
            }
        });
    }
}

impl Handle<Attach> for Link {
    async fn handle(&self, attach: Attach) -> Result<Committed<GrantedSession>, ApiError> {
        if self.network.world.profile().has(Mutant::DyingMayNotAttach)
            && self.network.is_tearing_down(self.model, self.unit)
        {
            self.network.world.pause().await;
            return Err(ApiError::new(ErrorCode::NotAlive, "the unit is not Alive"));
        }
        self.send("attach", attach).await
    }
}

impl Handle<Commit> for Link {
    async fn handle(&self, commit: Commit) -> Result<Committed<CommitOutcome>, ApiError> {
        let (unit, sequence, epoch) = (self.unit, commit.record.sequence, commit.epoch);
        let (world, profile) = (self.network.world.clone(), self.network.world.profile());
        if profile.has(Mutant::CommitIsLostButAnswered) && world.chance_of(50) {
            return Ok(Committed { answer: CommitOutcome::default(), revision: 1 });
        }
        let first = profile.every_response_lost > 0
            && !world.is_calm()
            && self.network.state().lost_once.insert((unit, sequence), ()).is_none();
        let delivery = if first { Delivery::LostAfter } else { self.network.delivery() };
        if profile.has(Mutant::DuplicateIsFenced)
            && matches!(delivery, Delivery::Delivered { duplicated: true, .. })
        {
            return Err(ApiError::new(ErrorCode::Fenced, "a newer agent of this unit is attached"));
        }
        let is_resync = commit.record.resync_local.is_some();
        let arrives = move || world.note(Fact::RecordReceived { unit, sequence, epoch, is_resync });
        self.send_with("commit", commit, arrives, delivery).await
    }
}

impl Handle<Report> for Link {
    async fn handle(&self, report: Report) -> Result<(), ApiError> {
        let Report { epoch, run, .. } = report;
        let (reports, executes) = (report.reports.clone(), report.executing.is_some());
        self.network.world.note(Fact::Reported { unit: self.unit, epoch, run, reports, executes });
        self.send("report", report).await
    }
}

impl Handle<Claim> for Link {
    async fn handle(&self, claim: Claim) -> Result<ClaimResponse, ApiError> {
        let response = self.send("claim", claim).await?;
        if response.current_to.is_some() {
            self.network.world.note(Fact::ViewConfirmed { folder: self.folder });
        }
        Ok(response)
    }
}

impl Handle<WriteLeaderSettings> for Link {
    async fn handle(&self, request: WriteLeaderSettings) -> Result<LeaderSettingsView, ApiError> {
        self.send("leader settings", request).await
    }
}

impl Handle<SealSecret> for Link {
    async fn handle(&self, request: SealSecret) -> Result<SealedSecret, ApiError> {
        self.send("seal secret", request).await
    }
}

impl Handle<OpenSecret> for Link {
    async fn handle(&self, request: OpenSecret) -> Result<SecretContent, ApiError> {
        self.send("open secret", request).await
    }
}

impl Handle<ReadSecret> for Link {
    async fn handle(&self, request: ReadSecret) -> Result<SecretContent, ApiError> {
        self.send("read secret", request).await
    }
}

impl Handle<BagRequest> for Link {
    async fn handle(&self, request: BagRequest) -> Result<Option<BagView>, ApiError> {
        let bag = self.send("bag", request).await?;
        let empty = self.network.world.profile().has(Mutant::OmittedBagIsEmpty);
        Ok(bag.map(|bag| if empty { BagView::with_values(bag.counter, Bag::new()) } else { bag }))
    }
}

impl Handle<FetchArchive> for Link {
    async fn handle(&self, fetch: FetchArchive) -> Result<Archive, ApiError> {
        self.send("archive", fetch).await
    }
}

impl Handle<FetchResource> for Link {
    async fn handle(&self, fetch: FetchResource) -> Result<Archive, ApiError> {
        self.send("resource", fetch).await
    }
}

impl Watch<WatchUnit> for Link {
    type Stream = SimStream;

    async fn watch(&self, WatchUnit { epoch, from }: WatchUnit) -> Result<SimStream, ApiError> {
        let (network, world) = (&self.network, &self.network.world);
        world.pause().await;
        let cut = Direction::ALL.iter().any(|direction| network.is_cut_off(self.folder, *direction));
        if cut || world.draws_fault(world.profile().message_lost) {
            return Err(no_response(world).await);
        }
        let controller_restarts = network.controller_restarts();
        let caller = self.caller();
        let newest = caller.controller.position(caller.controller.store.newest_revision());
        let behind = |from: &Position| {
            from.store_generation == newest.store_generation && from.revision < newest.revision
        };
        let opened = match from.filter(behind) {
            Some(_) if world.profile().has(Mutant::SubscribesAfterState) => Some(newest),
            _ => from,
        };
        let drops_first = from.is_some() && world.profile().has(Mutant::FirstEventIsDropped);
        let inner = caller.watch(WatchUnit { epoch, from: opened }).await?;
        let until = StreamBreak::random(network, controller_restarts);
        world.note(Fact::Stream { folder: self.folder, unit: self.unit, open: true });
        Ok(SimStream { link: self.clone(), inner, until, duplicate: None, drops_first })
    }
}

/// A watch that may break, fall silent, repeat events or lag.
pub struct SimStream {
    link: Link,
    inner: <SimCaller as Watch<WatchUnit>>::Stream,
    until: StreamBreak,
    duplicate: Option<UnitWatchEvent>,
    /// A mutant: the first event is dropped.
    drops_first: bool,
}

impl Drop for SimStream {
    fn drop(&mut self) {
        let Link { network, folder, unit, .. } = &self.link;
        network.world.note(Fact::Stream { folder: *folder, unit: *unit, open: false });
    }
}

impl Stream for SimStream {
    type Item = UnitWatchEvent;

    async fn next(&mut self) -> Result<UnitWatchEvent, ApiError> {
        let shown = self.next_event().await?;
        self.link.network.world.note(Fact::StreamReceived { folder: self.link.folder });
        Ok(shown)
    }
}

impl SimStream {
    async fn next_event(&mut self) -> Result<UnitWatchEvent, ApiError> {
        if let Some(duplicate) = self.duplicate.take() {
            return Ok(duplicate);
        }
        let (network, world) = (&self.link.network, &self.link.network.world);
        let shown = self.until.or_break(network, self.inner.next()).await??;
        world.pause().await;
        if world.draws_variation(20) {
            world.sleep(world.below(2_000)).await;
        }
        if network.is_cut_off(self.link.folder, Direction::FromController) {
            return std::future::pending().await; // the agent notices it: a claim does not confirm its view
        }
        let shown = self.link.through_json(shown);
        if world.draws_fault(50) {
            self.duplicate = Some(shown.clone());
        }
        let is_dropped = std::mem::take(&mut self.drops_first)
            || (world.profile().has(Mutant::DeltaIsLost) && world.chance_of(100));
        if let UnitWatchEvent::Delta(delta) = &shown
            && is_dropped
            && !delta.full
        {
            // the mutant still shows the position
            return Ok(UnitWatchEvent::Heartbeat(delta.position));
        }
        Ok(shown)
    }
}
