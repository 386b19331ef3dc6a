//! Runs transitions on the mirror and commits them in transactions of etcd.
//!
//! A transaction compares what the draft has read: each key with its revision, each absence as the ranges between its
//! excepted keys, each witness, and each page as one range. If a comparison fails, the transition runs again as soon as
//! the mirror has the conflicting commit, a bounded number of times.
//!
//! A response of etcd can be lost: the connection breaks, or no majority answers in time. The transaction may then have
//! been executed, may still be executed later, or never. Each transaction therefore also compares the *fence* of its handle:
//!
//! 1. The response to transaction 7 is lost, and a member may still have it in a queue.
//! 2. The handle writes its fence. Transaction 7 names an older revision of the fence: from this write on it cannot
//!    succeed any more.
//! 3. The mirror reaches the write of the fence. If transaction 7 was committed, the watch has delivered it before, with
//!    its number in `m/newest`; otherwise it never will be.
//!
//! So no effect is doubled, and none is reported falsely.

use super::client::CallError;
use super::layout::{
    Layout, after, compare, delete, end_of_prefix, get_operation, never, put, range_written_until, written_at,
};
use super::messages::{Compare, GREATER, Operand, TxnRequest, TxnResponse};
use super::mirror::{Documents, SnapshotReader};
use super::shared::Core;
use crate::store::outage::Outage;
use crate::store::{ApplyError, Committed, RunError, StoreError};
use prost::Message as _;
use state::documents::draft::{Conflict, Draft, Page, Revision, Transaction};
use state::terms::refusal::transaction::TransactionRefusal;
use std::any::Any;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Retries of one transition. Of those that run again, only one at a time does (`Core::retry_lock`), so that they do not
/// conflict with each other; first attempts of other requests, other controllers and raised fences cause further ones.
const RETRIES_MAX: usize = 100;
/// How long the outcome of a transaction may be unknown, before the process must exit and start again: a cluster that
/// lost its majority for less time ends no controller.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause between two attempts to raise the fence.
const RAISE_INTERVAL: Duration = Duration::from_millis(200);

/// The most bytes of one request: etcd accepts 1.5 MiB by default, of which 1 KiB is left for what its members add. A draft
/// writes 1.25 MiB at most, and what it has read is compared by whole keys, of up to some 280 bytes with the prefix: 2,000 of
/// them do not fit beside it. Such a transaction is refused; none is known that has both.
pub(super) const REQUEST_BYTES_MAX: usize = (3 << 19) - (1 << 10);
/// The bytes of a long key, which has the ids of three entities.
const LONG_KEY_BYTES: usize = 160;

/// What became of a transaction.
enum Outcome {
    Committed(Revision),
    /// A comparison failed, or the response was lost and nothing was committed.
    Repeat,
    /// The transaction changes nothing.
    Nothing,
    /// The request would have this many bytes, more than [`REQUEST_BYTES_MAX`].
    TooLarge(usize),
}

