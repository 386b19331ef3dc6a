//! What lies between a unit agent and the controller's handlers: delay, short or of seconds, loss before and after
//! taking effect, doubles, late arrivals, partitions, broken watches. A message once sent no longer dies with its sender.

pub mod machines;

use crate::sim::checks::Fact;
use crate::sim::mutants::Mutant;
use crate::sim::store::{SimEnvironment, SimStore};
use crate::sim::world::World;
use api::WATCH_SILENCE_MS;
use api::error::{ApiError, ErrorCode};
use api::request::Message;
use api::{
    Archive, Attach, Attached, Claim, ClaimResponse, Commit, Committed, FetchArchive, Handle, Report,
    Request, Shown, Stream, Watch, WatchUnit,
};
use controller::store::Store;
use controller::{Controller, Session};
use state::documents::draft::Reader;
use state::documents::effective_life;
use state::documents::keys::{Model, TokenHolder};
use state::terms::names::Uuid;
use state::terms::position::Position;
use state::terms::settings::Bag;
use state::unit::snapshot::{BagRequest, BagView};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

/// How long a client waits for an answer.
const ANSWER_MS: u64 = 10_000;
/// How long a message takes at most, and one that is slow: others overtake it. An answer takes half of that at most.
const WAY_MS: u64 = 20;
const SLOW_MS: u64 = 5_000;

pub type SimController = Controller<SimStore, SimEnvironment>;
pub type SimSession = Session<SimStore, SimEnvironment>;

/// Which way messages of an agent are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Both,
    ToController,
    FromController,
}

impl Way {
    pub const ALL: [Way; 3] = [Way::Both, Way::ToController, Way::FromController];
}

struct State {
    controller: Arc<SimController>,
    /// Of each agent that is cut off: until when, and which way.
    partitions: BTreeMap<Uuid, (u64, Way)>,
    /// Nobody gets through until then.
    outage_ms: u64,
    /// Counts restarts of the controller.
    generation: u64,
    /// Commits whose reply was lost once, when all are to be.
    lost_once: BTreeMap<(Uuid, u64), ()>,
}

/// The network and the controller at its other end.
#[derive(Clone)]
pub struct Wire {
    world: World,
    state: Arc<Mutex<State>>,
    restarted: Arc<Notify>,
}

/// What happens to one message.
enum Fate {
    /// The way there takes up to so much, that back half of it.
    Delivered {
        doubled: bool,
        within_ms: u64,
    },
    LostBefore,
    LostAfter,
    /// The sender gives up; it takes effect this much later.
    Late(u64),
}

