//! The interface of a check: what it observes during a schedule, and the final state that it examines.
//!
//! A check only reads: it must not change the schedule, so that a seed means the same with any set of checks. Each
//! observation appends the violations that it finds to `found`; `system` decides which of them ends the schedule.
//!
//! Implemented by one file of `checks` for each property; called by `Checks` for `system/observation.rs` (facts and
//! commits), `system/obstructed.rs` (explanations) and `system/phases.rs` (the final state).

use super::running_agent::RunningAgent;
use super::stuck_system::StuckSystem;
use crate::sim::fact::Fact;
use controller::store::{CommitChanges, DocumentChange};
use state::documents::draft::{Reader, Revision, Transaction};
use state::documents::prelude::{KeyParts, Kind, Model};
use state::terms::names::Uuid;
use state::unit::local::Local;
use state::unit::record::Record;

/// One commit and the documents after it.
pub struct Commit<'a> {
    pub model: Model,
    pub changes: &'a CommitChanges,
    pub reader: &'a dyn Reader,
    /// Whether checks examine all documents after this commit.
    pub is_full_check: bool,
    /// Virtual time; jumps of the wall clock do not affect it.
    pub now_ms: u64,
    /// The wall clock of the controller.
    pub wall_ms: i64,
}

impl Commit<'_> {
    /// The changed documents of one kind.
    pub fn changes_of(&self, kind: Kind) -> impl Iterator<Item = &DocumentChange> {
        self.changes.entries.iter().filter(move |change| kind_of(&change.key) == kind)
    }
}

/// The system after the last calm phase.
///
/// It need not be at rest: after the bounded number of polls or of rounds, it may still be changing, or units may have
/// failed. The check `converged` reports that; checks of what rest implies examine the state only if `is_at_rest`.
pub struct FinalState<'a> {
    pub model: Model,
    pub reader: &'a dyn Reader,
    /// Running agents of units that the store contains.
    pub agents: Vec<RunningAgent>,
    /// Whether nothing changes any more and no unit is in error.
    pub is_at_rest: bool,
    /// The wall clock of the controller.
    pub wall_ms: i64,
    /// The committed transactions, if the profile keeps them.
    pub recorded: &'a [(Revision, Transaction)],
}

/// One property of the system, with the state that is needed to check it. Violations are appended to `found`.
pub trait Check {
    fn name(&self) -> &'static str;
    /// Virtual time; called before the events of that time.
    fn advance_time(&mut self, _now_ms: u64) {}
    fn observe(&mut self, _fact: &Fact, _found: &mut Vec<String>) {}
    /// This record counts as done; called in the order of the journal.
    fn record_done(&mut self, _folder: Uuid, _record: &Record, _found: &mut Vec<String>) {}
    /// The journal of a folder starts, or starts again, with this state.
    fn journal_started(&mut self, _folder: Uuid, _stored: &Local) {}
    fn folder_copied(&mut self, _folder: Uuid, _copy: Uuid) {}
    /// The store was restored from a backup.
    fn store_restored(&mut self, _reader: &dyn Reader, _model: Model) {}
    fn commit(&mut self, _commit: &Commit<'_>, _found: &mut Vec<String>) {}
    /// The system rests, and `why` was requested for every entity.
    fn check_explanations(&mut self, _stuck: &StuckSystem<'_>, _found: &mut Vec<String>) {}
    /// The final state, at rest or not; called once, before everything is restarted.
    fn check_final_state(&mut self, _end: &FinalState<'_>, _found: &mut Vec<String>) {}
}

/// The parts of a document's key.
pub fn parts(key: &str) -> KeyParts<'_> {
    KeyParts::of(key).expect("keys are what was written")
}

/// The kind of document that a key names.
pub fn kind_of(key: &str) -> Kind {
    parts(key).kind
}

/// Whether a key names the life of an entity.
pub fn is_life(key: &str) -> bool {
    use Kind::{ApplicationLife, MachineLife, ModelLife, RelationLife, UnitLife};
    matches!(kind_of(key), ApplicationLife | MachineLife | ModelLife | RelationLife | UnitLife)
}
