//! The storage of the machine: provided, released and deleted as the controller shows it.
//!
//! `state::machine::storage` decides what is done. What fails is reported, and tried again with the back-off of the
//! machine's plan.

use crate::ports::StorageHost;
use anyhow::Context;
use api::error::ApiError;
use api::{Handle, MachineView, ReportStorage};
use state::machine::storage::{CompletedStorage, StorageStep, storage_steps};
use state::terms::names::Uuid;
use state::terms::storage::{MachineStorage, StorageId, StorageReport};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What this agent has done with storage.
#[derive(Debug, Default)]
pub(super) struct StorageProgress {
    /// What it has completed and reported.
    completed: RefCell<BTreeMap<StorageId, CompletedStorage>>,
    /// The reported errors that have not ended yet, by storage.
    errors: RefCell<BTreeMap<StorageId, String>>,
    /// Why the controller did not accept the last report.
    refusals: RefCell<BTreeMap<StorageId, ApiError>>,
}

impl StorageProgress {
    /// Forgets what was reported, because the controller may be another one, or its store restored.
    pub(super) fn forget_reports(&self) {
        self.errors.borrow_mut().clear();
        self.refusals.borrow_mut().clear();
        self.completed.borrow_mut().clear();
    }
}

/// The controller and the host, for one plan.
pub(super) struct StorageExecutor<'a, A, D> {
    pub api: &'a A,
    pub host: &'a D,
    pub progress: &'a StorageProgress,
}

impl<A: Handle<ReportStorage>, D: StorageHost> StorageExecutor<'_, A, D> {
    /// Executes the plan for storage. Returns true if a step failed and must be repeated.
    pub(super) async fn apply(&self, view: &MachineView) -> bool {
        self.progress.completed.borrow_mut().retain(|id, _| view.storage.contains_key(id));
        self.progress.errors.borrow_mut().retain(|id, _| view.storage.contains_key(id));
        self.progress.refusals.borrow_mut().retain(|id, _| view.storage.contains_key(id));
        let steps = storage_steps(&view.storage, &self.progress.completed.borrow());
        let mut is_incomplete = false;
        for step in steps {
            let (StorageStep::Provide(id) | StorageStep::Release(id) | StorageStep::Delete(id)) = &step;
            let Some(storage) = view.storage.get(id) else { continue };
            let (report, unit) = match self.execute_storage(&step, storage).await {
                Ok(done) => {
                    self.progress.errors.borrow_mut().remove(id);
                    done
                }
                Err(error) => {
                    self.report_storage_error(id, storage.instance, format!("{error:#}")).await;
                    is_incomplete = true;
                    continue;
                }
            };
            let is_reported = self.report_storage(id, storage.instance, report).await;
            is_incomplete |= !is_reported;
            if is_reported {
                let completed = CompletedStorage { instance: storage.instance, unit };
                self.progress.completed.borrow_mut().insert(id.clone(), completed);
            }
        }
        is_incomplete
    }

    /// Executes one step. Returns the report, and the unit for which the storage is provided then. Every successful
    /// step is reported, even if the same report was sent before: the controller keeps an error until a success is
    /// reported.
    async fn execute_storage(
        &self,
        step: &StorageStep,
        storage: &MachineStorage,
    ) -> anyhow::Result<(StorageReport, Option<Uuid>)> {
        match step {
            StorageStep::Provide(id) => {
                let location = self.host.provide_storage(id, storage).await?;
                let attachment =
                    storage.attachment.as_ref().context("the storage has no unit to be attached to")?;
                Ok((StorageReport::Provisioned { unit: attachment.unit, location }, Some(attachment.unit)))
            }
            StorageStep::Release(id) => {
                self.host.release_storage(id, storage).await?;
                Ok((StorageReport::Released, None))
            }
            StorageStep::Delete(id) => {
                self.host.delete_storage(id, storage).await?;
                tracing::info!("deleted storage {id}");
                Ok((StorageReport::Removed, None))
            }
        }
    }

    /// Reports an error once, until it changes or the step succeeds.
    async fn report_storage_error(&self, id: &StorageId, instance: Uuid, error: String) {
        if self.progress.errors.borrow().get(id) == Some(&error) {
            return;
        }
        tracing::warn!("storage {id}, retrying: {error}");
        if self.report_storage(id, instance, StorageReport::Failed { error: error.clone() }).await {
            self.progress.errors.borrow_mut().insert(id.clone(), error);
        }
    }

    /// Reports to the controller. Returns whether it has accepted the report. A refusal is logged once, until it
    /// changes or an outage comes between: the last error is kept for comparison, transient or not. An outage is logged
    /// with the watch.
    async fn report_storage(&self, id: &StorageId, instance: Uuid, report: StorageReport) -> bool {
        let reported = self.api.handle(ReportStorage { id: id.clone(), instance, report }).await;
        let mut refusals = self.progress.refusals.borrow_mut();
        let known = match &reported {
            Ok(()) => refusals.remove(id),
            Err(error) => refusals.insert(id.clone(), error.clone()),
        };
        if let Err(error) = &reported
            && !error.is_transient()
            && known.as_ref() != Some(error)
        {
            tracing::warn!("the controller refuses the report about storage {id}, retrying: {error}");
        }
        reported.is_ok()
    }
}