impl Wire {
    pub fn new(world: World, controller: Arc<SimController>) -> Wire {
        let state = State {
            controller,
            partitions: BTreeMap::new(),
            outage_ms: 0,
            generation: 0,
            lost_once: BTreeMap::new(),
        };
        Wire { world, state: Arc::new(Mutex::new(state)), restarted: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("one thread")
    }

    /// The history of the store that is served now.
    pub fn store_generation(&self) -> Uuid {
        self.state().controller.store.store_generation()
    }

    pub fn session(&self, principal: TokenHolder) -> SimSession {
        self.state().controller.session_of(principal)
    }

    /// The controller died and another process serves the same store.
    pub fn restart(&self, controller: Arc<SimController>) {
        let mut state = self.state();
        state.controller = controller;
        state.generation += 1;
        drop(state);
        self.restarted.notify_waiters();
    }

    /// Over when the controller dies.
    pub async fn restarted(&self) {
        self.restarted.notified().await;
    }

    /// A planted fault asks: the unit is not Alive any more.
    fn is_going(&self, model: Model, unit: Uuid) -> bool {
        let controller = self.state().controller.clone();
        let life = |reader: &dyn Reader| effective_life::unit_life(&mut { reader }, model, unit);
        controller.store.map().look(life).is_some_and(|life| !life.is_alive())
    }

    fn generation(&self) -> u64 {
        self.state().generation
    }

    pub fn cut_off(&self, agent: Uuid, until_ms: u64, way: Way) {
        self.state().partitions.insert(agent, (until_ms, way));
    }

    pub fn cut_everybody_off(&self, until_ms: u64) {
        self.state().outage_ms = until_ms;
    }

    pub fn heal(&self) {
        let mut state = self.state();
        state.partitions.clear();
        state.outage_ms = 0;
    }

    /// Messages of this agent are lost on this way.
    pub fn is_cut_off(&self, agent: Uuid, way: Way) -> bool {
        let now_ms = self.world.now_ms();
        let state = self.state();
        let cut = |(until_ms, cut): &(u64, Way)| *until_ms > now_ms && (*cut == Way::Both || *cut == way);
        state.outage_ms > now_ms || state.partitions.get(&agent).is_some_and(cut)
    }

    /// Nobody at all gets through.
    fn is_outage(&self) -> bool {
        self.state().outage_ms > self.world.now_ms()
    }

    fn fate(&self) -> Fate {
        let (world, mix) = (&self.world, self.world.mix());
        if world.strikes(mix.message_lost) {
            return if world.chance_of(500) { Fate::LostBefore } else { Fate::LostAfter };
        }
        if world.strikes(mix.message_late) {
            return Fate::Late(ANSWER_MS + world.below(5_000));
        }
        let doubled = world.strikes(mix.message_doubled) || (mix.every_reply_lost > 0 && !world.is_calm());
        let within_ms = if world.strikes(mix.message_slow) { SLOW_MS } else { WAY_MS };
        Fate::Delivered { doubled, within_ms }
    }

    /// What a person or a machine agent asks, over the same network. None: no answer came.
    pub async fn ask<T, F>(&self, ask: impl Fn(SimSession) -> F, principal: TokenHolder) -> Option<T>
    where
        F: Future<Output = T>,
    {
        if self.is_outage() {
            self.world.sleep(ANSWER_MS).await;
            return None;
        }
        let fate = match self.world.mix().operator_messages_lost {
            0 => Fate::Delivered { doubled: false, within_ms: 0 },
            _ => self.fate(),
        };
        let session = || self.session(principal.clone());
        match fate {
            Fate::LostBefore => None,
            Fate::LostAfter => {
                ask(session()).await;
                None
            }
            Fate::Late(ms) => {
                self.world.sleep(ms).await;
                ask(session()).await;
                None
            }
            Fate::Delivered { doubled, within_ms } => {
                if doubled {
                    ask(session()).await;
                }
                if within_ms <= WAY_MS {
                    return Some(ask(session()).await);
                }
                self.world.sleep(self.world.below(within_ms)).await;
                let answer = ask(session()).await;
                self.world.sleep(self.world.below(within_ms / 2)).await;
                Some(answer)
            }
        }
    }
}

fn unreachable(what: &str) -> ApiError {
    ApiError::new(ErrorCode::Unreachable, what)
}

/// When a stream breaks.
struct StreamBreak {
    /// With the controller that serves it.
    generation: u64,
    breaks_ms: u64,
}

impl StreamBreak {
    fn drawn(wire: &Wire, generation: u64) -> StreamBreak {
        let world = &wire.world;
        let breaks = world.strikes(world.mix().watch_broken);
        let breaks_ms = if breaks { world.now_ms() + world.below(20_000) } else { u64::MAX };
        StreamBreak { generation, breaks_ms }
    }

    /// What comes next on it.
    async fn or_break<T>(&self, wire: &Wire, next: impl Future<Output = T>) -> Result<T, ApiError> {
        let mut next = pin!(next);
        loop {
            if wire.generation() != self.generation || wire.world.now_ms() >= self.breaks_ms {
                return Err(unreachable("the connection broke"));
            }
            let (restarted, broken) =
                (pin!(wire.restarted.notified()), pin!(wire.world.sleep_until(self.breaks_ms)));
            tokio::select! {
                biased;
                next = &mut next => return Ok(next),
                () = restarted => {}
                () = broken => {}
            }
        }
    }
}

/// One unit agent's way to the controller.
#[derive(Clone)]
pub struct Link {
    wire: Wire,
    model: Model,
    unit: Uuid,
    /// Which of the unit's folders speaks: there may be a copy.
    folder: Uuid,
}

impl Link {
    pub fn new(wire: Wire, model: Model, unit: Uuid, folder: Uuid) -> Link {
        Link { wire, model, unit, folder }
    }

    fn session(&self) -> SimSession {
        self.wire.session(TokenHolder::Unit { model: self.model, unit: self.unit })
    }

    /// The message as the other end reads it.
    fn through_json<T: Message>(&self, message: T) -> T {
        if self.wire.world.mix().wire == 0 {
            return message;
        }
        T::from_bytes(message.into_bytes()).expect("what one end writes the other reads")
    }

