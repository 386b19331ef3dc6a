//! I15: restarts with nothing changed run nothing.

use super::{Check, Fact};
use state::unit::local::Event;

#[derive(Default)]
pub struct Restart {
    only_restarts: bool,
}

impl Check for Restart {
    fn name(&self) -> &'static str {
        "restart"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::OnlyRestarts => self.only_restarts = true,
            Fact::Recorded { folder: unit, events, .. } if self.only_restarts => {
                for event in events.iter() {
                    if let Event::Started(run) = event {
                        found.push(format!("{unit}: a restart runs {} ({})", run.operation, run.cause));
                    }
                }
            }
            _ => {}
        }
    }
}
