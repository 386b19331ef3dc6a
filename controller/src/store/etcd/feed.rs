//! The feed: one task for each handle that keeps its mirror equal to etcd.
//!
//! It lists all documents at one revision, in pages, and then applies the events of one watch; files are neither listed nor watched. If the watch ends, it
//! resumes directly after the last event that was applied; if that revision was compacted, it lists again. It relies on no
//! progress notification, because etcd before 3.4.25 and 3.5.8 may send one ahead of the events: how new the mirror must
//! be is read from `m/newest` (`newest_reads`), and a watch that does not deliver it is replaced. Started by
//! [`super::Etcd::open`], after `open` has made the first list.

use super::client::{CallError, WatchStream};
use super::layout::{after, get, signed};
use super::messages::{Event, KeyValue, RangeRequest, WatchCreateRequest, WatchRequest};
use super::shared::Core;
use crate::store::StoreError;
use crate::store::outage::Outage;
use host::backoff::Backoff;
use std::sync::Arc;
use std::time::Duration;

/// Keys of one page of a list. With the largest documents a page has 200 × 1.25 MiB = 250 MiB; with usual ones 200 KiB.
pub(super) const PAGE_KEYS: i64 = 200;
/// The pause after the first failure, in milliseconds; it doubles up to the maximum.
const PAUSE_MIN_MS: u64 = 50;
/// The longest pause, in milliseconds: an etcd that is back is used within 2 s.
const PAUSE_MAX_MS: u64 = 2_000;

/// Follows etcd until the handle is dropped or the store is broken.
pub(super) async fn follow(core: Arc<Core>) {
    let mut pause = Backoff::new(PAUSE_MIN_MS, PAUSE_MAX_MS);
    loop {
        let before = core.reached();
        let Err(failed) = follow_once(&core).await else { return }; // the store is broken
        if core.reached() > before {
            pause.reset();
        }
        match failed {
            CallError::Compacted => {
                tracing::info!("etcd has compacted the revision of the mirror: listing again")
            }
            failed => core.health.record_outage(&failed.outage()),
        }
        tokio::time::sleep(Duration::from_millis(pause.delay_ms())).await;
        pause.increase();
    }
}

/// Follows one watch until it ends. Returns without an error if the store is broken.
async fn follow_once(core: &Core) -> Result<(), CallError> {
    let Some(mut stream) = open_watch(core).await? else { return Ok(()) };
    core.health.record_read();
    let mut events = Vec::new();
    loop {
        let message = tokio::select! {
            message = stream.next() => message?,
            // A reader has waited in vain for what this watch must deliver.
            () = core.stale_watch.notified() => {
                stream.give_up().await;
                return Err(CallError::Unknown(Outage::NoAnswer("the watch is silent".to_owned())));
            }
        };
        if message.canceled {
            if message.compact_revision > 0 {
                return list(core).await.and(Err(CallError::Compacted));
            }
            let why = message.cancel_reason;
            return Err(CallError::Unknown(Outage::NoAnswer(format!("etcd has ended the watch: {why}"))));
        }
        events.extend(message.events);
        let incomplete = if message.fragment { last_revision(&mut events) } else { Vec::new() };
        let complete = std::mem::replace(&mut events, incomplete);
        let found = core.update(|mirror| mirror.apply(complete));
        if core.is_broken_by(found) {
            return Ok(());
        }
    }
}

/// Takes the events of the last revision, which the next message may continue.
fn last_revision(events: &mut Vec<Event>) -> Vec<Event> {
    let revision = |event: &Event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
    let last = events.last().map_or(0, revision);
    events.split_off(events.partition_point(|event| revision(event) < last))
}

/// Opens a watch that continues the mirror. None if etcd is not the one of the mirror any more.
async fn open_watch(core: &Core) -> Result<Option<WatchStream>, CallError> {
    let newest = core.watcher.range(get(core.layout.newest())).await?;
    let header = newest.header.unwrap_or_default();
    let reached = core.reached();
    let committed = newest.kvs.first().map_or(0, |kv| kv.mod_revision.unsigned_abs());
    let is_older = header.revision.unsigned_abs() < reached || committed < core.snapshot().revision;
    if header.cluster_id != core.cluster || is_older {
        let why = format!(
            "etcd was restored from a backup: it is cluster {:x} at revision {}, and this store has reached revision \
             {reached} of cluster {:x}",
            header.cluster_id, header.revision, core.cluster
        );
        core.fail(StoreError::Broken(why));
        return Ok(None);
    }
    let (key, range_end) = core.layout.followed();
    let create = WatchCreateRequest { key, range_end, start_revision: signed(reached + 1), fragment: true };
    core.watcher.watch(WatchRequest { create: Some(create) }).await.map(Some)
}

/// Lists all keys that the mirror follows at one revision, and installs them.
pub(super) async fn list(core: &Core) -> Result<(), CallError> {
    let (mut key, range_end) = core.layout.followed();
    let (mut listed, mut revision): (Vec<KeyValue>, i64) = (Vec::new(), 0);
    loop {
        let page = RangeRequest {
            key: key.clone(),
            range_end: range_end.clone(),
            limit: PAGE_KEYS,
            revision,
            ..RangeRequest::default()
        };
        let page = core.watcher.range(page).await?;
        if revision == 0 {
            revision = page.header.unwrap_or_default().revision;
        }
        listed.extend(page.kvs);
        match listed.last() {
            Some(last) if page.more => key = after(&last.key),
            _ => break,
        }
    }
    let found = core.update(|mirror| mirror.install(listed, revision.unsigned_abs()));
    core.is_broken_by(found);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_revision_of_a_fragment_waits_for_the_next_one() {
        let event =
            |mod_revision| Event { kind: 0, kv: Some(KeyValue { mod_revision, ..KeyValue::default() }) };
        let mut events: Vec<Event> = [3, 3, 5, 5].map(event).into();
        assert_eq!(last_revision(&mut events), [5, 5].map(event));
        assert_eq!(events, [3, 3].map(event));
        assert_eq!(last_revision(&mut Vec::new()), []);
    }
}
