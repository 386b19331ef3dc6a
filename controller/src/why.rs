//! `pintle why`: finds the entity that a user chose and explains what it waits for, which [`state::why`] decides.
//!
//! This module passes the facts that are not in documents: which agents are present, what they run, the commit times of
//! revisions, and how long forced removals still wait. Called by the handlers of `GetWhy` and of dry runs.

use crate::commit_times::CommitTimes;
use crate::force_timers::ForceTimers;
use crate::lookup::{find_leader, find_relation};
use crate::presence::PresenceSnapshot;
use api::{EntityChoice, Why};
use state::documents::draft::Reader;
use state::documents::prelude::Model;
use state::documents::refusal::Refusal;
use state::lifecycle::{application, machine, unit};
use state::status::relation::relation_of_number;
use state::why::facts::Facts;
use state::why::{self, Subject};

/// Everything needed to explain an entity: documents, presence and times at one moment.
pub(crate) struct WhySources<'a> {
    pub(crate) reader: &'a dyn Reader,
    pub(crate) model: Model,
    pub(crate) presence: &'a PresenceSnapshot,
    pub(crate) commit_times: &'a CommitTimes,
    pub(crate) force_timers: &'a ForceTimers,
    pub(crate) now_ms: i64,
}

impl WhySources<'_> {
    /// Calls a function with the facts that causes are computed from.
    pub(crate) fn with_facts<T>(&self, compute: impl FnOnce(&Facts<'_>) -> T) -> T {
        let WhySources { reader, model, presence, commit_times, force_timers, now_ms } = *self;
        compute(&Facts {
            reader,
            model,
            presence,
            commit_time_ms: &|revision| commit_times.time(revision),
            force_remaining_ms: &|id, forced| {
                force_timers.remaining_ms(model, id, forced, presence.monotonic_ms())
            },
            now_ms,
        })
    }
}

/// Explains an entity.
///
/// # Errors
/// If there is no such entity.
pub(crate) fn explain(sources: &WhySources<'_>, entity: &EntityChoice) -> Result<Why, Refusal> {
    let (reader, model) = (sources.reader, sources.model);
    let mut documents = reader;
    let subject = match entity {
        EntityChoice::Model => Subject::Model,
        EntityChoice::Unit(name) => Subject::Unit(unit::find(&mut documents, model, name)?),
        EntityChoice::LeaderOf(name) => Subject::Unit(find_leader(reader, model, name)?.0),
        EntityChoice::Application(name) => {
            Subject::Application(application::find(&mut documents, model, name)?, name)
        }
        EntityChoice::Machine(name) => Subject::Machine(machine::find(&mut documents, model, name)?, name),
        EntityChoice::Relation(choice) => Subject::Relation(find_relation(reader, model, choice)?),
        EntityChoice::Number(number) => Subject::MachineOrRelation {
            number: *number,
            machine: machine::find(&mut documents, model, &number.to_string()).ok(),
            relation: relation_of_number(reader, model, *number),
        },
    };
    sources.with_facts(|facts| why::explain(facts, subject))
}
