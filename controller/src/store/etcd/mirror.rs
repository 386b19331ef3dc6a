//! The mirror: all documents of the store in memory, at one revision, with the bounded change log.
//!
//! `feed` installs a list of all documents and then applies the events of the watch, whole revisions at a time, so that
//! a snapshot never contains a part of a commit (I45). A snapshot is a persistent map: it costs nothing to take, does not
//! change, and never delays the feed, however long a view takes.
//!
//! Beside the documents it has the leases of leaders and the statements about agents, which are no documents and no commits.
//!
//! The change log contains the commits that this process has seen. After a list that does not continue the mirror, it is
//! empty, and every older position is compacted (I46).

use super::known_statements::KnownStatements;
use super::layout::{Layout, Place};
use super::messages::{DELETE, Event, KeyValue};
use crate::store::{CommitChanges, Compacted, DocumentChange, Undo, scan_start};
use rpds::RedBlackTreeMapSync;
use state::documents::draft::{Reader, Revision, StoredDocument};
use state::documents::json_text::Text;
use state::terms::names::Uuid;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

/// The documents at one revision. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Documents {
    /// The newest commit.
    pub revision: Revision,
    /// The revision of the last event, of whatever key below the prefix: every commit up to it is contained.
    pub reached: Revision,
    by_key: RedBlackTreeMapSync<String, (Revision, Text)>,
}

impl Documents {
    pub fn get(&self, key: &str) -> Option<StoredDocument> {
        let (revision, value) = self.by_key.get(key)?;
        Some(StoredDocument { key: key.to_owned(), revision: *revision, value: value.clone() })
    }
}

/// Reads a snapshot, and records the keys whose value is not a document: another program or a person has written it.
pub(super) struct SnapshotReader<'s> {
    documents: &'s Documents,
    damaged: RefCell<BTreeSet<String>>,
}

impl<'s> SnapshotReader<'s> {
    pub fn new(documents: &'s Documents) -> SnapshotReader<'s> {
        SnapshotReader { documents, damaged: RefCell::default() }
    }

    /// Returns the damaged documents that were read.
    pub fn damaged(&self) -> Vec<String> {
        self.damaged.borrow().iter().cloned().collect()
    }
}

impl Reader for SnapshotReader<'_> {
    fn revision(&self) -> Revision {
        self.documents.revision
    }

    fn get(&self, key: &str) -> Option<StoredDocument> {
        self.documents.get(key)
    }

    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        let start = scan_start(prefix, after);
        let from = self.documents.by_key.range::<str, _>((Bound::Included(start.as_str()), Bound::Unbounded));
        let below = from.take_while(|(key, _)| key.starts_with(prefix));
        let stored = |(key, (revision, value)): (&String, &(Revision, Text))| StoredDocument {
            key: key.clone(),
            revision: *revision,
            value: value.clone(),
        };
        below.filter(|(key, _)| key.as_str() > after).take(limit).map(stored).collect()
    }

    fn record_damage(&self, key: &str, why: &str) {
        if self.damaged.borrow_mut().insert(key.to_owned()) {
            tracing::error!(document = key, why, "a document in etcd is damaged");
        }
    }
}

/// One commit in the change log.
struct LoggedCommit {
    changes: CommitChanges,
    undo: Vec<Undo>,
    bytes: u64,
}

/// The bounds of the change log.
#[derive(Clone, Copy)]
pub(super) struct LogBounds {
    pub changes: u64,
    pub bytes: u64,
}

/// The lease of a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaderKey {
    /// The unit that holds it; none if the value is not that of a unit.
    pub unit: Option<Uuid>,
    /// The revision of the key.
    pub revision: Revision,
    /// The id of the lease.
    pub lease: i64,
}

impl LeaderKey {
    pub fn new(value: &[u8], revision: Revision, lease: i64) -> LeaderKey {
        let unit = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        LeaderKey { unit, revision, lease }
    }
}