    /// Sends `request` on its way.
    async fn ask<R>(&self, name: &'static str, request: R) -> Result<R::Answer, ApiError>
    where
        R: Request + Clone,
        SimSession: Handle<R>,
    {
        self.ask_with(name, request, || {}, self.wire.fate()).await
    }

    /// Sends `request` on its way; `arrives` is called whenever it has arrived.
    async fn ask_with<R>(
        &self,
        name: &'static str,
        request: R,
        arrives: impl Fn() + Clone + Send + 'static,
        fate: Fate,
    ) -> Result<R::Answer, ApiError>
    where
        R: Request + Clone,
        SimSession: Handle<R>,
    {
        let world = &self.wire.world;
        world.pause().await;
        if self.wire.is_cut_off(self.folder, Way::ToController) {
            world.sleep(ANSWER_MS).await;
            return Err(unreachable("no answer"));
        }
        let (sender, receiver) = oneshot::channel();
        let request = self.through_json(request);
        match fate {
            Fate::Delivered { doubled, within_ms } => {
                if doubled {
                    world.tell(|| format!("network: {name} of {} doubled", self.unit));
                    self.carry(request.clone(), arrives.clone(), (world.below(3_000), WAY_MS), None);
                }
                if within_ms > WAY_MS {
                    world.tell(|| format!("network: {name} of {} slow", self.unit));
                }
                self.carry(request, arrives, (world.below(within_ms), within_ms), Some(sender));
            }
            Fate::LostBefore => {
                world.tell(|| format!("network: {name} of {} lost", self.unit));
                drop(sender);
            }
            Fate::LostAfter => {
                world.tell(|| format!("network: reply to {name} of {} lost", self.unit));
                self.carry(request, arrives, (world.below(WAY_MS), WAY_MS), None);
                if world.chance_of(500) {
                    world.sleep(ANSWER_MS).await;
                } else {
                    world.sleep(world.below(40)).await;
                }
                drop(sender);
            }
            Fate::Late(ms) => {
                world.tell(|| format!("network: {name} of {} late", self.unit));
                self.carry(request, arrives, (ms, WAY_MS), None);
                world.sleep(ANSWER_MS).await;
                drop(sender);
            }
        }
        match receiver.await {
            Ok(answer) => Ok(self.through_json(answer?)),
            Err(_) => {
                world.pause().await;
                Err(unreachable("the connection broke"))
            }
        }
    }

    fn carry<R>(
        &self,
        request: R,
        arrives: impl Fn() + Send + 'static,
        (delay_ms, back_within_ms): (u64, u64),
        reply: Option<oneshot::Sender<Result<R::Answer, ApiError>>>,
    ) where
        R: Request,
        SimSession: Handle<R>,
    {
        let link = self.clone();
        self.wire.world.send(async move {
            let world = &link.wire.world;
            world.sleep(delay_ms).await;
            if link.wire.is_cut_off(link.folder, Way::ToController) {
                return;
            }
            arrives();
            let answer = link.session().handle(request).await;
            world.sleep(world.below(back_within_ms / 2)).await;
            if let Some(reply) = reply.filter(|_| !link.wire.is_cut_off(link.folder, Way::FromController)) {
                reply.send(answer).ok();
            }
        });
    }
}

impl Handle<Attach> for Link {
    async fn handle(&self, attach: Attach) -> Result<Attached, ApiError> {
        if self.wire.world.mix().has(Mutant::DyingMayNotAttach) && self.wire.is_going(self.model, self.unit) {
            self.wire.world.pause().await;
            return Err(ApiError::new(ErrorCode::NotAlive, "the unit is going away"));
        }
        self.ask("attach", attach).await
    }
}

impl Handle<Commit> for Link {
    async fn handle(&self, commit: Commit) -> Result<Committed, ApiError> {
        let (unit, sequence, epoch) = (self.unit, commit.record.sequence, commit.epoch);
        let (world, mix) = (self.wire.world.clone(), self.wire.world.mix());
        if mix.has(Mutant::CommitIsLostButAnswered) && world.chance_of(50) {
            return Ok(Committed { revision: 1, refusal: None, dropped: Vec::new() });
        }
        let first = mix.every_reply_lost > 0
            && !world.is_calm()
            && self.wire.state().lost_once.insert((unit, sequence), ()).is_none();
        let fate = if first { Fate::LostAfter } else { self.wire.fate() };
        if mix.has(Mutant::DuplicateIsFenced) && matches!(fate, Fate::Delivered { doubled: true, .. }) {
            return Err(ApiError::new(ErrorCode::Fenced, "a newer agent of this unit is attached"));
        }
        let restates = commit.record.memory.is_some();
        let arrives = move || world.note(Fact::RecordReceived { unit, sequence, epoch, restates });
        self.ask_with("commit", commit, arrives, fate).await
    }
}

impl Handle<Report> for Link {
    async fn handle(&self, report: Report) -> Result<(), ApiError> {
        let Report { epoch, run, .. } = report;
        let (said, executes) = (report.said.clone(), report.executing.is_some());
        self.wire.world.note(Fact::Reported { unit: self.unit, epoch, run, said, executes });
        self.ask("report", report).await
    }
}

impl Handle<Claim> for Link {
    async fn handle(&self, claim: Claim) -> Result<ClaimResponse, ApiError> {
        self.ask("claim", claim).await
    }
}

impl Handle<BagRequest> for Link {
    async fn handle(&self, asked: BagRequest) -> Result<Option<BagView>, ApiError> {
        let bag = self.ask("bag", asked).await?;
        let empty = self.wire.world.mix().has(Mutant::OmittedBagIsEmpty);
        Ok(bag.map(|bag| if empty { BagView::whole(bag.counter, Bag::new()) } else { bag }))
    }
}

impl Handle<FetchArchive> for Link {
    async fn handle(&self, fetch: FetchArchive) -> Result<Archive, ApiError> {
        self.ask("archive", fetch).await
    }
}

impl Watch<WatchUnit> for Link {
    type Stream = SimStream;

