//! Requests about machines, except removals.

use super::requests::SimOperator;
use crate::sim::network::SimCaller;
use api::{AddMachines, Handle, ListMachines, RetryProvisioning};

impl SimOperator {
    pub(super) async fn add_machine(&self) {
        self.trace("add-machine".to_owned());
        let add = AddMachines { count: 1, manual: false, ..AddMachines::default() };
        let call = |caller: SimCaller| {
            let add = add.clone();
            async move { caller.handle(add).await }
        };
        self.request(call).await;
    }

    pub(super) async fn retry_provisioning(&self) {
        let Some(machine) = self.random_machine().await else { return };
        self.trace(format!("retry-provisioning {machine}"));
        let call = |caller: SimCaller| {
            let machine = machine.clone();
            async move { caller.handle(RetryProvisioning { machine: machine.to_owned() }).await }
        };
        self.request(call).await;
    }

    /// In half of the cases an existing machine.
    pub(super) async fn random_machine(&self) -> Option<String> {
        let call = |caller: SimCaller| async move { caller.handle(ListMachines).await };
        let machines = self.request(call).await.unwrap_or_default();
        let at = self.world.below(machines.len() as u64) as usize;
        machines.get(at).map(|machine| machine.name.clone()).filter(|_| self.world.chance_of(500))
    }
}
