//! The process of a hook, which calls tools and receives their replies from the agent that serves it.

use crate::sim::world::World;
use commands::ToolReply;
use hook_client::reconnect::DELAY_SUM_MAX_MS;
use state::terms::names::Uuid;
use state::unit::outcome::RunExit;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Notify, OwnedMutexGuard};

#[derive(Default)]
pub(super) struct ToolExchange {
    /// The call that waits for its reply, with the number of calls before it.
    pub(super) request: Option<(usize, String, Vec<String>)>,
    pub(super) calls: usize,
    pub(super) reply: Option<ToolReply>,
    /// The number of agents that serve the calls: at most one.
    pub(super) serving: u32,
    pub(super) exit: Option<RunExit>,
    pub(super) killed: bool,
    /// The machine's hook lock, for as long as the process lives.
    pub(super) lock: Option<Arc<OwnedMutexGuard<()>>>,
}

/// The process of a hook.
pub struct HookProcess {
    world: World,
    pub folder: Uuid,
    pub run: u64,
    exchange: Mutex<ToolExchange>,
    pub(super) changed: Notify,
}

impl HookProcess {
    pub(super) fn new(world: World, folder: Uuid, run: u64) -> HookProcess {
        HookProcess { world, folder, run, exchange: Mutex::default(), changed: Notify::new() }
    }

    pub(super) fn exchange(&self) -> MutexGuard<'_, ToolExchange> {
        self.exchange.lock().expect("one thread")
    }

    /// Calls a tool. `None`: the process was killed, or no agent replied within the time limit of a tool.
    pub async fn call(&self, tool: &str, args: &[&str]) -> Option<ToolReply> {
        {
            let mut exchange = self.exchange();
            let args = args.iter().map(|arg| arg.to_string()).collect();
            exchange.request = Some((exchange.calls, tool.to_owned(), args));
            exchange.calls += 1;
        }
        self.changed.notify_waiters();
        loop {
            let changed = self.changed.notified();
            {
                let mut exchange = self.exchange();
                if exchange.killed {
                    return None;
                }
                if let Some(reply) = exchange.reply.take() {
                    return Some(reply);
                }
            }
            let time_limit = self.world.sleep(u64::from(DELAY_SUM_MAX_MS));
            tokio::select! {
                biased;
                () = changed => {}
                () = time_limit => if self.exchange().serving == 0 {
                    return None;
                }
            }
        }
    }

    pub fn is_killed(&self) -> bool {
        self.exchange().killed
    }

    pub(super) fn is_alive(&self) -> bool {
        let exchange = self.exchange();
        exchange.exit.is_none() && !exchange.killed
    }

    /// `keeps_lock`: a mutant; the lock is never released.
    pub(super) fn kill(&self, keeps_lock: bool) {
        let mut exchange = self.exchange();
        exchange.killed = true;
        let lock = exchange.lock.take();
        drop(exchange);
        if keeps_lock {
            std::mem::forget(lock);
        }
        self.changed.notify_waiters();
    }
}

/// Counts as an agent that serves the process while it exists.
pub(super) struct ServingGuard<'p>(&'p HookProcess);

impl ServingGuard<'_> {
    pub(super) fn new(process: &HookProcess) -> ServingGuard<'_> {
        process.exchange().serving += 1;
        ServingGuard(process)
    }
}

impl Drop for ServingGuard<'_> {
    fn drop(&mut self) {
        self.0.exchange().serving -= 1;
    }
}
