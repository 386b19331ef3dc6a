//! What the explanations of all entities share: the documents, presence and times at one moment, and what holds for
//! every kind of entity.

use crate::commit_times::CommitTimes;
use crate::force_timers::ForceTimers;
use crate::pending_since::PendingSince;
use crate::presence::PresenceSnapshot;
use state::documents::blockers::{self, EntityId};
use state::documents::draft::{Reader, read};
use state::documents::effective_life;
use state::documents::prelude::{ForcedRemovalDoc, Model};
use state::lifecycle::model;
use state::operations::force;
use state::terms::cause::{Actor, Cause, Duty, Entity, deduplicate};
use state::terms::force::ForcePhase;
use state::terms::life::Life;
use state::terms::names::Uuid;

/// Causes in one answer. Users act on the first ones; the answer states that there are more.
pub(super) const CAUSES_MAX: usize = 20;

/// Everything needed to explain an entity: documents, presence and times at one moment.
pub(crate) struct Facts<'a> {
    pub(crate) reader: &'a dyn Reader,
    pub(crate) model: Model,
    pub(crate) presence: &'a PresenceSnapshot,
    pub(crate) commit_times: &'a CommitTimes,
    pub(crate) force_timers: &'a ForceTimers,
    pub(crate) now_ms: i64,
}

impl Facts<'_> {
    /// Returns the blockers of the entity's removal, with the time of each.
    pub(super) fn blockers(&self, entity: EntityId) -> Vec<Cause> {
        let all = blockers::blockers(&mut { self.reader }, self.model, entity).into_iter();
        all.map(|blocker| self.pending_since().with_since(blocker)).collect()
    }

    /// Returns when the controller starts to act in place of the entity's agents, if it is removed by force.
    pub(super) fn forced_removal_cause(&self, id: Uuid, entity: Entity) -> Option<Cause> {
        let forced = read(self.reader, &self.model.forced_removal(id)).or_else(|| self.budget_timer(id))?;
        let remaining_ms =
            self.force_timers.remaining_ms((self.model, id), &forced, self.presence.monotonic_ms());
        let has_started = forced.no_wait || remaining_ms <= 0;
        let phase = match has_started {
            true => ForcePhase::Acting,
            false => ForcePhase::Waiting { left_ms: remaining_ms },
        };
        let duty = Duty::ForceRemoval { by: forced.by, phase };
        Some(Cause::new(entity, duty, Actor::Janitor).since(forced.since_ms))
    }

    /// Returns the force timer of a Dying unit that the janitor has not visited yet.
    fn budget_timer(&self, id: Uuid) -> Option<ForcedRemovalDoc> {
        let config = read(self.reader, &self.model.model_config())?;
        let budget_ms = model::teardown_budget_ms(&config)?;
        let dying = effective_life::unit_life(&mut { self.reader }, self.model, id) == Some(Life::Dying);
        dying.then(|| force::budget_timer(budget_ms, self.now_ms))
    }

    pub(crate) fn pending_since(&self) -> PendingSince<'_> {
        let Facts { reader, model, commit_times, now_ms, .. } = *self;
        PendingSince { reader, model, commit_times, now_ms }
    }
}

/// Removes duplicates. Returns whether there are more causes than an answer contains, so that the search can stop.
pub(super) fn deduplicate_and_check_full(causes: &mut Vec<Cause>) -> bool {
    deduplicate(causes);
    causes.len() > CAUSES_MAX
}
