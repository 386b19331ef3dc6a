//! `up.yaml`: what `pintle up` was told once, and goes on with.

use crate::command_error::Failure;
use crate::data_dir::DataDir;
use crate::supervisor::provider::Kind;
use host::file::{ignore_not_found, write_atomic};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub provider: Kind,
    /// The base system of nspawn's machines, if it is not in the data folder.
    pub base: Option<PathBuf>,
    /// Where else the controller listens, for machines that people bring.
    pub listen: Option<IpAddr>,
}

impl Settings {
    pub fn read(dir: &DataDir) -> Result<Settings, Failure> {
        let place = dir.settings();
        match ignore_not_found(std::fs::read_to_string(&place)) {
            Ok(Some(text)) => serde_yaml::from_str(&text)
                .map_err(|error| Failure::new(format!("{} is damaged: {error}", place.display()))),
            Ok(None) => Ok(Settings::default()),
            Err(error) => Err(Failure::new(format!("cannot read {}: {error}", place.display()))),
        }
    }

    pub fn write(&self, dir: &DataDir) -> Result<(), Failure> {
        let (place, text) = (dir.settings(), serde_yaml::to_string(self).expect("plain data"));
        write_atomic(&place, text.as_bytes())
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", place.display())))
    }
}
