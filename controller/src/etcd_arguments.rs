//! The store in etcd as an operator states it: `--store` with its flags, and the file `store/etcd.yaml`.
//!
//! The file records which store the data folder belongs to, so that an etcd that has lost it, or has an older copy, is
//! refused (design 8). The lock of the store's folder is taken as for the embedded store: one process for each data folder.
//! Called by `program`.

use crate::environment::uuid_v4;
use crate::installation::{ETCD_FILE, Installation};
use crate::required_file::{FROM_A_BACKUP, read_yaml, write_yaml};
use crate::store::Store;
use crate::store::etcd::{Etcd, Options, Tls, parse_address};
use crate::store::sqlite::LOCK;
use anyhow::{Context, Result, bail};
use host::file::write_atomic_unsynced;
use host::lock::{Lock, LockHeld};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The least time between two records of the newest revision.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);

/// The flags of a store in etcd.
#[derive(clap::Args)]
pub(crate) struct EtcdArguments {
    /// Stores the models in etcd instead of the data folder: etcd://HOST[:PORT],HOST[:PORT],...
    #[arg(long, value_name = "ADDRESS", env = "PINTLE_STORE")]
    pub store: Option<String>,
    /// The prefix of all keys in etcd
    #[arg(long, value_name = "PREFIX", env = "PINTLE_STORE_PREFIX", default_value = "/pintle")]
    store_prefix: String,
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

/// Opens the store in etcd at this address. The lock is held as long as the store is in use.
///
/// # Errors
/// If another process has the data folder open, a file cannot be read, or etcd is refused
/// ([`OpenError`](crate::store::etcd::OpenError)).
pub(crate) async fn open(
    arguments: &EtcdArguments,
    address: &str,
    installation: &Installation,
    restored: bool,
) -> Result<(Etcd, Lock)> {
    let addresses = parse_address(address)?;
    let read = |file: &Path| {
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
    };
    let identity = match (&arguments.store_certificate, &arguments.store_key) {
        (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
        _ => None,
    };
    let tls = arguments.store_ca.as_deref().map(read).transpose()?.map(|ca| Tls { ca, identity });
    let folder = installation.store();
    let held = Lock::take(&folder.join(LOCK), &format!("process {}", std::process::id()));
    let lock = match held.with_context(|| format!("cannot lock {}", folder.display()))? {
        Ok(lock) => lock,
        Err(LockHeld(holder)) => bail!("cannot use {}: it is in use by {holder}", folder.display()),
    };
    let file = folder.join(ETCD_FILE);
    let random = || uuid_v4(host::random::random_u128());
    let options = Options {
        tls,
        prefix: arguments.store_prefix.clone(),
        restored,
        recorded: read_yaml(&file, FROM_A_BACKUP)?,
        // Leases of leaders and the presence of agents are in the memory of one controller.
        is_exclusive: true,
        ..Options::new(addresses, installation.controller(), random(), random())
    };
    let store = Etcd::open(options).await?;
    write_yaml(&file, &store.recorded())?;
    tokio::spawn(record_revisions(store.clone(), file));
    Ok((store, lock))
}

/// Records the newest revision after commits: an etcd that is restored from an older backup while no controller runs is
/// recognised at the next start, unless the backup lacks only commits of the last second. Not synced, as in the embedded
/// engine: a file that lags behind never reports an older copy falsely.
async fn record_revisions(store: Etcd, file: PathBuf) {
    let mut recorded = store.newest_revision();
    loop {
        store.wait_past(recorded).await;
        let record = store.recorded();
        recorded = record.revision;
        let text = charms::yaml::to_string(&record).expect("plain data");
        if let Err(error) = write_atomic_unsynced(&file, text.as_bytes()) {
            tracing::warn!("{}: {error}", file.display());
        }
        tokio::time::sleep(RECORD_INTERVAL).await;
    }
}
