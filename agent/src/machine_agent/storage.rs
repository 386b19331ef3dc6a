//! The storage of the machine: provided, released and deleted as the controller shows it.
//!
//! `state::machine::storage` decides what is done. What fails is reported, and tried again with the back-off of the
//! machine's plan.

use super::MachineAgent;
use crate::ports::{Clock, Deployments, StorageHost};
use api::{MachineAgentRequests, MachineView, ReportStorage};
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
    /// The errors that it has reported and that last.
    errors: RefCell<BTreeMap<StorageId, String>>,
}

impl<A: MachineAgentRequests, D: Deployments + StorageHost, C: Clock> MachineAgent<A, D, C> {
    /// Executes the plan for storage. Returns true if a step failed and must be repeated.
    pub(super) async fn apply_storage(&self, view: &MachineView) -> bool {
        self.storage.completed.borrow_mut().retain(|id, _| view.storage.contains_key(id));
        self.storage.errors.borrow_mut().retain(|id, _| view.storage.contains_key(id));
        let steps = storage_steps(&view.storage, &self.storage.completed.borrow());
        let mut is_incomplete = false;
        for step in steps {
            let (StorageStep::Provide(id) | StorageStep::Release(id) | StorageStep::Delete(id)) = &step;
            let Some(storage) = view.storage.get(id) else { continue };
            let (report, unit) = match self.execute_storage(&step, storage).await {
                Ok(done) => {
                    self.storage.errors.borrow_mut().remove(id);
                    done
                }
                Err(error) => {
                    self.report_storage_error(id, storage.instance, format!("{error:#}")).await;
                    is_incomplete = true;
                    continue;
                }
            };
            let is_reported = match report {
                Some(report) => self.report_storage(id, storage.instance, report).await,
                None => true,
            };
            is_incomplete |= !is_reported;
            if is_reported {
                let completed = CompletedStorage { instance: storage.instance, unit };
                self.storage.completed.borrow_mut().insert(id.clone(), completed);
            }
        }
        is_incomplete
    }

    /// Executes one step. Returns what is reported, and the unit for which the storage is provided then.
    async fn execute_storage(
        &self,
        step: &StorageStep,
        storage: &MachineStorage,
    ) -> anyhow::Result<(Option<StorageReport>, Option<Uuid>)> {
        match step {
            StorageStep::Provide(id) => {
                let location = self.deployments.provide_storage(id, storage).await?;
                let attachment = storage.attachment.as_ref();
                let unit = attachment.map(|attachment| attachment.unit);
                let is_known = attachment.is_some_and(|known| known.location.as_ref() == Some(&location));
                let report = unit.filter(|_| !is_known);
                Ok((report.map(|unit| StorageReport::Provisioned { unit, location }), unit))
            }
            StorageStep::Release(id) => {
                self.deployments.release_storage(id, storage).await?;
                Ok((None, None))
            }
            StorageStep::Delete(id) => {
                self.deployments.delete_storage(id, storage).await?;
                tracing::info!("deleted storage {id}");
                Ok((Some(StorageReport::Removed), None))
            }
        }
    }

    /// Reports an error once, until it changes or the step succeeds.
    async fn report_storage_error(&self, id: &StorageId, instance: Uuid, error: String) {
        if self.storage.errors.borrow().get(id) == Some(&error) {
            return;
        }
        tracing::warn!("storage {id}, retrying: {error}");
        if self.report_storage(id, instance, StorageReport::Failed { error: error.clone() }).await {
            self.storage.errors.borrow_mut().insert(id.clone(), error);
        }
    }

    async fn report_storage(&self, id: &StorageId, instance: Uuid, report: StorageReport) -> bool {
        self.api.handle(ReportStorage { id: id.clone(), instance, report }).await.is_ok()
    }
}
