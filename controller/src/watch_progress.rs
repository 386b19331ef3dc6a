//! How far the watch of each agent has got, so that the response to another request can confirm the agent's view.
//!
//! An idle agent sends a request every 15 s, and the response proves that the controller is there. With the position of its
//! view in the request, it also proves that the view is current: the watch has sent nothing after that position, and has
//! found no change for the agent since. The watch itself then needs no heartbeat. It sends one only if none of its agent's
//! requests has confirmed the view for [`api::HEARTBEAT_MS`], so that a connection that has died is noticed at both ends
//! within the same time ([`api::WATCH_SILENCE_MS`]).
//!
//! If the events of a watch are lost, the agent detects it: the events were sent and are not in its view, so that no
//! response confirms the view any more. If an agent has several watches, the newest one decides: whether the view has changed
//! between two positions is the same for all of them. Written by the cursors of `watches`; read by the handlers of `Claim` and `ReportPresence`.

use state::terms::names::Uuid;
use state::terms::position::Position;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::watch;

/// Heartbeats are due at whole multiples of this time, so that those of many watches cost one wake-up of the process.
const HEARTBEAT_STEP_MS: u64 = 1_000;
/// How long a request waits for the watch to read the newest commits. It reads them within milliseconds, unless its reader
/// takes no more bytes.
pub const CATCH_UP_MS: u64 = 1_000;

/// The watches of all agents: the newest one of each.
#[derive(Default)]
pub struct WatchProgresses(Mutex<BTreeMap<Uuid, Arc<watch::Sender<Progress>>>>);

/// How far one watch has got.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// The position of the last view or delta that was sent. None before the first.
    sent: Option<Position>,
    /// Between `sent` and this position nothing has changed for the agent.
    unchanged_to: Position,
    heartbeat_ms: u64,
}

/// The progress of one watch. It is forgotten when this is dropped.
pub struct WatchProgress {
    progresses: Arc<WatchProgresses>,
    agent: Uuid,
    progress: Arc<watch::Sender<Progress>>,
}

fn heartbeat_due(now_ms: u64) -> u64 {
    let due_ms = now_ms + api::HEARTBEAT_MS;
    due_ms - due_ms % HEARTBEAT_STEP_MS
}

impl WatchProgresses {
    fn progresses(&self) -> MutexGuard<'_, BTreeMap<Uuid, Arc<watch::Sender<Progress>>>> {
        self.0.lock().expect("no holder panics")
    }

    /// Records that a watch of this agent was opened. `sent`: the position of the view that the agent has.
    pub fn open(self: &Arc<Self>, agent: Uuid, sent: Option<Position>, now_ms: u64) -> WatchProgress {
        let unchanged_to = sent.unwrap_or_default();
        let progress = Progress { sent, unchanged_to, heartbeat_ms: heartbeat_due(now_ms) };
        let progress = Arc::new(watch::Sender::new(progress));
        self.progresses().insert(agent, Arc::clone(&progress));
        WatchProgress { progresses: Arc::clone(self), agent, progress }
    }

    /// Returns the position up to which the view of an agent at `view` is current, and postpones the heartbeat of its watch.
    /// None if the agent has no watch, or lacks an event of it. Waits until the watch has reached `newest`; the caller bounds
    /// that time ([`CATCH_UP_MS`]).
    pub async fn confirm(
        &self,
        agent: Uuid,
        view: Position,
        newest: Position,
        now_ms: u64,
    ) -> Option<Position> {
        let progress = Arc::clone(self.progresses().get(&agent)?);
        let mut reached = progress.subscribe();
        let is_reached = |progress: &Progress| {
            progress.sent.is_none()
                || progress.unchanged_to.store_generation != newest.store_generation
                || progress.unchanged_to.revision >= newest.revision
        };
        let Progress { sent, unchanged_to, .. } = *reached.wait_for(is_reached).await.ok()?;
        let sent = sent.filter(|sent| sent.store_generation == view.store_generation)?;
        if sent.revision > view.revision {
            return None;
        }
        progress.send_modify(|progress| progress.heartbeat_ms = heartbeat_due(now_ms));
        Some(unchanged_to)
    }
}

impl WatchProgress {
    /// When the next heartbeat is due.
    pub fn heartbeat_ms(&self) -> u64 {
        self.progress.borrow().heartbeat_ms
    }

    /// Records that a heartbeat, a view or a delta is being sent. This is no evidence that the agent runs: a stopped process
    /// leaves its stream open, and the kernel receives the data.
    pub fn record_sent(&self, now_ms: u64) {
        self.progress.send_modify(|progress| progress.heartbeat_ms = heartbeat_due(now_ms));
    }

    /// Records that the view or delta of this position is being sent.
    pub fn record_event(&self, position: Position) {
        self.progress.send_modify(|progress| {
            (progress.sent, progress.unchanged_to) = (Some(position), position);
        });
    }

    /// Records that nothing has changed for the agent up to this position.
    pub fn record_unchanged(&self, position: Position) {
        self.progress.send_modify(|progress| progress.unchanged_to = position);
    }
}

impl Drop for WatchProgress {
    fn drop(&mut self) {
        let mut progresses = self.progresses.progresses();
        if progresses.get(&self.agent).is_some_and(|newest| Arc::ptr_eq(newest, &self.progress)) {
            progresses.remove(&self.agent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const AGENT: Uuid = Uuid(1);

    fn at(revision: u64) -> Position {
        Position { store_generation: Uuid(7), revision }
    }

    /// The answer, or none if it waits.
    fn confirm(progresses: &WatchProgresses, view: u64, newest: u64) -> Option<Option<Position>> {
        let confirm = pin!(progresses.confirm(AGENT, at(view), at(newest), 20_500));
        match confirm.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(confirmed) => Some(confirmed),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_view_is_confirmed_if_the_watch_has_sent_nothing_after_it() {
        let progresses = Arc::<WatchProgresses>::default();
        assert_eq!(confirm(&progresses, 5, 5), Some(None), "there is no watch");
        let watch = progresses.open(AGENT, None, 500);
        assert_eq!(watch.heartbeat_ms(), 500 + api::HEARTBEAT_MS - 500);
        watch.record_event(at(5));
        assert_eq!(confirm(&progresses, 5, 6), None, "it has not read revision 6 yet");
        watch.record_unchanged(at(6));
        assert_eq!(confirm(&progresses, 5, 6), Some(Some(at(6))));
        assert_eq!(watch.heartbeat_ms(), 20_500 + api::HEARTBEAT_MS - 500, "it is postponed");
        watch.record_event(at(7));
        assert_eq!(confirm(&progresses, 6, 7), Some(None), "revision 7 has not arrived");
        assert_eq!(confirm(&progresses, 7, 7), Some(Some(at(7))));
        let elsewhere = Position { store_generation: Uuid(8), revision: 7 };
        let mut confirmed = pin!(progresses.confirm(AGENT, elsewhere, at(7), 0));
        assert_eq!(confirmed.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(None));
    }

    #[test]
    fn the_newest_watch_of_an_agent_is_asked_until_it_ends() {
        let progresses = Arc::<WatchProgresses>::default();
        let (old, new) = (progresses.open(AGENT, Some(at(5)), 0), progresses.open(AGENT, Some(at(4)), 0));
        new.record_unchanged(at(9));
        drop(old);
        assert_eq!(confirm(&progresses, 5, 9), Some(Some(at(9))));
        drop(new);
        assert_eq!(confirm(&progresses, 5, 9), Some(None));
    }
}
