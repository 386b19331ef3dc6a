//! The facts about agents on which statuses and causes depend beside documents: whether agents report, what they run, their
//! problems, and the files that they lack. The controller keeps them in memory; controllers that share a store tell each other what changes
//! ([`shared_presence`](super::shared_presence)).

use crate::terms::activity::Activity;
use crate::terms::health::UnitHealth;
use crate::terms::names::Uuid;
use serde::{Deserialize, Serialize};

/// The run that an agent executes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutingRun {
    /// The number of the run.
    pub run: u64,
    /// The hook, action or other operation.
    pub activity: Activity,
    /// The start of the run, by the controller's wall clock.
    pub since_ms: i64,
}

/// The facts about agents from which statuses are computed. The controller implements this trait for a snapshot of
/// presence, and for a wrapper that records what is read from the snapshot.
pub trait PresenceReader {
    /// The problems of a unit agent that the machine agent observes, if any.
    fn health(&self, unit: Uuid) -> Option<UnitHealth>;
    /// Whether an agent was silent for so long that it is shown as lost.
    fn is_lost(&self, agent: Uuid) -> bool;
    /// Whether a request of the agent is overdue.
    fn is_late(&self, agent: Uuid) -> bool;
    /// Whether the agent has sent a request since the controller started.
    fn has_reported(&self, agent: Uuid) -> bool;
    /// The boot id that the agent of a unit has sent with its attach, or that of a machine with its last report; empty if it
    /// is not known.
    fn boot(&self, agent: Uuid) -> String;
    /// Whether the machine has reported another boot than the one in which the agent of the unit attached, and later.
    fn has_rebooted_since_attach(&self, unit: Uuid, machine: Uuid) -> bool;
    /// The time of the last request of the agent, by the wall clock. Without a request since the controller started, it is the
    /// time of that start.
    fn last_request_ms(&self, agent: Uuid) -> i64;
    /// The run that an agent executes.
    fn executing(&self, agent: Uuid) -> Option<ExecutingRun>;
    /// The digest of a file that an agent has requested and the controller lacks: a charm archive, or the file of a
    /// resource. The agent requests it again until it gets it.
    fn missing_file(&self, unit: Uuid) -> Option<String>;
    /// Whether a reboot that was requested at this time of the wall clock should have happened by now.
    fn is_reboot_overdue(&self, requested_ms: Option<i64>) -> bool;
}
