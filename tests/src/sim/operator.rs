//! Operators: two simulated people who act on the model at the same time through the production handlers.
//!
//! They deploy, integrate, configure, refresh, resolve, run actions and remove, at legal and at illegal moments. The
//! submodules make the requests, one for each kind of entity.

mod applications;
mod archive;
mod machines;
mod model;
mod relations;
pub mod removals;
mod requests;
mod secrets;
mod storage;

pub use archive::{DISK, RESOURCE};
pub use requests::SimOperator;

/// Operators continue, up to this many times their number of actions, until as many hooks have run as in a
/// standard schedule.
const EXTRA_ROUNDS_MAX: u64 = 6;
/// The smallest number of hooks in a standard schedule.
pub const HOOKS_MIN: u64 = 40;

impl SimOperator {
    /// Creates what every schedule starts with: two integrated applications with at least three units.
    pub async fn create_applications(&self) {
        if self.world.profile().budget > 0 {
            self.set_budget().await;
        }
        self.build().await;
    }

    /// Creates the missing parts of two integrated applications and their subordinate.
    async fn build(&self) {
        for (name, units_min) in [("db", 2), ("web", 1)] {
            let units = units_min + self.world.below(self.world.profile().units) as u32;
            self.deploy(name, units).await;
            self.world.sleep(self.world.below(3_000)).await;
        }
        self.integrate("db", "web").await;
        if self.world.profile().subordinate > 0 {
            self.deploy("mon", 0).await;
            self.integrate("db", "mon").await;
        }
    }

    /// Performs the actions of the profile, and more while too few hooks have run.
    pub async fn act(&self) {
        let actions = self.world.profile().operator_actions;
        for done in 0..actions * EXTRA_ROUNDS_MAX {
            if done >= actions && self.world.hooks() >= HOOKS_MIN {
                return;
            }
            let pace = if self.world.chance_of(500) { 300 } else { 20_000 };
            self.world.sleep(self.world.below(pace)).await;
            self.act_once().await;
        }
    }

    async fn act_once(&self) {
        let name = self.name();
        if self.world.chance_of(self.world.profile().suspend_relation) {
            return self.suspend_or_resume().await;
        }
        if self.world.chance_of(self.world.profile().hook_uses_secrets / 2) {
            return self.change_secret(name).await;
        }
        if self.world.chance_of(self.world.profile().storage) {
            return self.change_storage().await;
        }
        match self.world.below(100) {
            0..=14 => self.deploy(name, 1 + self.world.below(2) as u32).await,
            15..=24 => self.add_unit(name).await,
            25..=41 => self.integrate(name, self.name()).await,
            42 => self.add_machine().await,
            43 => self.retry_provisioning().await,
            44 => self.set_harvest_mode().await,
            45..=47 => self.suspend_or_resume().await,
            48..=49 => self.remove_machine().await,
            50 => self.set_budget().await,
            51..=57 => self.configure(name).await,
            58..=59 => self.attach_resource(name).await,
            60..=69 => self.remove_relation(name).await,
            70..=79 => self.remove_unit().await,
            80..=84 => self.remove_application(name).await,
            85..=89 => self.refresh(name).await,
            90..=94 => self.resolve().await,
            95..=98 => self.run_action().await,
            _ => self.cancel_action().await,
        }
    }

    /// Resolves every unit in error: the hook is retried or skipped.
    pub async fn resolve(&self) {
        for unit in self.units().await {
            self.resolve_unit(&unit).await;
        }
    }

    /// Prepares obstructed removals: creates applications and disables automatic retries and the teardown
    /// budget.
    pub async fn prepare(&self) {
        self.trace("disable automatic retries and the teardown budget".to_owned());
        self.set_model_config("automatically-retry-hooks", "false").await;
        self.set_model_config("teardown-budget", "off").await;
        self.build().await;
    }
}
