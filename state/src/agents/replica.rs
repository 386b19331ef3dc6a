//! The controller's replica of a unit's state: which record may be applied to it next, and how it is stored
//! (design 4; I9).
//!
//! The replica is the fold of the records that were applied. A record that is not the next one, or that no correct
//! agent sends, is refused before anything is written. The bags of the unit are documents of their own, so that the
//! replica is stored without them. Called by the commit of records, by resyncs and by sessions.

use crate::agents::record_validation::{Valid, validate};
use crate::documents::draft::Draft;
use crate::documents::prelude::{Model, ReplicaDoc, UnitDoc};
use crate::documents::refusal::Refusal;
use crate::terms::names::Uuid;
use crate::terms::operation::Operation;
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::record::RecordRefusal;
use crate::terms::settings::BagChange;
use crate::unit::local::Local;
use crate::unit::record::{CommitOutcome, Record};

/// The replica of a unit, empty before its first record.
pub(crate) fn replica_or_empty(draft: &mut Draft, model: Model, unit: Uuid, doc: &UnitDoc) -> ReplicaDoc {
    draft.get(&model.replica(unit)).unwrap_or_else(|| ReplicaDoc {
        outcome: CommitOutcome::default(),
        assigned_archive: None,
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

/// Removes the bags from a replica before it is stored: they are documents of their own, and several large ones
/// would exceed a transaction. [`restore_bags`] puts them back. The application settings that a leader wrote are
/// removed, too; they are in the view that its agent receives.
pub(crate) fn strip_own_bags(local: &mut Local) {
    for relation in local.relations.values_mut() {
        relation.bag.clear();
        relation.pending_application_writes = None;
    }
}

/// Puts the bags back into a replica for an attaching agent; the inverse of [`strip_own_bags`].
///
/// The bags may be read untracked, because this draft has read the replica, and every transaction that writes a
/// bag of the unit writes the replica, too. The exception is a batch of an unfinished resync, whose last batch
/// writes it again. Bags of relations that are removed are cleared.
pub(crate) fn restore_bags(draft: &Draft, model: Model, unit: Uuid, local: &mut Local) {
    for relation in local.relations.values_mut() {
        let bag = draft.get_untracked(&model.bag(relation.uuid, unit));
        relation.lost_bag_changes = bag.is_none().then(BagChange::new);
        relation.bag = bag.map(|bag| bag.values).unwrap_or_default();
    }
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
