//! Who is there: an agent that asks for something all the time (spec/uniter.md F.4). A unit's claims leadership every
//! 15 s, a machine's says that it is here every 5 s; an open stream alone says nothing. In memory only; after a start
//! of the controller everybody has the full time to come back.

use state::terms::names::Uuid;
use state::unit::activity::Activity;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

/// An agent of a machine that was silent for longer is late: three of its signs of life did not come.
pub const LATE_AFTER_MS: u64 = 3 * api::HEARTBEAT_MS;
/// An agent that was silent for longer is shown as lost: four times of being late.
pub const LOST_AFTER_MS: u64 = 4 * LATE_AFTER_MS;

/// An agent of a unit that was silent for longer is late: its claim, due every 15 s, is a heartbeat overdue.
pub const UNIT_LATE_AFTER_MS: u64 = LATE_AFTER_MS + api::HEARTBEAT_MS;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentPresence {
    /// Monotonic.
    pub last_ms: u64,
    /// It has reported itself.
    pub reported: bool,
    pub executing: Option<ExecutingRun>,
    /// The newest run whose record was applied.
    pub last_applied_run: u64,
    /// Streams it has open.
    pub streams: u32,
}

/// What an agent runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutingRun {
    pub run: u64,
    pub activity: Activity,
    /// When it began, by the controller's wall clock.
    pub since_ms: i64,
}

pub struct Presence {
    started_ms: u64,
    seen: Mutex<BTreeMap<Uuid, AgentPresence>>,
}

/// The presence of all agents at one moment.
pub struct PresenceSnapshot {
    now_ms: u64,
    wall_ms: i64,
    started_ms: u64,
    seen: BTreeMap<Uuid, AgentPresence>,
}

impl Presence {
    pub fn new(started_ms: u64) -> Presence {
        Presence { started_ms, seen: Mutex::default() }
    }

    pub fn heartbeat(&self, agent: Uuid, now_ms: u64) {
        let mut all = self.seen();
        let seen = all.entry(agent).or_default();
        (seen.last_ms, seen.reported) = (now_ms, true);
    }

    /// It is being started: from here on it has the full time to come.
    pub fn expect(&self, agent: Uuid, now_ms: u64) {
        self.seen().entry(agent).or_default().last_ms = now_ms;
    }

    /// What the agent says it runs. Said late, or twice, of a run whose record was applied meanwhile: nothing.
    pub fn set_executing(&self, agent: Uuid, executing: Option<ExecutingRun>, now_ms: u64) {
        let mut all = self.seen();
        let seen = all.entry(agent).or_default();
        let executing = executing.filter(|executing| executing.run > seen.last_applied_run);
        (seen.last_ms, seen.reported, seen.executing) = (now_ms, true, executing);
    }

    /// The record of a run was applied, so nothing of it is executing any more, whatever was said before. Its agent
    /// may have begun and told of the next run already: that one stays.
    pub fn clear_executing(&self, agent: Uuid, run: u64) {
        let mut all = self.seen();
        let seen = all.entry(agent).or_default();
        seen.last_applied_run = seen.last_applied_run.max(run);
        seen.executing.take_if(|executing| executing.run <= run);
    }

    /// A stream of this agent was opened; it lasts until the answer is dropped.
    pub fn stream(self: &Arc<Self>, agent: Uuid) -> StreamGuard {
        self.seen().entry(agent).or_default().streams += 1;
        StreamGuard { presence: Arc::clone(self), agent }
    }

    /// Some agent takes this unit's stream right now.
    pub fn is_streaming(&self, agent: Uuid) -> bool {
        self.seen().get(&agent).is_some_and(|seen| seen.streams > 0)
    }

    pub fn forget(&self, agent: Uuid) {
        self.seen().remove(&agent);
    }

    /// The next agents after this one, in order.
    pub fn after(&self, agent: Option<Uuid>, limit: usize) -> Vec<Uuid> {
        let from = agent.map_or(Bound::Unbounded, Bound::Excluded);
        self.seen().range((from, Bound::Unbounded)).take(limit).map(|(agent, _)| *agent).collect()
    }

