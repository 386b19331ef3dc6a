//! The presence of agents: when each agent last sent a request, and what it runs (spec/uniter.md F.4).
//!
//! Every request of an agent is a sign of life: an idle unit agent claims leadership, and a machine agent reports,
//! every 15 s ([`api::PRESENCE_INTERVAL_MS`]). An open stream is not a sign of life. The presence is in memory only: after a
//! start of the controller every agent has the full time to report.

pub use api::LOST_AFTER_MS;
use state::status::presence::{ExecutingRun, PresenceReader};
use state::terms::disk_usage::UnitDiskUsage;
use state::terms::health::{MachineAgentExits, UnitHealth};
use state::terms::names::Uuid;
use state::unit::resolve::is_reboot_overdue;
use state::why::facts::CausePresence;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

/// An agent that was silent for longer is late: its request, due every 15 s, is overdue by the interval at
/// which it repeats what could not be sent.
pub const LATE_AFTER_MS: u64 = api::PRESENCE_INTERVAL_MS + api::EXAMINATION_INTERVAL_MS;

/// The presence of one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentPresence {
    /// The time of the last request, on the monotonic clock.
    pub last_ms: u64,
    /// Whether the agent itself has sent a request since the controller started.
    pub reported: bool,
    /// The boot id of the machine, as its agent has sent it with a report of presence, or the agent of a unit with its attach;
    /// empty if it is not known.
    pub boot: String,
    /// When this boot was reported first, on the monotonic clock.
    pub boot_ms: u64,
    /// For a unit: the boot id of the last attach that was accepted, to which a refused attach returns.
    pub accepted_boot: String,
    /// When that attach was made.
    pub accepted_boot_ms: u64,
    /// The run that the agent executes now.
    pub executing: Option<ExecutingRun>,
    /// The newest run whose record was applied.
    pub last_applied_run: u64,
    /// The number of open streams of the agent.
    pub streams: u32,
    /// What the machine agent has observed of a unit agent.
    pub health: Option<ObservedHealth>,
    /// The digest of a file that the agent has requested and the controller lacks.
    pub missing_file: Option<String>,
    /// The disk usage of a unit on its machine.
    pub disk_usage: Option<MeasuredDisk>,
    /// For a machine: why the recalls of removed units cannot be confirmed, by unit.
    pub obstructed_recalls: BTreeMap<Uuid, String>,
    /// For a machine: how the process of its agent has ended.
    pub machine_agent_exits: Option<ObservedExits>,
    /// For a machine: the bytes on its disk in the folders of units that the controller has no record of.
    pub quarantined_bytes: u64,
}

/// The disk usage of a unit, as its machine agent has reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredDisk {
    /// The report.
    pub usage: UnitDiskUsage,
    /// When it arrived, on the monotonic clock.
    pub reported_ms: u64,
}

/// What a machine agent has observed of a unit agent. It is not stored, because it must be available while the disk of
/// the store is full, too; a machine agent reports it again in each watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedHealth {
    health: UnitHealth,
    /// When it was reported, on the monotonic clock.
    reported_ms: u64,
}

/// How the process of a machine agent has ended, as the supervisor has reported it. Like [`ObservedHealth`] it is not
/// stored; the supervisor reports it again after each start of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedExits {
    exits: MachineAgentExits,
    /// When it was reported, on the monotonic clock.
    reported_ms: u64,
}

/// The presence of all agents.
pub struct Presence {
    started_ms: u64,
    agents: Mutex<BTreeMap<Uuid, AgentPresence>>,
    /// The wall clock minus the monotonic clock, as of an earlier snapshot.
    wall_offset_ms: AtomicI64,
}

/// The difference of the two clocks varies by their rounding and by the time between the two readings. A variation up
/// to this bound is not treated as a step of the wall clock, so that the time of an agent's last request is the same
/// in each snapshot.
const CLOCK_JITTER_MS: u64 = 50;

/// The presence of all agents at one moment.
pub struct PresenceSnapshot {
    now_ms: u64,
    wall_ms: i64,
    started_ms: u64,
    agents: BTreeMap<Uuid, AgentPresence>,
}

impl Presence {
    /// `started_ms` is the start of the controller, on the monotonic clock.
    pub fn new(started_ms: u64) -> Presence {
        Presence { started_ms, agents: Mutex::default(), wall_offset_ms: AtomicI64::new(i64::MIN) }
    }

