//! The connections of the tool socket that have not sent a complete frame yet. The oldest of them are closed when
//! there are too many connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The silent connections, by the order in which they became silent.
#[derive(Default)]
pub struct Silent(Mutex<All>);

#[derive(Default)]
struct All {
    last: u64,
    waiting: BTreeMap<u64, (Instant, Arc<Notify>)>,
}

/// The silence of one connection. Dropping it ends it.
pub struct Silence<'a> {
    all: &'a Silent,
    number: u64,
    closed: Arc<Notify>,
}

impl Silent {
    /// A connection begins to wait for a frame.
    pub fn begin(&self) -> Silence<'_> {
        let closed = Arc::new(Notify::new());
        let mut all = self.lock();
        all.last += 1;
        let number = all.last;
        all.waiting.insert(number, (Instant::now(), Arc::clone(&closed)));
        Silence { all: self, number, closed }
    }

    /// Closes the connection that has been silent for the longest time, if that is at least `silent_min`.
    pub fn close_oldest(&self, silent_min: Duration) {
        let mut all = self.lock();
        if let Some(oldest) = all.waiting.first_entry()
            && oldest.get().0.elapsed() >= silent_min
        {
            oldest.remove().1.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().expect("no holder panics")
    }
}

impl Silence<'_> {
    /// Completes when the connection is to be closed.
    pub async fn closed(&mut self) {
        self.closed.notified().await;
    }

    /// Ends the silence. Returns false if the connection is to be closed.
    pub fn end(self) -> bool {
        self.all.lock().waiting.remove(&self.number).is_some()
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        self.all.lock().waiting.remove(&self.number);
    }
}
