//! The store in etcd as an operator states it: `--store` with its flags, and the file `store/etcd.yaml`, which records them
//! for the next start.
//!
//! The file also records which store the data folder belongs to, so that an etcd that has lost it, or has an older copy,
//! is refused (design 8). The lock of the store's folder is taken as for the embedded store: one process for each data folder.
//! Called by `program`, `migrate` and `secret_key_rotation`.

use crate::environment::uuid_v4;
use crate::installation::Installation;
use crate::required_file::{FROM_A_BACKUP, UnusableFile, read_yaml, write_yaml};
use crate::store::Store;
use crate::store::etcd::{Etcd, Options, RecordedStore, Tls, parse_address};
use crate::store::sqlite::LOCK;
use anyhow::{Context, Result, bail};
use api::etcd_file::{ETCD_FILE, EtcdConnection, EtcdFile};
use host::file::write_atomic_unsynced;
use host::lock::{Lock, LockHeld};
use state::terms::names::Uuid;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The least time between two records of the newest revision.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);

/// The flags of a store in etcd.
#[derive(clap::Args)]
pub(crate) struct EtcdArguments {
    /// Stores the models in etcd instead of the data folder: etcd://HOST[:PORT],HOST[:PORT],...; recorded in the data
    /// folder with the flags below, for the next start
    #[arg(long, value_name = "ADDRESS", env = "PINTLE_STORE")]
    pub store: Option<String>,
    /// The prefix of all keys in etcd [default: /pintle]
    #[arg(long, value_name = "PREFIX", env = "PINTLE_STORE_PREFIX")]
    store_prefix: Option<String>,
    /// The certificate of the CA of etcd (PEM); connections then use TLS
    #[arg(long, value_name = "FILE", env = "PINTLE_STORE_CA")]
    store_ca: Option<PathBuf>,
    /// The client certificate for etcd (PEM)
    #[arg(long, value_name = "FILE", env = "PINTLE_STORE_CERTIFICATE", requires_all = ["store_key", "store_ca"])]
    store_certificate: Option<PathBuf>,
    /// The private key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", env = "PINTLE_STORE_KEY", requires = "store_certificate")]
    store_key: Option<PathBuf>,
}

impl EtcdArguments {
    /// How etcd at an address is reached.
    ///
    /// # Errors
    /// If a path cannot be made absolute.
    pub fn connection_to(&self, address: &str) -> Result<EtcdConnection> {
        let absolute = |path: &Option<PathBuf>| path.as_deref().map(std::path::absolute).transpose();
        let prefix = self.store_prefix.as_deref().unwrap_or(EtcdConnection::DEFAULT_PREFIX);
        Ok(EtcdConnection {
            address: address.to_owned(),
            prefix: prefix.to_owned(),
            ca: absolute(&self.store_ca)?,
            certificate: absolute(&self.store_certificate)?,
            key: absolute(&self.store_key)?,
        })
    }

    /// How the store of a data folder is reached: as the flags state, or as the folder records, in which a flag without
    /// `--store` replaces what is recorded. None if the store is not in etcd.
    ///
    /// # Errors
    /// If the record cannot be used.
    pub fn connection(&self, data: &Path) -> Result<Option<EtcdConnection>> {
        if let Some(address) = &self.store {
            return self.connection_to(address).map(Some);
        }
        let Some(recorded) = recorded_connection(data)? else { return Ok(None) };
        let given = self.connection_to(&recorded.address)?;
        Ok(Some(EtcdConnection {
            prefix: self.store_prefix.clone().unwrap_or(recorded.prefix),
            ca: given.ca.or(recorded.ca),
            certificate: given.certificate.or(recorded.certificate),
            key: given.key.or(recorded.key),
            address: recorded.address,
        }))
    }
}

/// How the store of a data folder is reached, as the folder records. None if the store is not in etcd.
///
/// # Errors
/// If the record cannot be used.
pub(crate) fn recorded_connection(data: &Path) -> Result<Option<EtcdConnection>> {
    let path = data.join(ETCD_FILE);
    let Some(file) = read_yaml::<EtcdFile>(&path, FROM_A_BACKUP)? else { return Ok(None) };
    let Some(recorded) = file.connection else {
        // the models are there, and a start without it would look for them in the data folder
        let why = "an older controller has written it, without how etcd is reached".to_owned();
        let remedy = "start it once with the address of etcd: pintle up --store etcd://HOST".to_owned();
        bail!(UnusableFile { file: path, why, remedy });
    };
    Ok(Some(recorded))
}