/// The mirror.
pub(super) struct Mirror {
    layout: Layout,
    documents: Documents,
    /// By application. Others may have changed them since: only etcd decides.
    leaders: BTreeMap<Uuid, LeaderKey>,
    pub statements: KnownStatements,
    log: VecDeque<LoggedCommit>,
    log_bytes: u64,
    /// The oldest position after which the log has every commit.
    log_start: Revision,
    bounds: LogBounds,
    /// The name of this handle of the store, as `m/newest` and the fences contain it.
    handle: String,
    /// The transactions of this handle whose outcome is not known yet: their numbers, with the revision of the commit as
    /// soon as the watch has delivered it.
    pending: BTreeMap<u64, Option<Revision>>,
    /// How often a list has replaced the documents, so that events of commits may have been missed.
    relist_count: u64,
}

impl Mirror {
    pub fn new(layout: Layout, handle: String, bounds: LogBounds) -> Mirror {
        Mirror {
            layout,
            documents: Documents::default(),
            leaders: BTreeMap::new(),
            statements: KnownStatements::new(handle.clone()),
            log: VecDeque::new(),
            log_bytes: 0,
            log_start: 0,
            bounds,
            handle,
            pending: BTreeMap::new(),
            relist_count: 0,
        }
    }

    pub fn snapshot(&self) -> Documents {
        self.documents.clone()
    }

    pub fn relist_count(&self) -> u64 {
        self.relist_count
    }

    /// Returns the lease of the leader of an application.
    pub fn leader(&self, application: Uuid) -> Option<LeaderKey> {
        self.leaders.get(&application).cloned()
    }

    /// Starts to observe a transaction of this handle.
    pub fn expect(&mut self, number: u64) {
        self.pending.insert(number, None);
    }

    /// Returns the revision of an observed transaction, if the watch has delivered it.
    pub fn outcome(&self, number: u64) -> Option<Revision> {
        self.pending.get(&number).copied().flatten()
    }

    /// Ends the observation of a transaction.
    pub fn forget(&mut self, number: u64) {
        self.pending.remove(&number);
    }

    /// Replaces all documents by a list at one revision. If it has the commit that the mirror has, nothing was missed.
    /// Returns the revision of the store record, none if there is none.
    pub fn install(&mut self, listed: Vec<KeyValue>, at: Revision) -> Option<Option<Revision>> {
        let (mut by_key, mut newest) = (RedBlackTreeMapSync::new_sync(), 0);
        let mut store = None;
        let (mut statements, mut controllers) = (BTreeSet::new(), BTreeSet::new());
        self.leaders.clear();
        for kv in listed {
            let KeyValue { key, mod_revision, value, lease } = kv;
            let revision = mod_revision.unsigned_abs();
            match self.layout.place(&key) {
                Place::Document(key) => {
                    by_key.insert_mut(key.to_owned(), (revision, text(&value)));
                }
                Place::Newest => newest = revision,
                Place::Store => store = Some(revision),
                Place::Leader(application) => {
                    self.leaders.insert(application, LeaderKey::new(&value, revision, lease));
                }
                Place::Statement(agent, topic) => {
                    statements.insert((agent, topic));
                    self.statements.set(agent, topic, Some(&value), revision);
                }
                Place::Controller(handle) => {
                    controllers.insert(handle.to_owned());
                    self.statements.set_controller(handle, Some(&value));
                }
                Place::Fence | Place::Other => {}
            }
        }
        self.statements.retain(&statements, &controllers);
        if newest != self.documents.revision || self.relist_count == 0 {
            self.log.clear();
            (self.log_bytes, self.log_start) = (0, newest);
            self.relist_count += 1;
        }
        let reached = self.documents.reached.max(at);
        self.documents = Documents { revision: newest, reached, by_key };
        Some(store)
    }

