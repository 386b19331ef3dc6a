//! Store and environment of the simulated controller: the in-memory map, and clock, randomness and archives.
//!
//! The mutants of the store are implemented here.

use crate::sim::identities::MODEL;
use crate::sim::mutants::Mutant;
use crate::sim::world::World;
use api::error::{ApiError, ErrorCode};
use controller::environment::{Environment, StoredArchive};
use controller::secret_keys::SecretKeys;
use controller::store::{
    ApplyError, CommitChanges, Committed, Compacted, Position, RunError, Store, StoreError,
};
use state::charm::Charm;
use state::documents::draft::{Draft, Reader, Revision, StoredDocument, Transaction};
use state::documents::json_text::Text;
use state::documents::prelude::{BagDoc, Kind, Model};
use state::terms::life::Life;
use state::terms::names::Uuid;
use state::terms::store_engine::StoreEngine;
use state::views::inline_settings;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use test_support::memory_store::{MemoryStore, RETRIES_MAX};

/// The rate, per mille, of transactions during chaos that take long between their reads and their commit.
const SLOW: u64 = 50;

/// The in-memory map, with the faults of its disk and the mutants of the store.
#[derive(Clone)]
pub struct SimStore {
    map: MemoryStore,
    world: World,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The disk is full until this time: nothing can be written.
    full_ms: u64,
    /// For mutants: the previous version of documents.
    older: BTreeMap<String, Option<StoredDocument>>,
    /// For mutants that skip the check: the transactions with the reads that should have been checked.
    unchecked: Vec<(Revision, Transaction)>,
}

impl SimStore {
    pub fn new(map: MemoryStore, world: World) -> SimStore {
        if world.profile().check_serializable > 0 {
            map.record();
        }
        SimStore { map, world, state: Arc::default() }
    }

    pub fn map(&self) -> &MemoryStore {
        &self.map
    }

    /// The committed transactions, if the profile keeps them.
    pub fn recorded(&self) -> Vec<(Revision, Transaction)> {
        let mut unchecked = self.state().unchecked.clone();
        unchecked.sort_by_key(|(revision, _)| *revision);
        if unchecked.is_empty() { self.map.recorded() } else { unchecked }
    }

    pub fn fill(&self, until_ms: u64) {
        self.state().full_ms = until_ms;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("one thread")
    }

    fn has(&self, mutant: Mutant) -> bool {
        self.world.profile().has(mutant)
    }

    fn has_store_mutant(&self) -> bool {
        self.world.profile().mutant.is_some_and(Mutant::is_in_store)
    }

    /// The transaction as a mutant of the store changes it.
    fn apply_mutant(&self, mut transaction: Transaction) -> Transaction {
        if self.has(Mutant::ReadsAreNotChecked) {
            transaction = Transaction { writes: transaction.writes, ..Transaction::default() };
        }
        if self.has(Mutant::SetsAreNotChecked) {
            transaction =
                Transaction { writes: transaction.writes, keys: transaction.keys, ..Transaction::default() };
        }
        if self.has(Mutant::DyingBecomesAlive) && self.world.chance_of(200) {
            let alive = Text::of(&Life::Alive);
            let lives = transaction
                .writes
                .iter_mut()
                .filter(|(key, value)| key.contains("/unit-life/") && value.is_some());
            lives.for_each(|(_, value)| *value = Some(alive.clone()));
        }
        if self.has(Mutant::ScopeWithoutSettings)
            && transaction.writes.keys().any(|key| key.contains("/scope/"))
        {
            transaction.writes.retain(|key, value| value.is_none() || !key.contains("/bag/"));
        }
        if self.has(Mutant::StatusOfRemovedStays) {
            transaction.writes.retain(|key, value| value.is_some() || !key.contains("/unit-status/"));
        }
        if self.has(Mutant::WritesAnothersBag) {
            self.map.read_now(|reader| swap_bags(&mut transaction, reader));
        }
        if self.has(Mutant::OpensAnothersPorts) {
            self.map.read_now(|reader| swap_owner(&mut transaction, "/ports/", reader));
        }
        // the first status of a unit is written by the transaction that creates the unit
        if self.has(Mutant::SetsAnothersStatus)
            && !transaction.writes.keys().any(|key| key.contains("/unit/"))
        {
            self.map.read_now(|reader| swap_owner(&mut transaction, "/unit-status/", reader));
        }
        if self.has(Mutant::UnchangedBagGetsNewVersion)
            && transaction.writes.keys().any(|key| key.contains("/replica/"))
        {
            let bag =
                transaction.writes.iter_mut().find(|(key, value)| key.contains("/bag/") && value.is_some());
            if let Some((key, value)) = bag
                && let Some(before) = self.map.read_now(|reader| reader.get(key))
            {
                let mut same: BagDoc = before.value.parse().expect("documents are what was written");
                same.counter += 1;
                *value = Some(Text::of(&same));
            }
        }
        transaction
    }

