//! The controller's replica of a unit's state: which record may be applied to it next, and how it is stored
//! (design 4; I9).
//!
//! The replica is the fold of the records that were applied. A record that is not the next one, or that no correct
//! agent sends, is refused before anything is written. The bags of the unit are documents of their own, so that the
//! replica is stored without them. Called by the commit of records and by resyncs.

use crate::agents::record_validation::{Valid, validate};
use crate::documents::draft::Draft;
use crate::documents::prelude::{Model, ReplicaDoc, UnitDoc};
use crate::documents::refusal::Refusal;
use crate::terms::names::Uuid;
use crate::terms::operation::Operation;
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::record::RecordRefusal;
use crate::unit::local::Local;
use crate::unit::record::{CommitOutcome, Record};

/// The replica of a unit, empty before its first record.
pub(crate) fn replica_or_empty(draft: &mut Draft, model: Model, unit: Uuid, doc: &UnitDoc) -> ReplicaDoc {
    draft.get(&model.replica(unit)).unwrap_or_else(|| ReplicaDoc {
        outcome: CommitOutcome::default(),
        assigned_archive: None,
        resync_ms: None,
        local: Local::new(unit, doc.name.clone()),
    })
}

/// Whether the record is the next one to apply; false if it was applied before.
pub(crate) fn is_next(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    record: &Valid<Record>,
) -> Result<bool, Refusal> {
    let doc = draft.get(&model.unit(unit)).ok_or_else(|| Refusal::not_found(EntityKind::Unit, unit))?;
    let stored = replica_or_empty(draft, model, unit, &doc);
    if stored.is_last(record) {
        return Ok(false);
    }
    check_order(&stored, record)?;
    validate(unit, &doc, &stored, record)?;
    Ok(true)
}

/// Refuses a record that does not follow the last one that was applied.
pub(crate) fn check_order(stored: &ReplicaDoc, record: &Record) -> Result<(), Refusal> {
    let applied = &stored.local;
    let (sequence, expected) = (record.sequence, applied.sequence + 1);
    if sequence < expected {
        return Err(RecordRefusal::OtherContent { sequence }.into());
    }
    // 1. A unit's folder is copied, and both agents continue while the controller is away.
    // 2. The store is restored.
    // 3. One agent attaches and sends its records; then the other attaches, and its unsent records have the
    //    next sequence numbers.
    if sequence == expected && !record.is_successor_of(&applied.digest) {
        return Err(RecordRefusal::NotSuccessor { sequence, applied: applied.sequence }.into());
    }
    // An agent that resynchronises continues after the records that a restored store has lost.
    if sequence > expected && record.operation != Operation::Resync {
        return Err(RecordRefusal::RecordsMissing { sequence, expected }.into());
    }
    Ok(())
}