    /// Applies events of the watch, which are in the order of revisions and contain each revision as a whole. Events that
    /// the mirror has already are skipped: a watch may resume at an earlier revision. Returns the revision of the store record
    /// if it was written, none if it was deleted.
    pub fn apply(&mut self, events: Vec<Event>) -> Option<Option<Revision>> {
        let (mut store, mut revision) = (None, 0);
        let mut changed: BTreeMap<String, Option<Text>> = BTreeMap::new();
        for Event { kind, kv } in events {
            let Some(kv) = kv else { continue };
            let KeyValue { key, mod_revision, value, lease } = kv;
            let at = mod_revision.unsigned_abs();
            if at <= self.documents.reached {
                continue;
            }
            if at != revision {
                self.commit(revision, std::mem::take(&mut changed));
                revision = at;
            }
            let value = (kind != DELETE).then_some(value);
            match self.layout.place(&key) {
                Place::Document(key) => {
                    changed.insert(key.to_owned(), value.as_deref().map(text));
                }
                Place::Newest => self.record_outcome(value.as_deref(), at),
                Place::Store => store = Some(value.is_some().then_some(at)),
                Place::Leader(application) => {
                    match value {
                        Some(value) => self.leaders.insert(application, LeaderKey::new(&value, at, lease)),
                        None => self.leaders.remove(&application),
                    };
                }
                Place::Statement(agent, topic) => {
                    self.statements.set(agent, topic, value.as_deref(), at);
                }
                Place::Controller(handle) => {
                    self.statements.set_controller(handle, value.as_deref());
                }
                Place::Fence | Place::Other => {}
            }
        }
        self.commit(revision, changed);
        self.documents.reached = self.documents.reached.max(revision);
        store
    }

    /// The value of `m/newest` names the transaction that has written it.
    fn record_outcome(&mut self, value: Option<&[u8]>, revision: Revision) {
        let value = value.and_then(|value| std::str::from_utf8(value).ok());
        let Some((handle, number)) = value.and_then(|value| value.split_once('/')) else { return };
        if handle == self.handle
            && let Some(outcome) = number.parse().ok().and_then(|number: u64| self.pending.get_mut(&number))
        {
            *outcome = Some(revision);
        }
    }

