//! Reports to the controller how the agents of machines have ended that end at each start.
//!
//! Such an agent cannot report it itself, and without the report `pintle why` could only tell that it is silent. The
//! provider observes its processes; each change is reported once to the controller, which shows it until the agent sends
//! a request. That an agent has recovered is reported, too, because its requests may never arrive. After a lost connection
//! everything is reported again: a controller that was restarted has no reports, another one has those of before.
//!
//! Called by `provisioner` in each round, and whenever an agent has ended or recovered.

use crate::command_error::CommandError;
use crate::supervisor::provider::Provider;
use api::error::ErrorCode;
use api::{Handle, InModel, ModelInfo, ReportMachineAgentExits};
use state::terms::health::MachineAgentExits;
use state::terms::names::Uuid;
use std::collections::BTreeMap;

/// What the controller has received, by machine.
#[derive(Default)]
pub struct ReportedExits(BTreeMap<Uuid, Reported>);

/// What was reported of one machine.
struct Reported {
    model: Uuid,
    /// The exits that this connection has reported; none if only an earlier one has reported some.
    exits: Option<MachineAgentExits>,
}

impl ReportedExits {
    /// Makes everything be reported again.
    pub fn start_connection(&mut self) {
        self.0.values_mut().for_each(|reported| reported.exits = None);
    }

    /// Reports what has changed about the machines of these models, which are all that exist.
    ///
    /// # Errors
    /// If the instances cannot be listed or a request fails. The report is repeated with the next one.
    pub async fn report(
        &mut self,
        provider: &impl Provider,
        client: &(impl Handle<ReportMachineAgentExits> + InModel),
        models: &[ModelInfo],
    ) -> Result<(), CommandError> {
        let failing = provider.failing_agents();
        self.0.retain(|_, reported| models.iter().any(|model| model.uuid == reported.model));
        let recovered = self.0.iter().filter(|(machine, _)| !failing.contains_key(machine));
        let recovered: Vec<_> = recovered.map(|(machine, reported)| (*machine, reported.model)).collect();
        for (machine, model) in recovered {
            send(client, model, ReportMachineAgentExits { machine, exits: None }).await?;
            self.0.remove(&machine);
        }
        let mut changed = failing;
        changed.retain(|machine, exits| {
            self.0.get(machine).and_then(|reported| reported.exits.as_ref()) != Some(exits)
        });
        if changed.is_empty() {
            return Ok(());
        }
        for model in models.iter().map(|model| model.uuid) {
            for machine in provider.list(model)?.into_keys() {
                let Some(exits) = changed.remove(&machine) else { continue };
                send(client, model, ReportMachineAgentExits { machine, exits: Some(exits.clone()) }).await?;
                self.0.insert(machine, Reported { model, exits: Some(exits) });
            }
        }
        Ok(())
    }
}

async fn send(
    client: &(impl Handle<ReportMachineAgentExits> + InModel),
    model: Uuid,
    report: ReportMachineAgentExits,
) -> Result<(), CommandError> {
    match client.in_model(&model.to_string()).handle(report).await {
        // the model was destroyed since it was listed
        Err(error) if error.code == ErrorCode::NotFound => Ok(()),
        sent => Ok(sent?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::provider::{CreatedInstance, InstanceList, InstanceSpec};
    use api::error::ApiError;
    use state::terms::health::ProcessEnd;
    use state::terms::life::Life;
    use state::terms::provider_kind::ProviderKind;
    use state::terms::status::ModelState;
    use std::sync::{Arc, Mutex};
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

    /// A report: the machine, and the number of its ends.
    type Report = (Uuid, Option<u32>);

    /// Records the reports.
    #[derive(Clone, Default)]
    struct Controller(Arc<Mutex<Vec<Report>>>);

    impl Controller {
        fn take(&self) -> Vec<Report> {
            std::mem::take(&mut *self.0.lock().expect("no holder panics"))
        }
    }

    impl InModel for Controller {
        fn in_model(&self, _: &str) -> Controller {
            self.clone()
        }
    }

    impl Handle<ReportMachineAgentExits> for Controller {
        async fn handle(&self, report: ReportMachineAgentExits) -> Result<(), ApiError> {
            let count = report.exits.map(|exits| exits.count);
            self.0.lock().expect("no holder panics").push((report.machine, count));
            Ok(())
        }
    }

    fn models(uuids: &[u128]) -> Vec<ModelInfo> {
        let model = |uuid: &u128| ModelInfo {
            uuid: Uuid(*uuid),
            name: "dev".to_owned(),
            life: Life::Alive,
            state: ModelState::Available,
            controller: Uuid(9),
            created_ms: 0,
            has_machines: true,
            development: false,
        };
        uuids.iter().map(model).collect()
    }

    fn failing(counts: &[(u128, u32)]) -> Failing {
        let exits = |count| MachineAgentExits { end: ProcessEnd::Code(1), last_error: None, count };
        Failing(counts.iter().map(|(machine, count)| (Uuid(*machine), exits(*count))).collect())
    }

    #[tokio::test]
    async fn each_change_is_reported_once_and_a_recovery_too() {
        let (controller, mut reported) = (Controller::default(), ReportedExits::default());
        let mut report = async |counts: &[(u128, u32)], of: &[u128]| {
            reported.report(&failing(counts), &controller, &models(of)).await.expect("it is received");
            controller.take()
        };
        let (seven, eight) = (Uuid(7), Uuid(8));
        assert_eq!(report(&[(7, 3), (8, 5)], &[1]).await, [(seven, Some(3))], "the model of 8 is not listed");
        assert_eq!(report(&[(7, 3), (8, 5)], &[1, 2]).await, [(eight, Some(5))]);
        assert_eq!(report(&[(7, 3), (8, 5)], &[1, 2]).await, []);
        assert_eq!(report(&[(7, 4), (8, 5)], &[1, 2]).await, [(seven, Some(4))]);
        assert_eq!(report(&[(8, 5)], &[1, 2]).await, [(seven, None)]);
        assert_eq!(report(&[(8, 5)], &[1, 2]).await, []);
        assert_eq!(report(&[(7, 4), (8, 5)], &[1, 2]).await, [(seven, Some(4))], "it ends in the same way");
        assert_eq!(report(&[], &[1]).await, [(seven, None)], "the model of 8 was destroyed");
    }

    /// 1. An agent ends at each start, which is reported. 2. The connection is lost, and the agent recovers.
    #[tokio::test]
    async fn everything_is_reported_again_after_a_connection_was_lost() {
        let (controller, mut reported) = (Controller::default(), ReportedExits::default());
        let of = models(&[1, 2]);
        let both = failing(&[(7, 3), (8, 5)]);
        reported.report(&both, &controller, &of).await.expect("it is received");
        controller.take();
        reported.start_connection();
        reported.report(&failing(&[(8, 5)]), &controller, &of).await.expect("it is received");
        assert_eq!(controller.take(), [(Uuid(7), None), (Uuid(8), Some(5))]);
    }
}