    /// Records that the agent has sent a request.
    pub fn record_request(&self, agent: Uuid, now_ms: u64) {
        let mut agents = self.agents();
        let presence = agents.entry(agent).or_default();
        (presence.last_ms, presence.reported) = (now_ms, true);
    }

    /// Records that the agent is being started: from now on it has the full time to report.
    pub fn expect(&self, agent: Uuid, now_ms: u64) {
        self.agents().entry(agent).or_default().last_ms = now_ms;
    }

    /// Records that the agent of a unit attaches in this boot of its machine. [`Self::finish_attach`] follows.
    pub fn record_attach(&self, unit: Uuid, boot: &str, now_ms: u64) {
        let mut agents = self.agents();
        let presence = agents.entry(unit).or_default();
        (presence.last_ms, presence.reported, presence.boot_ms) = (now_ms, true, now_ms);
        boot.clone_into(&mut presence.boot);
    }

    /// Records whether the attach of a unit in this boot was accepted. The boot of a refused attach is replaced by that
    /// of the last accepted one, unless another attach has replaced it already:
    /// 1. A copy of the unit's folder attaches and records its boot.
    /// 2. The unit's own agent attaches, records its boot and is accepted.
    /// 3. The attach of the copy is refused; the boot of the unit's own agent must stay.
    pub fn finish_attach(&self, unit: Uuid, boot: &str, is_accepted: bool) {
        let mut agents = self.agents();
        let Some(presence) = agents.get_mut(&unit) else { return };
        if is_accepted {
            // The refusal of a concurrent attach may have replaced the boot since it was recorded.
            boot.clone_into(&mut presence.boot);
            boot.clone_into(&mut presence.accepted_boot);
            presence.accepted_boot_ms = presence.boot_ms;
        } else if presence.boot == boot {
            presence.boot.clone_from(&presence.accepted_boot);
            presence.boot_ms = presence.accepted_boot_ms;
        }
    }

    /// Records the boot that a machine agent has reported.
    pub fn record_boot(&self, machine: Uuid, boot: &str, now_ms: u64) {
        let mut agents = self.agents();
        let presence = agents.entry(machine).or_default();
        if presence.boot != boot {
            presence.boot_ms = now_ms;
            boot.clone_into(&mut presence.boot);
        }
    }

    /// Records the run that the agent reports. A report that is late or repeated has no effect if the record of its run
    /// has been applied already.
    pub fn set_executing(&self, agent: Uuid, executing: Option<ExecutingRun>, now_ms: u64) {
        let mut agents = self.agents();
        let presence = agents.entry(agent).or_default();
        let executing = executing.filter(|executing| executing.run > presence.last_applied_run);
        (presence.last_ms, presence.reported, presence.executing) = (now_ms, true, executing);
    }

    /// Records what the machine agent observes of a unit agent. None, at the start of a watch, removes the last report.
    pub fn set_health(&self, unit: Uuid, health: Option<UnitHealth>, now_ms: u64) {
        let mut agents = self.agents();
        if health.is_none() && !agents.contains_key(&unit) {
            return;
        }
        // An agent that has sent no request yet is silent since the controller started.
        let unknown = || AgentPresence { last_ms: self.started_ms, ..AgentPresence::default() };
        let presence = agents.entry(unit).or_insert_with(unknown);
        presence.health = health.map(|health| ObservedHealth { health, reported_ms: now_ms });
    }

    /// Records whether the controller has the file that the agent has requested.
    pub fn set_missing_file(&self, unit: Uuid, missing: Option<String>) {
        if let Some(presence) = self.agents().get_mut(&unit) {
            presence.missing_file = missing;
        }
    }

    /// Records which recalls of a machine are obstructed. The start of a watch removes the last report.
    pub fn set_obstructed_recalls(&self, machine: Uuid, recalls: BTreeMap<Uuid, String>) {
        self.agents().entry(machine).or_default().obstructed_recalls = recalls;
    }

    /// Records how the process of a machine agent has ended; none if it has recovered.
    pub fn set_machine_agent_exits(&self, machine: Uuid, exits: Option<MachineAgentExits>, now_ms: u64) {
        // An agent that has sent no request yet is silent since the controller started.
        let unknown = || AgentPresence { last_ms: self.started_ms, ..AgentPresence::default() };
        let mut agents = self.agents();
        let presence = agents.entry(machine).or_insert_with(unknown);
        presence.machine_agent_exits = exits.map(|exits| ObservedExits { exits, reported_ms: now_ms });
    }

