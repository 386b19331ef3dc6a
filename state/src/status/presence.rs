//! What statuses and causes depend on beside documents: whether agents are heard, and what they run. The controller
//! has this in memory.

use crate::terms::activity::Activity;
use crate::terms::health::UnitHealth;
use crate::terms::names::Uuid;

/// The run that an agent executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutingRun {
    /// The number of the run.
    pub run: u64,
    /// The hook, action or other operation.
    pub activity: Activity,
    /// The start of the run, by the controller's wall clock.
    pub since_ms: i64,
}

/// What the statuses are computed from beside documents. The controller implements it by a snapshot, and by one that
/// records what is observed of it.
pub trait PresenceReader {
    /// What the machine agent observes of a unit agent, if that is a problem.
    fn health(&self, unit: Uuid) -> Option<UnitHealth>;
    /// Whether an agent was silent for so long that it is shown as lost.
    fn is_lost(&self, agent: Uuid) -> bool;
    /// Whether a request of the agent is overdue.
    fn is_late(&self, agent: Uuid) -> bool;
    /// The time of the last heartbeat, by the wall clock. Without a heartbeat since the controller started, it is the
    /// time of that start.
    fn last_heartbeat_ms(&self, agent: Uuid) -> i64;
    /// The run that an agent executes.
    fn executing(&self, agent: Uuid) -> Option<ExecutingRun>;
    /// Whether a reboot that was requested at this time of the wall clock should have happened by now.
    fn is_reboot_overdue(&self, requested_ms: Option<i64>) -> bool;
}
