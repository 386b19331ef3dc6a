//! Whether etcd can be used: one line in the log when that changes, and the outage that the status of the controller shows.
//!
//! It records what the calls of the engine have observed and makes no call itself. Slow commits are reported here, too. Used by
//! `commit`, `feed`, `newest_reads` and `shared`.

use crate::store::outage::Outage;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A commit that takes longer is reported: usual ones take some milliseconds, and the disk of a member is most often the
/// reason.
const SLOW_COMMIT: Duration = Duration::from_secs(1);
/// The least time between two reports of slow commits.
const SLOW_REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The outage of one handle, if there is one.
#[derive(Default)]
pub(super) struct Health(Mutex<State>);

#[derive(Default)]
struct State {
    outage: Option<Outage>,
    slow_reported: Option<Instant>,
}

impl Health {
    /// Returns the outage.
    pub fn outage(&self) -> Option<Outage> {
        self.state().outage.clone()
    }

    /// Records that etcd cannot be used.
    pub fn record_outage(&self, outage: &Outage) {
        let mut state = self.state();
        // Each attempt may fail with another text; only the kind is worth a line.
        let is_new =
            state.outage.as_ref().map(std::mem::discriminant) != Some(std::mem::discriminant(outage));
        state.outage = Some(outage.clone());
        drop(state);
        if is_new {
            tracing::warn!("cannot use the store: {outage}");
        }
    }

    /// Records a read: etcd answers. A quota that is used up does not prevent it.
    pub fn record_read(&self) {
        let mut state = self.state();
        if state.outage.as_ref().is_some_and(|outage| *outage != Outage::QuotaExceeded) {
            state.outage = None;
            tracing::info!("the store can be used again");
        }
    }

    /// Records a commit.
    pub fn record_commit(&self, took: Duration) {
        let mut state = self.state();
        if state.outage.take().is_some() {
            tracing::info!("the store can be used again");
        }
        let may_report = state.slow_reported.is_none_or(|at| at.elapsed() >= SLOW_REPORT_INTERVAL);
        if took >= SLOW_COMMIT && may_report {
            state.slow_reported = Some(Instant::now());
            tracing::warn!(
                milliseconds = took.as_millis() as u64,
                "etcd is slow: check the disks of its members"
            );
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_ends_an_outage_and_only_a_commit_ends_that_of_the_quota() {
        let health = Health::default();
        health.record_outage(&Outage::NoAnswer("x".to_owned()));
        health.record_read();
        assert_eq!(health.outage(), None);
        health.record_outage(&Outage::QuotaExceeded);
        health.record_read();
        assert_eq!(health.outage(), Some(Outage::QuotaExceeded));
        health.record_commit(Duration::ZERO);
        assert_eq!(health.outage(), None);
    }
}
