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

/// Refuses a store that other controllers serve, or may serve. The etcd that `pintle up` has started on this host serves none
/// if it does not run.
#[cfg(feature = "etcd")]
#[tokio::main(flavor = "current_thread")]
async fn require_alone(data: &Path) -> Result<()> {
    use crate::etcd_arguments;
    use crate::installation::StorePlace;
    use crate::migrate;
    use crate::store::etcd::OpenError;
    use crate::store::outage::Outage;
    use api::etcd_file::local_etcd::{CA, FOLDER};
    use host::file::exists;

    let Some(connection) = etcd_arguments::recorded_connection(data)? else { return Ok(()) };
    // an etcd that a person has started may have a CA at a path with the same end
    let is_local = connection.is_of_local_etcd() && exists(&data.join(FOLDER).join(CA))?;
    let installation = Installation::open_with_store(data, false, StorePlace::Etcd)?;
    match etcd_arguments::open(connection, data, &installation, false).await {
        Ok((store, _lock)) => migrate::require_alone(&store),
        Err(error) => match error.downcast_ref() {
            Some(OpenError::Outage(Outage::Unreachable(_))) if is_local => Ok(()),
            Some(_) | None => Err(error),
        },
    }
}

#[cfg(not(feature = "etcd"))]
fn require_alone(_: &Path) -> Result<()> {
    Ok(())
}
