//! How long each entity that is removed by force has waited (I43).
//!
//! The janitor counts it, and `why` tells what is left. Counted is only time that passes while a controller runs:
//!
//! 1. A unit is Dying, on a budget of a day; the controller ends, its host's clock is wrong by a year, and is set.
//! 2. The controller starts. By the wall clock the day is long over.
//! 3. The unit's agent, which could say nothing meanwhile, comes back to find that the controller acts in its place.
//!
//! So the wall clock is not asked. What an earlier process saw pass is written down, of a minute at each sweep, of a long
//! wait an eighth at a time; the rest of it is waited for again.

use state::documents::keys::{ForcedDoc, Model};
use state::operations::force::{self, ForceTimer};
use state::terms::names::Uuid;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The timers of all entities that a janitor has looked at, by model and entity. In memory only.
#[derive(Default)]
pub struct ForceTimers(Mutex<BTreeMap<(Uuid, Uuid), Timer>>);

/// One entity's wait, since a janitor of this process first saw it.
struct Timer {
    /// When the wait had begun.
    timer_started_ms: i64,
    monotonic_ms: u64,
    /// How much of it had passed then.
    waited_ms: i64,
    /// How much of it is stored.
    stored_ms: i64,
}

impl Timer {
    fn waited_ms(&self, monotonic_ms: u64) -> i64 {
        let passed_ms = i64::try_from(monotonic_ms.saturating_sub(self.monotonic_ms)).unwrap_or(i64::MAX);
        self.waited_ms.saturating_add(passed_ms)
    }
}

impl ForceTimers {
    /// How long the entity has waited, for the janitor: it counts from here on.
    pub fn count(&self, (model, id): (Model, Uuid), forced: &ForcedDoc, monotonic_ms: u64) -> i64 {
        let (timer_started_ms, waited_ms) = (force::timer_started_ms(forced), forced.waited_ms);
        let first = || Timer { timer_started_ms, monotonic_ms, waited_ms, stored_ms: waited_ms };
        let mut all = self.all();
        let seen = all.entry((model.0, id)).or_insert_with(first);
        if seen.timer_started_ms != timer_started_ms {
            *seen = first();
        }
        seen.waited_ms(monotonic_ms)
    }

    /// Whether that is to be stored now.
    pub fn is_to_be_stored(&self, (model, id): (Model, Uuid), forced: &ForcedDoc, waited_ms: i64) -> bool {
        let every_ms = force::checkpoint_interval_ms(forced);
        self.all().get(&(model.0, id)).is_some_and(|seen| waited_ms - seen.stored_ms >= every_ms)
    }

    /// These are stored.
    pub fn stored(&self, model: Model, waits: &[ForceTimer]) {
        let mut all = self.all();
        for wait in waits {
            if let Some(seen) = all.get_mut(&(model.0, wait.id)) {
                seen.stored_ms = wait.waited_ms;
            }
        }
    }

    /// How much of the wait is left.
    pub fn remaining_ms(&self, (model, id): (Model, Uuid), forced: &ForcedDoc, monotonic_ms: u64) -> i64 {
        let all = self.all();
        let seen =
            all.get(&(model.0, id)).filter(|seen| seen.timer_started_ms == force::timer_started_ms(forced));
        let waited_ms = seen.map_or(forced.waited_ms, |seen| seen.waited_ms(monotonic_ms));
        forced.due_ms.saturating_sub(force::timer_started_ms(forced)).saturating_sub(waited_ms)
    }

    pub fn retain(&self, keeps: impl Fn(Model, Uuid) -> bool) {
        self.all().retain(|(model, id), _| keeps(Model(*model), *id));
    }

    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Uuid, Uuid), Timer>> {
        self.0.lock().expect("no holder panics")
    }
}
