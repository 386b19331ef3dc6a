//! Reads the revision of the newest commit from the majority of etcd: how new the mirror must be (Kubernetes' KEP-2340).
//!
//! A request that reads, or that refuses, must see every commit that was reported before it began, also by another
//! controller. `Core::fresh` reads `m/newest` here, then waits until the mirror has that revision. Requests that need it at
//! the same time share one read, so a controller has at most one of them open, however many requests it serves.

use super::client::Client;
use super::health::Health;
use super::layout::{Layout, get};
use crate::store::outage::Outage;
use state::documents::draft::Revision;
use std::sync::{Arc, Mutex};

/// The shared reads of `m/newest`.
pub(super) struct NewestReads {
    client: Client,
    layout: Layout,
    health: Arc<Health>,
    /// Held during a read.
    read_lock: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The reads that were started.
    started: u64,
    /// The last read that has ended: its number and result.
    ended: (u64, Option<Result<Revision, Outage>>),
}

impl NewestReads {
    pub fn new(client: Client, layout: Layout, health: Arc<Health>) -> NewestReads {
        NewestReads { client, layout, health, read_lock: Default::default(), state: Default::default() }
    }

    /// Returns the revision of the newest commit, as read from the majority after the call.
    pub async fn read(&self) -> Result<Revision, Outage> {
        // A read that has started may be older than this request; the one after it is not.
        let needed = self.state().started + 1;
        let _guard = self.read_lock.lock().await;
        let number = {
            let mut state = self.state();
            if let (ended, Some(result)) = &state.ended
                && *ended >= needed
            {
                return result.clone();
            }
            state.started += 1;
            state.started
        };
        let result = self.newest().await;
        self.state().ended = (number, Some(result.clone()));
        result
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    async fn newest(&self) -> Result<Revision, Outage> {
        let outage = match self.client.range(get(self.layout.newest())).await {
            Ok(read) => match read.kvs.first() {
                Some(newest) => {
                    self.health.record_read();
                    return Ok(newest.mod_revision.unsigned_abs());
                }
                None => Outage::StoreDeleted(self.layout.prefix().to_owned()),
            },
            Err(failed) => failed.outage(),
        };
        self.health.record_outage(&outage);
        Err(outage)
    }
}
