//! The presence of agents: when each agent last sent a request, and what it runs (spec/uniter.md F.4).
//!
//! Every request of an agent is a sign of life: an idle unit agent claims leadership, and a machine agent reports,
//! every 15 s ([`api::PRESENCE_INTERVAL_MS`]). An open stream is not a sign of life. The presence is in memory only: after a
//! start of the controller every agent has the full time to report. Controllers that share a store tell each other what
//! changes (`statements`), so that the table of each has what the others know.

mod statements;

pub use api::LOST_AFTER_MS;
use state::status::presence::{ExecutingRun, PresenceReader};
use state::status::shared_presence::{AgentStatement, BootChange, Boots, Silence};
use state::terms::disk_usage::UnitDiskUsage;
use state::terms::health::{MachineAgentExits, UnitHealth};
use state::terms::names::Uuid;
use state::unit::resolve::is_reboot_overdue;
use state::why::facts::CausePresence;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
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
    /// The boots of the machine in which the agent of a unit has attached, or that of a machine as its agent has reported it.
    /// Revisions order them; without a shared store they are times of the monotonic clock.
    pub boots: Boots,
    /// Reports about the agent's process until this time, of the same clock, are outdated: it has sent a request since.
    pub alive_after: u64,
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
    /// Which controllers know the agent.
    sharing: Sharing,
}

impl AgentPresence {
    /// The first revision after the newest report about the process of this agent that other controllers know; none if there
    /// is none.
    fn reports_stated_until(&self) -> Option<u64> {
        let health = self.health.as_ref().map(|observed| observed.reported_at);
        let exits = self.machine_agent_exits.as_ref().map(|observed| observed.reported_at);
        let stated = [health, exits].into_iter().flatten().filter(|at| *at != NOT_STATED).max()?;
        Some(self.alive_after.max(stated + 1))
    }
}

/// What controllers that share a store know about an agent from each other. Without such a store it is not used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sharing {
    /// Whether the agent is attached to this controller, which states how long it was silent.
    is_here: bool,
    /// What the controller has stated to which the agent is attached; none if that is this one.
    elsewhere: Option<AgentStatement>,
    /// Whether it has an open stream of another controller.
    is_streaming_elsewhere: bool,
    /// Whether this controller has received the last report of the health, of the disk usage, and of the exits.
    has_own: [bool; 3],
    /// Whether a report of the same has ended with its controller, which may come back and state it again.
    has_ended: [bool; 3],
}

const HEALTH: usize = 0;
const DISK: usize = 1;
const EXITS: usize = 2;

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
    /// When it was reported, on the clock of [`AgentPresence::alive_after`].
    reported_at: u64,
}

/// How the process of a machine agent has ended, as the supervisor has reported it. Like [`ObservedHealth`] it is not
/// stored; the supervisor reports it again after each start of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedExits {
    exits: MachineAgentExits,
    /// When it was reported, on the clock of [`AgentPresence::alive_after`].
    reported_at: u64,
}

/// The presence of all agents.
pub struct Presence {
    started_ms: u64,
    agents: Mutex<BTreeMap<Uuid, AgentPresence>>,
    /// The wall clock minus the monotonic clock, as of an earlier snapshot.
    wall_offset_ms: AtomicI64,
    /// Whether other controllers may know the agents.
    is_shared: AtomicBool,
    /// The agents of which the others are to be told that they were removed.
    removed: Mutex<BTreeSet<Uuid>>,
}

/// When a report was made that the other controllers have not received yet: after everything that they know.
const NOT_STATED: u64 = u64::MAX;

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

/// What was known about agents before documents are read.
pub(crate) enum BeforeRead {
    /// Everything: without a shared store, the boot of an attach is in memory before its commit.
    All(PresenceSnapshot),
    /// What the agents execute; with a shared store, the rest is copied after the documents are fixed.
    Executing {
        /// The runs, by agent.
        executing: BTreeMap<Uuid, ExecutingRun>,
        /// The monotonic clock.
        now_ms: u64,
        /// The wall clock.
        wall_ms: i64,
    },
}

