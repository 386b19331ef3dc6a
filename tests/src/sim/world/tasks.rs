//! The scheduler of one schedule: its tasks, and the poll of one of them at a time.
//!
//! It chooses among the ready tasks at random. Time stands still while a task is ready and jumps to the next timer
//! otherwise. To crash a task is to drop it.

use super::{TaskId, World};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

/// The most polls of a future in `block_on`: a thousand times what the largest takes.
const BLOCK_ON_POLLS_MAX: u64 = 1_000_000;

type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

struct TaskWaker {
    task: TaskId,
    ready: Arc<Mutex<BTreeSet<TaskId>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.lock().expect("one thread").insert(self.task);
    }
}

struct Task {
    future: TaskFuture,
    waker: Waker,
    label: &'static str,
    is_message: bool,
    /// Frozen until this time, like a process under SIGSTOP or on a suspended machine.
    frozen_ms: u64,
}

/// All running tasks.
pub struct Tasks {
    world: World,
    running: BTreeMap<TaskId, Task>,
    pub polls: u64,
    /// Nanoseconds of real time by label, measured for one poll in [`MEASURED_EVERY`]. Reported only: no
    /// decision may depend on them.
    pub spent: TimeSpent,
}

/// Real time by label.
pub type TimeSpent = BTreeMap<&'static str, u64>;

/// Only one poll in eight is measured, because reading the clock takes a fiftieth of a poll.
pub const MEASURED_EVERY: u64 = 8;

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// This task was polled; `done`: it has finished.
    Polled { task: TaskId, done: bool },
    /// Time passed.
    TimePassed,
    /// Nothing happens until the requested time.
    Quiet,
}

impl Tasks {
    pub fn new(world: World) -> Tasks {
        Tasks { world, running: BTreeMap::new(), polls: 0, spent: TimeSpent::new() }
    }

    /// Starts a task. `label`: the name under which its time is reported.
    pub fn start(&mut self, label: &'static str, future: impl Future<Output = ()> + 'static) -> TaskId {
        let task = {
            let mut state = self.world.state();
            state.tasks_made += 1;
            state.tasks_made
        };
        self.insert(task, Box::pin(future), (label, false));
        task
    }

    fn insert(&mut self, task: TaskId, future: TaskFuture, (label, is_message): (&'static str, bool)) {
        let ready = self.world.0.ready.clone();
        ready.lock().expect("one thread").insert(task);
        let waker = Waker::from(Arc::new(TaskWaker { task, ready }));
        self.running.insert(task, Task { future, waker, label, is_message, frozen_ms: 0 });
    }

    /// Drops a task: a crash.
    pub fn drop_task(&mut self, task: TaskId) {
        self.running.remove(&task);
    }

    /// Freezes a task. At `until_ms` it resumes where it stopped.
    pub fn freeze(&mut self, task: TaskId, until_ms: u64) {
        let Some(running) = self.running.get_mut(&task) else { return };
        running.frozen_ms = until_ms;
        let waker = running.waker.clone();
        let mut state = self.world.state();
        state.timers_made += 1;
        let timer = (until_ms, state.timers_made);
        state.timers.insert(timer, waker);
    }

    /// Resumes all frozen tasks.
    pub fn resume_all(&mut self) {
        for task in self.running.values_mut().filter(|task| task.frozen_ms > 0) {
            task.frozen_ms = 0;
            task.waker.wake_by_ref();
        }
    }

    /// Drops all messages in transit.
    pub fn drop_messages(&mut self) {
        let messages: Vec<TaskId> =
            self.running.iter().filter(|(_, task)| task.is_message).map(|(id, _)| *id).collect();
        messages.into_iter().for_each(|task| self.drop_task(task));
        let spawned = std::mem::take(&mut self.world.state().spawned);
        let kept = spawned.into_iter().filter(|(_, _, is_message)| !is_message).collect();
        self.world.state().spawned = kept;
    }

    pub fn runs(&self, task: TaskId) -> bool {
        self.running.contains_key(&task)
    }

    pub fn is_message(&self, task: TaskId) -> bool {
        self.running.get(&task).is_some_and(|task| task.is_message)
    }

    /// Polls one ready task, or advances time up to `until_ms`.
    pub fn step(&mut self, until_ms: u64) -> StepResult {
        let spawned = std::mem::take(&mut self.world.state().spawned);
        for (task, future, is_message) in spawned {
            let label = if is_message { "controller requests" } else { "hooks" };
            self.insert(task, future, (label, is_message));
        }
        let chosen = {
            let mut ready = self.world.0.ready.lock().expect("one thread");
            let at = self.world.below(ready.len() as u64) as usize;
            let chosen = ready.iter().nth(at).copied();
            if let Some(task) = chosen {
                ready.remove(&task);
            }
            chosen
        };
        let Some(task) = chosen else {
            return if self.world.advance(until_ms) { StepResult::TimePassed } else { StepResult::Quiet };
        };
        let Some(running) = self.running.get_mut(&task) else { return StepResult::TimePassed };
        if running.frozen_ms > 0 {
            if running.frozen_ms > self.world.now_ms() {
                return StepResult::TimePassed; // its timer wakes it again
            }
            running.frozen_ms = 0;
        }
        self.polls += 1;
        let started = self.polls.is_multiple_of(MEASURED_EVERY).then(Instant::now);
        let done = running.future.as_mut().poll(&mut Context::from_waker(&running.waker)).is_ready();
        if let Some(started) = started {
            *self.spent.entry(running.label).or_default() += nanoseconds(started);
        }
        if done {
            self.running.remove(&task);
        }
        StepResult::Polled { task, done }
    }
}

pub fn nanoseconds(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Runs a future to completion. Panics if it waits for another task.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..BLOCK_ON_POLLS_MAX {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
    }
    panic!("block_on: the future waits for another task");
}
