//! `up.yaml`: the settings of `pintle up`, which are stored for the next start.
//!
//! Written by `up`. Read by `up` and `supervise`, and by commands on the host of the controller that need the provider, the
//! bases or the charm directories (`add-machine`, `bases`, `dev`, `deploy`), and before a copied data folder gets an
//! identity of its own (`supervisor::renewal`).

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use host::file::{ignore_not_found, write_atomic};
use serde::{Deserialize, Serialize};
use state::charm::Base;
use state::terms::provider_kind::ProviderKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The root file system of a base, from which nspawn machines are created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseRoot {
    /// The name and the release of the base, for example ubuntu and 24.04.
    pub base: Base,
    /// The path of its root file system.
    pub root: PathBuf,
}

/// The content of `up.yaml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpSettings {
    /// The provider of machines.
    pub provider: ProviderKind,
    /// The root file system of the default base of nspawn machines, if it is not in the data folder.
    #[serde(rename = "base")]
    pub default_root: Option<PathBuf>,
    /// The other bases of nspawn machines.
    #[serde(default)]
    pub base_roots: Vec<BaseRoot>,
    /// The additional address on which the controller listens for manually provisioned machines.
    pub listen: Option<IpAddr>,
    /// The directories in which `deploy NAME` finds charms; read by the commands, not by the supervisor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub charms: Vec<PathBuf>,
    /// Whether `up` starts an etcd on this host for the models, and a second controller.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub local_etcd: bool,
}

impl UpSettings {
    /// Reads the settings of a data folder; the defaults if none are stored.
    ///
    /// # Errors
    /// If the file cannot be read or parsed.
    pub fn read(dir: &DataDir) -> Result<UpSettings, CommandError> {
        let path = dir.settings();
        match ignore_not_found(std::fs::read_to_string(&path)) {
            Ok(Some(text)) => charms::yaml::from_str(&text).map_err(|error| damaged(&path, &error)),
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

/// The error of a file that cannot be parsed. Deleting it would lose the provider of the machines.
fn damaged(path: &Path, error: &charms::yaml::YamlError) -> CommandError {
    let name = path.display();
    let providers = ProviderKind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(" or ");
    CommandError::new(format!("{name} is damaged: {error}")).hint(format!(
        "replace its content by one line with the provider of its machines: \"provider: KIND\", where KIND is {providers}; \
         give all other settings to pintle up again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_error_of_damaged_settings_names_repairs_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(folder.path())).expect("a path");
        std::fs::write(dir.settings(), "provider: [\n").expect("written");
        let hint = UpSettings::read(&dir).expect_err("it is damaged").hint.expect("a remedy");
        for kind in ProviderKind::ALL {
            assert!(hint.contains("provider: KIND") && hint.contains(kind.as_str()), "{hint}");
            std::fs::write(dir.settings(), format!("provider: {}\n", kind.as_str())).expect("written");
            assert_eq!(UpSettings::read(&dir).expect("repaired").provider, *kind);
        }
    }
}