    /// Applies one commit.
    fn commit(&mut self, revision: Revision, changed: BTreeMap<String, Option<Text>>) {
        let (mut entries, mut undo, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (key, value) in changed {
            let before = self.documents.get(&key);
            bytes += key.len() as u64 * 2;
            bytes += value.as_ref().map_or(0, |value| value.len() as u64);
            bytes += before.as_ref().map_or(0, |before| before.value.len() as u64);
            match &value {
                Some(value) => {
                    self.documents.by_key.insert_mut(key.clone(), (revision, value.clone()));
                }
                None => {
                    self.documents.by_key.remove_mut(&key);
                }
            }
            undo.push(Undo { key: key.clone(), before });
            entries.push(DocumentChange { key, value });
        }
        if entries.is_empty() {
            return; // keys besides the documents, or no revision at all
        }
        self.documents.revision = revision;
        let changes = CommitChanges { revision, entries: entries.into() };
        self.log.push_back(LoggedCommit { changes, undo, bytes });
        self.log_bytes += bytes;
        let is_full = |mirror: &Mirror| {
            mirror.log.len() as u64 > mirror.bounds.changes || mirror.log_bytes > mirror.bounds.bytes
        };
        while self.log.len() > 1 && is_full(self) {
            let Some(oldest) = self.log.pop_front() else { break };
            self.log_bytes -= oldest.bytes;
            self.log_start = oldest.changes.revision;
        }
    }

    /// Returns the commits after a revision, oldest first, if the log has all of them.
    fn commits_after(&self, revision: Revision) -> Result<impl Iterator<Item = &LoggedCommit>, Compacted> {
        if !(self.log_start..=self.documents.revision).contains(&revision) {
            return Err(Compacted);
        }
        let first = self.log.partition_point(|commit| commit.changes.revision <= revision);
        Ok(self.log.range(first..))
    }

    /// Returns the changes after a revision, oldest first, at most `limit`.
    pub fn changes_after(&self, revision: Revision, limit: usize) -> Result<Vec<CommitChanges>, Compacted> {
        Ok(self.commits_after(revision)?.take(limit).map(|commit| commit.changes.clone()).collect())
    }

    /// Returns the keys that were changed after a revision; none if the log does not have all of them.
    pub fn keys_changed_after(&self, revision: Revision) -> Option<Vec<String>> {
        let commits = self.commits_after(revision).ok()?;
        Some(commits.flat_map(|commit| commit.changes.keys().map(str::to_owned)).collect())
    }

    /// Returns the newest documents, and the changes after a revision, oldest first.
    pub fn snapshot_and_changes(
        &self,
        revision: Revision,
    ) -> Result<(Documents, Vec<CommitChanges>), Compacted> {
        Ok((self.snapshot(), self.changes_after(revision, usize::MAX)?))
    }

    /// Returns the newest documents, and what undoes the changes after a revision.
    pub fn snapshot_and_undo(&self, revision: Revision) -> Result<(Documents, Vec<Undo>), Compacted> {
        let undo = self.commits_after(revision)?.flat_map(|commit| commit.undo.iter().cloned()).collect();
        Ok((self.snapshot(), undo))
    }
}

/// The text of a document. One whose bytes are not UTF-8 becomes empty, which is not JSON: it is reported as damaged when it
/// is read, also if only a string in it is damaged.
fn text(value: &[u8]) -> Text {
    Text::from(std::str::from_utf8(value).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: LogBounds = LogBounds { changes: 2, bytes: 1 << 20 };

    fn mirror() -> Mirror {
        Mirror::new(Layout::new("/p"), "me".to_owned(), BOUNDS)
    }

    fn put(key: Vec<u8>, value: &str, revision: i64) -> Event {
        let value = value.as_bytes().to_vec();
        Event { kind: 0, kv: Some(KeyValue { key, mod_revision: revision, value, lease: 0 }) }
    }

    fn document(key: &str, value: &str, revision: i64) -> Event {
        put(Layout::new("/p").document(key), value, revision)
    }

    #[test]
    fn events_that_come_twice_change_nothing_and_keys_besides_the_documents_are_no_commit() {
        let mut mirror = mirror();
        mirror.apply(vec![document("m/a", "1", 5), document("m/b", "1", 5), document("m/a", "2", 7)]);
        assert_eq!(mirror.apply(vec![document("m/a", "1", 5)]), None);
        assert_eq!(mirror.apply(vec![put(Layout::new("/p").store(), "1", 8)]), Some(Some(8)));
        assert_eq!(mirror.apply(vec![put(Layout::new("/p").fence("x"), "other", 9)]), None);
        assert_eq!((mirror.snapshot().revision, mirror.snapshot().reached), (7, 9));
        let revisions: Vec<_> =
            mirror.changes_after(0, 9).expect("kept").iter().map(|c| c.revision).collect();
        assert_eq!(revisions, [5, 7]);
    }

    #[test]
    fn the_log_is_bounded_and_any_revision_between_two_commits_is_a_position() {
        let mut mirror = mirror();
        for revision in [10, 20, 30] {
            mirror.apply(vec![document("m/a", "1", revision)]);
        }
        assert_eq!(mirror.changes_after(9, 9), Err(Compacted));
        assert_eq!(mirror.changes_after(15, 9).map(|changes| changes.len()), Ok(2));
        assert_eq!(mirror.changes_after(31, 9), Err(Compacted), "the future");
    }

    #[test]
    fn the_outcome_of_a_pending_transaction_is_what_the_watch_has_delivered() {
        let mut mirror = mirror();
        mirror.expect(3);
        let newest = Layout::new("/p").newest();
        mirror.apply(vec![put(newest.clone(), "other/3", 4), put(newest.clone(), "me/2", 5)]);
        assert_eq!(mirror.outcome(3), None);
        mirror.apply(vec![put(newest, "me/3", 6)]);
        assert_eq!(mirror.outcome(3), Some(6));
        mirror.forget(3);
        assert!(mirror.pending.is_empty());
    }

    #[test]
    fn a_list_that_does_not_continue_the_mirror_compacts_every_older_position() {
        let mut mirror = mirror();
        mirror.install(Vec::new(), 3);
        mirror.apply(vec![document("m/a", "1", 5)]);
        let listed = |newest: i64| {
            let layout = Layout::new("/p");
            let key = |key, mod_revision| KeyValue { key, mod_revision, value: b"1".to_vec(), lease: 0 };
            vec![key(layout.document("m/a"), 5), key(layout.newest(), newest)]
        };
        mirror.install(listed(5), 8);
        assert_eq!(mirror.changes_after(4, 9).map(|changes| changes.len()), Ok(1), "nothing was missed");
        mirror.install(listed(7), 9);
        assert_eq!((mirror.changes_after(5, 9), mirror.changes_after(7, 9)), (Err(Compacted), Ok(vec![])));
    }
}
