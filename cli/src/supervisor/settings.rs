//! `up.yaml`: the settings of `pintle up`, which are stored for the next start.
//!
//! Written by `up`, read by `up`, `supervise` and `add-machine`.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use host::file::{ignore_not_found, write_atomic};
use serde::{Deserialize, Serialize};
use state::charm::Base;
use state::terms::provider_kind::ProviderKind;
use std::net::IpAddr;
use std::path::PathBuf;

/// A base system that was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseRoot {
    /// Its name and release.
    pub base: Base,
    /// Its root file system.
    pub root: PathBuf,
}

/// The content of `up.yaml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpSettings {
    /// The provider of machines.
    pub provider: ProviderKind,
    /// The base system of nspawn machines, if it is not in the data folder.
    pub base: Option<PathBuf>,
    /// Other base systems of nspawn machines.
    #[serde(default)]
    pub base_roots: Vec<BaseRoot>,
    /// The additional address on which the controller listens for manually provisioned machines.
    pub listen: Option<IpAddr>,
    /// The directories in which `deploy NAME` finds charms; read by the commands, not by the supervisor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub charms: Vec<PathBuf>,
}

impl UpSettings {
    /// Reads the settings of a data folder; the defaults if none are stored.
    ///
    /// # Errors
    /// If the file cannot be read or parsed.
    pub fn read(dir: &DataDir) -> Result<UpSettings, CommandError> {
        let path = dir.settings();
        match ignore_not_found(std::fs::read_to_string(&path)) {
            Ok(Some(text)) => charms::yaml::from_str(&text)
                .map_err(|error| CommandError::new(format!("{} is damaged: {error}", path.display()))),
            Ok(None) => Ok(UpSettings::default()),
            Err(error) => Err(CommandError::new(format!("cannot read {}: {error}", path.display()))),
        }
    }

    /// Stores the settings.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, dir: &DataDir) -> Result<(), CommandError> {
        let (path, text) = (dir.settings(), charms::yaml::to_string(self).expect("plain data"));
        write_atomic(&path, text.as_bytes())
            .map_err(|error| CommandError::new(format!("cannot write {}: {error}", path.display())))
    }
}
