//! The shared state of one schedule: virtual time, randomness from one seed, and the messages, commands, facts and
//! trace of its tasks.
//!
//! Every part of the simulator has a handle to the world. `tasks` is the scheduler.

pub mod tasks;

use crate::sim::fact::Fact;
use crate::sim::profile::FaultProfile;
use crate::sim::random::SeededRng;
use state::terms::names::{UnitName, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// Virtual time starts here and not at 0, which means "never".
const START_MS: u64 = 1_000_000;
/// The wall clock at that time: an arbitrary day in 2024.
const WALL_START_MS: i64 = 1_714_550_400_000;

pub type TaskId = u64;
type Message = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A request of a task to the schedule, executed after its poll.
#[derive(Clone, Debug)]
pub enum Command {
    /// Boot a machine: a new one, or one that was stopped.
    StartMachine { machine: Uuid, instance: u64 },
    /// Terminate a machine with everything on it.
    TerminateMachine(Uuid),
    /// Run the agent of the unit in its folder, which is created if it does not exist.
    EnsureRunning { machine: Uuid, unit: Uuid, name: UnitName },
    /// Stop the agent of this unit and delete its folder.
    Recall(Uuid),
    /// Stop the agent of this unit until `EnsureRunning`.
    Quarantine(Uuid),
    /// Reboot this machine: a hook requested it.
    Reboot(Uuid),
}

struct State {
    /// How far the wall clock has been set forward or back.
    wall_ms: i64,
    timers: BTreeMap<(u64, u64), Waker>,
    timers_made: u64,
    tasks_made: TaskId,
    spawned: Vec<(TaskId, Message, bool)>,
    commands: Vec<Command>,
    facts: Vec<Fact>,
    hooks: u64,
    trace_lines: Option<Vec<String>>,
}

/// The shared state. Values that are read several times per poll are outside the lock: a world has one thread,
/// and its handles are `Send` only because the traits of the product require it.
struct WorldInner {
    seed: u64,
    profile: FaultProfile,
    now_ms: AtomicU64,
    /// The state of the random number generator.
    chance: AtomicU64,
    /// Whether no faults are injected.
    calm: AtomicBool,
    faults: AtomicU64,
    state: Mutex<State>,
    ready: Arc<Mutex<BTreeSet<TaskId>>>,
}

/// A handle to the world.
#[derive(Clone)]
pub struct World(Arc<WorldInner>);

impl World {
    pub fn new(seed: u64, profile: FaultProfile, traced: bool) -> World {
        let state = State {
            wall_ms: WALL_START_MS,
            timers: BTreeMap::new(),
            timers_made: 0,
            tasks_made: 0,
            spawned: Vec::new(),
            commands: Vec::new(),
            facts: Vec::new(),
            hooks: 0,
            trace_lines: traced.then(Vec::new),
        };
        World(Arc::new(WorldInner {
            seed,
            profile,
            now_ms: AtomicU64::new(START_MS),
            chance: AtomicU64::new(SeededRng::new(seed).state()),
            calm: AtomicBool::new(true),
            faults: AtomicU64::new(0),
            state: Mutex::new(state),
            ready: Arc::default(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("one thread")
    }

    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    pub fn profile(&self) -> &FaultProfile {
        &self.0.profile
    }

    pub fn now_ms(&self) -> u64 {
        self.0.now_ms.load(Relaxed)
    }

    fn chance<T>(&self, draw: impl FnOnce(&mut SeededRng) -> T) -> T {
        let mut chance = SeededRng::resume(self.0.chance.load(Relaxed));
        let drawn = draw(&mut chance);
        self.0.chance.store(chance.state(), Relaxed);
        drawn
    }

    /// The wall clock in milliseconds, which operators read and which may jump.
    pub fn wall_ms(&self) -> i64 {
        self.state().wall_ms + i64::try_from(self.now_ms() - START_MS).expect("no run lasts so long")
    }

    /// The sum of all changes of the wall clock.
    pub fn wall_skew_ms(&self) -> i64 {
        self.state().wall_ms - WALL_START_MS
    }

    /// Sets the wall clock forward, or back.
    pub fn set_wall_clock(&self, by_ms: i64) {
        let before_ms = self.wall_ms();
        self.state().wall_ms += by_ms;
        self.note(Fact::ClockSet { latest_ms: before_ms.max(before_ms + by_ms) });
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.chance(|chance| chance.below(bound))
    }

    pub fn chance_of(&self, per_mille: u64) -> bool {
        self.chance(|chance| chance.chance_of(per_mille))
    }

    pub fn random_u128(&self) -> u128 {
        self.chance(|chance| u128::from(chance.number()) << 64 | u128::from(chance.number()))
    }

    /// Like [`World::chance_of`], but never while the system is calm: for delays and requests that are not
    /// faults.
    pub fn draws_variation(&self, per_mille: u64) -> bool {
        !self.is_calm() && self.chance_of(per_mille)
    }

    /// Draws whether a fault occurs and counts it. Never true while the system is calm.
    pub fn draws_fault(&self, per_mille: u64) -> bool {
        let occurs = self.draws_variation(per_mille);
        if occurs {
            self.0.faults.store(self.faults() + 1, Relaxed);
        }
        occurs
    }

    pub fn set_calm(&self, calm: bool) {
        self.0.calm.store(calm, Relaxed);
    }

    pub fn is_calm(&self) -> bool {
        self.0.calm.load(Relaxed)
    }

    pub fn faults(&self) -> u64 {
        self.0.faults.load(Relaxed)
    }

    /// Adds a line to the trace. The line is built only if the schedule is traced.
    pub fn trace<T: Display>(&self, line: impl FnOnce() -> T) {
        if self.state().trace_lines.is_none() {
            return;
        }
        let line = line().to_string();
        let now_ms = self.now_ms() - START_MS;
        if let Some(trace_lines) = &mut self.state().trace_lines {
            trace_lines.push(format!("{:>6}.{:03} {line}", now_ms / 1000, now_ms % 1000));
        }
    }

    pub fn trace_lines(&self) -> Vec<String> {
        self.state().trace_lines.clone().unwrap_or_default()
    }

    /// The number of hooks that started.
    pub fn hooks(&self) -> u64 {
        self.state().hooks
    }

    pub fn note(&self, fact: Fact) {
        let mut state = self.state();
        state.hooks += u64::from(matches!(fact, Fact::HookStarted { .. }));
        state.facts.push(fact);
    }

    /// Takes the commands and facts since the last call.
    pub fn take_events(&self) -> (Vec<Command>, Vec<Fact>) {
        let mut state = self.state();
        (std::mem::take(&mut state.commands), std::mem::take(&mut state.facts))
    }

    pub fn command(&self, command: Command) {
        self.state().commands.push(command);
    }

    /// Sends a message. It does not die with its sender, but with the controller.
    pub fn send(&self, message: impl Future<Output = ()> + Send + 'static) {
        self.spawn(Box::pin(message), true);
    }

    /// Starts an independent process: a hook.
    pub fn spawn_process(&self, process: impl Future<Output = ()> + Send + 'static) {
        self.spawn(Box::pin(process), false);
    }

    fn spawn(&self, future: Message, is_message: bool) {
        let mut state = self.state();
        state.tasks_made += 1;
        let task = state.tasks_made;
        state.spawned.push((task, future, is_message));
    }

    /// Yields at random, so that other tasks run first, and sometimes sleeps for a few milliseconds.
    pub async fn pause(&self) {
        match self.below(8) {
            0 => self.sleep(self.below(8)).await,
            1..=3 => yield_once().await,
            _ => {}
        }
    }

    pub fn sleep(&self, ms: u64) -> Sleep {
        self.sleep_until(self.now_ms() + ms)
    }

    pub fn sleep_until(&self, at_ms: u64) -> Sleep {
        Sleep { world: self.clone(), at_ms, timer: None }
    }

    /// Advances to the next timer. False: there is none before `until_ms`, and the time is `until_ms` now.
    fn advance(&self, until_ms: u64) -> bool {
        let due = {
            let mut state = self.state();
            let Some(next_ms) = state.timers.keys().next().map(|(at, _)| *at).filter(|at| *at <= until_ms)
            else {
                self.0.now_ms.fetch_max(until_ms, Relaxed);
                return false;
            };
            self.0.now_ms.fetch_max(next_ms, Relaxed);
            let later = state.timers.split_off(&(next_ms + 1, 0));
            std::mem::replace(&mut state.timers, later)
        };
        due.into_values().for_each(Waker::wake);
        true
    }
}

/// Yields once.
pub fn yield_once() -> impl Future<Output = ()> + Send {
    let mut has_yielded = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// A timer on the virtual clock.
pub struct Sleep {
    world: World,
    at_ms: u64,
    timer: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.world.now_ms() >= this.at_ms {
            this.timer.take().map(|timer| this.world.state().timers.remove(&timer));
            return Poll::Ready(());
        }
        let mut state = this.world.state();
        if let Some(known) = this.timer.and_then(|timer| state.timers.get_mut(&timer)) {
            known.clone_from(context.waker());
            return Poll::Pending;
        }
        state.timers_made += 1;
        let timer = (this.at_ms, state.timers_made);
        state.timers.insert(timer, context.waker().clone());
        this.timer = Some(timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            let waker = self.world.state().timers.remove(&timer);
            drop(waker);
        }
    }
}
