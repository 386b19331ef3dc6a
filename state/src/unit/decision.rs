//! The input of a decision of the unit agent besides its stored state and its view ([`Now`]), and the decision
//! ([`Next`]).
//!
//! The agent fills in `Now` and performs `Next`; `resolve` computes one from the other.

use super::local::Run;
use super::record::Record;
use super::relation_view::BagRequest;
use crate::terms::cause::Cause;
use crate::terms::commands::CommandsRequest;
use crate::terms::operation::CharmRef;
use crate::terms::run_lock::{HeldLock, RunLock};

/// Relation hooks do not start on a view older than this, in milliseconds: a heartbeat that is 10 s late, and a
/// reconnect (spec B.6.7).
pub const LINK_AGE_MAX_MS: u64 = 30_000;
/// How long a starting agent waits for the reconciliation of its disk with the replica, in milliseconds: about forty
/// round trips of a slow link.
pub const RECONCILE_WAIT_MS: u64 = 2_000;
/// The time in milliseconds after which a reboot that a hook requested is overdue: a host reboots in about a minute,
/// and the hooks of other units may run before. The unit then still waits for the reboot, but a person has to act.
pub const REBOOT_DEADLINE_MS: i64 = 600_000;

/// What is on disk of the charm of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CharmOnDisk {
    /// All that its hooks need, or the unit has no charm yet.
    Complete,
    /// Its folder or one of its programs is missing: it must be fetched before its next program runs.
    Missing,
    /// As `Missing`, and it cannot be fetched or unpacked: the run that needs it fails for this reason.
    Unavailable,
}

/// The facts of the agent's environment that are neither stored nor part of the view.
#[derive(Clone, Debug, PartialEq)]
pub struct Now {
    /// The boot id of the machine. Empty if it is not known, as when the controller explains a unit; then no timer has
    /// expired.
    pub boot: String,
    /// The time since that boot in milliseconds.
    pub since_boot_ms: u64,
    /// When this agent started, in milliseconds since that boot.
    pub agent_start_ms: u64,
    /// The wall clock in milliseconds since 1970. It is for display only and decides nothing.
    pub wall_ms: i64,
    /// The lock that this agent holds.
    pub held_lock: HeldLock,
    /// Whether it is certain that no process of the started run is left: the run of an earlier agent was searched for, or
    /// the run of this one has ended.
    pub no_run_process: bool,
    /// Whether this process has reconciled disk and replica: a session is open.
    pub attached: bool,
    /// The time since the controller last confirmed the position of the view, in milliseconds. `None`: it has not
    /// done so in this process, or the view has not reached the position that the store had when the session was
    /// opened.
    pub link_age_ms: Option<u64>,
    /// The leadership generation that this unit holds for at least another 30 s. `None`: the unit is not the leader,
    /// or that is not known.
    pub leader_generation: Option<u64>,
    /// Whether the controller has replied to a leadership claim of this process, so that `leader_generation` is
    /// known.
    pub is_leader_known: bool,
    /// The time since the last hook ended or the agent started, in milliseconds, with what the clock of the model was
    /// advanced since then.
    pub idle_ms: u64,
    /// What is on disk of the charm of the stored state.
    pub charm: CharmOnDisk,
    /// The oldest commands that a process on the machine has requested and that have not started.
    pub commands: Option<CommandsRequest>,
}

impl Now {
    /// Returns facts for explaining a unit without running it: any lock is held, the connection is fresh, a
    /// started run has ended, and the boot is not known, so that no timer has expired.
    pub fn hypothetical() -> Now {
        Now {
            boot: String::new(),
            since_boot_ms: 0,
            agent_start_ms: 0,
            wall_ms: 0,
            held_lock: HeldLock::Any,
            no_run_process: true,
            attached: true,
            link_age_ms: Some(0),
            leader_generation: None,
            is_leader_known: true,
            idle_ms: 0,
            charm: CharmOnDisk::Complete,
            commands: None,
        }
    }
}

/// The decision: what to do and, independently, what to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// What to send.
    pub send: NextMessage,
    /// What to do.
    pub act: Act,
}

/// The next message to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextMessage {
    /// The request for a session.
    Attach,
    /// The reports of this run, which has no record. They precede the record of any later run, because the controller
    /// keeps the status that it receives last.
    UnrecordedReport(u64),
    /// The oldest unsent record, by its sequence number.
    Commit(u64),
    /// Nothing to send.
    Nothing,
}

/// The next action of the agent. After every action except [`Act::Finish`] the agent calls
/// [`next`](super::resolve::next) again.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// The unit is Dead or removed: the agent ends and does not start again.
    Finish,
    /// An earlier agent process has started this run: search for its process, then for its outcome.
    Reattach(Run),
    /// Acquire this lock, under which the next run starts. Another one that the agent holds is released first.
    AcquireLock(RunLock),
    /// Fetch an omitted bag that the next hook delivers.
    FetchBag(BagRequest),
    /// Fetch the charm of the stored state and install it again, because the next run needs it.
    FetchCharm(CharmRef),
    /// Store the run, then execute it.
    Start(Run),
    /// Store the record of an operation for which no process is started.
    RecordOutcome(Record),
    /// A hook has requested a reboot: request it from the machine agent, and start no operation.
    Reboot,
    /// Store that the unit leads with this generation, or no longer leads.
    ChangeLeadership(Option<u64>),
    /// Wait for a change.
    Wait(Wait),
}

/// Why and how long the agent waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// The time in milliseconds since boot at which the agent decides again even if nothing has changed.
    pub until_ms: Option<u64>,
    /// The reasons. Empty: nothing is left to do.
    pub causes: Vec<Cause>,
}

/// Whether a reboot that was requested at this time should have happened by now ([`REBOOT_DEADLINE_MS`]); false if that
/// time is not known. Both times are of the wall clock, because the clock of a boot ends with a reboot.
pub fn is_reboot_overdue(requested_ms: Option<i64>, now_ms: i64) -> bool {
    requested_ms.is_some_and(|requested_ms| now_ms.saturating_sub(requested_ms) > REBOOT_DEADLINE_MS)
}

/// Whether the view is recent enough for relation hooks (spec B.6.7).
pub(super) fn is_link_fresh(now: &Now) -> bool {
    now.attached && now.link_age_ms.is_some_and(|age| age <= LINK_AGE_MAX_MS)
}

/// Whether this agent process is attached and has no reply to its first leadership claim yet.
pub(super) fn is_first_claim_pending(now: &Now) -> bool {
    !now.is_leader_known && is_link_fresh(now)
}

/// Returns when the controller last sent a heartbeat, by the wall clock. `None` if it sent one just now, or none to
/// this process.
pub(super) fn last_heartbeat_ms(now: &Now) -> Option<i64> {
    let age_ms = now.link_age_ms.filter(|age_ms| *age_ms > 0)?;
    Some(now.wall_ms - i64::try_from(age_ms).ok()?)
}
