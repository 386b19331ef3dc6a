//! The writer thread: receives requests, commits them in batches, and replies after the sync.
//!
//! It owns the only writing connection. It must never reply before the commit that a result depends on is synced.
//! Started by [`super::Sqlite::open`].

use super::super::{ApplyError, Committed, RunError, StoreError};
use super::reads::{ConnectionReader, cannot_open};
use crate::store::sqlite::open::{GenerationFile, Lock};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use state::documents::draft::{Draft, Reader, Revision, Txn};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};

/// Requests per commit. At 20 to 50 µs each, a full batch delays its first request by 3 ms, about as long as a sync.
const BATCH_MAX: usize = 64;
/// Requests in the writer's queue: sixteen batches. Further callers wait before they can enqueue a request.
pub(super) const QUEUE_MAX: usize = 16 * BATCH_MAX;
/// Revisions that one commit prunes from the log: twice what a full batch adds, so that a lowered limit is reached.
const PRUNED_PER_COMMIT: u64 = 2 * BATCH_MAX as u64;

/// A request to the writer.
pub(super) trait WriteRequest: Send {
    /// Decides what to write, based on the newest documents including those of this batch. None if nothing is written.
    fn decide(&mut self, newest: &dyn Reader) -> Option<Txn>;
    /// Replies to the caller. Called once, after the sync: `Ok` has the revision of the commit, or the revision that
    /// was read if nothing was written.
    fn answer(self: Box<Self>, synced: Result<Revision, StoreError>);
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
    fn decide(&mut self, newest: &dyn Reader) -> Option<Txn> {
        let mut draft = Draft::new(newest);
        let decided = match (self.transition)(&mut draft) {
            Ok(answer) => draft.finish().map(|txn| (answer, txn)).map_err(RunError::TooLarge),
            Err(refusal) => Err(RunError::Refused(refusal)),
        };
        let (decided, txn) = match decided {
            Ok((answer, txn)) => (Ok(answer), Some(txn)),
            Err(error) => (Err(error), None),
        };
        debug_assert!(txn.as_ref().is_none_or(|txn| txn.check(newest).is_ok()), "what was just read holds");
        self.decided = Some(decided);
        txn
    }

    fn answer(self: Box<Self>, synced: Result<Revision, StoreError>) {
        let TransitionRequest { decided, reply, .. } = *self;
        let answer = synced.map_err(RunError::Failed).and_then(|revision| {
            let decided = decided.expect("what is synced was decided");
            decided.map(|answer| Committed { answer, revision })
        });
        let _ = reply.send(answer); // an error means that the call was dropped
    }
}

pub(super) struct ApplyRequest {
    pub txn: Txn,
    pub conflict: Option<ApplyError>,
    pub reply: oneshot::Sender<Result<Revision, ApplyError>>,
}

impl WriteRequest for ApplyRequest {
    fn decide(&mut self, newest: &dyn Reader) -> Option<Txn> {
        self.conflict = self.txn.check(newest).err().map(ApplyError::Conflict);
        self.conflict.is_none().then(|| std::mem::take(&mut self.txn))
    }

    fn answer(self: Box<Self>, synced: Result<Revision, StoreError>) {
        let ApplyRequest { conflict, reply, .. } = *self;
        let answer = synced.map_err(ApplyError::Failed);
        let _ = reply.send(answer.and_then(|revision| conflict.map_or(Ok(revision), Err)));
    }
}

pub(super) struct Writer {
    pub connection: Connection,
    pub sidecar: GenerationFile,
    /// Dropped after the connection, so that the next process finds all writes.
    pub _lock: Lock,
    /// The oldest revision in the log; newest + 1 if the log is empty.
    pub oldest: Revision,
    pub changes_kept: u64,
    pub newest: Arc<watch::Sender<Revision>>,
    pub broken: Arc<watch::Sender<Option<String>>>,
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
                batch.into_iter().for_each(|r| r.answer(Err(StoreError::Broken(why.clone()))));
                continue;
            }
            match self.commit(&mut batch) {
                Ok(revisions) => self.publish(batch, &revisions),
                Err(error) => {
                    let failure = self.fail(&error);
                    batch.into_iter().for_each(|request| request.answer(Err(failure.clone())));
                }
            }
        }
    }

    /// Commits a batch in one transaction with one sync. Returns the revision of each request.
    fn commit(&mut self, batch: &mut [Box<dyn WriteRequest>]) -> rusqlite::Result<Vec<Revision>> {
        let before = *self.newest.borrow();
        let mut newest = before;
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        let mut revisions = Vec::with_capacity(batch.len());
        for request in batch {
            let txn = request.decide(&ConnectionReader { connection: &self.connection, revision: newest });
            if let Some(txn) = txn
                && write(&transaction, &txn, newest + 1)?
            {
                newest += 1;
            }
            revisions.push(newest);
        }
        let oldest = (newest + 1).saturating_sub(self.changes_kept).min(self.oldest + PRUNED_PER_COMMIT);
        if newest > before && oldest > self.oldest {
            let mut prune = transaction.prepare_cached("DELETE FROM changes WHERE revision < ?1")?;
            prune.execute([oldest as i64])?;
        }
        transaction.commit()?;
        if newest > before {
            self.oldest = self.oldest.max(oldest);
        }
        Ok(revisions)
    }

    /// Publishes the newest revision after the sync and replies to all requests.
    fn publish(&self, batch: Vec<Box<dyn WriteRequest>>, revisions: &[Revision]) {
        let newest = *revisions.last().expect("a batch has at least one request");
        if *self.newest.borrow() != newest {
            let _ = self.sidecar.note(newest); // a file that lags behind is allowed, see GenerationFile
            self.newest.send_replace(newest);
        }
        for (request, revision) in batch.into_iter().zip(revisions) {
            request.answer(Ok(*revision));
        }
    }

    /// Classifies the error of a commit that was rolled back. Only after a full disk, and after a file that could not be
    /// opened, is it certain that nothing was written.
    fn fail(&self, error: &rusqlite::Error) -> StoreError {
        if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) {
            return StoreError::Full;
        }
        if cannot_open(error) {
            return StoreError::CannotOpen(error.to_string());
        }
        let why = error.to_string();
        tracing::error!(why, "the store is broken");
        self.broken.send_replace(Some(why.clone()));
        StoreError::Broken(why)
    }
}

/// Writes the documents and the log entries of one revision. Returns false if nothing changes.
fn write(transaction: &Transaction<'_>, txn: &Txn, revision: Revision) -> rusqlite::Result<bool> {
    let mut get = transaction.prepare_cached("SELECT revision, value FROM documents WHERE key = ?1")?;
    let mut put = transaction.prepare_cached("INSERT OR REPLACE INTO documents VALUES (?1, ?2, ?3)")?;
    let mut remove = transaction.prepare_cached("DELETE FROM documents WHERE key = ?1")?;
    let mut log = transaction.prepare_cached("INSERT INTO changes VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let mut changed = false;
    for (key, value) in &txn.writes {
        let before: Option<(i64, String)> =
            get.query_row([key], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        match value {
            Some(value) => put.execute(params![key, revision as i64, &**value])?,
            None if before.is_none() => continue,
            None => remove.execute([key])?,
        };
        let (revision_before, value_before) = before.unzip();
        log.execute(params![revision as i64, key, value.as_deref(), revision_before, value_before])?;
        changed = true;
    }
    Ok(changed)
}
