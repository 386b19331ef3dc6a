//! The common part of all removals: force, waking the janitor, and the dry runs of removals.

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::handlers::changed;
use crate::lookup;
use crate::store::Store;
use crate::why::WhySources;
use api::error::ApiError;
use api::{DryRun, DryRunDestroyModel, DryRunRemoval, Force, Handle, WriteResponse};
use state::documents::draft::{Draft, Reader};
use state::documents::prelude::Model;
use state::documents::refusal::Refusal;
use state::status::running::running;
use state::transitions::{dry_run, requested_removal};
use state::why;

impl<S: Store, E: Environment> Authorised<S, E> {
    /// Runs a removal. Wakes the janitor if it has to act now.
    pub(super) async fn remove<F>(
        &self,
        model: Model,
        transition: F,
        force: Force,
    ) -> Result<WriteResponse, ApiError>
    where
        F: Fn(&mut Draft<'_>) -> Result<(), Refusal> + Send + Sync + 'static,
    {
        let committed = self.controller.run(transition).await?;
        let needs_janitor = move |reader: &dyn Reader| requested_removal::needs_janitor(reader, model, force);
        if self.controller.read(needs_janitor).await {
            self.controller.urgent_models.add(model.0);
        }
        Ok(changed(committed.revision))
    }
}

impl<S: Store, E: Environment> Authorised<S, E> {
    /// Simulates a removal with what the agents report. Adds to each blocker the time since which it waits.
    async fn dry_run<F>(&self, simulate: F) -> Result<DryRun, ApiError>
    where
        F: FnOnce(&dyn Reader, Model, &dry_run::AgentReports<'_>) -> Result<DryRun, Refusal> + Send + 'static,
    {
        let (now_ms, times) = (self.controller.environment.wall_ms(), self.controller.commit_times.clone());
        let (presence, timers) = (self.controller.presence_when_read(), self.controller.force_timers.clone());
        let dry_run = self.read(move |reader, model| {
            let (presence, commit_times, force_timers) = (&presence(), &*times, &*timers);
            let sources = WhySources { reader, model, presence, commit_times, force_timers, now_ms };
            sources.with_facts(|facts| {
                let reports = dry_run::AgentReports {
                    silent_agent: &|entity| why::silent_agent(facts, entity),
                    running_hook: &|id| running(reader, model, presence, id).map(|running| running.activity),
                };
                let mut result = simulate(reader, model, &reports)?;
                let (pending_since, blockers) = (facts.pending_since(), std::mem::take(&mut result.blockers));
                let blocked = blockers.into_iter().map(|cause| pending_since.with_since(cause));
                result.blockers = blocked.collect();
                Ok(result)
            })
        });
        dry_run.await
    }
}

impl<S: Store, E: Environment> Handle<DryRunRemoval> for Authorised<S, E> {
    async fn handle(&self, removal: DryRunRemoval) -> Result<DryRun, ApiError> {
        let DryRunRemoval { removed: targets, force } = removal;
        let now_ms = self.controller.environment.wall_ms();
        let dry_run = self.dry_run(move |reader, model, reports| {
            dry_run::require_count(targets.len())?;
            let entities = targets.iter().map(|target| lookup::find_entity(reader, model, target));
            let entities = entities.collect::<Result<Vec<_>, _>>()?;
            dry_run::dry_run(reader, model, dry_run::Removal { entities: &entities, force, now_ms }, reports)
        });
        dry_run.await
    }
}

impl<S: Store, E: Environment> Handle<DryRunDestroyModel> for Authorised<S, E> {
    async fn handle(&self, destruction: DryRunDestroyModel) -> Result<DryRun, ApiError> {
        let (force, now_ms) = (destruction.force, self.controller.environment.wall_ms());
        let dry_run = self.dry_run(move |reader, model, reports| {
            dry_run::dry_run_of_model(reader, model, force, now_ms, reports)
        });
        dry_run.await
    }
}
