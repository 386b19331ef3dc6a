//! The production machine agent over the simulated unit folders of a machine.

use super::{DeployedUnit, Machine, ProvidedStorage};
use crate::sim::clock::SimClock;
use crate::sim::fact::Fact;
use crate::sim::network::SimNetwork;
use crate::sim::network::machines::MachineLink;
use crate::sim::world::{Command, World};
use agent::machine_agent::MachineAgent;
use agent::ports::{AuthorizedKeys, Deployments, StorageHost, UnitToken};
use agent::unrestored_storage::UnrestoredStorage;
use state::documents::prelude::Model;
use state::machine::claims::Claim;
use state::terms::disk_usage::UnitDiskUsage;
use state::terms::health::UnitHealth;
use state::terms::names::{UnitName, Uuid};
use state::terms::ssh_key::SshKey;
use state::terms::storage::{MachineStorage, StorageId};
use std::collections::BTreeSet;

/// Runs the machine agent: it supervises unit agents until the machine is Dead and then uninstalls them.
pub async fn run_machine_agent(world: World, network: SimNetwork, model: Model, machine: Machine) {
    let link = MachineLink::new(network, model, machine.id);
    let clock = SimClock { world: world.clone(), machine: machine.clone() };
    let deployments = Folders { world: world.clone(), machine: machine.clone() };
    let agent = MachineAgent::new(link, deployments, clock);
    if !machine.state().dead {
        agent.run().await;
        world.pause().await;
        world.trace(|| format!("machine {}: is Dead", machine.id));
        machine.state().dead = true;
    }
    world.pause().await;
    agent.uninstall_units().await.expect("nothing fails here but the network");
}

/// The folders of a machine's units. The fleet starts and stops the agents after the poll.
struct Folders {
    world: World,
    machine: Machine,
}

impl Folders {
    fn unit(&self, name: &UnitName) -> Option<Uuid> {
        self.machine.state().deployed.get(name).map(|deployed| deployed.unit)
    }
}

impl Folders {
    /// Fails as the host does at times, before or after it has done something.
    async fn fail_storage(&self) -> anyhow::Result<()> {
        self.world.pause().await;
        match self.world.draws_fault(self.world.profile().storage_fails) {
            true => Err(anyhow::anyhow!("the host is busy")),
            false => Ok(()),
        }
    }
}

impl StorageHost for Folders {
    async fn provide_storage(&self, id: &StorageId, storage: &MachineStorage) -> anyhow::Result<String> {
        self.fail_storage().await?;
        let unit = storage.attachment.as_ref().map(|attachment| attachment.unit);
        let provided = ProvidedStorage { id: id.clone(), unit };
        self.machine.state().storage.insert(storage.instance, provided);
        self.world.pause().await;
        Ok(format!("/storage/{id}"))
    }

    async fn release_storage(&self, _: &StorageId, storage: &MachineStorage) -> anyhow::Result<()> {
        self.fail_storage().await?;
        let mut state = self.machine.state();
        state.storage.get_mut(&storage.instance).into_iter().for_each(|provided| provided.unit = None);
        Ok(())
    }

    async fn delete_storage(&self, id: &StorageId, storage: &MachineStorage) -> anyhow::Result<()> {
        self.fail_storage().await?;
        if self.machine.state().storage.remove(&storage.instance).is_some() {
            self.world.note(Fact::StorageDeleted { id: id.clone(), instance: storage.instance });
        }
        self.world.pause().await;
        Ok(())
    }

    async fn restore_storage(&self) -> UnrestoredStorage {
        UnrestoredStorage::default()
    }