    /// Whether a mutant reads the previous version of this document.
    fn is_forgotten(&self, key: &str) -> bool {
        self.has(Mutant::AppliesTwice) && key.contains("/replica/")
            || self.has(Mutant::OlderEpochIsAccepted) && key.contains("/session/")
            || self.has(Mutant::OlderLeaderWrites) && key.contains("/leader/")
    }

    /// Runs a transition with enough time between its reads and its commit for other commits in between, unless
    /// a mutant of the store needs other conditions.
    async fn run_slowly<A, R, F>(&self, transition: F) -> Result<Committed<A>, RunError<R>>
    where
        A: Send + 'static,
        R: Send + 'static,
        F: Fn(&mut Draft<'_>) -> Result<A, R> + Send + Sync + 'static,
    {
        let transition = Arc::new(transition);
        for _ in 0..=RETRIES_MAX {
            let forgets = self.world.chance_of(300);
            let older = if forgets { self.state().older.clone() } else { BTreeMap::new() };
            let (store, transition) = (self.clone(), transition.clone());
            let drafted = self.map.read(move |reader| {
                let stale_reader = StaleReader { reader, older: &older };
                let mut draft = Draft::new(&stale_reader);
                let decided = transition(&mut draft).map_err(RunError::Refused);
                let finished = draft.finish().map_err(RunError::TooLarge);
                decided.and_then(|answer| finished.map(|transaction| (answer, transaction))).map(
                    |(answer, transaction)| {
                        let forgotten = transaction.writes.keys().filter(|key| store.is_forgotten(key));
                        let before: Vec<_> = forgotten.map(|key| (key.clone(), reader.get(key))).collect();
                        (answer, transaction, before, reader.revision())
                    },
                )
            });
            let (answer, transaction, before, revision) = drafted.await?;
            let unchecked = self.has(Mutant::ReadsAreNotChecked) || self.has(Mutant::SetsAreNotChecked);
            if (unchecked || !self.has_store_mutant()) && !self.world.is_calm() {
                self.world.sleep(self.world.below(100)).await;
            }
            if transaction.writes.is_empty() {
                return Ok(Committed { answer, revision });
            }
            match self.map.apply(self.apply_mutant(transaction.clone())).await {
                Ok(revision) => {
                    let mut state = self.state();
                    state.older.extend(before);
                    if unchecked {
                        state.unchecked.push((revision, transaction));
                    }
                    return Ok(Committed { answer, revision });
                }
                Err(ApplyError::Conflict(_)) => {}
                Err(ApplyError::Failed(failure)) => return Err(RunError::Failed(failure)),
            }
        }
        Err(RunError::Busy(state::documents::draft::Conflict("too many conflicts".to_owned())))
    }
}

/// A mutant: the settings of a unit are written as those of another member of the relation.
fn swap_bags(transaction: &mut Transaction, reader: &dyn Reader) {
    let written = transaction.writes.iter().find(|(key, value)| {
        key.contains("/bag/") && value.as_ref().is_some_and(|value| value.contains("\"n\""))
    });
    let Some((key, value)) = written.map(|(key, value)| (key.clone(), value.clone())) else { return };
    let Some((relation, _)) = key.rsplit_once('/') else { return };
    let others = reader.scan(&format!("{relation}/"), "", usize::MAX);
    if let Some(other) =
        others.into_iter().find(|other| other.key != key && !transaction.writes.contains_key(&other.key))
    {
        transaction.writes.remove(&key);
        transaction.writes.insert(other.key, value);
    }
}

/// A mutant: a document of a unit is written as that of another unit.
fn swap_owner(transaction: &mut Transaction, kind: &str, reader: &dyn Reader) {
    let written = transaction.writes.iter().find(|(key, value)| key.contains(kind) && value.is_some());
    let Some((key, value)) = written.map(|(key, value)| (key.clone(), value.clone())) else { return };
    let Some((_, owner)) = key.rsplit_once('/') else { return };
    let lives = reader.scan(&Model(MODEL).prefix(Kind::UnitLife), "", usize::MAX);
    let others = lives.iter().filter_map(|life| life.key.rsplit_once('/')).map(|(_, unit)| unit);
    if let Some(other) = others.into_iter().find(|other| *other != owner) {
        transaction.writes.remove(&key);
        transaction.writes.insert(key.replace(owner, other), value);
    }
}

/// Shows the previous version of some documents.
struct StaleReader<'r> {
    reader: &'r dyn Reader,
    older: &'r BTreeMap<String, Option<StoredDocument>>,
}

