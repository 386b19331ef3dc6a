//! A machine has at most one instance, however often its start is interrupted or the answer is lost (F.3, scenario
//! 183).

use super::check::Check;
use crate::sim::fact::{Fact, InstanceEvent};
use state::terms::names::Uuid;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct DuplicateInstances {
    /// The instance of each machine.
    instances: BTreeMap<Uuid, u64>,
}

impl Check for DuplicateInstances {
    fn name(&self) -> &'static str {
        "duplicate-instances"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let Fact::Instance { number, machine, what, .. } = fact else { return };
        match what {
            InstanceEvent::Existed | InstanceEvent::Created => {
                if let Some(first) = self.instances.insert(*machine, *number) {
                    found.push(format!(
                        "machine {machine} has instance {first}, and instance {number} is created for it"
                    ));
                }
            }
            InstanceEvent::Terminated | InstanceEvent::HandedOver | InstanceEvent::Lost => {
                self.instances.remove(machine);
            }
            InstanceEvent::Failed(_) => {}
        }
    }
}