    /// Records the disk usage of a unit on its machine.
    pub fn set_disk_usage(&self, unit: Uuid, measured: MeasuredDisk) {
        let unknown = || AgentPresence { last_ms: self.started_ms, ..AgentPresence::default() };
        self.agents().entry(unit).or_insert_with(unknown).disk_usage = Some(measured);
    }

    /// Records the bytes in the folders of units without a record on a machine.
    pub fn set_quarantined_bytes(&self, machine: Uuid, bytes: u64) {
        self.agents().entry(machine).or_default().quarantined_bytes = bytes;
    }

    /// Returns the machines with folders of units without a record, and the bytes in these folders.
    pub fn quarantined_bytes(&self) -> BTreeMap<Uuid, u64> {
        let agents = self.agents();
        let found = agents.iter().map(|(machine, presence)| (*machine, presence.quarantined_bytes));
        found.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Returns the disk usage of units that the machine agents have reported.
    pub fn disk_usage(&self) -> BTreeMap<Uuid, MeasuredDisk> {
        self.agents().iter().filter_map(|(unit, presence)| Some((*unit, presence.disk_usage?))).collect()
    }

    /// Records that the record of a run was applied: the run is no longer executing. If the agent has already reported
    /// its next run, that one is kept.
    pub fn clear_executing(&self, agent: Uuid, run: u64) {
        let mut agents = self.agents();
        let presence = agents.entry(agent).or_default();
        presence.last_applied_run = presence.last_applied_run.max(run);
        presence.executing.take_if(|executing| executing.run <= run);
        presence.missing_file = None;
    }

    /// Counts an open stream of this agent until the guard is dropped.
    pub fn stream(self: &Arc<Self>, agent: Uuid) -> StreamGuard {
        self.agents().entry(agent).or_default().streams += 1;
        StreamGuard { presence: Arc::clone(self), agent }
    }

    /// Whether an agent of this unit has an open stream.
    pub fn is_streaming(&self, agent: Uuid) -> bool {
        self.agents().get(&agent).is_some_and(|presence| presence.streams > 0)
    }

    /// Removes the presence of an agent.
    pub fn forget(&self, agent: Uuid) {
        self.agents().remove(&agent);
    }

    /// Returns the next agents after this one, in the order of their uuids.
    pub fn after(&self, agent: Option<Uuid>, limit: usize) -> Vec<Uuid> {
        let from = agent.map_or(Bound::Unbounded, Bound::Excluded);
        self.agents().range((from, Bound::Unbounded)).take(limit).map(|(agent, _)| *agent).collect()
    }

    /// Copies the presence of all agents. `now_ms` is the monotonic clock, `wall_ms` the wall clock.
    pub fn snapshot(&self, now_ms: u64, wall_ms: i64) -> PresenceSnapshot {
        let now = i64::try_from(now_ms).unwrap_or(i64::MAX);
        let (offset_ms, before_ms) =
            (wall_ms.saturating_sub(now), self.wall_offset_ms.load(Ordering::Relaxed));
        let is_same = offset_ms.abs_diff(before_ms) <= CLOCK_JITTER_MS;
        let wall_ms = if is_same { now.saturating_add(before_ms) } else { wall_ms };
        if !is_same {
            self.wall_offset_ms.store(offset_ms, Ordering::Relaxed);
        }
        PresenceSnapshot { now_ms, wall_ms, started_ms: self.started_ms, agents: self.agents().clone() }
    }

    fn agents(&self) -> std::sync::MutexGuard<'_, BTreeMap<Uuid, AgentPresence>> {
        self.agents.lock().expect("no holder panics")
    }
}

/// One open stream of an agent. It is no longer counted once this is dropped.
pub struct StreamGuard {
    presence: Arc<Presence>,
    agent: Uuid,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        if let Some(presence) = self.presence.agents().get_mut(&self.agent) {
            presence.streams = presence.streams.saturating_sub(1);
        }
    }
}

