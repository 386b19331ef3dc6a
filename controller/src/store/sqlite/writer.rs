//! The writer thread: receives requests, commits them in batches, and replies after the sync.
//!
//! It owns the only writing connection. It must never reply before the commit that a result depends on is synced. A
//! damaged document fails the requests that need it, and no others of their batch. The thread also bounds the change
//! log and gives free pages of the file back to the disk. Started by [`super::Sqlite::open`].

use super::super::{ApplyError, CommitChanges, Committed, DocumentChange, RunError, StoreError};
use super::checksum;
use super::damaged_documents::{self, DamagedDocuments};
use super::limit_probe::LimitProbe;
use super::reads::{CHANGE_LOG, ConnectionReader, cannot_open, is_damage, is_write_error};
use super::recent::RecentCommits;
use crate::store::sqlite::generation_file::{DatabaseFile, GenerationFile};
use crate::store::sqlite::open::{DATABASE, Lock};
use rusqlite::{Connection, Transaction as SqliteTransaction, TransactionBehavior, params};
use state::documents::draft::{Draft, Reader, Revision, Transaction};
use state::terms::write_failure::WriteFailure;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, oneshot, watch};

/// Requests per commit. At 20 to 50 µs each, a full batch delays its first request by 3 ms, about as long as a sync.
pub(super) const BATCH_MAX: usize = 64;
/// Requests in the writer's queue: sixteen batches. Further callers wait before they can enqueue a request.
pub(super) const QUEUE_MAX: usize = 16 * BATCH_MAX;
/// Commits between two checks of the free pages of the file.
const COMMITS_PER_VACUUM: u64 = 16;
/// Free pages that the file keeps: 4 MiB. Later commits use them, which is cheaper than to return them to the disk.
const FREE_PAGES_KEPT: i64 = 1024;
/// Pages that one commit gives back: 256 KiB, which takes some ms. 16 commits free fewer pages than that, unless most
/// of them write 16 KiB and more, and such commits use the free pages themselves.
const PAGES_PER_VACUUM: i64 = 64;

/// A request to the writer.
pub(super) trait WriteRequest: Send {
    /// Decides what to write, based on the newest documents including those of this batch. None if nothing is written.
    fn decide(&mut self, newest: &dyn Reader) -> Option<Transaction>;
    /// Replies to the caller. Called once, after the sync: `Ok` has the revision of the commit, or the revision that
    /// was read if nothing was written.
    fn reply(self: Box<Self>, synced: Result<Revision, StoreError>);
}

pub(super) struct TransitionRequest<A, R, F> {
    pub transition: F,
    pub decided: Option<Result<A, RunError<R>>>,
    pub reply: oneshot::Sender<Result<Committed<A>, RunError<R>>>,
}

