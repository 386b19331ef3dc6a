//! Documents of machines: the machine, its instance, its provisioning error, and the indexes of its units and
//! open ports.

use crate::charm::Base;
use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::constraints::Constraints;
use crate::terms::hardware::Hardware;
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use crate::terms::port_range::Ports;
use crate::terms::provider_kind::ProviderKind;
use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineDoc {
    /// The name of the machine: `0`.
    pub name: String,
    /// The address of the units on the machine: 127.0.n.1 for the local provider.
    pub address: String,
    /// When the machine was added.
    pub created_ms: i64,
    /// Whether the machine is manually provisioned: no provider creates its instance.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub manual: bool,
    /// Whether the instance is kept when the machine is removed (`remove-machine --keep-instance`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_instance: bool,
    /// For a Dead machine whose instance is kept: whether its agent has been uninstalled, or is no longer
    /// expected to be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent_uninstalled: bool,
    /// The operating system that the user requested for it; none for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_base: Option<Base>,
    /// The constraints under which it was added. They are shown only.
    #[serde(default, skip_serializing_if = "Constraints::is_empty")]
    pub constraints: Constraints,
}

/// The instance of a machine: what runs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceDoc {
    /// What created it; none if the machine is manually provisioned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderKind>,
    /// The nonce of the instance. It is stored before the instance is created, so that the instance is created
    /// once.
    pub nonce: Uuid,
    /// The provider's name for the instance; none until the instance exists.
    pub id: Option<String>,
    /// Its operating system; none until the instance exists, or if it does not name one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
    /// Its hardware; none until the instance exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
}

/// Why the provider cannot create or delete the instance of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProvisioningErrorDoc {
    /// The error of the provider.
    pub message: String,
    /// The number of failures in a row.
    pub failures: u32,
    /// When the first of these failures happened.
    pub since_ms: i64,
    /// When the last failure happened.
    pub last_ms: i64,
    /// When the provider tries again.
    pub retry_ms: i64,
}

/// The open ports of one unit, with the name of the unit for messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenPortsDoc {
    /// The name of the unit.
    pub unit: UnitName,
    /// The open ranges.
    pub ports: Ports,
}

impl Model {
    /// The machine.
    pub fn machine(&self, id: Uuid) -> Key<MachineDoc> {
        self.key(Kind::Machine, &[id])
    }
    /// The life of the machine.
    pub fn machine_life(&self, id: Uuid) -> Key<Life> {
        self.key(Kind::MachineLife, &[id])
    }
    /// The instance of the machine; absent until its creation begins.
    pub fn machine_instance(&self, id: Uuid) -> Key<InstanceDoc> {
        self.key(Kind::MachineInstance, &[id])
    }
    /// The provisioning error of the machine; absent unless the last attempt failed.
    pub fn machine_provisioning_error(&self, id: Uuid) -> Key<ProvisioningErrorDoc> {
        self.key(Kind::ProvisioningError, &[id])
    }
    /// The machine of this name.
    pub fn machine_name(&self, name: &str) -> Key<Uuid> {
        self.key_by_name(Kind::MachineName, name)
    }
    /// Index of the units of a machine, principals and subordinates.
    pub fn machine_unit(&self, machine: Uuid, unit: Uuid) -> Key<()> {
        self.key(Kind::UnitOn, &[machine, unit])
    }
    /// The prefix of [`Self::machine_unit`] for one machine.
    pub fn machine_units(&self, machine: Uuid) -> String {
        self.prefix_below(Kind::UnitOn, &[machine])
    }
    /// The open ports of one unit of a machine. Only units with open ports have an entry, so that one page is
    /// enough to find a conflict.
    pub fn machine_port(&self, machine: Uuid, unit: Uuid) -> Key<OpenPortsDoc> {
        self.key(Kind::PortsOn, &[machine, unit])
    }
    /// The prefix of [`Self::machine_port`] for one machine.
    pub fn machine_ports_prefix(&self, machine: Uuid) -> String {
        self.prefix_below(Kind::PortsOn, &[machine])
    }
}
