//! The instance of a machine: its specification, its record in `instance.yaml`, and the result of its creation.

use crate::command_error::CommandError;
use api::{ClientFile, DesiredMachine, ModelInfo};
use host::file::{ignore_not_found, write_atomic};
use host::hardware;
use serde::{Deserialize, Serialize};
use state::charm::Base;
use state::terms::hardware::Hardware;
use state::terms::names::Uuid;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The content of `instance.yaml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// The model of the machine.
    pub model: Uuid,
    /// The nonce under which the instance was created.
    pub nonce: Uuid,
    /// The address of the machine.
    pub address: String,
    /// The host name of the machine; empty if it has that of this host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// The base system over which its root is mounted. It never changes, whatever base systems are added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
}

impl Instance {
    pub(super) const FILE: &str = "instance.yaml";

    /// Reads the file of a machine's folder; `None` if it does not exist. A damaged file is an error, because the
    /// instance may exist.
    pub fn read(folder: &Path) -> io::Result<Option<Instance>> {
        let text = ignore_not_found(std::fs::read_to_string(folder.join(Instance::FILE)))?;
        let parse = |text: String| charms::yaml::from_str(&text);
        let damaged =
            |error: charms::yaml::YamlError| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        text.map(parse).transpose().map_err(damaged)
    }

    /// Writes the file atomically.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let text = charms::yaml::to_string(self).expect("plain data");
        write_atomic(&folder.join(Instance::FILE), text.as_bytes())
    }
}

/// The specification of an instance.
pub struct InstanceSpec<'a> {
    /// The machine for which the instance is created.
    pub machine: &'a DesiredMachine,
    /// The model of the machine.
    pub model: &'a ModelInfo,
    /// The nonce under which the instance is created.
    pub nonce: Uuid,
    /// Address and certificate of the controller, for the machine agent.
    pub client: &'a ClientFile,
}

/// A created instance.
pub struct CreatedInstance {
    /// The provider's name of the instance.
    pub instance_id: String,
    /// The address of the machine.
    pub address: String,
    /// Its operating system; none if it does not name one.
    pub base: Option<Base>,
    /// Its hardware: a machine has that of its host.
    pub hardware: Option<Hardware>,
    /// The token of the machine agent, which is already on disk.
    pub token: String,
}

/// The hardware of this host, which each of its machines has.
pub(super) fn host_hardware() -> Hardware {
    Hardware {
        arch: hardware::architecture().to_owned(),
        cores: hardware::processors(),
        mem_mib: hardware::memory_mib(),
    }
}

/// For each machine, the nonce of its instance, or why it cannot be read.
pub type InstanceList = BTreeMap<Uuid, Result<Uuid, CommandError>>;