    async fn release_all_storage(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

impl AuthorizedKeys for Folders {
    /// No user of the simulator adds a key.
    async fn set_ssh_keys(&self, _: &[SshKey]) -> anyhow::Result<()> {
        Ok(())
    }
}

impl Deployments for Folders {
    type Folder = UnitName;

    fn folder(&self, name: &UnitName) -> UnitName {
        name.clone()
    }

    fn claims(&self) -> anyhow::Result<Vec<Claim<UnitName>>> {
        let state = self.machine.state();
        let claim = |(name, deployed): (&UnitName, &DeployedUnit)| Claim {
            unit: deployed.unit,
            name: name.clone(),
            folder: name.clone(),
        };
        Ok(state.deployed.iter().map(claim).collect())
    }

    fn verify_absent(&self, unit: Uuid) -> anyhow::Result<()> {
        let state = self.machine.state();
        let is_here = state.quarantined.contains_key(&unit)
            || state.deployed.values().any(|deployed| deployed.unit == unit);
        if is_here { Err(anyhow::anyhow!("a folder belongs to unit {unit}")) } else { Ok(()) }
    }

    fn take_deleted(&self) -> BTreeSet<Uuid> {
        BTreeSet::new() // folders are deleted at once
    }

    async fn wait_until_deleted(&self) {}

    fn is_finished(&self, name: &UnitName) -> bool {
        let is_active = |entry: &DeployedUnit| entry.token_set && !entry.finished && !entry.recalling;
        self.machine.state().deployed.get(name).is_some_and(|entry| !is_active(entry))
    }

    async fn prepare(&self, unit: Uuid, name: &UnitName) -> anyhow::Result<String> {
        self.world.pause().await;
        let token = {
            let mut state = self.machine.state();
            let quarantined = state.quarantined.remove(&unit);
            let made = || DeployedUnit {
                unit,
                token: format!("{:032x}{:032x}", self.world.random_u128(), self.world.random_u128()),
                token_set: false,
                finished: false,
                recalling: false,
            };
            let deployed =
                state.deployed.entry(name.clone()).or_insert_with(|| quarantined.unwrap_or_else(made));
            assert_eq!(deployed.unit, unit, "{name}: the folder belongs to another unit");
            deployed.token.clone()
        };
        self.world.pause().await;
        Ok(token)
    }

    fn token(&self, name: &UnitName) -> anyhow::Result<UnitToken> {
        let state = self.machine.state();
        let deployed =
            state.deployed.get(name).ok_or_else(|| anyhow::anyhow!("{name}: the folder does not exist"))?;
        Ok(UnitToken { text: deployed.token.clone(), is_accepted: deployed.token_set })
    }

    async fn store_token_accepted(&self, name: &UnitName) -> anyhow::Result<()> {
        self.world.pause().await;
        self.machine.state().deployed.get_mut(name).into_iter().for_each(|entry| entry.token_set = true);
        Ok(())
    }

    fn ensure_running(&self, unit: Uuid, name: &UnitName, assigned: bool) -> anyhow::Result<()> {
        if assigned {
            self.machine.state().deployed.get_mut(name).into_iter().for_each(|entry| entry.recalling = false);
        }
        if !self.is_finished(name) {
            self.world.command(Command::EnsureRunning { machine: self.machine.id, unit, name: name.clone() });
        }
        Ok(())
    }

    async fn stop(&self, name: &UnitName) -> anyhow::Result<()> {
        let Some(unit) = self.unit(name) else { return Ok(()) };
        self.machine.state().deployed.get_mut(name).into_iter().for_each(|entry| entry.recalling = true);
        self.world.pause().await;
        self.world.command(Command::Recall(unit));
        self.world.pause().await;
        Ok(())
    }

    async fn stop_all(&self) -> anyhow::Result<()> {
        for claim in self.claims()? {
            self.stop(&claim.folder).await?;
        }
        Ok(())
    }

    async fn delete(&self, unit: Uuid, _: &UnitName) -> anyhow::Result<()> {
        self.world.pause().await;
        self.machine.forget(unit);
        Ok(())
    }

    async fn quarantine(&self, unit: Uuid, name: &UnitName) -> anyhow::Result<String> {
        self.world.command(Command::Quarantine(unit));
        self.world.pause().await;
        let mut state = self.machine.state();
        let deployed = state.deployed.remove(name).filter(|deployed| deployed.unit == unit);
        deployed.into_iter().for_each(|deployed| drop(state.quarantined.insert(unit, deployed)));
        Ok(format!("quarantine/{name}"))
    }

    /// The fleet shows no problems from outside.
    /// No storage is missing after a boot.
    fn is_to_be_started(&self, _: &UnitName) -> bool {
        false
    }

    fn health(&self, _: Uuid, _: &UnitName) -> UnitHealth {
        UnitHealth::default()
    }

    async fn disk_usage(&self, _: &UnitName) -> UnitDiskUsage {
        UnitDiskUsage::default()
    }

    async fn quarantined_bytes(&self) -> u64 {
        0
    }

    /// Never returns: the fleet restarts agents that end.
    async fn changed(&self) {
        std::future::pending().await
    }
}
