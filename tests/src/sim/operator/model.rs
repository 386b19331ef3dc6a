//! Requests about the model: its configuration and its destruction.

use super::requests::SimOperator;
use crate::sim::identities::admin;
use crate::sim::network::SimCaller;
use api::error::{ApiError, ErrorCode};
use api::{ConfigChange, ConfigureModel, DestroyModel, Handle, InModel};
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

    /// Sets a model setting. Returns the answer of the controller; `None` if no response arrived.
    ///
    /// # Panics
    /// If the product does not know the setting or the value: the schedule would go on without it.
    pub(super) async fn set_model_config(&self, name: &str, value: &str) -> Option<Result<(), ApiError>> {
        let set = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let change = ConfigChange { set, reset: Vec::new() };
        let call = |caller: SimCaller| {
            let change = change.clone();
            async move { caller.handle(ConfigureModel { change }).await }
        };
        let answer = self.network.request(|caller| call(caller.in_model(&self.model)), admin()).await?;
        let is_known = match &answer {
            Ok(set) => set.warnings.is_empty(),
            Err(error) => error.code != ErrorCode::Invalid,
        };
        assert!(is_known, "{name}={value}: {answer:?}");
        Some(answer.map(drop))
    }

    /// Disables timed hooks, so that every further hook has a cause. After a restore also harvests the
    /// instances that the restored store does not contain: no other controller owns them. Called without faults.
    ///
    /// # Panics
    /// If the controller refuses this for a model that is not being removed.
    pub async fn disable_timed_hooks(&self, restored: bool) {
        let harvest = restored.then_some(("provisioner-harvest-mode", "all"));
        for (name, value) in [("update-status-hook-interval", "0")].into_iter().chain(harvest) {
            let answer = self.set_model_config(name, value).await;
            let is_accepted = match &answer {
                Some(Ok(())) => true,
                Some(Err(error)) => {
                    matches!(error.code, ErrorCode::NotAlive | ErrorCode::NotFound | ErrorCode::Removed)
                }
                None => false,
            };
            assert!(is_accepted, "{name}={value}: {answer:?}");
        }
    }
}
