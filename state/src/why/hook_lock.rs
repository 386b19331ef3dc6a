//! The units that wait for a lock of their machine (spec/uniter.md B.5). Its holder is in `status::hook_lock`.
//!
//! Units with a pending run wait while another unit of the machine holds the lock that it takes. `why` shows the result.

use crate::documents::draft::{Reader, read};
use crate::documents::prelude::Model;
use crate::status::hook_lock::{holder, lock_of, units};
use crate::status::presence::PresenceReader;
use crate::status::running::running;
use crate::status::unit::next_act;
use crate::terms::activity::Activity;
use crate::terms::names::{UnitName, Uuid};
use crate::terms::run_lock::RunLock;
use crate::unit::resolve::Act;

/// Returns the units whose pending run waits for this lock, which another unit holds.
pub fn waiters(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    machine: Uuid,
    lock: &RunLock,
) -> Vec<UnitName> {
    if holder(reader, model, presence, machine, lock).is_none() {
        return Vec::new();
    }
    let is_waiting = |unit: &Uuid| {
        let waits = match next_act(reader, model, *unit, presence.boot(*unit)) {
            Some(Act::Start(run)) if run.operation.runs_charm() => {
                lock_of(reader, model, *unit, &Activity::from(&run.operation)) == *lock
            }
            Some(_) | None => false,
        };
        waits && running(reader, model, presence, *unit).is_none() && !presence.is_lost(*unit)
    };
    let waiting = units(reader, model, machine).into_iter().filter(is_waiting);
    waiting.filter_map(|unit| Some(read(reader, &model.unit(unit))?.name)).collect()
}