/// An answer or a refusal of any type.
pub(super) type AnyValue = Box<dyn Any + Send>;
/// A transition with any answer and refusal. What runs transitions is compiled once, and not for each of them.
pub(super) type Transition = dyn Fn(&mut Draft<'_>) -> Result<AnyValue, AnyValue> + Send + Sync;

/// See [`crate::store::Store::run`].
pub(super) async fn run(
    core: &Core,
    transition: &Transition,
) -> Result<Committed<AnyValue>, RunError<AnyValue>> {
    let (mut retry_guard, mut fresh_from, mut conflict) = (None, None, Conflict(String::new()));
    for attempt in 0..=RETRIES_MAX {
        if attempt > 0 && retry_guard.is_none() {
            retry_guard = Some(core.retry_lock.lock().await);
        }
        core.require_unbroken().map_err(RunError::Failed)?;
        let snapshot = core.snapshot();
        let (decided, damaged) = {
            let reader = SnapshotReader::new(&snapshot);
            let mut draft = Draft::new(&reader);
            let decided = match transition(&mut draft) {
                Ok(answer) => draft.finish().map(|done| (answer, done)).map_err(RunError::TooLarge),
                Err(refusal) => Err(RunError::Refused(refusal)),
            };
            (decided, reader.damaged())
        };
        if !damaged.is_empty() {
            return Err(RunError::Failed(StoreError::Damaged(damaged)));
        }
        let result = match decided {
            Ok((answer, transaction)) => match commit(core, &transaction, &snapshot).await {
                Ok(Outcome::Committed(revision)) => return Ok(Committed { answer, revision }),
                Ok(Outcome::Nothing) => Ok(Committed { answer, revision: snapshot.revision }),
                Ok(Outcome::TooLarge(bytes)) => {
                    return Err(RunError::TooLarge(TransactionRefusal::TooLarge {
                        bytes,
                        max: REQUEST_BYTES_MAX,
                    }));
                }
                Ok(Outcome::Repeat) => {
                    let newest = core.snapshot();
                    if let Err(found) = transaction.check(&SnapshotReader::new(&newest)) {
                        conflict = found;
                    }
                    continue;
                }
                Err(error) => return Err(RunError::Failed(error)),
            },
            Err(error) => Err(error),
        };
        // Nothing is committed, so nothing is compared: the result stands if the mirror was new enough.
        match is_fresh(core, &snapshot, &mut fresh_from).await {
            Ok(true) => return result,
            Ok(false) => {}
            Err(error) => return Err(RunError::Failed(error)),
        }
    }
    Err(RunError::Busy(conflict))
}

/// See [`crate::store::Store::apply`].
pub(super) async fn apply(core: &Core, transaction: Transaction) -> Result<Revision, ApplyError> {
    let (mut retry_guard, mut fresh_from, mut conflict) = (None, None, Conflict(String::new()));
    for attempt in 0..=RETRIES_MAX {
        if attempt > 0 && retry_guard.is_none() {
            retry_guard = Some(core.retry_lock.lock().await);
        }
        core.require_unbroken().map_err(ApplyError::Failed)?;
        let snapshot = core.snapshot();
        let checked = transaction.check(&SnapshotReader::new(&snapshot));
        let result = match checked {
            Ok(()) => match commit(core, &transaction, &snapshot).await {
                Ok(Outcome::Committed(revision)) => return Ok(revision),
                Ok(Outcome::Nothing) => Ok(snapshot.revision),
                Ok(Outcome::TooLarge(bytes)) => {
                    let why = format!("a transaction has {bytes} bytes");
                    return Err(ApplyError::Failed(StoreError::Unavailable(Outage::TooLarge(why))));
                }
                Ok(Outcome::Repeat) => continue,
                Err(error) => return Err(ApplyError::Failed(error)),
            },
            Err(found) => {
                conflict = found.clone();
                Err(ApplyError::Conflict(found))
            }
        };
        match is_fresh(core, &snapshot, &mut fresh_from).await {
            Ok(true) => return result,
            Ok(false) => {}
            Err(error) => return Err(ApplyError::Failed(error)),
        }
    }
    Err(ApplyError::Conflict(conflict))
}

/// Whether a snapshot has every commit that was reported to a caller before this call. If it has not, a snapshot that is
/// taken after this call has them, and `fresh_from` is the revision that it must have reached.
async fn is_fresh(
    core: &Core,
    snapshot: &Documents,
    fresh_from: &mut Option<Revision>,
) -> Result<bool, StoreError> {
    let from = match *fresh_from {
        Some(from) => from,
        None => core.fresh().await.map_err(StoreError::Unavailable)?,
    };
    *fresh_from = Some(from);
    Ok(snapshot.reached >= from)
}

/// Ends the observation of a transaction when its outcome is known, or the call has ended.
struct Observed<'c> {
    core: &'c Core,
    number: u64,
}

impl Drop for Observed<'_> {
    fn drop(&mut self) {
        self.core.mirror().forget(self.number);
    }
}

