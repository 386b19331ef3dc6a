//! Records what a part of the status is computed from: the keys and prefixes that it reads, and what it observes of the
//! presence of agents.
//!
//! Keys are recorded as hashes. A hash collision causes an unnecessary computation, never a wrong result.

use crate::presence::PresenceSnapshot;
use state::documents::draft::{Reader, Revision, StoredDocument};
use state::status::presence::{ExecutingRun, PresenceReader};
use state::terms::health::UnitHealth;
use state::terms::names::Uuid;
use state::terms::store_engine::StoreEngine;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The most reads of one part that are recorded one by one: 8 KiB. Of further reads, only the kind of the document is
/// recorded.
const READS_MAX: usize = 1_000;

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The prefixes of a key that end with a slash.
fn prefixes(key: &str) -> impl Iterator<Item = &str> {
    key.match_indices('/').map(|(at, _)| &key[..=at])
}

/// `<model>/<kind>/` of a key or a prefix.
fn kind(key: &str) -> &str {
    prefixes(key).nth(1).unwrap_or(key)
}

/// The hashes of the documents that were changed, and of all ranges that contain one of them.
pub(super) struct Changed(HashSet<u64>);

impl Changed {
    pub(super) fn of(keys: &[String]) -> Changed {
        let all = keys.iter().flat_map(|key| prefixes(key).chain([key.as_str(), ANY]));
        Changed(all.map(hash).collect())
    }
}

/// Stands for a range that contains every document.
const ANY: &str = "";

/// The hashes of the documents that were read and of the ranges that were listed.
pub(super) struct Reads(Box<[u64]>);

impl Reads {
    pub(super) fn contain(&self, changed: &Changed) -> bool {
        self.0.iter().any(|read| changed.0.contains(read))
    }
}

/// A reader that records what is read.
pub(super) struct RecordingReader<'r> {
    reader: &'r dyn Reader,
    reads: RefCell<Vec<u64>>,
    /// The kinds of the documents that were read beyond [`READS_MAX`].
    kinds: RefCell<BTreeSet<u64>>,
}

impl<'r> RecordingReader<'r> {
    pub(super) fn new(reader: &'r dyn Reader) -> RecordingReader<'r> {
        RecordingReader { reader, reads: RefCell::default(), kinds: RefCell::default() }
    }

    pub(super) fn into_reads(self) -> Reads {
        let mut reads = self.reads.into_inner();
        reads.extend(self.kinds.into_inner());
        Reads(reads.into())
    }

    fn record(&self, text: &str) {
        let mut reads = self.reads.borrow_mut();
        match reads.len() < READS_MAX {
            true => reads.push(hash(text)),
            false => drop(self.kinds.borrow_mut().insert(hash(kind(text)))),
        }
    }
}

impl Reader for RecordingReader<'_> {
    fn engine(&self) -> StoreEngine {
        self.reader.engine()
    }

    /// Not recorded: a part may depend on the revisions of documents, but must not depend on that of the reader.
    fn revision(&self) -> Revision {
        self.reader.revision()
    }

    fn get(&self, key: &str) -> Option<StoredDocument> {
        self.record(key);
        self.reader.get(key)
    }

    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        // The longest range that ends with a slash, because changed keys are compared only with such ranges.
        self.record(prefixes(prefix).last().unwrap_or(ANY));
        self.reader.scan(prefix, after, limit)
    }

    fn record_damage(&self, key: &str, why: &str) {
        self.reader.record_damage(key, why);
    }
}

/// One thing that a part has read of the presence of an agent.
pub(super) enum Observation {
    Health(Uuid, Option<Box<UnitHealth>>),
    IsLost(Uuid, bool),
    IsLate(Uuid, bool),
    HasReported(Uuid, bool),
    Boot(Uuid, String),
    HasRebootedSinceAttach(Uuid, Uuid, bool),
    LastRequest(Uuid, i64),
    Executing(Uuid, Option<Box<ExecutingRun>>),
    MissingFile(Uuid, Option<String>),
    IsRebootOverdue(Option<i64>, bool),
}

impl Observation {
    /// Whether a read of the presence returns the same now.
    pub(super) fn still_holds(&self, presence: &PresenceSnapshot) -> bool {
        match self {
            Observation::Health(unit, seen) => presence.health(*unit).as_ref() == seen.as_deref(),
            Observation::IsLost(agent, seen) => presence.is_lost(*agent) == *seen,
            Observation::IsLate(agent, seen) => presence.is_late(*agent) == *seen,
            Observation::HasReported(agent, seen) => presence.has_reported(*agent) == *seen,
            Observation::Boot(unit, seen) => presence.boot(*unit) == *seen,
            Observation::HasRebootedSinceAttach(unit, machine, seen) => {
                presence.has_rebooted_since_attach(*unit, *machine) == *seen
            }
            Observation::LastRequest(agent, seen) => presence.last_request_ms(*agent) == *seen,
            Observation::Executing(agent, seen) => presence.executing(*agent).as_ref() == seen.as_deref(),
            Observation::MissingFile(unit, seen) => presence.missing_file(*unit) == *seen,
            Observation::IsRebootOverdue(requested_ms, seen) => {
                presence.is_reboot_overdue(*requested_ms) == *seen
            }
        }
    }
}

