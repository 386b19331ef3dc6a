//! Executes the steps of the machine agent's plan, and logs what could not be done.

use super::controller_answers::is_unfinished;
use crate::ports::Deployments;
use anyhow::Result;
use api::error::ErrorCode;
use api::{ConfirmRecall, MachineAgentRequests, MachineView, RemoveDeadUnit, SetUnitToken};
use state::machine::claims::identify;
use state::machine::plan::DeployStep;
use state::terms::names::{UnitName, Uuid};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};

/// The controller and the host, for the steps of one plan.
pub(super) struct StepExecutor<'a, A, D> {
    pub api: &'a A,
    pub deployments: &'a D,
    /// The tokens that were sent during this watch.
    pub sent_tokens: &'a RefCell<BTreeMap<Uuid, String>>,
    /// The known names of units.
    pub names: &'a RefCell<BTreeMap<Uuid, UnitName>>,
    /// Units whose agent has to run the last hooks.
    pub unfinished_units: &'a RefCell<BTreeSet<Uuid>>,
}

impl<A: MachineAgentRequests, D: Deployments> StepExecutor<'_, A, D> {
    /// Executes one step of the plan.
    pub(super) async fn execute(
        &self,
        step: DeployStep,
        view: Option<&MachineView>,
        deployed: &BTreeMap<Uuid, D::Folder>,
    ) -> Result<()> {
        match step {
            DeployStep::Deploy(unit) => self.deploy(unit, view).await,
            DeployStep::EnsureRunning(unit) => {
                let folder = &deployed[&unit];
                let assigned = view.is_some_and(|view| view.units.contains_key(&unit));
                let token = self.deployments.token(folder)?;
                // before the controller has assigned the unit here, nothing proves that the folder is that of the unit
                if !token.is_accepted && !assigned {
                    return Ok(());
                }
                if !token.is_accepted {
                    self.set_token(unit, folder, &token.text).await?;
                }
                self.deployments.ensure_running(unit, folder, assigned)?;
                // the agent runs whether or not the controller accepts its token again
                if assigned && self.sent_tokens.borrow().get(&unit) != Some(&token.text) {
                    self.api.handle(SetUnitToken { unit, token: token.text.clone() }).await?;
                    self.sent_tokens.borrow_mut().insert(unit, token.text);
                }
                Ok(())
            }
            DeployStep::Recall(unit) => {
                let folder = &deployed[&unit];
                self.deployments.stop(folder).await?;
                // The removal is reported before the folder is deleted: after a crash in between, the unit is
                // recalled again. For a unit that is not assigned here the controller has nothing to remove and
                // would refuse the report.
                if view.is_some_and(|view| view.units.contains_key(&unit)) {
                    self.report_removed(unit).await?;
                }
                self.deployments.delete(unit, folder).await?;
                self.unfinished_units.borrow_mut().remove(&unit);
                tracing::info!("recalled {folder}");
                Ok(())
            }
            DeployStep::Quarantine(unit) => {
                let folder = &deployed[&unit];
                let path = self.deployments.quarantine(unit, folder).await?;
                tracing::warn!(
                    "the controller has no record of unit {unit}: its folder {folder} was moved to {path}; delete it \
                     if it is not needed"
                );
                Ok(())
            }
            DeployStep::ConfirmRecall(unit) => {
                self.deployments.verify_absent(unit)?;
                Ok(self.api.handle(ConfirmRecall { unit }).await?)
            }
            DeployStep::ReportRemoved(unit) => {
                let removed = self.report_removed(unit).await;
                match &removed {
                    Ok(()) => drop(self.unfinished_units.borrow_mut().remove(&unit)),
                    Err(error) if is_unfinished(error) => {
                        self.unfinished_units.borrow_mut().insert(unit);
                    }
                    Err(_) => {}
                }
                removed
            }
        }
    }

    async fn deploy(&self, unit: Uuid, view: Option<&MachineView>) -> Result<()> {
        let assigned = view.and_then(|view| view.units.get(&unit));
        let name = &assigned.expect("only assigned units are deployed").name;
        let folder = self.deployments.folder(name);
        // read again: a step of this plan may have freed the name
        let deployed = identify(self.deployments.claims()?, &self.names.borrow()).deployed;
        if deployed.iter().any(|(other, used)| *other != unit && *used == folder) {
            // the earlier unit of this name was not recalled or quarantined yet, or nothing proves that it was removed
            anyhow::bail!(
                "cannot deploy {name}: {folder} still belongs to another unit; see the machine agent's log"
            );
        }
        let token = self.deployments.prepare(unit, name).await?;
        tracing::info!("prepared {folder} for unit {unit}");
        self.set_token(unit, &folder, &token).await?;
        self.deployments.ensure_running(unit, &folder, true)
    }

    /// Sends a unit's token to the controller, and stores in its folder that the controller has accepted it.
    async fn set_token(&self, unit: Uuid, folder: &D::Folder, token: &str) -> Result<()> {
        self.api.handle(SetUnitToken { unit, token: token.to_owned() }).await?;
        self.sent_tokens.borrow_mut().insert(unit, token.to_owned());
        self.deployments.store_token_accepted(folder).await
    }

    /// Reports a recalled unit, whose record the controller then removes. A record that is removed already is
    /// no error.
    async fn report_removed(&self, unit: Uuid) -> Result<()> {
        match self.api.handle(RemoveDeadUnit { unit }).await {
            Err(error) if matches!(error.code, ErrorCode::Removed | ErrorCode::NotFound) => Ok(()),
            other => Ok(other?),
        }
    }
}

/// What fails and is attempted again. Its text follows "cannot" in the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Attempt {
    ListFolders,
    IdentifyFolders,
    RestoreStorage,
    /// To ask the controller whether a unit exists.
    AskExistence(Uuid),
    Step(DeployStep),
}

impl Display for Attempt {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Attempt::ListFolders => f.write_str("list the folders of the units"),
            Attempt::IdentifyFolders => f.write_str("find out to which unit each folder belongs"),
            Attempt::RestoreStorage => f.write_str("restore storage, without which an agent is not started"),
            Attempt::AskExistence(unit) => write!(f, "learn whether unit {unit} exists"),
            Attempt::Step(DeployStep::Deploy(unit)) => write!(f, "deploy unit {unit}"),
            Attempt::Step(DeployStep::EnsureRunning(unit)) => write!(f, "start the agent of unit {unit}"),
            Attempt::Step(DeployStep::Recall(unit)) => write!(f, "recall unit {unit}"),
            Attempt::Step(DeployStep::ReportRemoved(unit)) => write!(f, "report that unit {unit} is removed"),
            Attempt::Step(DeployStep::ConfirmRecall(unit)) => {
                write!(f, "confirm that unit {unit} was recalled")
            }
            Attempt::Step(DeployStep::Quarantine(unit)) => write!(f, "quarantine the folder of unit {unit}"),
        }
    }
}
