//! The provider port: what there is as machines on this host, and how one is made, kept and taken away. What is to be
//! done is decided by `state::machine::provision`.
//!
//! A machine's folder is `machines/<uuid>`. From the moment that it holds `instance.yaml` there is an instance.

pub mod local;
pub mod nspawn;

use crate::failure::Failure;
use crate::supervisor::files;
use crate::supervisor::process::Process;
use api::operator::{ClientFile, MachineInfo, ModelInfo};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use state::names::Uuid;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Which provider makes the machines that no person brings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Folders and processes on this host
    #[default]
    Local,
    /// Containers with a system of their own (needs root)
    Nspawn,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Local => "local",
            Kind::Nspawn => "nspawn",
        }
    }
}

/// `instance.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    pub model: Uuid,
    /// None of one that was made before there were nonces.
    pub nonce: Option<Uuid>,
    pub address: String,
}

impl Instance {
    const FILE: &str = "instance.yaml";

    pub fn read(folder: &Path) -> Option<Instance> {
        serde_yaml::from_str(&std::fs::read_to_string(folder.join(Instance::FILE)).ok()?).ok()
    }

    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let text = serde_yaml::to_string(self).expect("plain data");
        files::replace_private(&folder.join(Instance::FILE), &text)
    }
}

/// What a machine is made for and from.
pub struct Wish<'a> {
    pub machine: &'a MachineInfo,
    pub model: &'a ModelInfo,
    pub nonce: Uuid,
    /// How its agent finds and trusts the controller.
    pub client: &'a ClientFile,
}

/// What became of it.
pub struct Made {
    pub instance_id: String,
    pub address: String,
    /// Of its agent; on disk already.
    pub token: String,
}

pub enum Provider {
    Local(local::Local),
    Nspawn(nspawn::Nspawn),
}

impl Provider {
    pub fn kind(&self) -> Kind {
        match self {
            Provider::Local(_) => Kind::Local,
            Provider::Nspawn(_) => Kind::Nspawn,
        }
    }

    /// The instances of a model.
    pub fn found(&self, model: Uuid) -> BTreeMap<Uuid, Option<Uuid>> {
        match self {
            Provider::Local(local) => local.found(model),
            Provider::Nspawn(nspawn) => nspawn.found(model),
        }
    }

    /// The machine runs, as far as this provider has seen to it.
    pub fn is_running(&self, machine: Uuid) -> bool {
        match self {
            Provider::Local(local) => local.is_running(machine),
            Provider::Nspawn(nspawn) => nspawn.is_running(machine),
        }
    }

    /// Makes the instance, or what is not done of it.
    pub fn make(&mut self, wish: &Wish<'_>) -> Result<Made, Failure> {
        match self {
            Provider::Local(local) => local.make(wish),
            Provider::Nspawn(nspawn) => nspawn.make(wish),
        }
    }

    /// Starts what was made. None: it has just ended, and is started again after this pause.
    pub async fn start(&mut self, wish: &Wish<'_>) -> Result<Option<Duration>, Failure> {
        match self {
            Provider::Local(local) => {
                local.start(wish.machine.uuid);
                Ok(None)
            }
            Provider::Nspawn(nspawn) => nspawn.start(wish).await,
        }
    }

    /// Ends it, and takes it away with all that is in it.
    pub async fn take_away(&mut self, machine: Uuid) -> Result<(), Failure> {
        match self {
            Provider::Local(local) => local.take_away(machine).await,
            Provider::Nspawn(nspawn) => nspawn.take_away(machine).await,
        }
    }

    /// Over when a machine may have ended that is to run.
    pub async fn news(&self) {
        match self {
            // its agents are started again by what started them
            Provider::Local(_) => std::future::pending().await,
            Provider::Nspawn(nspawn) => nspawn.news().await,
        }
    }

    /// Starts nothing any more. Answers the children that go on, which the caller stops.
    pub fn release(self) -> Vec<Process> {
        match self {
            Provider::Local(local) => local.release(),
            Provider::Nspawn(_) => Vec::new(),
        }
    }
}

/// Makes a folder that only its user enters.
fn make_folder(folder: &Path) -> io::Result<()> {
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700).create(folder)
}

/// The folders that are named after machines.
fn machine_folders(machines: &Path) -> Vec<(Uuid, std::path::PathBuf)> {
    let entries = std::fs::read_dir(machines).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path()))).collect()
}
