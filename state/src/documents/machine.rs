//! Documents of machines: the machine, its instance, what keeps its provider from it, and what is on it.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineDoc {
    /// What people see: `0`.
    pub name: String,
    /// Address of the machine's units: 127.0.n.1 for the local provider.
    pub address: String,
    pub created_ms: i64,
    /// A person brings it; no provider makes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub manual: bool,
    /// Its instance stays when it goes (`remove-machine --keep-instance`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// Of one that is Dead and kept: its agent has taken itself away, or is waited for no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}

/// What runs as a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceDoc {
    /// `local`, `nspawn` or `manual`.
    pub provider: String,
    /// Recorded before the instance is made, so that it is made once.
    pub nonce: Uuid,
    /// The provider's name for it; none until it is there.
    pub id: Option<String>,
}

/// What keeps a machine's provider from making or taking it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProvisioningErrorDoc {
    pub message: String,
    /// In a row.
    pub failures: u32,
    /// When the first of these was.
    pub since_ms: i64,
    /// When the last one was.
    pub last_ms: i64,
    /// When it is tried again.
    pub retry_ms: i64,
}

/// The open ports of one unit, with its name for messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenPortsDoc {
    pub unit: UnitName,
    pub ports: BTreeMap<String, BTreeSet<String>>,
}

impl Model {
    pub fn machine(&self, id: Uuid) -> Key<MachineDoc> {
        self.key(Kind::Machine, &[id])
    }
    pub fn machine_life(&self, id: Uuid) -> Key<Life> {
        self.key(Kind::MachineLife, &[id])
    }
    pub fn machine_instance(&self, id: Uuid) -> Key<InstanceDoc> {
        self.key(Kind::MachineInstance, &[id])
    }
    pub fn machine_provisioning_error(&self, id: Uuid) -> Key<ProvisioningErrorDoc> {
        self.key(Kind::MachineTrouble, &[id])
    }
    pub fn machine_name(&self, name: &str) -> Key<Uuid> {
        self.named(Kind::MachineName, name)
    }
    /// A machine's units, principals and subordinates.
    pub fn machine_unit(&self, machine: Uuid, unit: Uuid) -> Key<()> {
        self.key(Kind::UnitOn, &[machine, unit])
    }
    pub fn machine_units(&self, machine: Uuid) -> String {
        self.below(Kind::UnitOn, &[machine])
    }
    /// What one unit of a machine has open, by endpoint; only units with open ports are here, so that a conflict is
    /// found in one page.
    pub fn machine_port(&self, machine: Uuid, unit: Uuid) -> Key<OpenPortsDoc> {
        self.key(Kind::PortsOn, &[machine, unit])
    }
    pub fn machine_ports_prefix(&self, machine: Uuid) -> String {
        self.below(Kind::PortsOn, &[machine])
    }
}
