//! The fixture of the tests of all engines: opens, writes and reads a store.

use controller::store::Store;
use controller::store::etcd::{self, Etcd};
use controller::store::sqlite::{Options, Sqlite};
use state::documents::draft::{Key, Revision, StoredDocument, Transaction};
use state::terms::names::Uuid;
use state::terms::position::Position;
use std::sync::Arc;
use tempfile::TempDir;
use test_support::etcd_cluster::EtcdCluster;
use test_support::memory_store::MemoryStore;

pub const INSTALLATION: Uuid = Uuid(6);
pub const GENERATION: Uuid = Uuid(7);
pub const OTHER_GENERATION: Uuid = Uuid(8);

pub fn memory(changes_kept: u64) -> (MemoryStore, ()) {
    (MemoryStore::with_changes_kept(GENERATION, changes_kept), ())
}

pub fn sqlite(changes_kept: u64) -> (Sqlite, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { changes_kept, ..Options::new(GENERATION) };
    (Sqlite::open(folder.path(), options).expect("opens"), folder)
}

/// Opens a store below a new prefix of an etcd. The other tests write to the same etcd, so the revisions of this store have
/// gaps.
pub async fn etcd(changes_kept: u64) -> (Etcd, Arc<EtcdCluster>) {
    let cluster = EtcdCluster::shared();
    let options = etcd::Options { changes_kept, ..etcd_options(&cluster) };
    (Etcd::open(options).await.expect("opens"), cluster)
}

/// The options for a new prefix.
pub fn etcd_options(cluster: &EtcdCluster) -> etcd::Options {
    let random = || Uuid(host::random::random_u128());
    let prefix = format!("/test/{}", random());
    etcd::Options { prefix, ..etcd::Options::new(cluster.addresses(), INSTALLATION, GENERATION, random()) }
}

pub fn key(text: &str) -> Key<u64> {
    Key::new(text.to_owned())
}

/// Writes documents in one commit. The value none deletes a document.
pub async fn write(store: &impl Store, documents: &[(&str, Option<u64>)]) -> Revision {
    let writes =
        documents.iter().map(|(key, value)| (key.to_string(), value.map(|v| v.to_string().into()))).collect();
    store.apply(Transaction { writes, ..Transaction::default() }).await.expect("an unconditional write")
}

pub fn stored(key: &str, revision: Revision, value: u64) -> StoredDocument {
    StoredDocument { key: key.to_owned(), revision, value: value.to_string().into() }
}

pub async fn scan(store: &impl Store, prefix: &'static str) -> Vec<StoredDocument> {
    store.read(move |reader| reader.scan(prefix, "", usize::MAX)).await
}

pub fn position_of(store: &impl Store, revision: Revision) -> Position {
    Position { store_generation: store.store_generation(), revision }
}

/// Numbers from a seed (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
