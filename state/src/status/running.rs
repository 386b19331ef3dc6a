//! The run of a unit that its agent has reported and not recorded yet.
//!
//! What an agent executes arrives apart from its records, and with several controllers through others: of the end of a run, a
//! controller that has died may have told the documents only. The documents decide. Called by statuses, `why` and dry runs.

use crate::documents::draft::{Reader, read};
use crate::documents::prelude::Model;
use crate::status::presence::{ExecutingRun, PresenceReader};
use crate::terms::names::Uuid;

/// Returns the run that a unit executes; none if its record was applied.
pub fn running(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    unit: Uuid,
) -> Option<ExecutingRun> {
    let executing = presence.executing(unit)?;
    let replica = read(reader, &model.replica(unit));
    let has_ended = replica.is_some_and(|replica| replica.local.has_recorded(executing.run));
    (!has_ended).then_some(executing)
}