    async fn watch(&self, WatchUnit { epoch, from }: WatchUnit) -> Result<SimStream, ApiError> {
        let (wire, world) = (&self.wire, &self.wire.world);
        world.pause().await;
        let cut = Way::ALL.iter().any(|way| wire.is_cut_off(self.folder, *way));
        if cut || world.strikes(world.mix().message_lost) {
            world.sleep(ANSWER_MS).await;
            return Err(unreachable("no answer"));
        }
        let generation = wire.generation();
        let session = self.session();
        let newest = session.controller.position(session.controller.store.newest());
        let behind = |from: &Position| {
            from.store_generation == newest.store_generation && from.revision < newest.revision
        };
        let opened = match from.filter(behind) {
            Some(_) if world.mix().has(Mutant::SubscribesAfterState) => Some(newest),
            _ => from,
        };
        let eats = from.is_some() && world.mix().has(Mutant::FirstEventIsDropped);
        let inner = session.watch(WatchUnit { epoch, from: opened }).await?;
        let until = StreamBreak::drawn(wire, generation);
        world.note(Fact::Stream { folder: self.folder, unit: self.unit, open: true });
        Ok(SimStream { link: self.clone(), inner, until, again: None, eats })
    }
}

/// A watch that may break, fall silent, stutter or lag.
pub struct SimStream {
    link: Link,
    inner: <SimSession as Watch<WatchUnit>>::Stream,
    until: StreamBreak,
    again: Option<Shown>,
    /// A planted fault: the first event is not passed on.
    eats: bool,
}

impl Drop for SimStream {
    fn drop(&mut self) {
        let Link { wire, folder, unit, .. } = &self.link;
        wire.world.note(Fact::Stream { folder: *folder, unit: *unit, open: false });
    }
}

impl Stream for SimStream {
    type Item = Shown;

    async fn next(&mut self) -> Result<Shown, ApiError> {
        let shown = self.pass_on().await?;
        self.link.wire.world.note(Fact::StreamReceived { folder: self.link.folder });
        Ok(shown)
    }
}

impl SimStream {
    async fn pass_on(&mut self) -> Result<Shown, ApiError> {
        if let Some(again) = self.again.take() {
            return Ok(again);
        }
        let (wire, world) = (&self.link.wire, &self.link.wire.world);
        let shown = self.until.or_break(wire, self.inner.next()).await??;
        world.pause().await;
        if world.draws_variation(20) {
            world.sleep(world.below(2_000)).await;
        }
        if wire.is_cut_off(self.link.folder, Way::FromController) {
            world.sleep(WATCH_SILENCE_MS).await;
            return Err(unreachable("silence"));
        }
        let shown = self.link.through_json(shown);
        if world.strikes(50) {
            self.again = Some(shown.clone());
        }
        let eaten =
            std::mem::take(&mut self.eats) || (world.mix().has(Mutant::DeltaIsLost) && world.chance_of(100));
        if let Shown::Delta(delta) = &shown
            && eaten
            && !delta.full
        {
            // its position is shown all the same
            return Ok(Shown::Heartbeat(delta.position));
        }
        Ok(shown)
    }
}
