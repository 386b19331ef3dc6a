//! The units that wait for a machine's hook lock (spec/uniter.md B.5). Its holder is in `status::hook_lock`.
//!
//! Units with a pending hook wait while another unit of the machine runs one. `why` shows the result.

use crate::documents::draft::{Reader, read};
use crate::documents::prelude::Model;
use crate::status::hook_lock::{holder, units};
use crate::status::presence::PresenceReader;
use crate::status::running::running;
use crate::status::unit::next_act;
use crate::terms::names::{UnitName, Uuid};
use crate::unit::resolve::Act;

/// Returns the units whose pending hook waits for another unit's run.
pub fn waiters(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    machine: Uuid,
) -> Vec<UnitName> {
    if holder(reader, model, presence, machine).is_none() {
        return Vec::new();
    }
    let is_waiting = |unit: &Uuid| {
        let hook = match next_act(reader, model, *unit, presence.boot(*unit)) {
            Some(Act::Start(run)) => run.operation.runs_charm(),
            Some(_) | None => false,
        };
        hook && running(reader, model, presence, *unit).is_none() && !presence.is_lost(*unit)
    };
    let waiting = units(reader, model, machine).into_iter().filter(is_waiting);
    waiting.filter_map(|unit| Some(read(reader, &model.unit(unit))?.name)).collect()
}
