//! The next operation of a unit agent, simulated for a dry run of a removal.
//!
//! The simulation calls the agent's own decision ([`next`]) and assumes that every hook succeeds and that the
//! controller replies at once. It changes only the `Local` that the caller passes in, which is a copy.

use crate::terms::cause::Cause;
use crate::terms::operation::Operation;
use crate::unit::local::{Event, Local};
use crate::unit::record::{Outcome, Record};
use crate::unit::resolve::{Act, Now, next};
use crate::unit::snapshot::Snapshot;

/// The result of simulating one step of a unit agent.
#[derive(Clone, Debug, PartialEq)]
pub enum SimulatedStep {
    /// The agent performs an operation successfully; this is its record.
    Performs(Box<Record>),
    /// The agent waits for these causes. The list is empty if nothing is left to do, or if the agent waits only for
    /// itself.
    Waits(Vec<Cause>),
    /// The unit is Dead or removed, and its agent has stopped.
    Finished,
}

/// Returns the next step of a unit with this stored state and view. Events that the agent only persists are applied
/// to `local`; applying the returned record is up to the caller.
pub fn simulate_next(local: &mut Local, view: &Snapshot) -> SimulatedStep {
    loop {
        // a hook that runs now succeeds; its run is counted when the caller applies the record
        let now = Now::hypothetical();
        match next(local, Some(view), &now).act {
            Act::Start(run) => return performed(local, run.operation),
            Act::RecordOutcome(record) => return SimulatedStep::Performs(Box::new(record)),
            Act::ChangeLeadership(generation) => local.apply(&Event::LeadershipChanged(generation)),
            Act::Reattach(run) => return performed(local, run.operation),
            Act::Wait(wait) => return SimulatedStep::Waits(wait.causes),
            Act::Finish => return SimulatedStep::Finished,
            Act::AcquireLock(_) | Act::FetchBag(_) | Act::FetchCharm(_) | Act::Reboot => {
                return SimulatedStep::Waits(Vec::new());
            }
        }
    }
}

fn performed(local: &Local, operation: Operation) -> SimulatedStep {
    SimulatedStep::Performs(Box::new(local.record(operation, Outcome::Ok, 0)))
}