/// Commits a transaction whose preconditions hold in the snapshot.
async fn commit(core: &Core, transaction: &Transaction, snapshot: &Documents) -> Result<Outcome, StoreError> {
    let number = core.transactions.fetch_add(1, Ordering::Relaxed) + 1;
    let fence = *core.fence.lock().expect("no holder panics");
    let Some(request) = request(core, transaction, snapshot, number, fence) else {
        return Ok(Outcome::Nothing);
    };
    let bytes = request.encoded_len();
    if bytes > REQUEST_BYTES_MAX {
        return Ok(Outcome::TooLarge(bytes));
    }
    let relist_count = {
        let mut mirror = core.mirror();
        mirror.expect(number);
        mirror.relist_count()
    };
    let _observed = Observed { core, number };
    let sent = Instant::now();
    match core.client.txn(request).await {
        Ok(response) if response.succeeded => {
            core.health.record_commit(sent.elapsed());
            let header = response.header.unwrap_or_default();
            let revision = header.revision.unsigned_abs();
            if header.cluster_id != core.cluster || revision <= snapshot.reached {
                let why = "etcd was restored from a backup while it was in use".to_owned();
                return Err(core.fail(StoreError::Broken(why)));
            }
            // The caller's next read must see this commit. An error of the wait is ignored: the transaction is committed.
            let _ = core.wait_reached(revision).await;
            Ok(Outcome::Committed(revision))
        }
        Ok(response) => wait_for_conflicting_commit(core, &response, fence).await,
        Err(CallError::Unknown(outage)) => {
            core.health.record_outage(&outage);
            outcome(core, number, fence, relist_count).await
        }
        // etcd can apply a transaction and still report that the quota is exceeded. This response proves that the
        // transaction is no longer queued, so the mirror shows whether it was applied.
        Err(CallError::NotDone(Outage::QuotaExceeded)) => {
            core.health.record_outage(&Outage::QuotaExceeded);
            let known = core.fresh().await.map_err(|outage| {
                let why = format!("it is unknown whether a commit was made: {outage}");
                core.fail(StoreError::Broken(why))
            });
            known?;
            let quota = || StoreError::Unavailable(Outage::QuotaExceeded);
            match delivered(core, number, relist_count)? {
                Some(revision) => Ok(Outcome::Committed(revision)),
                None => Err(quota()),
            }
        }
        // Of this transaction alone: others go on, so that it is no outage of the store.
        Err(CallError::TooLarge(why)) => {
            tracing::error!(why, "etcd does not accept the size of a transaction");
            Err(StoreError::Unavailable(Outage::TooLarge(why)))
        }
        Err(failed) => {
            let outage = failed.outage();
            core.health.record_outage(&outage);
            Err(StoreError::Unavailable(outage))
        }
    }
}

/// Converts a transaction. None if it changes nothing.
fn request(
    core: &Core,
    transaction: &Transaction,
    snapshot: &Documents,
    number: u64,
    fence: Revision,
) -> Option<TxnRequest> {
    let layout = &core.layout;
    let (store, fence_key) = (layout.store(), layout.fence(&core.handle));
    let mut compares =
        vec![written_at(store.clone(), core.store_revision), written_at(fence_key.clone(), fence)];
    compares.extend(preconditions(core, transaction));
    let mut operations = Vec::with_capacity(transaction.writes.len() + 1);
    for (key, value) in &transaction.writes {
        let at = layout.document(key);
        operations.push(match value {
            Some(value) => put(at, value),
            None => delete(at),
        });
    }
    if transaction.writes.values().all(Option::is_none) {
        // At least one deletion must find its document: a commit without changes would be a revision that no reader sees.
        let present = transaction.writes.keys().find_map(|key| snapshot.get(key))?;
        compares.push(written_at(layout.document(&present.key), present.revision));
    }
    operations.push(put(layout.newest(), &format!("{}/{number}", core.handle)));
    let failure = [layout.newest(), store, fence_key].map(get_operation).into();
    Some(TxnRequest { compare: compares, success: operations, failure })
}

/// A request of the largest size with this number of comparisons of long keys, none of which ever holds: it is sent to learn
/// whether etcd accepts what [`commit`] sends.
pub(super) fn largest_request(layout: &Layout, compares: usize) -> TxnRequest {
    let compare = vec![never(layout.document(&"x".repeat(LONG_KEY_BYTES))); compares];
    let write = |bytes: usize| vec![put(layout.newest(), &"x".repeat(bytes))];
    let empty = TxnRequest { compare, success: write(0), failure: Vec::new() };
    // the lengths of the value and of what contains it take up to nine bytes more
    let bytes = REQUEST_BYTES_MAX - empty.encoded_len() - 9;
    TxnRequest { success: write(bytes), ..empty }
}

/// The comparisons for what a transaction has read.
fn preconditions(core: &Core, transaction: &Transaction) -> Vec<Compare> {
    let layout = &core.layout;
    let mut compares = Vec::new();
    for (key, revision) in &transaction.keys {
        compares.push(written_at(layout.document(key), *revision));
    }
    for witness in &transaction.exist {
        compares.push(compare(layout.document(witness), Vec::new(), GREATER, Operand::ModRevision(0)));
    }
    for (prefix, except) in &transaction.none {
        // The ranges before, between and after the excepted keys are empty.
        let mut start = layout.document(prefix);
        let end = end_of_prefix(&start);
        for key in except.iter().filter(|key| key.starts_with(prefix.as_str())) {
            let key = layout.document(key);
            if start < key {
                compares.push(range_written_until(start, key.clone(), 0));
            }
            start = after(&key);
        }
        compares.push(range_written_until(start, end, 0));
    }
    for Page { prefix, after: lower, until, keys } in &transaction.pages {
        // The keys of the page are compared one by one (`Draft::page` records them), and a document that appears in its
        // range has a newer revision than all of them.
        let newest = keys.iter().filter_map(|key| transaction.keys.get(key)).max().copied().unwrap_or(0);
        let (first, lower) = (layout.document(prefix), after(&layout.document(lower)));
        let end =
            until.as_ref().map_or_else(|| end_of_prefix(&first), |until| after(&layout.document(until)));
        compares.push(range_written_until(first.max(lower), end, newest));
    }
    compares
}

