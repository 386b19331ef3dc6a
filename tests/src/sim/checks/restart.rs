//! Restarts with nothing changed run no hook (I15).

use super::check::Check;
use crate::sim::fact::Fact;
use state::unit::local::Event;

#[derive(Default)]
pub struct Restart {
    only_restarts: bool,
}

impl Check for Restart {
    fn name(&self) -> &'static str {
        "restart"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::OnlyRestarts => self.only_restarts = true,
            Fact::EventsPersisted { folder: unit, events, .. } if self.only_restarts => {
                for event in events.iter() {
                    if let Event::Started(run) = event {
                        found.push(format!(
                            "{unit}: runs {} ({:?}) after a restart",
                            run.operation, run.reason
                        ));
                    }
                }
            }
            _ => {}
        }
    }
}