/// The presence of agents, which records what is observed of it.
pub(super) struct RecordingPresence<'p> {
    presence: &'p PresenceSnapshot,
    observations: RefCell<Vec<Observation>>,
}

impl<'p> RecordingPresence<'p> {
    pub(super) fn new(presence: &'p PresenceSnapshot) -> RecordingPresence<'p> {
        RecordingPresence { presence, observations: RefCell::default() }
    }

    pub(super) fn into_observations(self) -> Box<[Observation]> {
        self.observations.into_inner().into()
    }

    fn record(&self, observation: Observation) {
        self.observations.borrow_mut().push(observation);
    }
}

impl PresenceReader for RecordingPresence<'_> {
    fn health(&self, unit: Uuid) -> Option<UnitHealth> {
        let seen = self.presence.health(unit);
        self.record(Observation::Health(unit, seen.clone().map(Box::new)));
        seen
    }

    fn is_lost(&self, agent: Uuid) -> bool {
        let seen = self.presence.is_lost(agent);
        self.record(Observation::IsLost(agent, seen));
        seen
    }

    fn is_late(&self, agent: Uuid) -> bool {
        let seen = self.presence.is_late(agent);
        self.record(Observation::IsLate(agent, seen));
        seen
    }

    fn has_reported(&self, agent: Uuid) -> bool {
        let seen = self.presence.has_reported(agent);
        self.record(Observation::HasReported(agent, seen));
        seen
    }

    fn boot(&self, unit: Uuid) -> String {
        let seen = self.presence.boot(unit);
        self.record(Observation::Boot(unit, seen.clone()));
        seen
    }

    fn has_rebooted_since_attach(&self, unit: Uuid, machine: Uuid) -> bool {
        let seen = self.presence.has_rebooted_since_attach(unit, machine);
        self.record(Observation::HasRebootedSinceAttach(unit, machine, seen));
        seen
    }

    fn last_request_ms(&self, agent: Uuid) -> i64 {
        let seen = self.presence.last_request_ms(agent);
        self.record(Observation::LastRequest(agent, seen));
        seen
    }

    fn executing(&self, agent: Uuid) -> Option<ExecutingRun> {
        let seen = self.presence.executing(agent);
        self.record(Observation::Executing(agent, seen.clone().map(Box::new)));
        seen
    }

    fn missing_file(&self, unit: Uuid) -> Option<String> {
        let seen = self.presence.missing_file(unit);
        self.record(Observation::MissingFile(unit, seen.clone()));
        seen
    }

    fn is_reboot_overdue(&self, requested_ms: Option<i64>) -> bool {
        let seen = self.presence.is_reboot_overdue(requested_ms);
        self.record(Observation::IsRebootOverdue(requested_ms, seen));
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Reader for Nothing {
        fn revision(&self) -> Revision {
            1
        }
        fn get(&self, _: &str) -> Option<StoredDocument> {
            None
        }
        fn scan(&self, _: &str, _: &str, _: usize) -> Vec<StoredDocument> {
            Vec::new()
        }
    }

    fn contain(read: impl Fn(&dyn Reader), changed: &str) -> bool {
        let reader = RecordingReader::new(&Nothing);
        read(&reader);
        reader.into_reads().contain(&Changed::of(&[changed.to_owned()]))
    }

    #[test]
    fn a_document_that_was_read_and_a_range_that_was_listed_are_recorded() {
        let get = |reader: &dyn Reader| drop(reader.get("m/unit/a"));
        assert!(contain(get, "m/unit/a") && !contain(get, "m/unit/b") && !contain(get, "m/unit/a/b"));
        let scan = |reader: &dyn Reader| drop(reader.scan("m/scope/r/", "", 1));
        assert!(contain(scan, "m/scope/r/c/u") && !contain(scan, "m/scope/s/c/u"));
        assert!(contain(|reader| drop(reader.scan("m/sco", "", 1)), "m/scope/r"), "a part of a name");
        assert!(contain(|reader| drop(reader.scan("", "", 1)), "m/scope/r"), "everything");
    }

    #[test]
    fn many_reads_are_recorded_by_their_kinds() {
        let many = |reader: &dyn Reader| (0..2_000).for_each(|n| drop(reader.get(&format!("m/unit/{n}"))));
        assert!(contain(many, "m/unit/0") && contain(many, "m/unit/1999") && contain(many, "m/unit/other"));
        assert!(!contain(many, "m/machine/0"));
        let reader = RecordingReader::new(&Nothing);
        many(&reader);
        assert_eq!(reader.into_reads().0.len(), READS_MAX + 1);
    }
}