impl PresenceReader for PresenceSnapshot {
    /// What the machine agent observes of a unit agent; none if that is no problem. The end of its process is left out if
    /// the agent has sent a request since.
    fn health(&self, unit: Uuid) -> Option<UnitHealth> {
        let presence = self.agents.get(&unit)?;
        let ObservedHealth { mut health, reported_ms } = presence.health.clone()?;
        if presence.reported && presence.last_ms > reported_ms {
            health.exit = None;
        }
        (health != UnitHealth::default()).then_some(health)
    }

    /// Whether an agent was silent for longer than [`LOST_AFTER_MS`].
    fn is_lost(&self, agent: Uuid) -> bool {
        self.silence_ms(agent) > LOST_AFTER_MS
    }

    /// Whether an agent was silent for longer than [`LATE_AFTER_MS`].
    fn is_late(&self, agent: Uuid) -> bool {
        self.silence_ms(agent) > LATE_AFTER_MS
    }

    /// The time of the last request, by the wall clock. Without a request since the controller started, it is the time
    /// of that start.
    fn last_request_ms(&self, agent: Uuid) -> i64 {
        self.wall_ms - i64::try_from(self.silence_ms(agent)).unwrap_or(self.wall_ms)
    }

    /// Whether the agent has sent a request since the controller started.
    fn has_reported(&self, agent: Uuid) -> bool {
        self.agents.get(&agent).is_some_and(|presence| presence.reported)
    }

    fn boot(&self, unit: Uuid) -> String {
        self.agents.get(&unit).map_or(String::new(), |presence| presence.boot.clone())
    }

    fn has_rebooted_since_attach(&self, unit: Uuid, machine: Uuid) -> bool {
        let both = self.agents.get(&unit).zip(self.agents.get(&machine));
        both.is_some_and(|(unit, machine)| {
            let are_known = !unit.boot.is_empty() && !machine.boot.is_empty();
            // the agent of a unit may attach in a new boot before that of its machine reports it
            are_known && unit.boot != machine.boot && machine.boot_ms > unit.boot_ms
        })
    }

    fn executing(&self, agent: Uuid) -> Option<ExecutingRun> {
        self.agents.get(&agent)?.executing.clone()
    }

    fn missing_file(&self, unit: Uuid) -> Option<String> {
        self.agents.get(&unit)?.missing_file.clone()
    }

    fn is_reboot_overdue(&self, requested_ms: Option<i64>) -> bool {
        is_reboot_overdue(requested_ms, self.wall_ms)
    }
}

impl CausePresence for PresenceSnapshot {
    fn obstructed_recalls(&self, machine: Uuid) -> Vec<(Uuid, String)> {
        let presence = self.agents.get(&machine).into_iter();
        let obstructed = presence.flat_map(|presence| &presence.obstructed_recalls);
        obstructed.map(|(unit, why)| (*unit, why.clone())).collect()
    }

    fn machine_agent_exits(&self, machine: Uuid) -> Option<MachineAgentExits> {
        let presence = self.agents.get(&machine)?;
        let ObservedExits { exits, reported_ms } = presence.machine_agent_exits.clone()?;
        let has_recovered = presence.reported && presence.last_ms > reported_ms;
        (!has_recovered).then_some(exits)
    }

    fn wall_ms(&self) -> i64 {
        self.wall_ms
    }
}

impl PresenceSnapshot {
    /// The time of the snapshot, on the monotonic clock.
    pub fn monotonic_ms(&self) -> u64 {
        self.now_ms
    }