impl Presence {
    /// `started_ms` is the start of the controller, on the monotonic clock.
    pub fn new(started_ms: u64) -> Presence {
        Presence {
            started_ms,
            agents: Mutex::default(),
            wall_offset_ms: AtomicI64::new(i64::MIN),
            is_shared: AtomicBool::default(),
            removed: Mutex::default(),
        }
    }

    /// From now on other controllers may know the agents.
    pub fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// When a report that arrives now was made, on the clock of [`AgentPresence::alive_after`].
    fn time_of_report(&self, now_ms: u64) -> u64 {
        if self.is_shared() { NOT_STATED } else { now_ms }
    }

    /// Records that the agent has sent a request.
    pub fn record_request(&self, agent: Uuid, now_ms: u64) {
        let mut agents = self.agents();
        self.note_request(agents.entry(agent).or_default(), now_ms);
    }

    /// Records in the presence of an agent that it has sent a request.
    fn note_request(&self, presence: &mut AgentPresence, now_ms: u64) {
        (presence.last_ms, presence.reported) = (now_ms, true);
        presence.alive_after = match self.is_shared() {
            true => presence.reports_stated_until().unwrap_or(presence.alive_after),
            false => now_ms,
        };
        (presence.sharing.is_here, presence.sharing.elsewhere) = (true, None);
    }

    /// Records that the agent is being started: from now on it has the full time to report.
    pub fn expect(&self, agent: Uuid, now_ms: u64) {
        let mut agents = self.agents();
        let presence = agents.entry(agent).or_default();
        let (has_reported, alive_after) = (presence.reported, presence.alive_after);
        self.note_request(presence, now_ms);
        if !has_reported {
            (presence.reported, presence.alive_after) = (false, alive_after);
        }
    }

    /// Records a change of the boots of an agent, at this time of the clock of [`AgentPresence::boots`].
    pub(crate) fn change_boots(&self, agent: Uuid, change: &BootChange, at: u64) {
        let mut agents = self.agents();
        let presence = agents.entry(agent).or_default();
        if let Some(boots) = presence.boots.after(change) {
            presence.boots = boots.at(at);
        }
    }

    /// Records the run that the agent reports. A report that is late or repeated has no effect if the record of its run
    /// has been applied already.
    pub fn set_executing(&self, agent: Uuid, executing: Option<ExecutingRun>, now_ms: u64) {
        let mut agents = self.agents();
        let presence = agents.entry(agent).or_default();
        let executing = executing.filter(|executing| executing.run > presence.last_applied_run);
        self.note_request(presence, now_ms);
        presence.executing = executing;
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
        presence.sharing.has_own[HEALTH] = true;
        let reported_at = self.time_of_report(now_ms);
        presence.health = health.map(|health| ObservedHealth { health, reported_at });
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
        presence.sharing.has_own[EXITS] = true;
        let reported_at = self.time_of_report(now_ms);
        presence.machine_agent_exits = exits.map(|exits| ObservedExits { exits, reported_at });
    }

    /// Records the disk usage of a unit on its machine.
    pub fn set_disk_usage(&self, unit: Uuid, measured: MeasuredDisk) {
        let unknown = || AgentPresence { last_ms: self.started_ms, ..AgentPresence::default() };
        let mut agents = self.agents();
        let presence = agents.entry(unit).or_insert_with(unknown);
        (presence.disk_usage, presence.sharing.has_own[DISK]) = (Some(measured), true);
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
        let is_streaming =
            |presence: &AgentPresence| presence.streams > 0 || presence.sharing.is_streaming_elsewhere;
        self.agents().get(&agent).is_some_and(is_streaming)
    }

