//! F.3: a machine has one instance, however often its start is cut off or its answer lost (scenario 183).

use crate::sim::checks::{Check, Fact, InstanceEvent};
use state::terms::names::Uuid;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct DuplicateInstances {
    /// The instance of each machine.
    there: BTreeMap<Uuid, u64>,
}

impl Check for DuplicateInstances {
    fn name(&self) -> &'static str {
        "doubles"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let Fact::Instance { number, machine, what, .. } = fact else { return };
        match what {
            InstanceEvent::WasThere | InstanceEvent::Made => {
                if let Some(first) = self.there.insert(*machine, *number) {
                    found
                        .push(format!("machine {machine} has instance {first}, and {number} is made for it"));
                }
            }
            InstanceEvent::Taken | InstanceEvent::HandedOver | InstanceEvent::Lost => {
                self.there.remove(machine);
            }
            InstanceEvent::Failed(_) => {}
        }
    }
}
