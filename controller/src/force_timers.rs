//! Force timers: how long each entity that is removed by force has waited (I43).
//!
//! The janitor advances the timers, and `why` shows the remaining time. A timer counts only time during which a
//! controller runs, never the wall clock:
//!
//! 1. A unit is Dying with a teardown budget of a day. The controller stops while its host's clock is wrong by a
//!    year, and the clock is corrected.
//! 2. The controller starts. By the wall clock the day has passed long ago.
//! 3. The unit's agent, which could not report meanwhile, reconnects, but the controller already acts in its place.
//!
//! Elapsed time is therefore stored as checkpoints: at each sweep for a wait of a minute, after each eighth of a long
//! wait. After a restart only the time since the last checkpoint is waited for again.

use state::documents::prelude::{ForcedRemovalDoc, Model};
use state::terms::names::Uuid;
use state::transitions::force_timer::{self, ForceTimer};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The timers of all entities that the janitor has visited, by model and entity. In memory only.
#[derive(Default)]
pub struct ForceTimers(Mutex<BTreeMap<(Uuid, Uuid), Timer>>);

/// The wait of one entity, since the janitor of this process first visited it.
struct Timer {
    /// The start of the wait, as stored. It identifies the wait.
    timer_started_ms: i64,
    /// The monotonic time of the first visit.
    monotonic_ms: u64,
    /// The time that had elapsed at the first visit.
    waited_ms: i64,
    /// The elapsed time of the last checkpoint.
    stored_ms: i64,
}

impl Timer {
    fn waited_ms(&self, monotonic_ms: u64) -> i64 {
        let passed_ms = i64::try_from(monotonic_ms.saturating_sub(self.monotonic_ms)).unwrap_or(i64::MAX);
        self.waited_ms.saturating_add(passed_ms)
    }
}

impl ForceTimers {
    /// Returns how long the entity has waited, in milliseconds. The first call starts the timer.
    pub fn count(&self, model: Model, id: Uuid, forced: &ForcedRemovalDoc, monotonic_ms: u64) -> i64 {
        let (timer_started_ms, waited_ms) = (force_timer::timer_started_ms(forced), forced.waited_ms);
        let first = || Timer { timer_started_ms, monotonic_ms, waited_ms, stored_ms: waited_ms };
        let mut all = self.all();
        let timer = all.entry((model.0, id)).or_insert_with(first);
        if timer.timer_started_ms != timer_started_ms {
            *timer = first();
        }
        timer.waited_ms(monotonic_ms)
    }

    /// Whether a checkpoint is due.
    pub fn needs_checkpoint(
        &self,
        model: Model,
        id: Uuid,
        forced: &ForcedRemovalDoc,
        waited_ms: i64,
    ) -> bool {
        let every_ms = force_timer::checkpoint_interval_ms(forced);
        self.all().get(&(model.0, id)).is_some_and(|timer| waited_ms - timer.stored_ms >= every_ms)
    }

    /// Records that these checkpoints have been stored.
    pub fn set_checkpoints(&self, model: Model, checkpoints: &[ForceTimer]) {
        let mut all = self.all();
        for checkpoint in checkpoints {
            if let Some(timer) = all.get_mut(&(model.0, checkpoint.id)) {
                timer.stored_ms = checkpoint.waited_ms;
            }
        }
    }

    /// Returns the remaining time of the wait, in milliseconds; negative if it is overdue.
    pub fn remaining_ms(&self, model: Model, id: Uuid, forced: &ForcedRemovalDoc, monotonic_ms: u64) -> i64 {
        let all = self.all();
        let timer = all
            .get(&(model.0, id))
            .filter(|timer| timer.timer_started_ms == force_timer::timer_started_ms(forced));
        let waited_ms = timer.map_or(forced.waited_ms, |timer| timer.waited_ms(monotonic_ms));
        forced.due_ms.saturating_sub(force_timer::timer_started_ms(forced)).saturating_sub(waited_ms)
    }

    /// Removes the timers for which `is_kept` is false.
    pub fn retain(&self, is_kept: impl Fn(Model, Uuid) -> bool) {
        self.all().retain(|(model, id), _| is_kept(Model(*model), *id));
    }

    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Uuid, Uuid), Timer>> {
        self.0.lock().expect("no holder panics")
    }
}