    /// At this moment, by the monotonic and by the wall clock.
    pub fn snapshot(&self, now_ms: u64, wall_ms: i64) -> PresenceSnapshot {
        PresenceSnapshot { now_ms, wall_ms, started_ms: self.started_ms, seen: self.seen().clone() }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, BTreeMap<Uuid, AgentPresence>> {
        self.seen.lock().expect("no holder panics")
    }
}

/// One open stream of an agent.
pub struct StreamGuard {
    presence: Arc<Presence>,
    agent: Uuid,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        if let Some(seen) = self.presence.seen().get_mut(&self.agent) {
            seen.streams = seen.streams.saturating_sub(1);
        }
    }
}

impl PresenceSnapshot {
    pub fn monotonic_ms(&self) -> u64 {
        self.now_ms
    }

    fn silence_ms(&self, agent: Uuid) -> u64 {
        let last_ms = self.seen.get(&agent).map_or(self.started_ms, |seen| seen.last_ms);
        self.now_ms.saturating_sub(last_ms)
    }

    /// When it was last heard of, by the wall clock; when the controller started if it was not since.
    pub fn last_heartbeat_ms(&self, agent: Uuid) -> i64 {
        self.wall_ms - i64::try_from(self.silence_ms(agent)).unwrap_or(self.wall_ms)
    }

    /// It has reported itself since the controller started.
    pub fn has_reported(&self, agent: Uuid) -> bool {
        self.seen.get(&agent).is_some_and(|seen| seen.reported)
    }

    /// Silent for longer than [`LATE_AFTER_MS`].
    pub fn is_late(&self, agent: Uuid) -> bool {
        self.silence_ms(agent) > LATE_AFTER_MS
    }

    /// For how long, if this unit's agent was silent for longer than [`UNIT_LATE_AFTER_MS`].
    pub fn unit_overdue_ms(&self, agent: Uuid) -> Option<u64> {
        Some(self.silence_ms(agent)).filter(|silence_ms| *silence_ms > UNIT_LATE_AFTER_MS)
    }

    /// Silent for longer than [`LOST_AFTER_MS`].
    pub fn is_lost(&self, agent: Uuid) -> bool {
        self.silence_ms(agent) > LOST_AFTER_MS
    }

    pub fn executing(&self, agent: Uuid) -> Option<&ExecutingRun> {
        self.seen.get(&agent)?.executing.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::unit::hook_name::HookName;

    #[test]
    fn an_agent_is_late_after_fifteen_silent_seconds_and_lost_after_sixty_and_never_before() {
        let presence = Presence::new(1_000);
        let (here, never) = (Uuid(1), Uuid(2));
        presence.heartbeat(here, 30_000);
        let presence = |now_ms: u64| presence.snapshot(now_ms, 1_700_000_000_000 + now_ms as i64);
        assert!(!presence(45_000).is_late(here));
        assert!(presence(45_001).is_late(here));
        assert!(!presence(90_000).is_lost(here));
        assert!(presence(90_001).is_lost(here));
        assert_eq!(presence(90_001).last_heartbeat_ms(here), 1_700_000_030_000);
        assert!(!presence(61_000).is_lost(never), "the controller itself has just started");
        assert!(presence(61_001).is_lost(never));
        assert_eq!(presence(61_001).last_heartbeat_ms(never), 1_700_000_001_000, "since it started");
    }

    #[test]
    fn a_run_whose_record_was_applied_is_over_and_the_next_one_is_not() {
        let presence = Presence::new(0);
        let (agent, activity) = (Uuid(1), Activity::hook(HookName::ConfigChanged));
        let executing = |run| Some(ExecutingRun { run, activity: activity.clone(), since_ms: 5 });
        presence.set_executing(agent, executing(4), 1_000);
        presence.clear_executing(agent, 4);
        assert_eq!(presence.snapshot(1_000, 0).executing(agent), None);
        presence.set_executing(agent, executing(5), 1_000);
        presence.clear_executing(agent, 4);
        assert_eq!(presence.snapshot(1_000, 0).executing(agent), executing(5).as_ref());
    }

    #[test]
    fn a_report_that_comes_after_its_record_says_nothing() {
        let presence = Presence::new(0);
        let (agent, activity) = (Uuid(1), Activity::hook(HookName::Remove));
        let executing = |run| Some(ExecutingRun { run, activity: activity.clone(), since_ms: 5 });
        presence.clear_executing(agent, 4);
        presence.set_executing(agent, executing(4), 1_000);
        assert_eq!(presence.snapshot(1_000, 0).executing(agent), None);
    }
}
