//! The holder of a machine's hook lock (spec/uniter.md B.5).
//!
//! The lock itself is a file on the machine. The holder is inferred: on a machine whose hooks run one at a time, the unit
//! that runs a hook holds the lock. `status` and `why` show it for a unit with a pending hook.

use crate::documents::draft::{Reader, read, read_all};
use crate::documents::prelude::{Model, last_id};
use crate::lifecycle::model;
use crate::status::presence::{ExecutingRun, PresenceReader};
use crate::status::running::running;
use crate::terms::names::{UnitName, Uuid};

/// Returns the unit that holds the lock and its current run; none if no unit of the machine whose agent is not lost reports
/// a run, or if the model runs hooks in parallel.
pub fn holder(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    machine: Uuid,
) -> Option<(UnitName, ExecutingRun)> {
    units(reader, model, machine).into_iter().filter(|unit| !presence.is_lost(*unit)).find_map(|unit| {
        Some((read(reader, &model.unit(unit))?.name, running(reader, model, presence, unit)?))
    })
}

/// Returns the units of a machine that share its lock; none if the model runs hooks in parallel.
pub(crate) fn units(reader: &dyn Reader, model: Model, machine: Uuid) -> Vec<Uuid> {
    let config = read(reader, &model.model_config()).unwrap_or_default();
    if model::is_parallel(&config) {
        return Vec::new();
    }
    let units = read_all::<()>(reader, &model.machine_units(machine));
    units.iter().filter_map(|(key, ())| last_id(key)).collect()
}
