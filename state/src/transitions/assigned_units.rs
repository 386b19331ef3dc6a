//! The requests of a machine agent about units: permitted for units that are assigned to its machine, and for no others
//! (S15).
//!
//! For a unit of another machine every answer is the same as for one that does not exist. The assignment is read in the
//! transaction that depends on it. Called by the handlers of machine agents.

use crate::documents::document_reads::Documents;
use crate::documents::draft::{Draft, Reader, read_all};
use crate::documents::prelude::{Model, TokenHolder, last_id};
use crate::documents::refusal::Refusal;
use crate::documents::{existence, token};
use crate::lifecycle::unit;
use crate::terms::assignment::Existence;
use crate::terms::names::Uuid;
use crate::terms::refusal::RefusalReason;

/// Whether the unit exists and is assigned to this machine.
pub fn is_assigned(documents: &mut impl Documents, model: Model, machine: Uuid, unit: Uuid) -> bool {
    documents.document(&model.unit(unit)).is_some_and(|doc| doc.machine == machine)
}

/// The units of a machine, which are at most [`UNITS_MAX`](crate::lifecycle::machine::UNITS_MAX).
pub fn ids(reader: &dyn Reader, model: Model, machine: Uuid) -> Vec<Uuid> {
    let units = read_all::<()>(reader, &model.machine_units(machine));
    units.iter().filter_map(|(key, ())| last_id(key)).collect()
}

/// The existence of a unit from the point of view of a machine.
pub fn existence(documents: &mut impl Documents, model: Model, machine: Uuid, unit: Uuid) -> Existence {
    let existence = existence::unit(documents, model, unit);
    let is_here = match existence {
        Existence::Known(_) => is_assigned(documents, model, machine, unit),
        Existence::Tombstone => was_assigned(documents, model, machine, unit),
        Existence::Unknown => true,
    };
    if is_here { existence } else { Existence::Unknown }
}

/// Whether the unit was removed, and was assigned to this machine.
fn was_assigned(documents: &mut impl Documents, model: Model, machine: Uuid, unit: Uuid) -> bool {
    documents.document(&model.tombstone(unit)).is_some_and(|tombstone| tombstone.machine == Some(machine))
}

/// Gives the agent of an assigned unit the token with the hash `sha256`. Repeating it changes nothing.
///
/// # Errors
/// If the unit is not assigned to the machine.
pub fn set_token(
    draft: &mut Draft,
    model: Model,
    machine: Uuid,
    unit: Uuid,
    sha256: &str,
) -> Result<(), Refusal> {
    if !is_assigned(draft, model, machine, unit) {
        return Err(RefusalReason::NotAuthorised.into());
    }
    token::set(draft, unit, &TokenHolder::Unit { model, unit }, sha256)
}

/// Removes an assigned unit that is Dead, or whose agent was never started ([`unit::remove`]). Repeating it changes
/// nothing.
///
/// # Errors
/// If the unit is not assigned to the machine and was not removed before; otherwise as [`unit::remove`].
pub fn remove(
    draft: &mut Draft,
    model: Model,
    machine: Uuid,
    unit: Uuid,
    now_ms: i64,
) -> Result<(), Refusal> {
    let is_removed = draft.get(&model.unit(unit)).is_none() && was_assigned(draft, model, machine, unit);
    if !is_removed && !is_assigned(draft, model, machine, unit) {
        return Err(RefusalReason::NotAuthorised.into());
    }
    unit::remove(draft, model, unit, now_ms)
}
