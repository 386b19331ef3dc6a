//! The connections of the tool socket that have not sent a complete frame yet. The oldest of them are closed when
//! there are too many connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The silent connections, by the order in which they became silent.
#[derive(Default)]
pub struct SilentConnections(Mutex<Table>);

#[derive(Default)]
struct Table {
    last: u64,
    waiting: BTreeMap<u64, (Instant, Arc<Notify>)>,
}

/// The entry of one silent connection. Dropping it removes it.
pub struct SilentConnection<'a> {
    connections: &'a SilentConnections,
    number: u64,
    closed: Arc<Notify>,
}

impl SilentConnections {
    /// A connection begins to wait for a frame.
    pub fn begin(&self) -> SilentConnection<'_> {
        let closed = Arc::new(Notify::new());
        let mut table = self.lock();
        table.last += 1;
        let number = table.last;
        table.waiting.insert(number, (Instant::now(), Arc::clone(&closed)));
        SilentConnection { connections: self, number, closed }
    }

    /// Closes the connection that has been silent for the longest time, if that is at least `silent_min`.
    pub fn close_oldest(&self, silent_min: Duration) {
        let mut table = self.lock();
        if let Some(oldest) = table.waiting.first_entry()
            && oldest.get().0.elapsed() >= silent_min
        {
            oldest.remove().1.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("no holder panics")
    }
}

impl SilentConnection<'_> {
    /// Completes when the connection is to be closed.
    pub async fn closed(&mut self) {
        self.closed.notified().await;
    }

    /// Removes the entry. Returns false if the connection is to be closed.
    pub fn end(self) -> bool {
        self.connections.lock().waiting.remove(&self.number).is_some()
    }
}

impl Drop for SilentConnection<'_> {
    fn drop(&mut self) {
        self.connections.lock().waiting.remove(&self.number);
    }
}