impl Reader for StaleReader<'_> {
    fn engine(&self) -> StoreEngine {
        self.reader.engine()
    }

    fn revision(&self) -> Revision {
        self.reader.revision()
    }
    fn get(&self, key: &str) -> Option<StoredDocument> {
        let newest = self.reader.get(key);
        match (self.older.get(key), newest) {
            // the revision stays the newest, so that the commit succeeds
            (Some(Some(older)), Some(newest)) => {
                Some(StoredDocument { revision: newest.revision, ..older.clone() })
            }
            (Some(None) | None, newest) => newest,
            (Some(Some(_)), None) => None,
        }
    }
    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        self.reader.scan(prefix, after, limit)
    }
}

impl Store for SimStore {
    fn store_generation(&self) -> Uuid {
        self.map.store_generation()
    }

    fn newest_revision(&self) -> Revision {
        self.map.newest_revision()
    }

    async fn read<T, F>(&self, view: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        self.map.read(view).await
    }

    async fn read_since<T, F>(&self, after: Position, view: F) -> (T, Vec<String>)
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, Option<Vec<String>>) -> T + Send + 'static,
    {
        self.map.read_since(after, view).await
    }

    async fn read_at<T, F>(&self, at: Position, view: F) -> Result<T, Compacted>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        if self.has(Mutant::CompactionIsSilent) && at.store_generation == self.store_generation() {
            return Ok(self.map.read(view).await);
        }
        self.map.read_at(at, view).await
    }

    async fn read_after<T, F>(&self, after: Position, view: F) -> Result<T, Compacted>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, &[CommitChanges]) -> T + Send + 'static,
    {
        if self.has(Mutant::CompactionIsSilent) && after.store_generation == self.store_generation() {
            let commits = self.changes_after(after, usize::MAX).await?;
            return Ok(self.map.read(move |reader| view(reader, &commits)).await);
        }
        self.map.read_after(after, view).await
    }

    async fn run<A, R, F>(&self, transition: F) -> Result<Committed<A>, RunError<R>>
    where
        A: Send + 'static,
        R: Send + 'static,
        F: Fn(&mut Draft<'_>) -> Result<A, R> + Send + Sync + 'static,
    {
        if self.state().full_ms > self.world.now_ms() {
            self.world.pause().await;
            return Err(RunError::Failed(StoreError::Full));
        }
        if self.has_store_mutant() || (!self.world.is_calm() && self.world.chance_of(SLOW)) {
            return self.run_slowly(transition).await;
        }
        self.map.run(transition).await
    }

    async fn apply(&self, transaction: Transaction) -> Result<Revision, ApplyError> {
        self.map.apply(transaction).await
    }

    async fn changes_after(&self, after: Position, limit: usize) -> Result<Vec<CommitChanges>, Compacted> {
        let changes = self.map.changes_after(after, limit).await;
        if self.has(Mutant::CompactionIsSilent)
            && changes.is_err()
            && after.store_generation == self.store_generation()
        {
            let newest = self.newest_revision();
            let behind = (0..newest).rev().take(3).last().unwrap_or(newest);
            return self.map.changes_after(Position { revision: behind, ..after }, limit).await;
        }
        changes
    }

    async fn wait_past(&self, revision: Revision) -> Revision {
        self.map.wait_past(revision).await
    }
}

