//! What a unit's agent would do next if all went well: the agent's own decision, asked as if its hook had just ended
//! and everybody answered at once.

use crate::terms::cause::Cause;
use crate::unit::local::Local;
use crate::unit::operation::Operation;
use crate::unit::record::{Outcome, Record};
use crate::unit::resolve::{Act, Now, next};
use crate::unit::snapshot::Snapshot;

/// One step ahead.
#[derive(Clone, Debug, PartialEq)]
pub enum SimulatedStep {
    /// It does this, and succeeds.
    Performs(Box<Record>),
    /// It waits; what it waits for.
    Waits(Vec<Cause>),
    /// It is finished.
    Finished,
}

/// The next thing of a unit with this memory and view. `local` takes what is only noted.
pub fn ahead(local: &mut Local, view: &Snapshot) -> SimulatedStep {
    loop {
        // a hook that runs now ends, and its run is counted then
        let now = Now::hypothetical();
        match next(local, Some(view), &now).act {
            Act::Start(run) => return does(local, run.operation),
            Act::RecordOutcome(record) => return SimulatedStep::Performs(Box::new(record)),
            Act::PersistEvent(event) => local.apply(&event),
            Act::Reattach(run) => return does(local, run.operation),
            Act::Wait(wait) => return SimulatedStep::Waits(wait.causes),
            Act::Finish => return SimulatedStep::Finished,
            Act::AcquireHookLock | Act::FetchBag(_) | Act::Reboot => return SimulatedStep::Waits(Vec::new()),
        }
    }
}

fn does(local: &Local, operation: Operation) -> SimulatedStep {
    SimulatedStep::Performs(Box::new(local.record(operation, Outcome::Ok, 0)))
}
