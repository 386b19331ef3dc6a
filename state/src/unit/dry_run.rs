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
pub enum Ahead {
    /// It does this, and succeeds.
    Does(Box<Record>),
    /// It waits; what it waits for.
    Waits(Vec<Cause>),
    /// It is finished.
    Ends,
}

/// The next thing of a unit with this memory and view. `local` takes what is only noted.
pub fn ahead(local: &mut Local, view: &Snapshot) -> Ahead {
    loop {
        // a hook that runs now ends, and its run is counted then
        let now = Now::hypothetical();
        match next(local, Some(view), &now).act {
            Act::Begin(run) => return does(local, run.operation),
            Act::Settle(record) => return Ahead::Does(Box::new(record)),
            Act::Note(event) => local.apply(&event),
            Act::Adopt(run) => return does(local, run.operation),
            Act::Wait(wait) => return Ahead::Waits(wait.causes),
            Act::Stop => return Ahead::Ends,
            Act::Lock | Act::Fetch(_) | Act::Reboot => return Ahead::Waits(Vec::new()),
        }
    }
}

fn does(local: &Local, operation: Operation) -> Ahead {
    Ahead::Does(Box::new(local.record(operation, Outcome::Ok, 0)))
}
