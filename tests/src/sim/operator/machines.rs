//! Requests about machines, except removals.

use super::requests::SimOperator;
use crate::sim::network::SimSession;
use api::{AddMachines, Handle, ListMachines, RetryProvisioning};

impl SimOperator {
    pub(super) async fn add_machine(&self) {
        self.trace("add-machine".to_owned());
        let add = AddMachines { count: 1, manual: false, ..AddMachines::default() };
        let call = |session: SimSession| {
            let add = add.clone();
            async move { session.handle(add).await }
        };
        self.request(call).await;
    }

    pub(super) async fn retry_provisioning(&self) {
        let Some(machine) = self.random_machine().await else { return };
        self.trace(format!("retry-provisioning {machine}"));
        let call = |session: SimSession| {
            let machine = machine.clone();
            async move { session.handle(RetryProvisioning { machine: machine.to_owned() }).await }
        };
        self.request(call).await;
    }

    /// In half of the cases an existing machine.
    pub(super) async fn random_machine(&self) -> Option<String> {
        let call = |session: SimSession| async move { session.handle(ListMachines).await };
        let machines = self.request(call).await.unwrap_or_default();
        let at = self.world.below(machines.len() as u64) as usize;
        machines.get(at).map(|machine| machine.name.clone()).filter(|_| self.world.chance_of(500))
    }
}
