//! The controller's world: the ordered map as its store, and clocks, chance and archives of the simulation. Planted
//! faults of the store live here.

use crate::sim::mutants::Mutant;
use crate::sim::world::World;
use api::error::{ApiError, ErrorCode};
use controller::outside::{Kept, Outside};
use controller::store::map::Map;
use controller::store::{ApplyError, Changes, Committed, Compacted, Position, RETRIES_MAX, RunError, Store};
use sha2::{Digest, Sha256};
use state::charm::Charm;
use state::life::Life;
use state::model::draft::{Draft, Reader, Revision, Stored, Txn};
use state::names::Uuid;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The map, and the faults planted in it.
#[derive(Clone)]
pub struct SimStore {
    pub map: Map,
    world: World,
    /// Of each replica, what it was before its newest change: for the planted fault that applies twice.
    older: Arc<Mutex<BTreeMap<String, Option<Stored>>>>,
}

impl SimStore {
    pub fn new(map: Map, world: World) -> SimStore {
        SimStore { map, world, older: Arc::default() }
    }

    /// What a faulty store makes of a transaction.
    fn spoil(&self, mut txn: Txn) -> Txn {
        if self.world.mix().has(Mutant::ReadsAreNotChecked) {
            txn = Txn { writes: txn.writes, ..Txn::default() };
        }
        if self.world.mix().has(Mutant::LifeGoesBack) && self.world.hits(200) {
            let alive = serde_json::to_string(&Life::Alive).expect("plain data");
            let lives =
                txn.writes.iter_mut().filter(|(key, value)| key.contains("/unit-life/") && value.is_some());
            lives.for_each(|(_, value)| *value = Some(alive.clone()));
        }
        if self.world.mix().has(Mutant::ScopeWithoutSettings)
            && txn.writes.keys().any(|key| key.contains("/scope/"))
        {
            txn.writes.retain(|key, value| value.is_none() || !key.contains("/bag/"));
        }
        if self.world.mix().has(Mutant::StatusOfRemovedStays) {
            txn.writes.retain(|key, value| value.is_some() || !key.contains("/unit-status/"));
        }
        txn
    }
}

/// Shows replicas as they were one change ago: the controller forgets what it has applied.
struct Forgetful<'r> {
    reader: &'r dyn Reader,
    older: &'r BTreeMap<String, Option<Stored>>,
}

impl Reader for Forgetful<'_> {
    fn revision(&self) -> Revision {
        self.reader.revision()
    }
    fn get(&self, key: &str) -> Option<Stored> {
        let newest = self.reader.get(key);
        match (self.older.get(key), newest) {
            // the revision stays the newest: the commit must go through
            (Some(Some(older)), Some(newest)) => Some(Stored { revision: newest.revision, ..older.clone() }),
            (Some(None) | None, newest) => newest,
            (Some(Some(_)), None) => None,
        }
    }
    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<Stored> {
        self.reader.scan(prefix, after, limit)
    }
}

impl Store for SimStore {
    fn history(&self) -> Uuid {
        self.map.history()
    }

    fn newest(&self) -> Revision {
        self.map.newest()
    }

    async fn read<T, F>(&self, view: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        self.map.read(view).await
    }

    async fn read_at<T, F>(&self, at: Position, view: F) -> Result<T, Compacted>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        self.map.read_at(at, view).await
    }

    async fn run<A, R, F>(&self, transition: F) -> Result<Committed<A>, RunError<R>>
    where
        A: Send + 'static,
        R: Send + 'static,
        F: Fn(&mut Draft<'_>) -> Result<A, R> + Send + Sync + 'static,
    {
        let spoils = self.world.mix().mutant.is_some_and(Mutant::is_of_the_store);
        if !spoils {
            return self.map.run(transition).await;
        }
        let transition = Arc::new(transition);
        for _ in 0..=RETRIES_MAX {
            let (forgets, older, transition) = (
                self.world.mix().has(Mutant::AppliesTwice) && self.world.hits(300),
                self.older.lock().expect("one thread").clone(),
                transition.clone(),
            );
            let drafted = self.map.read(move |reader| {
                let none = BTreeMap::new();
                let forgetful = Forgetful { reader, older: if forgets { &older } else { &none } };
                let mut draft = Draft::new(&forgetful);
                let before = |key: &String| (key.clone(), reader.get(key));
                let decided = transition(&mut draft).map_err(RunError::Refused);
                let finished = draft.finish().map_err(RunError::TooLarge);
                decided.and_then(|answer| finished.map(|txn| (answer, txn))).map(|(answer, txn)| {
                    let replicas: Vec<_> =
                        txn.writes.keys().filter(|key| key.contains("/replica/")).map(before).collect();
                    (answer, txn, replicas, reader.revision())
                })
            });
            let (answer, txn, replicas, revision) = drafted.await?;
            if self.world.mix().has(Mutant::ReadsAreNotChecked) && !self.world.is_calm() {
                self.world.sleep(self.world.below(100)).await; // long enough for others to come between
            }
            if txn.writes.is_empty() {
                return Ok(Committed { answer, revision });
            }
            match self.map.apply(self.spoil(txn)).await {
                Ok(revision) => {
                    self.older.lock().expect("one thread").extend(replicas);
                    return Ok(Committed { answer, revision });
                }
                Err(ApplyError::Conflict(_)) => {}
                Err(ApplyError::Failed(failure)) => return Err(RunError::Failed(failure)),
            }
        }
        Err(RunError::Busy(state::model::draft::Conflict("overtaken".to_owned())))
    }

    async fn apply(&self, txn: Txn) -> Result<Revision, ApplyError> {
        self.map.apply(txn).await
    }

    async fn changes_after(&self, after: Position, limit: usize) -> Result<Vec<Changes>, Compacted> {
        self.map.changes_after(after, limit).await
    }

    async fn wait_past(&self, revision: Revision) -> Revision {
        self.map.wait_past(revision).await
    }
}

/// Archives by digest: a charm's declaration as JSON is its whole archive.
#[derive(Clone)]
pub struct SimOutside {
    world: World,
    archives: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl SimOutside {
    pub fn new(world: World) -> SimOutside {
        SimOutside { world, archives: Arc::default() }
    }
}

impl Outside for SimOutside {
    fn wall_ms(&self) -> i64 {
        wall_ms(&self.world)
    }
    fn monotonic_ms(&self) -> u64 {
        self.world.now_ms()
    }
    fn random(&self) -> u128 {
        self.world.bits()
    }
    async fn sleep_until(&self, monotonic_ms: u64) {
        self.world.sleep_until(monotonic_ms).await;
    }
    async fn keep_archive(&self, bytes: Vec<u8>) -> Result<Kept, ApiError> {
        self.world.pause().await;
        let charm: Charm = serde_json::from_slice(&bytes)
            .map_err(|error| ApiError::new(ErrorCode::Invalid, error.to_string()))?;
        let sha256: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let kept = Kept { sha256: sha256.clone(), bytes: bytes.len() as u64, charm };
        self.archives.lock().expect("one thread").insert(sha256, bytes);
        Ok(kept)
    }
    async fn archive(&self, sha256: &str) -> Option<Vec<u8>> {
        self.world.pause().await;
        self.archives.lock().expect("one thread").get(sha256).cloned()
    }
    fn broken(&self, why: &str) {
        panic!("the simulated store cannot break: {why}");
    }
}

/// The wall clock: some day in 2024, as good as any.
pub fn wall_ms(world: &World) -> i64 {
    1_714_550_400_000 + i64::try_from(world.now_ms()).expect("no run lasts so long")
}