impl<A, R, F> WriteRequest for TransitionRequest<A, R, F>
where
    A: Send,
    R: Send,
    F: Fn(&mut Draft<'_>) -> Result<A, R> + Send,
{
    fn decide(&mut self, newest: &dyn Reader) -> Option<Transaction> {
        let mut draft = Draft::new(newest);
        let decided = match (self.transition)(&mut draft) {
            Ok(answer) => draft.finish().map(|transaction| (answer, transaction)).map_err(RunError::TooLarge),
            Err(refusal) => Err(RunError::Refused(refusal)),
        };
        let (decided, transaction) = match decided {
            Ok((answer, transaction)) => (Ok(answer), Some(transaction)),
            Err(error) => (Err(error), None),
        };
        debug_assert!(
            transaction.as_ref().is_none_or(|transaction| transaction.check(newest).is_ok()),
            "what was just read holds"
        );
        self.decided = Some(decided);
        transaction
    }

    fn reply(self: Box<Self>, synced: Result<Revision, StoreError>) {
        let TransitionRequest { decided, reply, .. } = *self;
        let result = synced.map_err(RunError::Failed).and_then(|revision| {
            let decided = decided.expect("what is synced was decided");
            decided.map(|answer| Committed { answer, revision })
        });
        let _ = reply.send(result); // an error means that the call was dropped
    }
}

pub(super) struct ApplyRequest {
    pub transaction: Transaction,
    pub conflict: Option<ApplyError>,
    pub reply: oneshot::Sender<Result<Revision, ApplyError>>,
}

impl WriteRequest for ApplyRequest {
    fn decide(&mut self, newest: &dyn Reader) -> Option<Transaction> {
        self.conflict = self.transaction.check(newest).err().map(ApplyError::Conflict);
        self.conflict.is_none().then(|| self.transaction.clone()) // it may be decided again
    }

    fn reply(self: Box<Self>, synced: Result<Revision, StoreError>) {
        let ApplyRequest { conflict, reply, .. } = *self;
        let result = synced.map_err(ApplyError::Failed);
        let _ = reply.send(result.and_then(|revision| conflict.map_or(Ok(revision), Err)));
    }
}

/// Why the last change was not written, shared with the handles of the store.
#[derive(Clone, Default)]
pub(super) struct LastFailure(Arc<Mutex<Option<WriteFailure>>>);

impl LastFailure {
    pub(super) fn get(&self) -> Option<WriteFailure> {
        self.0.lock().expect("no holder panics").clone()
    }

    fn set(&self, failure: Option<WriteFailure>) {
        *self.0.lock().expect("no holder panics") = failure;
    }
}

pub(super) struct Writer {
    pub connection: Connection,
    pub database_file: DatabaseFile,
    pub generation_file: GenerationFile,
    pub limit_probe: LimitProbe,
    /// Dropped after the connection, so that the next process finds all writes.
    pub _lock: Lock,
    pub damaged_documents: Arc<DamagedDocuments>,
    pub log: ChangeLog,
    /// Commits of this process.
    pub commits: u64,
    pub recent: Arc<RecentCommits>,
    pub newest: Arc<watch::Sender<Revision>>,
    pub broken: Arc<watch::Sender<Option<String>>>,
    pub failure: LastFailure,
}

impl Writer {
    pub(super) fn serve(mut self, mut waiting: mpsc::Receiver<Box<dyn WriteRequest>>) {
        while let Some(first) = waiting.blocking_recv() {
            let mut batch = vec![first];
            while batch.len() < BATCH_MAX
                && let Ok(next) = waiting.try_recv()
            {
                batch.push(next);
            }
            if let Some(why) = self.broken.borrow().clone() {
                batch.into_iter().for_each(|r| r.reply(Err(StoreError::Broken(why.clone()))));
                continue;
            }
            match self.commit(&mut batch) {
                Ok(committed) => self.publish(batch, committed),
                // Each request is committed alone, so that only those that need the damaged document fail.
                Err(CommitError::Damaged(_)) if batch.len() > 1 => {
                    for request in batch {
                        self.commit_alone(request);
                    }
                }
                Err(error) => {
                    let failure = self.fail(error);
                    batch.into_iter().for_each(|request| request.reply(Err(failure.clone())));
                }
            }
        }
        let _ = self.generation_file.close(*self.newest.borrow()); // otherwise the file of the start remains
    }

    fn commit_alone(&mut self, request: Box<dyn WriteRequest>) {
        if let Some(why) = self.broken.borrow().clone() {
            return request.reply(Err(StoreError::Broken(why)));
        }
        let mut batch = vec![request];
        match self.commit(&mut batch) {
            Ok(committed) => self.publish(batch, committed),
            Err(error) => {
                let failure = self.fail(error);
                batch.into_iter().for_each(|request| request.reply(Err(failure.clone())));
            }
        }
    }

    /// Commits a batch in one transaction with one sync.
    fn commit(&mut self, batch: &mut [Box<dyn WriteRequest>]) -> Result<CommittedBatch, CommitError> {
        if self.database_file.is_replaced() {
            return Err(CommitError::Replaced);
        }
        let before = *self.newest.borrow();
        let mut newest = before;
        let sqlite_transaction =
            SqliteTransaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        let mut decided = Vec::with_capacity(batch.len());
        let (mut added, mut changes) = (Vec::new(), Vec::new());
        for request in batch {
            let reader = ConnectionReader::for_writer(&self.connection, newest, &self.damaged_documents);
            let transaction = request.decide(&reader);
            if let Some(error) = reader.take_write_error() {
                return Err(error.into());
            }
            let damaged = reader.damaged();
            if !damaged.is_empty() {
                decided.push(Err(StoreError::Damaged(damaged)));
                continue;
            }
            if let Some(transaction) = transaction
                && let Some(Written { bytes, entries, is_known }) =
                    write(&sqlite_transaction, transaction, newest + 1)?
            {
                newest += 1;
                added.push(bytes);
                if is_known {
                    changes.push(CommitChanges { revision: newest, entries: entries.into() });
                }
            }
            decided.push(Ok(newest));
        }
        let pruned = self.log.beyond(&added);
        if newest > before && pruned > 0 {
            let oldest = self.log.oldest() + pruned as u64;
            let mut prune = sqlite_transaction.prepare_cached("DELETE FROM changes WHERE revision < ?1")?;
            prune.execute([oldest as i64]).map_err(|error| CommitError::of(error, CHANGE_LOG))?;
        }
        if newest > before && self.commits.is_multiple_of(COMMITS_PER_VACUUM) {
            return_free_pages(&sqlite_transaction)?;
        }
        sqlite_transaction.commit()?;
        if newest > before {
            self.commits += 1;
            self.log.add(newest, added);
            self.log.drop_oldest(pruned);
        }
        Ok(CommittedBatch { decided, changes, newest })
    }

    /// Publishes the newest revision after the sync and replies to all requests.
    fn publish(&self, batch: Vec<Box<dyn WriteRequest>>, committed: CommittedBatch) {
        let CommittedBatch { decided, changes, newest } = committed;
        if *self.newest.borrow() != newest {
            let _ = self.generation_file.record(newest); // a file that lags behind is allowed, see GenerationFile
            self.recent.add(changes, self.log.oldest());
            self.newest.send_replace(newest);
            self.failure.set(None);
        }
        for (request, revision) in batch.into_iter().zip(decided) {
            request.reply(revision);
        }
    }

    /// Classifies the error of a commit that was rolled back. Only after a full disk, after a file that could not be
    /// opened, and before the commit itself, is it certain that nothing was written.
    fn fail(&self, error: CommitError) -> StoreError {
        let error = match error {
            CommitError::Damaged(documents) => {
                documents
                    .iter()
                    .for_each(|document| self.damaged_documents.log(document, "it cannot be written"));
                return StoreError::Damaged(documents);
            }
            CommitError::Replaced => {
                return self.break_store(format!("{DATABASE} was deleted or replaced while it was open"));
            }
            CommitError::Failed(error) => error,
        };
        if is_write_error(&error) && self.limit_probe.is_reached(&error) {
            self.failure.set(Some(WriteFailure::DiskFull));
            return StoreError::Full;
        }
        if cannot_open(&error) {
            self.failure.set(Some(WriteFailure::CannotOpen(error.to_string())));
            return StoreError::CannotOpen(error.to_string());
        }
        self.break_store(error.to_string())
    }

    fn break_store(&self, why: String) -> StoreError {
        tracing::error!(why, "the store is broken");
        self.broken.send_replace(Some(why.clone()));
        StoreError::Broken(why)
    }
}

/// The revision of a request, or the damaged documents that it needs.
type Decided = Result<Revision, StoreError>;

/// A batch that was committed.
struct CommittedBatch {
    /// The answer to each request.
    decided: Vec<Decided>,
    /// The commits, oldest first, without those that have replaced a damaged document.
    changes: Vec<CommitChanges>,
    newest: Revision,
}

/// What one revision has written.
struct Written {
    /// The bytes of the log entries.
    bytes: u64,
    entries: Vec<DocumentChange>,
    /// Whether the log entries contain all previous documents, which they do not if one was damaged.
    is_known: bool,
}

/// Why a batch was rolled back.
enum CommitError {
    /// The file is damaged where these documents belong. The commit had not begun.
    Damaged(Vec<String>),
    /// The file of the database was deleted or replaced since it was opened.
    Replaced,
    Failed(rusqlite::Error),
}

impl CommitError {
    /// Classifies the error of a statement before the commit.
    fn of(error: rusqlite::Error, document: &str) -> CommitError {
        match is_damage(&error) {
            true => CommitError::Damaged(vec![document.to_owned()]),
            false => CommitError::Failed(error),
        }
    }
}

impl From<rusqlite::Error> for CommitError {
    fn from(error: rusqlite::Error) -> CommitError {
        CommitError::Failed(error)
    }
}

/// The revisions of the change log with their sizes, and the bounds of both.
pub(super) struct ChangeLog {
    /// Oldest first.
    revisions: VecDeque<(Revision, u64)>,
    bytes: u64,
    revisions_max: usize,
    bytes_max: u64,
}

impl ChangeLog {
    pub(super) fn new(revisions: Vec<(Revision, u64)>, revisions_max: u64, bytes_max: u64) -> ChangeLog {
        let bytes = revisions.iter().map(|(_, bytes)| bytes).sum();
        let revisions_max = usize::try_from(revisions_max.max(1)).unwrap_or(usize::MAX);
        ChangeLog { revisions: revisions.into(), bytes, revisions_max, bytes_max }
    }

    fn oldest(&self) -> Revision {
        self.revisions.front().map_or(0, |(oldest, _)| *oldest)
    }

    /// Returns how many of the oldest revisions are beyond the bounds once `added` follow. The newest is always kept.
    /// One commit prunes all of them: many small revisions must make room for a few large ones.
    fn beyond(&self, added: &[u64]) -> usize {
        let (mut count, mut bytes) =
            (self.revisions.len() + added.len(), self.bytes + added.iter().sum::<u64>());
        let mut beyond = 0;
        for (_, size) in &self.revisions {
            if count <= self.revisions_max.max(1) && bytes <= self.bytes_max || count == 1 {
                break;
            }
            (count, bytes, beyond) = (count - 1, bytes - size, beyond + 1);
        }
        beyond
    }

    fn add(&mut self, newest: Revision, added: Vec<u64>) {
        let first = newest + 1 - added.len() as u64;
        self.bytes += added.iter().sum::<u64>();
        self.revisions.extend((first..).zip(added));
    }

    fn drop_oldest(&mut self, count: usize) {
        self.bytes -= self.revisions.drain(..count).map(|(_, bytes)| bytes).sum::<u64>();
    }
}

/// Gives some of the free pages back to the disk, if there are more than the file keeps. Damage among them does not
/// fail the commit.
fn return_free_pages(sqlite_transaction: &SqliteTransaction<'_>) -> rusqlite::Result<()> {
    let free: i64 = sqlite_transaction.query_row("PRAGMA freelist_count", [], |row| row.get(0))?;
    let pages = (free - FREE_PAGES_KEPT).min(PAGES_PER_VACUUM);
    if pages <= 0 {
        return Ok(());
    }
    let mut vacuum = sqlite_transaction.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = vacuum.query([])?;
    loop {
        match rows.next() {
            Ok(Some(_)) => {} // one page
            Ok(None) => return Ok(()),
            Err(error) if is_damage(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Writes the documents and the log entries of one revision. Returns none if nothing changes.
fn write(
    sqlite_transaction: &SqliteTransaction<'_>,
    transaction: Transaction,
    revision: Revision,
) -> Result<Option<Written>, CommitError> {
    let mut written = Written { bytes: 0, entries: Vec::new(), is_known: true };
    for (key, value) in transaction.writes {
        let added = write_document(sqlite_transaction, &key, value.as_deref(), revision);
        if let Some((bytes, is_known)) = added.map_err(|error| CommitError::of(error, &key))? {
            written.bytes += bytes;
            written.is_known &= is_known;
            written.entries.push(DocumentChange { key, value });
        }
    }
    Ok((!written.entries.is_empty()).then_some(written))
}

/// Writes one document with its log entry. Returns the bytes of the entry, and whether it contains the previous
/// document; none if the document was absent and stays absent.
fn write_document(
    sqlite_transaction: &SqliteTransaction<'_>,
    key: &str,
    value: Option<&str>,
    revision: Revision,
) -> rusqlite::Result<Option<(u64, bool)>> {
    let get = "SELECT key, revision, value, checksum FROM documents WHERE key = ?1";
    let mut get = sqlite_transaction.prepare_cached(get)?;
    let mut put =
        sqlite_transaction.prepare_cached("INSERT OR REPLACE INTO documents VALUES (?1, ?2, ?3, ?4)")?;
    let mut remove = sqlite_transaction.prepare_cached("DELETE FROM documents WHERE key = ?1")?;
    let mut log = sqlite_transaction.prepare_cached("INSERT INTO changes VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    let revision = revision as i64;
    let before = {
        let mut rows = get.query([key])?;
        rows.next()?.map(damaged_documents::document)
    };
    match value {
        Some(value) => {
            put.execute(params![key, revision, value, checksum::of_document(key, revision, value)])?;
        }
        None if before.is_none() => return Ok(None),
        None => {
            remove.execute([key])?;
        }
    }
    // The entry cannot contain the previous state of a damaged document. It gets no checksum, so that a reader of the
    // entry reads all documents again.
    let is_known = !matches!(before, Some(Err(_)));
    let before = before.and_then(Result::ok);
    let before = before.as_ref().map(|stored| (stored.revision as i64, &*stored.value));
    let checksum = is_known.then(|| checksum::of_change(revision, key, value, before));
    let (revision_before, value_before) = before.unzip();
    log.execute(params![revision, key, value, revision_before, value_before, checksum])?;
    let bytes = key.len() + value.map_or(0, str::len) + value_before.map_or(0, str::len);
    Ok(Some((bytes as u64, is_known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_change_log_is_bounded_in_revisions_and_bytes_and_keeps_the_newest() {
        let mut log = ChangeLog::new(vec![(1, 10), (2, 10), (3, 10)], 3, 25);
        assert_eq!(log.beyond(&[1]), 1, "30 + 1 - 10 bytes fit");
        assert_eq!(log.beyond(&[10]), 2);
        assert_eq!(log.beyond(&[100]), 3);
        assert_eq!(log.beyond(&[1, 1]), 2, "three revisions");
        log.add(4, vec![100]);
        log.drop_oldest(3);
        assert_eq!((log.oldest(), log.bytes, log.revisions.len()), (4, 100, 1));
        assert_eq!(log.beyond(&[]), 0, "the newest is kept");
    }

    /// If a commit pruned a fixed number of revisions, a log that is full of small ones would grow by almost all that a
    /// batch of large ones writes.
    #[test]
    fn one_commit_of_large_revisions_prunes_as_many_small_ones_as_they_need() {
        let mut log = ChangeLog::new((1..=10_000).map(|revision| (revision, 10)).collect(), 10_000, 100_000);
        let large = vec![1_000; BATCH_MAX];
        let pruned = log.beyond(&large);
        log.add(10_000 + BATCH_MAX as u64, large);
        log.drop_oldest(pruned);
        assert_eq!((log.bytes, log.oldest()), (100_000, 6_401));
    }
}
