//! The file `controller/store/etcd.yaml` of a data folder whose models are in etcd.
//!
//! It records how etcd is reached, so that a start needs no flags, and which store is in use there, so that an etcd that has
//! lost it, or has an older copy, is refused (design 8). Written by the controller at each start and after commits, and by
//! `pintle-controller migrate`; `pintle up` reads it to compare flags with it.

use serde::{Deserialize, Serialize};
use state::documents::draft::Revision;
use state::terms::names::Uuid;
use std::path::{Path, PathBuf};

/// The path of the file in a data folder.
pub const ETCD_FILE: &str = "controller/store/etcd.yaml";

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdFile {
    /// The id of the cluster, in hexadecimal.
    pub cluster: String,
    /// The store generation.
    pub store_generation: Uuid,
    /// A revision that was reached.
    pub revision: Revision,
    /// The name of the newest process of this folder in etcd. The next one, which has the folder's lock, ends what it has
    /// stated; the folder of another controller has another one, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// How etcd is reached; none if an older controller has written the file.
    #[serde(default)]
    pub connection: Option<EtcdConnection>,
}

/// How etcd is reached. Paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdConnection {
    /// The members: `etcd://HOST[:PORT],HOST[:PORT],...`.
    pub address: String,
    /// The prefix of all keys.
    pub prefix: String,
    /// The certificate of the CA of etcd; none for connections without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// The private key of the client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

impl EtcdConnection {
    /// The prefix of all keys, unless another one is given.
    pub const DEFAULT_PREFIX: &str = "/pintle";

    /// Whether it is to an etcd that `pintle up` has started on this host. The data folder may have been moved since.
    pub fn is_of_local_etcd(&self) -> bool {
        let own_ca = Path::new(local_etcd::FOLDER).join(local_etcd::CA);
        self.ca.as_ref().is_some_and(|file| file.ends_with(own_ca))
            && self.address.starts_with("etcd://127.0.0.1:")
            && !self.address.contains(',')
    }
}

/// The files in the folder of an etcd that `pintle up` has started on this host.
pub mod local_etcd {
    /// The folder, in a data folder.
    pub const FOLDER: &str = "etcd";
    /// The certificate of the CA of etcd and its clients.
    pub const CA: &str = "ca.pem";
    /// The certificate of etcd.
    pub const SERVER: &str = "server.pem";
    /// Its private key.
    pub const SERVER_KEY: &str = "server-key.pem";
    /// The certificate of the controllers.
    pub const CLIENT: &str = "client.pem";
    /// Its private key.
    pub const CLIENT_KEY: &str = "client-key.pem";
}
