//! Network between the agents and the controller's handlers; `units` and `machines` are the links of the agents.
//!
//! It delays, loses, duplicates and reorders messages, partitions agents and breaks watches. A message may be lost
//! before or after it takes effect. A message of a unit agent that was sent arrives even if its sender crashes; a
//! request of an operator or a machine agent is lost with its sender.

pub mod machines;
pub mod units;

use crate::sim::store::{SimEnvironment, SimStore};
use crate::sim::world::World;
use api::error::{ApiError, ErrorCode};
use controller::store::Store;
use controller::{AuthenticatedCaller, Controller};
use state::documents::draft::Reader;
use state::documents::effective_life;
use state::documents::prelude::{Model, TokenHolder};
use state::lifecycle::leadership::LEASE_MS;
use state::terms::names::Uuid;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

/// How long a client waits for a response.
const RESPONSE_TIMEOUT_MS: u64 = 10_000;
/// The longest transit of a message, and of a slow one, which others overtake. A response takes at most half of
/// it.
const TRANSIT_MS: u64 = 20;
const SLOW_MS: u64 = 5_000;

pub type SimController = Controller<SimStore, SimEnvironment>;
pub type SimCaller = AuthenticatedCaller<SimStore, SimEnvironment>;

/// The direction in which a partition loses messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Both,
    ToController,
    FromController,
}

impl Direction {
    pub const ALL: [Direction; 3] = [Direction::Both, Direction::ToController, Direction::FromController];
}

struct State {
    controller: Arc<SimController>,
    /// The agents that are cut off: until when, and in which direction.
    partitions: BTreeMap<Uuid, (u64, Direction)>,
    /// The controller is unreachable for all clients until this time.
    outage_ms: u64,
    controller_restarts: u64,
    /// Commits whose response was lost once, if the profile loses each response once.
    lost_once: BTreeMap<(Uuid, u64), ()>,
}

/// The network and the controller at its other end.
#[derive(Clone)]
pub struct SimNetwork {
    world: World,
    state: Arc<Mutex<State>>,
    restarted: Arc<Notify>,
}

/// What happens to one message.
enum Delivery {
    /// The transit to the controller takes up to `within_ms`, the response half of it.
    Delivered {
        duplicated: bool,
        within_ms: u64,
    },
    LostBefore,
    LostAfter,
    /// The message takes effect after this many milliseconds, longer than a unit agent waits for the response.
    /// Operators and machine agents wait until then, and receive no response.
    Late(u64),
}

