//! Who holds a machine's hook lock, and who waits for it (spec/uniter.md B.5): of a machine whose hooks run one at a
//! time, the unit that runs one holds it, and those that have one to run wait.

use crate::presence::{ExecutingRun, PresenceSnapshot};
use crate::status::next_act;
use state::documents::draft::{Reader, read, read_all};
use state::documents::keys::{Model, last_id};
use state::terms::names::{UnitName, Uuid};
use state::unit::resolve::Act;

/// The unit that holds it, and what it runs; nobody where hooks run side by side.
pub fn holder<'a>(
    reader: &dyn Reader,
    model: Model,
    presence: &'a PresenceSnapshot,
    machine: Uuid,
) -> Option<(UnitName, &'a ExecutingRun)> {
    units(reader, model, machine)
        .into_iter()
        .filter(|unit| !presence.is_lost(*unit))
        .find_map(|unit| Some((read(reader, &model.unit(unit))?.name, presence.executing(unit)?)))
}

/// The units that have a hook to run and do not run it, while another does.
pub fn waiters(
    reader: &dyn Reader,
    model: Model,
    presence: &PresenceSnapshot,
    machine: Uuid,
) -> Vec<UnitName> {
    if holder(reader, model, presence, machine).is_none() {
        return Vec::new();
    }
    let waits = |unit: &Uuid| {
        let hook = match next_act(reader, model, *unit) {
            Some(Act::Start(run)) => run.operation.runs_charm(),
            Some(_) | None => false,
        };
        hook && presence.executing(*unit).is_none() && !presence.is_lost(*unit)
    };
    let waiting = units(reader, model, machine).into_iter().filter(waits);
    waiting.filter_map(|unit| Some(read(reader, &model.unit(unit))?.name)).collect()
}

/// The units of a machine; none where they do not share a lock.
fn units(reader: &dyn Reader, model: Model, machine: Uuid) -> Vec<Uuid> {
    let config = read(reader, &model.model_config()).unwrap_or_default();
    if config.get("parallel").and_then(serde_json::Value::as_bool) == Some(true) {
        return Vec::new();
    }
    let units = read_all::<()>(reader, &model.machine_units(machine));
    units.iter().filter_map(|(key, ())| last_id(key)).collect()
}
