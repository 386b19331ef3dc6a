//! `pintle why`: what an entity waits for.
//!
//! The answer is computed on request by the functions that make the decisions (design 1, 5): the model's blockers, and
//! the unit agent's `next` applied to the replica of its state. This module adds what documents do not contain: which
//! agents are present, what they run, since when a duty is pending, and how long forced removals still wait.
//!
//! One file per kind of entity. Called by the handlers of `GetWhy` and of dry runs.

mod application;
mod machine;
mod model;
mod relation;
mod unit;

use crate::commit_times::CommitTimes;
use crate::force_timers::ForceTimers;
use crate::lookup::find_unit;
use crate::pending_since::PendingSince;
use crate::presence::PresenceSnapshot;
use crate::status;
use api::Why;
use state::documents::blockers::{EntityId, blockers};
use state::documents::draft::{Draft, Reader, read};
use state::documents::effective_life;
use state::documents::keys::{ForcedDoc, Model};
use state::documents::refusal::{Code, Refusal};
use state::lifecycle::{application as applications, model as models, relation as relations};
use state::operations::force;
use state::terms::cause::{Actor, Cause, Duty, Entity, retain_first};
use state::terms::force::ForcePhase;
use state::terms::life::Life;
use state::terms::names::Uuid;

/// Causes in one answer. Users act on the first ones; the answer states that there are more.
const CAUSES_MAX: usize = 20;

/// Everything needed to explain an entity: documents, presence and times at one moment.
pub(crate) struct Explainer<'a> {
    pub(crate) reader: &'a dyn Reader,
    pub(crate) model: Model,
    pub(crate) presence: &'a PresenceSnapshot,
    pub(crate) commit_times: &'a CommitTimes,
    pub(crate) force_timers: &'a ForceTimers,
    pub(crate) now_ms: i64,
}

impl Explainer<'_> {
    /// Explains the entity of this name: `web/0`, `web`, `3`, `machine 0`, `machine/0`, `relation 3`,
    /// `web:db db:server`. At most [`CAUSES_MAX`] causes.
    pub(crate) fn explain(&self, entity: &str) -> Result<Why, Refusal> {
        let mut why = self.entity(entity.trim())?;
        retain_first(&mut why.causes);
        why.more = why.causes.len() > CAUSES_MAX;
        why.causes.truncate(CAUSES_MAX);
        Ok(why)
    }

    fn entity(&self, text: &str) -> Result<Why, Refusal> {
        match text.split_once(' ') {
            Some(("unit", name)) => return self.unit(find_unit(self.reader, self.model, name)?.0),
            Some(("application", name)) => return self.application(name),
            Some(("machine", name)) => return self.machine(name),
            Some(("relation", number)) if number.bytes().all(|b| b.is_ascii_digit()) => {
                return self.relation_by_number(number);
            }
            Some(_) => {
                let ends = text.strip_prefix("relation ").unwrap_or(text);
                let (a, b) = ends.split_once(' ').ok_or_else(|| Refusal::not_found("relation", ends))?;
                let mut draft = Draft::new(self.reader); // read only: it is never committed
                return self.relation(relations::find(&mut draft, self.model, a, b)?);
            }
            None => {}
        }
        if let Some((kind, number)) = text.split_once('/') {
            // An application may be called "machine" or "relation": its units take precedence.
            let unit = find_unit(self.reader, self.model, text);
            return match (unit, kind) {
                (Ok((id, _)), _) => self.unit(id),
                (Err(_), "machine") => self.machine(number),
                (Err(_), "relation") => self.relation_by_number(number),
                (Err(refusal), _) => Err(refusal),
            };
        }
        if text == "model" && applications::find(&mut { self.reader }, self.model, text).is_err() {
            return self.whole_model();
        }
        if !text.bytes().all(|b| b.is_ascii_digit()) {
            return self.application(text);
        }
        // A number may name a machine and a relation: the one that waits for something takes precedence.
        match (self.machine(text), self.relation_by_number(text)) {
            (Ok(machine), Ok(relation)) if machine.causes.is_empty() => Ok(relation),
            (Ok(machine), _) => Ok(machine),
            (Err(_), Ok(relation)) => Ok(relation),
            (Err(_), Err(_)) => Err(Refusal::new(Code::NotFound, format!("no machine or relation {text}"))),
        }
    }

    fn relation_by_number(&self, number: &str) -> Result<Why, Refusal> {
        let id = number.parse().ok().and_then(|n| status::relation_of_number(self.reader, self.model, n));
        self.relation(id.ok_or_else(|| Refusal::not_found("relation", number))?)
    }

    /// Returns the blockers of the entity's removal, with the time of each.
    fn blockers(&self, entity: EntityId) -> Vec<Cause> {
        let all = blockers(&mut { self.reader }, self.model, entity).into_iter();
        all.map(|blocker| self.pending_since().with_since(blocker)).collect()
    }

    /// Returns the cause for a unit or machine whose agent was present and is silent now.
    pub(crate) fn silent_agent(&self, entity: EntityId) -> Option<Cause> {
        match entity {
            EntityId::Unit(id) => self.silent_unit_agent(id, &read(self.reader, &self.model.unit(id))?),
            EntityId::Machine(id) => self.silent_machine_agent(id),
            EntityId::Application(_) | EntityId::Relation(_) => None,
        }
    }

    /// Returns when the controller starts to act in place of the entity's agents, if it is removed by force.
    fn forced(&self, id: Uuid, entity: Entity) -> Option<Cause> {
        let forced = read(self.reader, &self.model.forced(id)).or_else(|| self.budget_timer(id))?;
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
    fn budget_timer(&self, id: Uuid) -> Option<ForcedDoc> {
        let config = read(self.reader, &self.model.model_config())?;
        let budget_ms = models::teardown_budget_ms(&config)?;
        let dying = effective_life::unit_life(&mut { self.reader }, self.model, id) == Some(Life::Dying);
        dying.then(|| force::budget_timer(budget_ms, self.now_ms))
    }

    pub(crate) fn pending_since(&self) -> PendingSince<'_> {
        let Explainer { reader, model, commit_times, now_ms, .. } = *self;
        PendingSince { reader, model, commit_times, now_ms }
    }
}

/// Removes duplicates. Returns whether there are more causes than an answer contains, so that the search can stop.
fn is_full(causes: &mut Vec<Cause>) -> bool {
    retain_first(causes);
    causes.len() > CAUSES_MAX
}
