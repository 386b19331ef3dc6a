//! Reports to the controller how the agents of machines have ended that end at each start.
//!
//! Such an agent cannot report it itself, and without the report `pintle why` could only tell that it is silent. The
//! provider observes its processes; each change is reported once to the controller, which shows it until the agent sends
//! a request. Called in each round of `provisioner`; another `ReportedExits` is used after a connection was lost, because
//! a controller that was restarted has no reports.

use crate::command_error::CommandError;
use crate::supervisor::provider::Provider;
use api::{Handle, ReportMachineAgentExits};
use state::terms::health::MachineAgentExits;
use state::terms::names::Uuid;
use std::collections::BTreeMap;

/// What the controller has received.
#[derive(Default)]
pub struct ReportedExits(BTreeMap<Uuid, MachineAgentExits>);

impl ReportedExits {
    /// Reports what has changed about the machines of this model, to which `client` is bound.
    ///
    /// # Errors
    /// If the instances cannot be listed or a request fails. The report is repeated in the next round.
    pub async fn report(
        &mut self,
        provider: &impl Provider,
        client: &impl Handle<ReportMachineAgentExits>,
        model: Uuid,
    ) -> Result<(), CommandError> {
        let failing = provider.failing_agents();
        // an agent that has recovered may end in the same way again
        self.0.retain(|machine, _| failing.contains_key(machine));
        let changed: Vec<_> =
            failing.into_iter().filter(|(machine, exits)| self.0.get(machine) != Some(exits)).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let of_model = provider.list(model)?;
        for (machine, exits) in changed {
            if of_model.contains_key(&machine) {
                client.handle(ReportMachineAgentExits { machine, exits: exits.clone() }).await?;
                self.0.insert(machine, exits);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::provider::{CreatedInstance, InstanceList, InstanceSpec};
    use api::error::ApiError;
    use state::terms::health::ProcessEnd;
    use state::terms::provider_kind::ProviderKind;
    use std::sync::Mutex;
    use std::time::Duration;

    /// A host with machine 7 of model 1 and machine 8 of another model, whose agents have ended in this way.
    struct Failing(BTreeMap<Uuid, MachineAgentExits>);

    impl Provider for Failing {
        fn kind(&self) -> ProviderKind {
            ProviderKind::Local
        }
        fn list(&self, model: Uuid) -> Result<InstanceList, CommandError> {
            let machine = if model == Uuid(1) { Uuid(7) } else { Uuid(8) };
            Ok(InstanceList::from([(machine, Ok(Uuid(70)))]))
        }
        fn running_address(&self, _: Uuid) -> Option<String> {
            None
        }
        async fn create(&mut self, _: &InstanceSpec<'_>) -> Result<CreatedInstance, CommandError> {
            panic!("nothing is created")
        }
        async fn start(&mut self, _: &InstanceSpec<'_>) -> Result<Option<Duration>, CommandError> {
            panic!("nothing is started")
        }
        async fn terminate(&mut self, _: Uuid) -> Result<(), CommandError> {
            panic!("nothing is terminated")
        }
        async fn hand_over(&mut self, _: Uuid) -> Result<(), CommandError> {
            panic!("nothing is handed over")
        }
        fn failing_agents(&self) -> BTreeMap<Uuid, MachineAgentExits> {
            self.0.clone()
        }
        async fn wait_for_change(&self) {}
    }

    /// Records the reports.
    #[derive(Default)]
    struct Controller(Mutex<Vec<(Uuid, u32)>>);

    impl Controller {
        fn take(&self) -> Vec<(Uuid, u32)> {
            std::mem::take(&mut *self.0.lock().expect("no holder panics"))
        }
    }

    impl Handle<ReportMachineAgentExits> for Controller {
        async fn handle(&self, report: ReportMachineAgentExits) -> Result<(), ApiError> {
            self.0.lock().expect("no holder panics").push((report.machine, report.exits.count));
            Ok(())
        }
    }

    #[tokio::test]
    async fn each_change_is_reported_once_and_only_to_the_model_of_the_machine() {
        let exits = |count| MachineAgentExits { end: ProcessEnd::Code(1), last_error: None, count };
        let failing = |counts: &[(u128, u32)]| {
            Failing(counts.iter().map(|(machine, count)| (Uuid(*machine), exits(*count))).collect())
        };
        let (controller, mut reported) = (Controller::default(), ReportedExits::default());
        let both = failing(&[(7, 3), (8, 5)]);
        for _ in 0..2 {
            reported.report(&both, &controller, Uuid(1)).await.expect("it is received");
        }
        assert_eq!(controller.take(), [(Uuid(7), 3)]);
        reported.report(&both, &controller, Uuid(2)).await.expect("it is received");
        reported.report(&failing(&[(7, 4), (8, 5)]), &controller, Uuid(1)).await.expect("it is received");
        assert_eq!(controller.take(), [(Uuid(8), 5), (Uuid(7), 4)]);
        reported.report(&failing(&[]), &controller, Uuid(1)).await.expect("nothing is sent");
        reported.report(&failing(&[(7, 4)]), &controller, Uuid(1)).await.expect("it is received");
        assert_eq!(controller.take(), [(Uuid(7), 4)], "it had recovered");
    }
}
