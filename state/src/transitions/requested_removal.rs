//! The removal of units, applications and machines with the options that concern more than force (`--destroy-storage`,
//! `--keep-instance`), each as one transition. Relations: `force`; storage: `lifecycle::storage`; models: `destruction`.
//! Also decides whether the janitor must run at once after a removal, and what storage stays.
//!
//! An option is applied before the removal itself: an entity without an agent is removed at once, and with it what the
//! option would concern. If the removal is refused, nothing of the transition is committed. Called by the handlers of
//! users.

use crate::documents::draft::{Draft, Reader, read};
use crate::documents::prelude::Model;
use crate::documents::refusal::Refusal;
use crate::lifecycle::{fake_application, machine, model, storage};
use crate::terms::force::Force;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::storage::StorageId;
use crate::transitions::force;

/// The options of the removal of a unit or an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovalOptions {
    /// Whether it is removed by force.
    pub force: Force,
    /// Whether the storage is removed with it (`--destroy-storage`).
    pub destroy_storage: bool,
}

/// The user's `remove-unit`.
///
/// # Errors
/// As [`force::destroy_unit`].
pub fn remove_unit(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    options: RemovalOptions,
    now_ms: i64,
) -> Result<(), Refusal> {
    if options.destroy_storage {
        storage::destroy_with_unit(draft, model, id, now_ms);
    }
    force::destroy_unit(draft, model, id, options.force, now_ms).map(drop)
}

/// The user's `remove-application`.
///
/// # Errors
/// As [`force::destroy_application`].
pub fn remove_application(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    options: RemovalOptions,
    now_ms: i64,
) -> Result<(), Refusal> {
    if options.destroy_storage {
        storage::destroy_with_application(draft, model, id);
    }
    force::destroy_application(draft, model, id, options.force, now_ms).map(drop)
}

/// The options of the removal of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineRemovalOptions {
    /// Whether it is removed by force.
    pub force: Force,
    /// Whether its instance is kept and belongs to the user from then on (`--keep-instance`).
    pub keep_instance: bool,
}

/// The user's `remove-machine`.
///
/// # Errors
/// As `machine::keep_instance` and [`force::destroy_machine`].
pub fn remove_machine(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    options: MachineRemovalOptions,
    now_ms: i64,
) -> Result<(), Refusal> {
    if options.keep_instance {
        machine::keep_instance(draft, model, id)?;
    }
    force::destroy_machine(draft, model, id, options.force, now_ms)
}

/// Whether the janitor has to run now after a removal: it is forced without waiting, the model has a teardown budget,
/// whose timer starts now, or a fake unit has to leave a relation or is to be removed.
pub fn needs_janitor(reader: &dyn Reader, model: Model, force: Force) -> bool {
    let config = read(reader, &model.model_config()).unwrap_or_default();
    force == Force::AtOnce
        || model::teardown_budget_ms(&config).is_some()
        || !fake_application::pending_teardowns(reader, model).is_empty()
}

/// The storage that a unit has used and that stays with its content when the unit is removed without it, and the name of its machine; none if there
/// is none.
pub fn storage_kept_after(reader: &dyn Reader, model: Model, unit: Uuid) -> Option<(Vec<StorageId>, String)> {
    let doc = read(reader, &model.unit(unit))?;
    let of_unit = read(reader, &model.unit_storage(unit)).unwrap_or_default().into_iter();
    let is_kept = |id: &StorageId| {
        read(reader, &model.storage(id)).is_some_and(|storage| {
            storage.life == Life::Alive && storage.used && storage.pool.is_persistent()
        })
    };
    let kept: Vec<StorageId> = of_unit.filter(is_kept).collect();
    let machine = read(reader, &model.machine(doc.machine))?;
    (!kept.is_empty()).then_some((kept, machine.name))
}
