//! The provider port: lists, creates, starts, terminates and hands over the instances of machines on this host.
//!
//! A provider does not decide which instances exist or run: `state::machine::provision` plans, and the provisioner
//! executes the plan through this port. The folder of a machine is `machines/<uuid>`; it has an instance from the moment it contains
//! `instance.yaml`.

pub mod base_system;
pub mod bases;
mod console;
mod instance;
pub mod local;
pub(crate) mod loop_devices;
mod machine_folder;
mod machine_names;
mod mounts;
pub mod nspawn;
mod registration;

pub use instance::{CreatedInstance, Instance, InstanceList, InstanceSpec};

use crate::command_error::CommandError;
use api::DesiredMachine;
use host::process::Process;
use state::terms::health::MachineAgentExits;
use state::terms::names::Uuid;
use state::terms::provider_kind::ProviderKind;
use std::collections::BTreeMap;
use std::time::Duration;

/// The operations of a provider.
pub trait Provider {
    /// The kind that is recorded with each instance.
    fn kind(&self) -> ProviderKind;
    /// Lists the instances of a model, by machine.
    ///
    /// # Errors
    /// If the instances cannot be listed: an empty list means that no instance exists. An instance that cannot be read
    /// is listed with its error, whatever its model, because the model is not known then.
    fn list(&self, model: Uuid) -> Result<InstanceList, CommandError>;
    /// The address of a machine that runs under the supervision of this provider.
    fn running_address(&self, machine: Uuid) -> Option<String>;
    /// Creates the instance, or completes its creation. Idempotent.
    fn create(
        &mut self,
        spec: &InstanceSpec<'_>,
    ) -> impl Future<Output = Result<CreatedInstance, CommandError>>;
    /// Starts a created instance. Returns `Some(pause)` if the instance has just exited and must be started again
    /// only after this pause.
    fn start(
        &mut self,
        spec: &InstanceSpec<'_>,
    ) -> impl Future<Output = Result<Option<Duration>, CommandError>>;
    /// Stops the instance and deletes it with all its data. Succeeds if there is none.
    fn terminate(&mut self, machine: Uuid) -> impl Future<Output = Result<(), CommandError>>;
    /// Hands the instance over to the operator: it is no longer listed or managed. Succeeds if there is none.
    fn hand_over(&mut self, machine: Uuid) -> impl Future<Output = Result<(), CommandError>>;
    /// Writes the record of the instance of a machine again, if it is damaged and the controller knows everything in it.
    /// Returns the nonce of the instance, if it was.
    ///
    /// # Errors
    /// If it cannot be written.
    fn restore_record(&mut self, _: &DesiredMachine, _model: Uuid) -> Result<Option<Uuid>, CommandError> {
        Ok(None)
    }
    /// The machines whose agents end at each start, and how, as far as this host observes that.
    fn failing_agents(&self) -> BTreeMap<Uuid, MachineAgentExits> {
        BTreeMap::new()
    }
    /// Completes when [`Provider::failing_agents`] may have changed.
    fn wait_for_exits(&self) -> impl Future<Output = ()> {
        std::future::pending()
    }
    /// Completes when a machine that must run may have stopped.
    fn wait_for_change(&self) -> impl Future<Output = ()>;
}

/// The configured provider of a data folder.
pub enum AnyProvider {
    /// Folders and processes.
    Local(local::Local),
    /// Containers.
    Nspawn(nspawn::Nspawn),
}

impl Provider for AnyProvider {
    fn kind(&self) -> ProviderKind {
        match self {
            AnyProvider::Local(_) => ProviderKind::Local,
            AnyProvider::Nspawn(_) => ProviderKind::Nspawn,
        }
    }

    fn list(&self, model: Uuid) -> Result<InstanceList, CommandError> {
        let dir = match self {
            AnyProvider::Local(local) => &local.dir,
            AnyProvider::Nspawn(nspawn) => &nspawn.dir,
        };
        machine_folder::list(&dir.machines(), model)
            .map_err(|error| CommandError::new(format!("cannot list the machines: {error}")))
    }

    fn running_address(&self, machine: Uuid) -> Option<String> {
        match self {
            AnyProvider::Local(local) => local.running_address(machine),
            AnyProvider::Nspawn(nspawn) => nspawn.running_address(machine),
        }
    }

    async fn create(&mut self, spec: &InstanceSpec<'_>) -> Result<CreatedInstance, CommandError> {
        match self {
            AnyProvider::Local(local) => local.create(spec).await,
            AnyProvider::Nspawn(nspawn) => nspawn.create(spec).await,
        }
    }

    async fn start(&mut self, spec: &InstanceSpec<'_>) -> Result<Option<Duration>, CommandError> {
        match self {
            AnyProvider::Local(local) => local.start(spec.machine.uuid).await.map(|()| None),
            AnyProvider::Nspawn(nspawn) => nspawn.start(spec).await,
        }
    }

    async fn terminate(&mut self, machine: Uuid) -> Result<(), CommandError> {
        match self {
            AnyProvider::Local(local) => local.terminate(machine).await,
            AnyProvider::Nspawn(nspawn) => nspawn.terminate(machine).await,
        }
    }

    async fn hand_over(&mut self, machine: Uuid) -> Result<(), CommandError> {
        match self {
            AnyProvider::Local(local) => local.hand_over(machine).await,
            AnyProvider::Nspawn(nspawn) => nspawn.hand_over(machine),
        }
    }

    fn restore_record(
        &mut self,
        machine: &DesiredMachine,
        model: Uuid,
    ) -> Result<Option<Uuid>, CommandError> {
        match self {
            AnyProvider::Local(local) => local.restore_record(machine, model).map_err(|error| {
                CommandError::new(format!("cannot write the record of machine {}: {error}", machine.name))
            }),
            // its root is recorded nowhere else
            AnyProvider::Nspawn(_) => Ok(None),
        }
    }

    fn failing_agents(&self) -> BTreeMap<Uuid, MachineAgentExits> {
        match self {
            AnyProvider::Local(local) => local.failing_agents(),
            // the service manager in the container restarts the agent
            AnyProvider::Nspawn(_) => BTreeMap::new(),
        }
    }

    async fn wait_for_exits(&self) {
        match self {
            AnyProvider::Local(local) => local.wait_for_exits().await,
            AnyProvider::Nspawn(_) => std::future::pending().await,
        }
    }

    async fn wait_for_change(&self) {
        match self {
            // `SupervisedProcess` restarts the agents of local machines
            AnyProvider::Local(_) => std::future::pending().await,
            AnyProvider::Nspawn(nspawn) => nspawn.wait_for_change().await,
        }
    }
}

impl AnyProvider {
    /// Ends supervision. Returns the child processes that keep running, which the caller must stop.
    pub fn release(self) -> Vec<Process> {
        match self {
            AnyProvider::Local(local) => local.release(),
            AnyProvider::Nspawn(_) => Vec::new(),
        }
    }
}
