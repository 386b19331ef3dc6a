//! Requests about the model: its configuration and its destruction.

use super::requests::SimOperator;
use crate::sim::network::SimCaller;
use api::{ConfigChange, ConfigureModel, DestroyModel, Handle};
use std::collections::BTreeMap;

/// The longest time under faults that a model has after destroy-model.
const DESTROY_UNDER_FAULTS_MS: u64 = 60_000;
/// The harvest modes that operators set.
const HARVEST_MODES: [&str; 4] = ["none", "unknown", "destroyed", "all"];
/// The teardown budgets that operators set: about as long as a removal takes, longer, and none.
const BUDGETS: [&str; 4] = ["15s", "1m", "5m", "off"];

impl SimOperator {
    /// Destroys the model if the profile requires it, as the last action of each operator: the other one may still
    /// act in the model and then repeats the request. The removal runs under faults for a while.
    pub async fn destroy(&self) {
        if self.world.profile().destroyed == 0 {
            return;
        }
        let force = self.force();
        self.trace(format!("destroy-model, force {force:?}"));
        let call = |caller: SimCaller| async move { caller.handle(DestroyModel { force }).await };
        self.request(call).await;
        self.world.sleep(self.world.below(DESTROY_UNDER_FAULTS_MS)).await;
    }

    /// Sets the teardown budget of the model, or turns it off.
    pub(super) async fn set_budget(&self) {
        let budget = BUDGETS[self.world.below(BUDGETS.len() as u64) as usize];
        self.trace(format!("teardown-budget {budget}"));
        self.set_model_config("teardown-budget", budget).await;
    }

    pub(super) async fn set_harvest_mode(&self) {
        let mode = HARVEST_MODES[self.world.below(HARVEST_MODES.len() as u64) as usize];
        self.trace(format!("provisioner-harvest-mode {mode}"));
        self.set_model_config("provisioner-harvest-mode", mode).await;
    }

    pub(super) async fn set_model_config(&self, name: &str, value: &str) {
        let set = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let change = ConfigChange { set, reset: Vec::new() };
        let call = |caller: SimCaller| {
            let change = change.clone();
            async move { caller.handle(ConfigureModel { change }).await }
        };
        self.request(call).await;
    }

    /// Disables timed hooks, so that every further hook has a cause. After a restore also harvests the
    /// instances that the restored store does not contain: no other controller owns them.
    pub async fn disable_timed_hooks(&self, restored: bool) {
        self.set_model_config("update-status-hook-interval", "0").await;
        if restored {
            self.set_model_config("provisioner-harvest-mode", "all").await;
        }
    }
}
