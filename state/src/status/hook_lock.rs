//! The locks of a machine under which hooks and actions run, and their holders (spec/uniter.md B.5).
//!
//! A lock itself is a file on the machine. The holder is inferred: of the units of a machine that run something, the one
//! whose run takes the lock holds it. `status` and `why` show it for a unit with a pending run.

use crate::documents::application::charm_of;
use crate::documents::draft::{Reader, read, read_all};
use crate::documents::prelude::{Model, last_id};
use crate::lifecycle::model;
use crate::status::presence::{ExecutingRun, PresenceReader};
use crate::status::running::running;
use crate::terms::activity::Activity;
use crate::terms::names::{UnitName, Uuid};
use crate::terms::run_lock::RunLock;

/// Returns the unit of the machine that holds a lock, and its current run; none if no unit whose agent is not lost reports a
/// run that takes it. No other unit waits for the lock of a unit.
pub fn holder(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    machine: Uuid,
    lock: &RunLock,
) -> Option<(UnitName, ExecutingRun)> {
    if *lock == RunLock::Unit {
        return None;
    }
    let mut all = running_units(reader, model, presence, machine);
    let (_, name, run) = all.find(|(unit, _, run)| lock_of(reader, model, *unit, &run.activity) == *lock)?;
    Some((name, run))
}

/// Returns the units of a machine that run something, unless their agents are lost, with their runs.
pub(crate) fn running_units(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    machine: Uuid,
) -> impl Iterator<Item = (Uuid, UnitName, ExecutingRun)> {
    let present = units(reader, model, machine).into_iter().filter(move |unit| !presence.is_lost(*unit));
    present.filter_map(move |unit| {
        let run = running(reader, model, presence, unit)?;
        Some((unit, read(reader, &model.unit(unit))?.name, run))
    })
}

/// Returns the lock under which a unit does this.
pub(crate) fn lock_of(reader: &dyn Reader, model: Model, unit: Uuid, activity: &Activity) -> RunLock {
    let config = read(reader, &model.model_config()).unwrap_or_default();
    let parallel = model::is_parallel(&config);
    let declared = || {
        let Activity::Action { name, .. } = activity else { return None };
        let application = read(reader, &model.unit(unit))?.application;
        let (_, charm) = charm_of(&mut { reader }, model, application)?;
        charm.actions.get(name).map(|action| RunLock::of_action(action, parallel))
    };
    declared().unwrap_or(RunLock::of_hook(parallel))
}

/// Returns the units of a machine.
pub(crate) fn units(reader: &dyn Reader, model: Model, machine: Uuid) -> Vec<Uuid> {
    let units = read_all::<()>(reader, &model.machine_units(machine));
    units.iter().filter_map(|(key, ())| last_id(key)).collect()
}
