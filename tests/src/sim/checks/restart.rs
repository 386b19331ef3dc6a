//! Restarts with nothing changed run no hook (I15), except that of a secret whose time comes meanwhile, those of secrets
//! that follow from it, and the retry of a failed run whose delay ends meanwhile (`retries` checks its delay).

use super::check::Check;
use crate::sim::fact::Fact;
use state::terms::operation::{Hook, Operation};
use state::terms::secret::SecretEvent;
use state::terms::start_reason::StartReason;
use state::unit::local::Event;

#[derive(Default)]
pub struct Restart {
    only_restarts: bool,
    /// Whether the time of a secret has come meanwhile.
    has_expired: bool,
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
                    if let Event::Started(run) = event
                        && !matches!(run.reason, StartReason::Retry { .. })
                        && !self.follows_from_time(&run.operation)
                    {
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

impl Restart {
    fn follows_from_time(&mut self, operation: &Operation) -> bool {
        let Operation::Hook(Hook::Secret { event, .. }) = operation else { return false };
        self.has_expired |= matches!(event, SecretEvent::Expired | SecretEvent::Rotate);
        self.has_expired
    }
}
