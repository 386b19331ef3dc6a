//! The parts of one model's status, kept between requests.
//!
//! A part is the status of one unit, machine or relation, or what an application has beside its units. It is kept with
//! everything that it was computed from: the documents that it read, the ranges that it listed, and what it read of
//! the presence of agents. Before a part is used again, all commits since the last request are compared with the former
//! and the presence at this moment with the latter, so that a response is never older than its request: it is what a
//! computation without a cache returns.
//!
//! Used by [`super::model_status`]; the handler passes the commits.

use super::application::{self, ApplicationPart};
use super::model::{ModelParts, ids, model_parts};
use super::recorded::{Changed, Observation, Reads, RecordingPresence, RecordingReader};
use super::unit::{self, UnitPart};
use super::{machine, relation};
use crate::presence::PresenceSnapshot;
use crate::store::{Position, Store};
use api::{MachineStatus, RelationStatus, Shared};
use state::documents::draft::Reader;
use state::documents::prelude::Model;
use state::status::presence::PresenceReader;
use state::terms::names::Uuid;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How long the parts of a model that nobody asks about are kept.
const UNUSED_MAX_MS: u64 = 600_000;

/// The parts of one model's status.
#[derive(Default)]
pub struct StatusCache {
    /// The position up to which commits were compared with the parts.
    position: Position,
    model: BTreeMap<(), Part<Option<ModelParts>>>,
    units: BTreeMap<Uuid, Part<Option<UnitPart>>>,
    machines: BTreeMap<Uuid, Part<Option<MachinePart>>>,
    applications: BTreeMap<Uuid, Part<Option<ApplicationPart>>>,
    /// The units of an application.
    members: BTreeMap<Uuid, Part<Arc<[Uuid]>>>,
    relations: BTreeMap<Uuid, Part<Option<RelationStatus>>>,
}

/// The name and the status of a machine.
type MachinePart = (String, Shared<MachineStatus>);

/// A value with what it was computed from.
struct Part<T> {
    value: T,
    reads: Reads,
    observations: Box<[Observation]>,
}

/// What the status is computed from.
pub struct Sources<'a> {
    /// The documents.
    pub reader: &'a dyn Reader,
    /// The model.
    pub model: Model,
    /// The presence of the agents.
    pub presence: &'a PresenceSnapshot,
}

impl StatusCache {
    /// The position that all parts were valid at.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Removes the parts that read something that was changed since [`Self::position`]. `changed` are the keys of these
    /// documents; none if they are not known. `position` is that of the newest commit among them.
    pub fn advance(&mut self, changed: Option<Vec<String>>, position: Position) {
        let Some(changed) = changed else {
            *self = StatusCache { position, ..StatusCache::default() };
            return;
        };
        self.position = position;
        if changed.is_empty() {
            return;
        }
        let changed = Changed::of(&changed);
        retain_unchanged(&mut self.model, &changed);
        retain_unchanged(&mut self.units, &changed);
        retain_unchanged(&mut self.machines, &changed);
        retain_unchanged(&mut self.applications, &changed);
        retain_unchanged(&mut self.members, &changed);
        retain_unchanged(&mut self.relations, &changed);
    }

    pub(super) fn model(&mut self, sources: &Sources<'_>) -> &Option<ModelParts> {
        part(&mut self.model, (), sources, |reader, _| model_parts(reader, sources.model))
    }

    pub(super) fn unit(&mut self, id: Uuid, sources: &Sources<'_>) -> &Option<UnitPart> {
        part(&mut self.units, id, sources, |reader, presence| {
            unit::unit_part(reader, sources.model, presence, id)
        })
    }

    pub(super) fn machine(&mut self, id: Uuid, sources: &Sources<'_>) -> &Option<MachinePart> {
        part(&mut self.machines, id, sources, |reader, presence| {
            machine::machine_status(reader, sources.model, presence, id)
        })
    }

    pub(super) fn application(&mut self, id: Uuid, sources: &Sources<'_>) -> &Option<ApplicationPart> {
        part(&mut self.applications, id, sources, |reader, _| {
            application::application_part(reader, sources.model, id)
        })
    }

    pub(super) fn members(&mut self, application: Uuid, sources: &Sources<'_>) -> Arc<[Uuid]> {
        let prefix = sources.model.units_of(application);
        part(&mut self.members, application, sources, |reader, _| ids(reader, &prefix)).clone()
    }

    pub(super) fn relation(&mut self, id: Uuid, sources: &Sources<'_>) -> &Option<RelationStatus> {
        part(&mut self.relations, id, sources, |reader, _| {
            relation::relation_status(reader, sources.model, id)
        })
    }
}

fn retain_unchanged<K: Ord, T>(parts: &mut BTreeMap<K, Part<T>>, changed: &Changed) {
    parts.retain(|_, part| !part.reads.contain(changed));
}

/// Returns the part, computed now unless the presence that it was computed from is the same.
fn part<'p, K: Ord + Copy, T>(
    parts: &'p mut BTreeMap<K, Part<T>>,
    key: K,
    sources: &Sources<'_>,
    compute: impl FnOnce(&dyn Reader, &dyn PresenceReader) -> T,
) -> &'p T {
    let is_valid = parts
        .get(&key)
        .is_some_and(|part| part.observations.iter().all(|seen| seen.still_holds(sources.presence)));
    if !is_valid {
        let (reader, presence) =
            (RecordingReader::new(sources.reader), RecordingPresence::new(sources.presence));
        let value = compute(&reader, &presence);
        let (reads, observations) = (reader.into_reads(), presence.into_observations());
        parts.insert(key, Part { value, reads, observations });
    }
    &parts[&key].value
}

/// The caches of all models.
#[derive(Default)]
pub(crate) struct StatusCaches(Mutex<BTreeMap<Uuid, Entry>>);

struct Entry {
    /// Locked by one request at a time, for as long as it reads.
    cache: Arc<tokio::sync::Mutex<StatusCache>>,
    used_ms: u64,
}

impl StatusCaches {
    /// Returns the cache of a model. `now_ms` is the monotonic clock.
    pub(crate) fn of(&self, model: Model, now_ms: u64) -> Arc<tokio::sync::Mutex<StatusCache>> {
        let mut caches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = caches.entry(model.0).or_insert_with(|| Entry { cache: Arc::default(), used_ms: now_ms });
        entry.used_ms = now_ms;
        entry.cache.clone()
    }

    /// Advances the caches that no request uses at the moment, so that the next request finds few commits to compare. Called
    /// by the janitor.
    pub(crate) async fn advance<S: Store>(&self, store: &S) {
        let caches: Vec<_> = {
            let caches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            caches.values().map(|entry| entry.cache.clone()).collect()
        };
        for cache in caches {
            let Ok(mut cache) = cache.try_lock_owned() else { continue };
            let (after, store_generation) = (cache.position(), store.store_generation());
            let advance = move |reader: &dyn Reader, changed| {
                cache.advance(changed, Position { store_generation, revision: reader.revision() });
            };
            store.read_since(after, advance).await;
        }
    }

    /// Removes the caches of models that nobody has asked about for [`UNUSED_MAX_MS`], removed models among them.
    pub(crate) fn forget_unused(&self, now_ms: u64) {
        let mut caches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        caches.retain(|_, entry| now_ms.saturating_sub(entry.used_ms) < UNUSED_MAX_MS);
    }
}