    /// Removes the presence of an agent.
    pub fn forget(&self, agent: Uuid) {
        let is_known = self.agents().remove(&agent).is_some();
        if is_known && self.is_shared() {
            self.removed.lock().expect("no holder panics").insert(agent);
        }
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

    /// Keeps what a view must find that reads documents after this call.
    pub(crate) fn before_read(&self, now_ms: u64, wall_ms: i64) -> BeforeRead {
        if !self.is_shared() {
            return BeforeRead::All(self.snapshot(now_ms, wall_ms));
        }
        let agents = self.agents();
        let executing = agents.iter().filter_map(|(agent, known)| Some((*agent, known.executing.clone()?)));
        BeforeRead::Executing { executing: executing.collect(), now_ms, wall_ms }
    }

    /// Copies the presence of all agents. A run that was executed before the documents were read may have its end in none.
    pub(crate) fn snapshot_when_read(&self, before: BeforeRead) -> PresenceSnapshot {
        let (executing, now_ms, wall_ms) = match before {
            BeforeRead::All(snapshot) => return snapshot,
            BeforeRead::Executing { executing, now_ms, wall_ms } => (executing, now_ms, wall_ms),
        };
        let mut snapshot = self.snapshot(now_ms, wall_ms);
        for (agent, executing) in executing {
            if let Some(presence) = snapshot.agents.get_mut(&agent) {
                presence.executing.get_or_insert(executing);
            }
        }
        snapshot
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
        let ObservedHealth { mut health, reported_at } = presence.health.clone()?;
        // also if another controller has received that request, which has ended since
        if presence.alive_after > reported_at {
            health.exit = None;
        }
        (health != UnitHealth::default()).then_some(health)
    }

    /// Whether an agent was silent for longer than [`LOST_AFTER_MS`].
    fn is_lost(&self, agent: Uuid) -> bool {
        self.silence(agent) == Silence::Lost
    }

    /// Whether an agent was silent for longer than [`LATE_AFTER_MS`].
    fn is_late(&self, agent: Uuid) -> bool {
        self.silence(agent) != Silence::None
    }

    /// The time of the last request, by the wall clock. Without a request since the controller started, it is the time
    /// of that start.
    fn last_request_ms(&self, agent: Uuid) -> i64 {
        if let Some(elsewhere) = self.elsewhere(agent) {
            return elsewhere.last_request_ms.unwrap_or(self.wall_ms);
        }
        self.wall_ms - i64::try_from(self.silence_ms(agent)).unwrap_or(self.wall_ms)
    }

    /// Whether the agent has sent a request since the controller started.
    fn has_reported(&self, agent: Uuid) -> bool {
        self.agents.get(&agent).is_some_and(|presence| presence.reported)
    }

    fn boot(&self, unit: Uuid) -> String {
        self.agents.get(&unit).map_or(String::new(), |presence| presence.boots.boot.clone())
    }

    fn has_rebooted_since_attach(&self, unit: Uuid, machine: Uuid) -> bool {
        let both = self.agents.get(&unit).zip(self.agents.get(&machine));
        both.is_some_and(|(unit, machine)| {
            let (unit, machine) = (&unit.boots, &machine.boots);
            let are_known = !unit.boot.is_empty() && !machine.boot.is_empty();
            // the agent of a unit may attach in a new boot before that of its machine reports it
            are_known && unit.boot != machine.boot && machine.since > unit.since
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
        let ObservedExits { exits, reported_at } = presence.machine_agent_exits.clone()?;
        let has_recovered = presence.alive_after > reported_at;
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

    fn elsewhere(&self, agent: Uuid) -> Option<&AgentStatement> {
        self.agents.get(&agent)?.sharing.elsewhere.as_ref()
    }

    fn silence(&self, agent: Uuid) -> Silence {
        match (self.elsewhere(agent), self.silence_ms(agent)) {
            (Some(elsewhere), _) => elsewhere.silence,
            (None, silent_ms) if silent_ms > LOST_AFTER_MS => Silence::Lost,
            (None, silent_ms) if silent_ms > LATE_AFTER_MS => Silence::Late,
            (None, _) => Silence::None,
        }
    }

    fn silence_ms(&self, agent: Uuid) -> u64 {
        let last_ms = self.agents.get(&agent).map_or(self.started_ms, |presence| presence.last_ms);
        self.now_ms.saturating_sub(last_ms)
    }
}

#[cfg(test)]
mod tests;
