//! `pintle-controller rotate-secret-key`: adds a key for the contents of secrets.
//!
//! The controller of the data folder must not run, and neither may other ones with the same store: they lack the new key, and
//! their units could not read what is sealed with it.

use crate::installation::Installation;
use crate::secret_keys::SecretKeys;
use anyhow::{Result, bail};
use std::path::Path;

/// Runs the command. Returns the exit code.
pub fn run(data: &Path) -> i32 {
    let rotated = SecretKeys::open(Installation::secret_keys_in(data)).and_then(|keys| {
        if keys.is_empty() {
            bail!("there is no key to replace in {}", keys.path().display());
        }
        require_alone(data)?;
        keys.rotate()
    });
    match rotated {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("ERROR cannot rotate the key of secrets: {error:#}");
            1
        }
    }
}

/// Refuses a store that other controllers serve. An etcd of this host that does not run serves none.
#[cfg(feature = "etcd")]
#[tokio::main(flavor = "current_thread")]
async fn require_alone(data: &Path) -> Result<()> {
    use crate::etcd_arguments;
    use crate::installation::StorePlace;
    use crate::migrate;
    use crate::required_file::{FROM_A_BACKUP, read_yaml};
    use crate::store::etcd::{OpenError, is_remote, parse_address};
    use api::etcd_file::{ETCD_FILE, EtcdFile};

    let file: Option<EtcdFile> = read_yaml(&data.join(ETCD_FILE), FROM_A_BACKUP)?;
    let Some(connection) = file.and_then(|file| file.connection) else { return Ok(()) };
    let is_here = !parse_address(&connection.address)?.iter().any(|member| is_remote(member));
    let installation = Installation::open_with_store(data, false, StorePlace::Etcd)?;
    match etcd_arguments::open(connection, data, &installation, false).await {
        Ok((store, _lock)) => migrate::require_alone(&store),
        Err(error) => match error.downcast_ref() {
            Some(OpenError::Outage(_)) if is_here => Ok(()),
            Some(_) | None => Err(error),
        },
    }
}

#[cfg(not(feature = "etcd"))]
fn require_alone(_: &Path) -> Result<()> {
    Ok(())
}