    fn silence_ms(&self, agent: Uuid) -> u64 {
        let last_ms = self.agents.get(&agent).map_or(self.started_ms, |presence| presence.last_ms);
        self.now_ms.saturating_sub(last_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::terms::activity::Activity;
    use state::terms::hook_name::HookName;

    #[test]
    fn an_agent_is_late_after_twenty_silent_seconds_and_lost_after_sixty() {
        let presence = Presence::new(1_000);
        let (here, never) = (Uuid(1), Uuid(2));
        presence.record_request(here, 30_000);
        let presence = |now_ms: u64| presence.snapshot(now_ms, 1_700_000_000_000 + now_ms as i64);
        assert!(!presence(50_000).is_late(here));
        assert!(presence(50_001).is_late(here));
        assert!(!presence(90_000).is_lost(here));
        assert!(presence(90_001).is_lost(here));
        assert_eq!(presence(90_001).last_request_ms(here), 1_700_000_030_000);
        assert!(!presence(61_000).is_lost(never), "the controller itself has just started");
        assert!(presence(61_001).is_lost(never));
        assert_eq!(presence(61_001).last_request_ms(never), 1_700_000_001_000, "since it started");
    }

    #[test]
    fn the_time_of_the_last_request_does_not_waver_and_follows_the_wall_clock() {
        let presence = Presence::new(1_000);
        presence.record_request(Uuid(1), 2_000);
        let last_ms = |now_ms, wall_ms| presence.snapshot(now_ms, wall_ms).last_request_ms(Uuid(1));
        let wall_ms = |now_ms: u64| 1_700_000_000_000 + now_ms as i64;
        assert_eq!(last_ms(5_000, wall_ms(5_000)), wall_ms(2_000));
        assert_eq!(
            last_ms(6_000, wall_ms(6_000) + 1),
            wall_ms(2_000),
            "the clocks are read one after the other"
        );
        assert_eq!(
            last_ms(7_000, wall_ms(7_000) - 9_000),
            wall_ms(2_000) - 9_000,
            "the wall clock was set back"
        );
    }

    #[test]
    fn applying_a_record_ends_its_run_and_keeps_the_next_one() {
        let presence = Presence::new(0);
        let (agent, activity) = (Uuid(1), Activity::hook(HookName::ConfigChanged));
        let executing = |run| Some(ExecutingRun { run, activity: activity.clone(), since_ms: 5 });
        presence.set_executing(agent, executing(4), 1_000);
        presence.clear_executing(agent, 4);
        assert_eq!(presence.snapshot(1_000, 0).executing(agent), None);
        presence.set_executing(agent, executing(5), 1_000);
        presence.clear_executing(agent, 4);
        assert_eq!(presence.snapshot(1_000, 0).executing(agent), executing(5));
    }

    /// A container reboots by itself. Its agent reports before those of its units attach again, or after them.
    #[test]
    fn a_unit_has_not_reported_in_the_boot_that_its_machine_has_reported_since_it_attached() {
        let presence = Presence::new(0);
        let (unit, machine) = (Uuid(1), Uuid(2));
        let has_rebooted = || presence.snapshot(9_000, 0).has_rebooted_since_attach(unit, machine);
        presence.record_attach(unit, "first", 1_000);
        assert!(!has_rebooted(), "the boot of the machine is not known");
        presence.record_boot(machine, "first", 2_000);
        assert!(!has_rebooted());
        presence.record_boot(machine, "second", 3_000);
        assert!(has_rebooted());
        presence.record_attach(unit, "second", 4_000);
        assert!(!has_rebooted());
        presence.record_attach(unit, "third", 5_000);
        presence.record_boot(machine, "second", 6_000);
        assert!(!has_rebooted(), "the machine has not reported its third boot yet");
    }

    #[test]
    fn a_refused_attach_restores_the_boot_only_if_no_other_attach_has_replaced_it() {
        let presence = Presence::new(0);
        let unit = Uuid(1);
        let attach = |boot: &str| presence.record_attach(unit, boot, 1_000);
        let finish = |boot: &str, is_accepted: bool| {
            presence.finish_attach(unit, boot, is_accepted);
            presence.snapshot(1_000, 0).boot(unit)
        };
        attach("first");
        assert_eq!(presence.snapshot(1_000, 0).boot(unit), "first", "known before it is accepted");
        assert_eq!(finish("first", true), "first");
        attach("copy");
        assert_eq!(finish("copy", false), "first");
        attach("copy");
        attach("second");
        assert_eq!(finish("second", true), "second");
        assert_eq!(finish("copy", false), "second", "the boot is no longer that of the copy");
        attach("copy");
        attach("third");
        assert_eq!(finish("copy", false), "third");
        assert_eq!(finish("third", false), "second", "none of the two was accepted");
        attach("third");
        attach("copy");
        assert_eq!(finish("copy", false), "second", "the third boot is not accepted yet");
        assert_eq!(finish("third", true), "third");
    }

    #[test]
    fn a_report_after_the_record_of_its_run_has_no_effect() {
        let presence = Presence::new(0);
        let (agent, activity) = (Uuid(1), Activity::hook(HookName::Remove));
        let executing = |run| Some(ExecutingRun { run, activity: activity.clone(), since_ms: 5 });
        presence.clear_executing(agent, 4);
        presence.set_executing(agent, executing(4), 1_000);
        assert_eq!(presence.snapshot(1_000, 0).executing(agent), None);
    }
}