/// Waits until the mirror has the commit because of which a comparison failed.
async fn wait_for_conflicting_commit(
    core: &Core,
    response: &TxnResponse,
    fence: Revision,
) -> Result<Outcome, StoreError> {
    let found = |index: usize| {
        let range = response.responses.get(index).and_then(|response| response.range.as_ref());
        range.and_then(|range| range.kvs.first())
    };
    let (newest, store, fence_kv) = (found(0), found(1), found(2));
    if store.map(|kv| kv.mod_revision.unsigned_abs()) != Some(core.store_revision) {
        return Err(core.fail(core.other_generation()));
    }
    match fence_kv {
        Some(kv) if kv.mod_revision.unsigned_abs() != fence => {
            // Another request of this handle has raised the fence.
            let mut known = core.fence.lock().expect("no holder panics");
            *known = (*known).max(kv.mod_revision.unsigned_abs());
        }
        // Another controller has deleted this fence as one of the oldest (`open::delete_old_fences`).
        None => drop(raise_fence(core, fence).await?),
        Some(_) => {}
    }
    let newest = newest.map_or(0, |kv| kv.mod_revision.unsigned_abs());
    core.wait_reached(newest).await.map_err(StoreError::Unavailable)?;
    Ok(Outcome::Repeat)
}

/// Raises the fence of this handle, unless that was done since it had the revision `known`. Returns its revision.
async fn raise_fence(core: &Core, known: Revision) -> Result<Revision, StoreError> {
    let _raising = core.raising.lock().await;
    let current = *core.fence.lock().expect("no holder panics");
    if current != known {
        return Ok(current);
    }
    let key = core.layout.fence(&core.handle);
    let compares = vec![written_at(core.layout.store(), core.store_revision)];
    let success = vec![put(key, &core.handle)];
    let request = TxnRequest { compare: compares, success, failure: Vec::new() };
    let response = core.client.idempotent_txn(request).await;
    let response = response.map_err(|failed| StoreError::Unavailable(failed.outage()))?;
    if !response.succeeded {
        return Err(core.fail(core.other_generation()));
    }
    let revision = response.header.unwrap_or_default().revision.unsigned_abs();
    *core.fence.lock().expect("no holder panics") = revision;
    Ok(revision)
}

/// Determines the outcome of a transaction whose response was lost.
async fn outcome(
    core: &Core,
    number: u64,
    fence: Revision,
    relist_count: u64,
) -> Result<Outcome, StoreError> {
    let deadline = Instant::now() + OUTCOME_TIMEOUT;
    loop {
        core.require_unbroken()?;
        let raised = match raise_fence(core, fence).await {
            Ok(revision) => core.wait_reached(revision).await,
            Err(StoreError::Unavailable(outage)) => Err(outage),
            Err(error) => return Err(error),
        };
        let Err(outage) = raised else { break };
        core.health.record_outage(&outage);
        if Instant::now() >= deadline {
            let why = format!("it is unknown whether a commit was made: {outage}");
            return Err(core.fail(StoreError::Broken(why)));
        }
        tokio::time::sleep(RAISE_INTERVAL).await;
    }
    Ok(delivered(core, number, relist_count)?.map_or(Outcome::Repeat, Outcome::Committed))
}

/// Returns the revision at which the watch has delivered a transaction; none if it was not executed. The caller has waited
/// until the mirror has every commit.
///
/// # Errors
/// If a list has replaced the documents since the transaction was sent, when the mirror had `relist_count`: the event of
/// the transaction may have been missed.
fn delivered(core: &Core, number: u64, relist_count: u64) -> Result<Option<Revision>, StoreError> {
    let (revision, was_relisted) = {
        let mirror = core.mirror();
        (mirror.outcome(number), mirror.relist_count() != relist_count)
    };
    if revision.is_none() && was_relisted {
        let why = "the answer to a commit was lost, and etcd has compacted its revision".to_owned();
        return Err(core.fail(StoreError::Broken(why)));
    }
    Ok(revision)
}
