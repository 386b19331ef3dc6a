//! Whether a unit may end: it runs stop and remove, and becomes Dead, only after it is no longer Alive (spec A.7; I30).
//!
//! A unit that ends takes its subordinates with it, so a record that ends an Alive unit is refused as a whole. After a
//! restore, the unit may have been ended by a store generation that was lost; it is then Dying since its agent's first
//! attach ([`attach`](crate::agents::session::attach)). An agent that has not noticed the restore yet learns from this
//! refusal that it has to attach again:
//!
//! 1. A unit attaches, and the store is backed up.
//! 2. The unit is removed, and runs stop.
//! 3. The store is restored. The session is in the backup, so the record of stop is sent under it.
//!
//! Called by the commit of records and by resyncs.

use crate::documents::draft::Draft;
use crate::documents::effective_life;
use crate::documents::prelude::{Model, UnitDoc};
use crate::documents::refusal::Refusal;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::operation::Operation;
use crate::terms::refusal::record::RecordRefusal;
use crate::unit::record::Record;

/// Refuses a record that ends an Alive unit.
///
/// # Errors
/// If the record is of an operation that ends the unit, or publishes that the unit has ended, and the unit is Alive.
pub(crate) fn require_requested(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    doc: &UnitDoc,
    record: &Record,
) -> Result<(), Refusal> {
    let publishes_end =
        record.resync_local.as_ref().is_some_and(|published| published.is_tearing_down() || published.dead);
    // SetDead is refused by `unit::set_dead`, as a conditional write
    let runs_last_hook = record.operation.is_teardown() && record.operation != Operation::SetDead;
    let ends = runs_last_hook || publishes_end;
    if ends && effective_life::unit_life_of(draft, model, unit, doc) == Life::Alive {
        return Err(RecordRefusal::UnitAlive { unit: doc.name.clone(), sequence: record.sequence }.into());
    }
    Ok(())
}
