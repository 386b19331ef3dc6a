//! The timers of forced removals: when a grace period or a teardown budget ends, and how much of it has passed.
//!
//! The document `forced/{entity}` stores when the timer ends. The controller that runs now measures the time; it
//! stores checkpoints of it ([`store_timers`]), so that the next process continues the timer instead of starting it
//! again. What is done when a timer has ended is in [`super::force`].

use crate::documents::document_reads::Documents;
use crate::documents::draft::Draft;
use crate::documents::effective_life;
use crate::documents::prelude::{ForcedEntityKind, ForcedRemovalDoc, ForcedRemovalPhase, Model};
use crate::terms::force::ForcedBy;
use crate::terms::life::Life;
use crate::terms::names::Uuid;

/// The grace period: the time an agent has to finish before the controller acts for it (spec E.6), and the time
/// a machine agent then has to recall a Dead unit.
pub const GRACE_MS: i64 = 60_000;
/// The shortest interval between two checkpoints of a timer, which is also the time of a grace period that a
/// crash may lose. It is less than the 10 s between two runs of the janitor: if the controller crashes again
/// and again, each process that lives for two runs still advances a grace period of a minute.
const CHECKPOINT_INTERVAL_MS: i64 = 8_000;
/// The number of checkpoints of a timer that is longer than about a minute.
const CHECKPOINTS_PER_WAIT: i64 = 8;
/// The maximum number of timers that one transaction stores, with a read and a write each: a small part of
/// [`READS_MAX`](crate::documents::draft::READS_MAX) and [`WRITES_MAX`](crate::documents::draft::WRITES_MAX).
pub const CHECKPOINTS_PER_TRANSACTION: usize = 40;

/// A time that was computed for one timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerTime {
    /// The start of the timer ([`timer_started_ms`]).
    pub timer_started_ms: i64,
    /// The time, as `now_ms` of [`is_due`].
    pub now_ms: i64,
}

/// Whether a unit is Dying and is not marked for forced removal yet.
pub fn needs_budget_timer(documents: &mut impl Documents, model: Model, id: Uuid) -> bool {
    documents.document(&model.forced_removal(id)).is_none()
        && effective_life::unit_life(documents, model, id) == Some(Life::Dying)
}

/// Starts the timer of the model's teardown budget for a unit that is Dying: it is forced after `budget_ms`.
/// Changes nothing if a timer exists already.
pub fn start_budget_timer(draft: &mut Draft, model: Model, id: Uuid, budget_ms: i64, now_ms: i64) {
    if needs_budget_timer(draft, model, id) {
        draft.put(&model.forced_removal(id), &budget_timer(budget_ms, now_ms));
    }
}

/// The timer of a unit that is found Dying at `now_ms`.
pub fn budget_timer(budget_ms: i64, now_ms: i64) -> ForcedRemovalDoc {
    let (kind, due_ms) = (ForcedEntityKind::Unit, now_ms.saturating_add(budget_ms));
    let (by, phase) = (ForcedBy::Budget, ForcedRemovalPhase::default());
    ForcedRemovalDoc { kind, since_ms: now_ms, due_ms, no_wait: false, by, phase, waited_ms: 0 }
}

/// Whether the grace period is over at `now_ms`, which must be the start of the timer ([`timer_started_ms`])
/// plus the time that has passed since.
pub fn is_due(forced: &ForcedRemovalDoc, now_ms: i64) -> bool {
    forced.no_wait || forced.due_ms <= now_ms
}

/// The time at which a timer is, as `now_ms` of [`is_due`]. `reached_ms` is its start plus the time that
/// has passed since. If the agent is late and the model is destroyed with force, the timer has ended: its agent cannot
/// act in the grace period. Entities without an agent of their own are never late.
pub fn timer_now_ms(
    forced: &ForcedRemovalDoc,
    reached_ms: i64,
    destroyed_by_force: bool,
    is_agent_late: bool,
) -> i64 {
    // only the agent of a Dead machine can clean up its host, which may be a machine that the operator keeps
    let waits_for_agent = !destroyed_by_force
        || !is_agent_late
        || forced.by == ForcedBy::Budget
        || forced.phase == ForcedRemovalPhase::AgentGrace
        || !matches!(forced.kind, ForcedEntityKind::Unit | ForcedEntityKind::Machine);
    if waits_for_agent { reached_ms } else { reached_ms.max(forced.due_ms) }
}

/// When the timer that ends at `due_ms` was started. A timer with another start is another timer; the same
/// timer may get another end.
pub fn timer_started_ms(forced: &ForcedRemovalDoc) -> i64 {
    match forced.by {
        ForcedBy::Operator => forced.due_ms.saturating_sub(GRACE_MS),
        ForcedBy::Budget => forced.since_ms,
    }
}

/// The interval between two checkpoints of a timer: a crash loses at most this much of the elapsed time.
pub fn checkpoint_interval_ms(forced: &ForcedRemovalDoc) -> i64 {
    let length_ms = forced.due_ms.saturating_sub(timer_started_ms(forced));
    (length_ms / CHECKPOINTS_PER_WAIT).max(CHECKPOINT_INTERVAL_MS)
}

/// The time that has passed of one timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForceTimer {
    /// The entity that is marked for forced removal.
    pub id: Uuid,
    /// Identifies the timer among those of the entity: see [`timer_started_ms`].
    pub timer_started_ms: i64,
    /// The time that has passed since the timer was started.
    pub waited_ms: i64,
}

/// Stores the elapsed time of at most [`CHECKPOINTS_PER_TRANSACTION`] timers, so that the next controller
/// process can continue them. A timer that was replaced meanwhile is ignored.
pub fn store_timers(draft: &mut Draft, model: Model, waits: &[ForceTimer]) {
    for wait in waits {
        let known = draft
            .get(&model.forced_removal(wait.id))
            .filter(|forced| timer_started_ms(forced) == wait.timer_started_ms);
        if let Some(forced) = known {
            draft.put(
                &model.forced_removal(wait.id),
                &ForcedRemovalDoc { waited_ms: wait.waited_ms.max(forced.waited_ms), ..forced },
            );
        }
    }
}
