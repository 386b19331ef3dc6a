//! The flags of `up` for models in etcd. `up` passes them to the controller, which verifies them and records them in the
//! data folder for the next start (`api::etcd_file`).

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::supervisor::local_etcd;
use api::etcd_file::EtcdConnection;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Where the models are stored.
#[derive(Debug, Default, Args)]
pub struct StoreArgs {
    /// Store the models in etcd instead of the data folder: etcd://HOST[:PORT],HOST[:PORT],...; or the word etcd, to start
    /// an etcd on this host and two controllers. Used by the next start, too. To move existing models: pintle-controller
    /// migrate
    #[arg(long, value_name = "ADDRESS")]
    store: Option<String>,
    /// Prefix of all keys in etcd [default: /pintle]
    #[arg(long, value_name = "PREFIX", requires = "store")]
    store_prefix: Option<String>,
    /// Certificate of the CA of etcd (PEM); connections then use TLS
    #[arg(long, value_name = "FILE", requires = "store")]
    store_ca: Option<PathBuf>,
    /// Client certificate for etcd (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["store_key", "store_ca"])]
    store_certificate: Option<PathBuf>,
    /// Private key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "store_certificate")]
    store_key: Option<PathBuf>,
}

impl StoreArgs {
    /// Whether an etcd is to be started on this host.
    pub fn is_local_etcd(&self) -> bool {
        self.store.as_deref() == Some(local_etcd::WORD)
    }

    /// Whether an etcd is named that a person has started.
    pub fn is_other_etcd(&self) -> bool {
        self.store.is_some() && !self.is_local_etcd()
    }

    /// Checks the flags against what the data folder has, before anything is changed.
    ///
    /// # Errors
    /// If an etcd cannot be started on this host, or the models are elsewhere.
    pub fn check(&self, dir: &DataDir, is_running: bool) -> Result<(), CommandError> {
        let has_other_flags = self.store_prefix.is_some() || self.store_ca.is_some();
        if self.is_local_etcd() && has_other_flags {
            return Err(CommandError::usage("--store etcd has no other flags: it starts an etcd of its own"));
        }
        if self.is_local_etcd() {
            local_etcd::require_no_other_store(dir)?;
        }
        let is_used = local_etcd::is_used(dir)?;
        match &self.store {
            // a first start that has failed has no models
            Some(address) if is_used && !self.is_local_etcd() && local_etcd::recorded(dir)?.is_some() => {
                let folder = dir.path().display();
                return Err(CommandError::new(format!(
                    "cannot use {address}: the models of {folder} are in the etcd that pintle up starts"
                )));
            }
            Some(_) | None => {}
        }
        let is_used = is_used && !self.is_other_etcd();
        match !is_running && (is_used || self.is_local_etcd()) {
            true => local_etcd::require_program(),
            false => Ok(()),
        }
    }

    /// Returns how etcd is to be reached; none if no flag states it.
    fn connection(&self) -> Result<Option<EtcdConnection>, CommandError> {
        let absolute = |path: &Option<PathBuf>| {
            let absolute = path.as_deref().map(std::path::absolute).transpose();
            absolute.map_err(|error| CommandError::new(format!("cannot use this certificate: {error}")))
        };
        let Some(address) = self.store.clone() else { return Ok(None) };
        let prefix = self.store_prefix.as_deref().unwrap_or(EtcdConnection::DEFAULT_PREFIX);
        Ok(Some(EtcdConnection {
            address,
            prefix: prefix.to_owned(),
            ca: absolute(&self.store_ca)?,
            certificate: absolute(&self.store_certificate)?,
            key: absolute(&self.store_key)?,
        }))
    }

    /// Returns the variables that pass the flags to the controller.
    ///
    /// # Errors
    /// If they are not what a running controller uses.
    pub fn variables(
        &self,
        dir: &DataDir,
        is_running: bool,
    ) -> Result<Vec<(&'static str, OsString)>, CommandError> {
        if self.is_local_etcd() {
            return Ok(Vec::new()); // the supervisor knows the port of the etcd that it starts
        }
        let Some(connection) = self.connection()? else { return Ok(Vec::new()) };
        if is_running && local_etcd::recorded(dir)?.as_ref() != Some(&connection) {
            let text = format!("cannot change the store: {} is running", dir.path().display());
            return Err(CommandError::new(text).hint("pintle down, then pintle up"));
        }
        let EtcdConnection { address, prefix, ca, certificate, key } = connection;
        let files =
            [("PINTLE_STORE_CA", ca), ("PINTLE_STORE_CERTIFICATE", certificate), ("PINTLE_STORE_KEY", key)];
        let files = files.into_iter().filter_map(|(name, file)| Some((name, OsString::from(file?))));
        Ok([("PINTLE_STORE", address.into()), ("PINTLE_STORE_PREFIX", prefix.into())]
            .into_iter()
            .chain(files)
            .collect())
    }
}