/// Clock, randomness and archives of the controller. The archive of a charm is its declaration as JSON.
#[derive(Clone)]
pub struct SimEnvironment {
    world: World,
    archives: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    secret_keys: Arc<SecretKeys>,
}

/// A backup of the controller's data folder: the store, and the files of the charm archives.
pub struct Backup {
    pub store: MemoryStore,
    pub archives: BTreeMap<String, Vec<u8>>,
}

impl SimEnvironment {
    pub fn new(world: World) -> SimEnvironment {
        SimEnvironment { world, archives: Arc::default(), secret_keys: Arc::new(SecretKeys::in_memory(1)) }
    }
    pub fn archive_files(&self) -> BTreeMap<String, Vec<u8>> {
        self.archives.lock().expect("one thread").clone()
    }
    pub fn restore_archive_files(&self, files: BTreeMap<String, Vec<u8>>) {
        *self.archives.lock().expect("one thread") = files;
    }
}

impl Environment for SimEnvironment {
    fn wall_ms(&self) -> i64 {
        self.world.wall_ms()
    }
    fn monotonic_ms(&self) -> u64 {
        self.world.now_ms()
    }
    fn random(&self) -> u128 {
        self.world.random_u128()
    }
    async fn sleep_until(&self, monotonic_ms: u64) {
        self.world.sleep_until(monotonic_ms).await;
    }
    async fn store_archive(&self, bytes: Vec<u8>) -> Result<StoredArchive, ApiError> {
        self.world.pause().await;
        let charm: Charm = serde_json::from_slice(&bytes)
            .map_err(|error| ApiError::new(ErrorCode::Invalid, error.to_string()))?;
        let sha256 = host::digest::sha256(&bytes);
        let stored = StoredArchive { sha256: sha256.clone(), bytes: bytes.len() as u64, charm };
        let has_archives = !self.archives.lock().expect("one thread").is_empty();
        if !(self.world.profile().has(Mutant::ArchiveIsMissing) && has_archives && self.world.chance_of(500))
        {
            self.archives.lock().expect("one thread").insert(sha256, bytes);
        }
        Ok(stored)
    }
    async fn store_resource(&self, bytes: Vec<u8>) -> Result<String, ApiError> {
        self.world.pause().await;
        let sha256 = host::digest::sha256(&bytes);
        self.archives.lock().expect("one thread").insert(sha256.clone(), bytes);
        Ok(sha256)
    }
    async fn stored_file(&self, sha256: &str) -> Option<Vec<u8>> {
        self.world.pause().await;
        self.archives.lock().expect("one thread").get(sha256).cloned()
    }
    async fn stored_files(&self) -> BTreeMap<String, u64> {
        self.world.pause().await;
        self.archives.lock().expect("one thread").keys().map(|sha256| (sha256.clone(), 0)).collect()
    }
    async fn delete_stored_file(&self, sha256: &str, _: u64) {
        self.world.pause().await;
        self.archives.lock().expect("one thread").remove(sha256);
    }
    fn inline_settings_bytes_max(&self) -> usize {
        match self.world.profile().inline_settings_bytes {
            0 => inline_settings::INLINE_BYTES_MAX,
            bytes => usize::try_from(bytes).expect("small"),
        }
    }
    fn secret_keys(&self) -> Option<&SecretKeys> {
        Some(&self.secret_keys)
    }
    fn on_store_failure(&self, why: &str) {
        panic!("the simulated store cannot break: {why}");
    }
}