impl SimNetwork {
    pub fn new(world: World, controller: Arc<SimController>) -> SimNetwork {
        let state = State {
            controller,
            partitions: BTreeMap::new(),
            outage_ms: 0,
            controller_restarts: 0,
            lost_once: BTreeMap::new(),
        };
        SimNetwork { world, state: Arc::new(Mutex::new(state)), restarted: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("one thread")
    }

    /// The generation of the current store.
    pub fn store_generation(&self) -> Uuid {
        self.state().controller.store.store_generation()
    }

    pub fn caller(&self, principal: TokenHolder) -> SimCaller {
        self.state().controller.caller(principal)
    }

    /// Replaces the controller by another process with the same store.
    pub fn restart(&self, controller: Arc<SimController>) {
        let mut state = self.state();
        state.controller = controller;
        state.controller_restarts += 1;
        drop(state);
        self.restarted.notify_waiters();
    }

    /// Returns when the controller restarts.
    pub async fn restarted(&self) {
        self.restarted.notified().await;
    }

    /// Whether the unit is no longer Alive; used by a mutant.
    fn is_tearing_down(&self, model: Model, unit: Uuid) -> bool {
        let controller = self.state().controller.clone();
        let life = |reader: &dyn Reader| effective_life::unit_life(&mut { reader }, model, unit);
        controller.store.map().read_now(life).is_some_and(|life| !life.is_alive())
    }

    fn controller_restarts(&self) -> u64 {
        self.state().controller_restarts
    }

    pub fn cut_off(&self, agent: Uuid, until_ms: u64, direction: Direction) {
        self.state().partitions.insert(agent, (until_ms, direction));
    }

    pub fn start_outage(&self, until_ms: u64) {
        self.state().outage_ms = until_ms;
    }

    pub fn heal(&self) {
        let mut state = self.state();
        state.partitions.clear();
        state.outage_ms = 0;
    }

    /// Whether messages of this agent are lost in this direction.
    pub fn is_cut_off(&self, agent: Uuid, direction: Direction) -> bool {
        let now_ms = self.world.now_ms();
        let state = self.state();
        let cut = |(until_ms, cut): &(u64, Direction)| {
            *until_ms > now_ms && (*cut == Direction::Both || *cut == direction)
        };
        state.outage_ms > now_ms || state.partitions.get(&agent).is_some_and(cut)
    }

    /// Whether the controller is unreachable for all clients.
    fn is_outage(&self) -> bool {
        self.state().outage_ms > self.world.now_ms()
    }

    fn delivery(&self) -> Delivery {
        let (world, profile) = (&self.world, self.world.profile());
        if world.draws_fault(profile.message_lost) {
            return if world.chance_of(500) { Delivery::LostBefore } else { Delivery::LostAfter };
        }
        if world.draws_fault(profile.message_late) {
            let late_ms = if world.draws_fault(profile.message_after_lease) { 2 * LEASE_MS } else { 5_000 };
            return Delivery::Late(RESPONSE_TIMEOUT_MS + world.below(late_ms));
        }
        let duplicated = world.draws_fault(profile.message_duplicated)
            || (profile.every_response_lost > 0 && !world.is_calm());
        let within_ms = if world.draws_fault(profile.message_slow) { SLOW_MS } else { TRANSIT_MS };
        Delivery::Delivered { duplicated, within_ms }
    }

    /// Sends a request of an operator or a machine agent. `None`: no response arrived.
    pub async fn request<T, F>(&self, call: impl Fn(SimCaller) -> F, principal: TokenHolder) -> Option<T>
    where
        F: Future<Output = T>,
    {
        if self.is_outage() {
            self.world.sleep(RESPONSE_TIMEOUT_MS).await;
            return None;
        }
        let delivery = match self.world.profile().operator_messages_lost {
            0 => Delivery::Delivered { duplicated: false, within_ms: 0 },
            _ => self.delivery(),
        };
        let caller = || self.caller(principal.clone());
        match delivery {
            Delivery::LostBefore => None,
            Delivery::LostAfter => {
                call(caller()).await;
                None
            }
            Delivery::Late(ms) => {
                self.world.sleep(ms).await;
                call(caller()).await;
                None
            }
            Delivery::Delivered { duplicated, within_ms } => {
                if duplicated {
                    call(caller()).await;
                }
                if within_ms <= TRANSIT_MS {
                    return Some(call(caller()).await);
                }
                self.world.sleep(self.world.below(within_ms)).await;
                let response = call(caller()).await;
                self.world.sleep(self.world.below(within_ms / 2)).await;
                Some(response)
            }
        }
    }
}

/// Waits as long as a client waits for a response. Returns the client's error.
async fn no_response(world: &World) -> ApiError {
    world.sleep(RESPONSE_TIMEOUT_MS).await;
    unreachable_error("no response")
}

fn unreachable_error(what: &str) -> ApiError {
    ApiError::new(ErrorCode::Unreachable, what)
}

/// Decides when a stream breaks.
struct StreamBreak {
    /// The restarts of the controller when the stream was opened; the next one breaks it.
    controller_restarts: u64,
    breaks_ms: u64,
}

impl StreamBreak {
    fn random(network: &SimNetwork, controller_restarts: u64) -> StreamBreak {
        let world = &network.world;
        let breaks = world.draws_fault(world.profile().watch_broken);
        let breaks_ms = if breaks { world.now_ms() + world.below(20_000) } else { u64::MAX };
        StreamBreak { controller_restarts, breaks_ms }
    }

    /// The next event, or an error when the stream breaks.
    async fn or_break<T>(&self, network: &SimNetwork, next: impl Future<Output = T>) -> Result<T, ApiError> {
        let mut next = pin!(next);
        loop {
            if network.controller_restarts() != self.controller_restarts
                || network.world.now_ms() >= self.breaks_ms
            {
                return Err(unreachable_error("the connection broke"));
            }
            let (restarted, broken) =
                (pin!(network.restarted.notified()), pin!(network.world.sleep_until(self.breaks_ms)));
            tokio::select! {
                biased;
                next = &mut next => return Ok(next),
                () = restarted => {}
                () = broken => {}
            }
        }
    }
}
