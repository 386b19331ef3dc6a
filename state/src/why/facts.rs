//! The facts from which all entities are explained: documents, presence and times at one moment; and the causes that
//! every kind of entity can have.

use crate::documents::blockers::{self, EntityId};
use crate::documents::draft::{Reader, Revision, read};
use crate::documents::effective_life;
use crate::documents::prelude::{ForcedRemovalDoc, Model};
use crate::lifecycle::model;
use crate::status::presence::PresenceReader;
use crate::terms::cause::{Actor, Cause, Duty, Entity, deduplicate};
use crate::terms::force::ForcePhase;
use crate::terms::health::MachineAgentExits;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::transitions::force_timer;
use crate::why::pending_since::PendingSince;

/// Causes in one answer. Users act on the first ones; the answer states that there are more.
pub(crate) const CAUSES_MAX: usize = 20;

/// Everything needed to explain an entity: documents, presence and times at one moment.
pub struct Facts<'a> {
    /// The documents.
    pub reader: &'a dyn Reader,
    /// The model of all entities.
    pub model: Model,
    /// The presence of the agents.
    pub presence: &'a dyn CausePresence,
    /// When a revision was committed, by the wall clock; none if that is not recorded yet.
    pub commit_time_ms: &'a dyn Fn(Revision) -> Option<i64>,
    /// How long the forced removal of an entity still waits; negative if it is overdue.
    pub force_remaining_ms: &'a dyn Fn(Uuid, &ForcedRemovalDoc) -> i64,
    /// The wall clock.
    pub now_ms: i64,
}

/// The facts about agents on which causes depend, in addition to those on which statuses depend.
pub trait CausePresence: PresenceReader {
    /// The removed units of which a folder is left on a machine, and what prevents its deletion.
    fn obstructed_recalls(&self, machine: Uuid) -> Vec<(Uuid, String)>;
    /// How the process of a machine agent has ended, again and again, since its last request; none if that is not known.
    fn machine_agent_exits(&self, machine: Uuid) -> Option<MachineAgentExits>;
    /// The time of the presence, by the wall clock.
    fn wall_ms(&self) -> i64;
}

impl Facts<'_> {
    /// Returns the blockers of the entity's removal, with the time of each.
    pub(crate) fn blockers(&self, entity: EntityId) -> Vec<Cause> {
        let all = blockers::blockers(&mut { self.reader }, self.model, entity).into_iter();
        all.map(|blocker| self.pending_since().with_since(blocker)).collect()
    }

    /// Returns the cause for an entity that is removed by force: when the controller starts to act in place of its
    /// agents.
    pub(crate) fn forced_removal_cause(&self, id: Uuid, entity: Entity) -> Option<Cause> {
        let forced = read(self.reader, &self.model.forced_removal(id)).or_else(|| self.budget_timer(id))?;
        let remaining_ms = (self.force_remaining_ms)(id, &forced);
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
        dying.then(|| force_timer::budget_timer(budget_ms, self.now_ms))
    }

    /// Returns what computes since when an operation or a blocker is pending, from the same facts.
    pub fn pending_since(&self) -> PendingSince<'_> {
        let Facts { reader, model, commit_time_ms, now_ms, .. } = *self;
        PendingSince { reader, model, commit_time_ms, now_ms }
    }
}

/// Removes duplicates. Returns whether there are more causes than an answer contains, so that the search can stop.
pub(crate) fn deduplicate_and_check_full(causes: &mut Vec<Cause>) -> bool {
    deduplicate(causes);
    causes.len() > CAUSES_MAX
}
