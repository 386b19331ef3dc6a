//! The cause for a hook that runs in a debug session. Only the machine of the unit has this fact: the command `why` finds
//! it there.

use crate::terms::cause::{Actor, Cause, Duty};

impl Cause {
    /// The cause for a run that happens in a debug session: it waits for the user of the session, and not for the charm.
    /// Other causes than that of a run stay as they are.
    pub fn in_debug_session(self) -> Cause {
        match self.duty {
            Duty::Finish { activity, lock_waiters, .. } => {
                let duty = Duty::EndDebugSession { activity, lock_waiters };
                Cause { duty, actor: Actor::Operator, ..self }
            }
            _ => self,
        }
    }
}