/// The options of a store that is reached like this. Reads the certificates.
///
/// # Errors
/// If the address is invalid, or a file cannot be read.
pub(crate) fn options(connection: &EtcdConnection, installation: Uuid) -> Result<Options> {
    let addresses = parse_address(&connection.address)?;
    let read = |file: &Path| {
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
    };
    let identity = match (&connection.certificate, &connection.key) {
        (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
        _ => None,
    };
    let tls = connection.ca.as_deref().map(read).transpose()?.map(|ca| Tls { ca, identity });
    let random = || uuid_v4(host::random::random_u128());
    let prefix = connection.prefix.clone();
    Ok(Options { tls, prefix, ..Options::new(addresses, installation, random(), random()) })
}

/// The content of `etcd.yaml`.
pub(crate) fn file_of(recorded: RecordedStore, connection: &EtcdConnection) -> EtcdFile {
    let RecordedStore { cluster, store_generation, revision, handle } = recorded;
    EtcdFile { cluster, store_generation, revision, handle, connection: Some(connection.clone()) }
}

/// Reads what a data folder records about its store in etcd.
///
/// # Errors
/// If the file cannot be used.
pub(crate) fn recorded(data: &Path) -> Result<Option<RecordedStore>> {
    let file: Option<EtcdFile> = read_yaml(&data.join(ETCD_FILE), FROM_A_BACKUP)?;
    Ok(file.map(|EtcdFile { cluster, store_generation, revision, handle, .. }| RecordedStore {
        cluster,
        store_generation,
        revision,
        handle,
    }))
}

/// Runs the hidden command `etcd-ready`: fails as long as etcd does not answer. What else keeps a controller from using it, the
/// controller reports. Returns the exit code.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run_ready(arguments: &EtcdArguments) -> i32 {
    let opened = async {
        let address = arguments.store.as_deref().context("--store is required")?;
        let options = options(&arguments.connection_to(address)?, Uuid(0))?;
        Etcd::require_answer(&options).await.map_err(anyhow::Error::from)
    };
    match opened.await {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("ERROR {error:#}");
            1
        }
    }
}

/// Takes the lock of a store's folder. `holder` is the first word of the text in it.
///
/// # Errors
/// If another process has the folder open.
pub(crate) fn lock(folder: &Path, holder: &str) -> Result<Lock> {
    let held = Lock::take(&folder.join(LOCK), &format!("{holder} {}", std::process::id()));
    match held.with_context(|| format!("cannot lock {}", folder.display()))? {
        Ok(lock) => Ok(lock),
        Err(LockHeld(holder)) => bail!("cannot use {}: it is in use by {holder}", folder.display()),
    }
}

/// Opens the store in etcd. The lock is held as long as the store is in use.
///
/// # Errors
/// If another process has the data folder open, a file cannot be read, or etcd is refused
/// ([`OpenError`](crate::store::etcd::OpenError)).
pub(crate) async fn open(
    connection: EtcdConnection,
    data: &Path,
    installation: &Installation,
    restored: bool,
) -> Result<(Etcd, Lock)> {
    let options = options(&connection, installation.controller())?;
    let lock = lock(&installation.store(), "process")?;
    let options = Options { restored, recorded: recorded(data)?, ..options };
    let store = Etcd::open(options).await?;
    let file = data.join(ETCD_FILE);
    write_yaml(&file, &file_of(store.recorded(), &connection))?;
    tokio::spawn(record_revisions(store.clone(), file, connection));
    Ok((store, lock))
}

/// Records the newest revision after commits: an etcd that is restored from an older backup while no controller runs is
/// recognised at the next start, unless the backup lacks only commits of the last second. Not synced, as in the embedded
/// engine: a file that lags behind never reports an older copy falsely.
async fn record_revisions(store: Etcd, file: PathBuf, connection: EtcdConnection) {
    let mut recorded = store.newest_revision();
    loop {
        store.wait_past(recorded).await;
        let record = store.recorded();
        recorded = record.revision;
        let text = charms::yaml::to_string(&file_of(record, &connection)).expect("plain data");
        if let Err(error) = write_atomic_unsynced(&file, text.as_bytes()) {
            tracing::warn!("{}: {error}", file.display());
        }
        tokio::time::sleep(RECORD_INTERVAL).await;
    }
}
