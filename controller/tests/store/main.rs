//! The conformance suite of the store port: every engine fulfils the same guarantees (design 8, I45, I46).
//!
//! A transaction is applied entirely or not at all, and only if nothing that it read has changed; readers see one
//! revision; changes arrive in order and once. Each test of `for_each_engine` runs against the engine in memory, on
//! which the other tests and the simulator rely, and against SQLite and etcd (three members of a real one), which the
//! product uses. Revisions strictly increase; in etcd, whose other users write, too, they have gaps.
//!
//! `memory_only`, `sqlite_only`, `damage` and `etcd_only` test what only one engine has; `transitions` calls every transition of
//! `state` and checks that each of its reads is a precondition.

mod concurrency;
mod damage;
mod etcd_only;
mod fixture;
mod memory_only;
mod recorded_reads;
mod sqlite_only;
mod transitions;

use concurrency::{concurrent_increments_are_all_counted, reads_are_consistent_with_the_order_of_revisions};
use controller::store::{
    ApplyError, CommitChanges, Committed, Compacted, DocumentChange, Position, RunError, Store,
};
use fixture::{OTHER_GENERATION, Random, key, position_of, scan, stored, write};
use recorded_reads::every_kind_of_recorded_read_is_checked;
use state::documents::draft::{Conflict, Draft, READS_MAX, StoredDocument, Transaction};
use std::collections::BTreeMap;
use transitions::every_transition::every_read_of_every_transition_is_a_precondition;

/// Runs each test against each engine. It is a macro because each test needs a function of its own.
macro_rules! for_each_engine {
    ($($promise:ident)*) => {
        mod memory_engine { $(
            #[tokio::test]
            async fn $promise() { super::$promise(async |kept| super::fixture::memory(kept)).await }
        )* }
        mod sqlite_engine { $(
            #[tokio::test]
            async fn $promise() { super::$promise(async |kept| super::fixture::sqlite(kept)).await }
        )* }
        mod etcd_engine { $(
            #[tokio::test]
            async fn $promise() { super::$promise(super::fixture::etcd).await }
        )* }
    };
}

for_each_engine! {
    a_read_sees_one_revision
    a_reader_scans_in_key_order_below_a_prefix
    a_commit_raises_the_revision_and_writes_all_or_nothing
    a_transition_without_writes_commits_nothing
    deleting_an_absent_document_is_no_change
    a_refusal_writes_nothing
    an_oversized_transaction_writes_nothing
    every_kind_of_recorded_read_is_checked
    every_read_of_every_transition_is_a_precondition
    changes_come_in_order_once_and_with_deletions
    changes_beyond_the_log_are_compacted
    the_commits_after_a_position_lead_to_the_documents_that_are_read_with_them
    every_older_revision_reads_as_it_was
    an_older_scan_is_not_shortened_by_later_changes
    waiting_ends_with_the_next_commit
    concurrent_increments_are_all_counted
    reads_are_consistent_with_the_order_of_revisions
}

async fn a_read_sees_one_revision<S: Store, G>(open: impl AsyncFn(u64) -> (S, G)) {
    let (store, _guard) = open(100).await;
    let start = store.newest_revision();
    assert_eq!(store.read(|reader| (reader.revision(), reader.get("m/a"))).await, (start, None));
    write(&store, &[("m/a", Some(1)), ("m/b", Some(1))]).await;
    let writer = async {
        for n in 2..50 {
            write(&store, &[("m/a", Some(n)), ("m/b", Some(n))]).await;
        }
        store.newest_revision()
    };
    let reader = async {
        let mut seen = 0;
        while seen < 49 {
            let (revision, a, b) =
                store.read(|reader| (reader.revision(), reader.get("m/a"), reader.get("m/b"))).await;
            // Each commit wrote its number to both.
            let number: u64 = a.as_ref().expect("it was written").value.parse().expect("a number");
            assert!(number >= seen, "a reader never goes back");
            assert_eq!(a, Some(stored("m/a", revision, number)));
            assert_eq!(b, Some(stored("m/b", revision, number)));
            seen = number;
            tokio::task::yield_now().await;
        }
    };
    let (last, ()) = tokio::join!(writer, reader);
    assert_eq!(store.read(|reader| reader.revision()).await, last);
}

async fn a_reader_scans_in_key_order_below_a_prefix<S: Store, G>(open: impl AsyncFn(u64) -> (S, G)) {
    let (store, _guard) = open(100).await;
    let keys = ["m/x/b", "m/x0", "m/x/a", "m/w/z", "m/x/", "m/x/é", "m/x"];
    for key in keys {
        write(&store, &[(key, Some(1))]).await;
    }
    let names = |prefix: &'static str, after: &'static str, limit: usize| {
        let store = store.clone();
        async move {
            let found = store.read(move |reader| reader.scan(prefix, after, limit)).await;
            found.into_iter().map(|stored| stored.key).collect::<Vec<_>>()
        }
    };
    assert_eq!(names("m/x/", "", usize::MAX).await, ["m/x/", "m/x/a", "m/x/b", "m/x/é"]);
    assert_eq!(names("m/x/", "", 2).await, ["m/x/", "m/x/a"]);
    assert_eq!(names("m/x/", "m/x/a", 1).await, ["m/x/b"]);
    assert_eq!(names("m/x/", "m/x/aa", usize::MAX).await, ["m/x/b", "m/x/é"]);
    assert_eq!(names("m/x/", "m/z", usize::MAX).await, [""; 0]);
    assert_eq!(names("m/x/", "", 0).await, [""; 0]);
    assert_eq!(names("m/y", "", usize::MAX).await, [""; 0]);
}

async fn a_commit_raises_the_revision_and_writes_all_or_nothing<S: Store, G>(
    open: impl AsyncFn(u64) -> (S, G),
) {
    let (store, _guard) = open(100).await;
    let start = store.newest_revision();
    let first = write(&store, &[("m/a", Some(1)), ("m/b", Some(2))]).await;
    let second = write(&store, &[("m/a", None), ("m/c", Some(3))]).await;
    assert!(start < first && first < second, "{start} {first} {second}");
    assert_eq!(store.newest_revision(), second);
    assert_eq!(scan(&store, "m/").await, [stored("m/b", first, 2), stored("m/c", second, 3)]);
    let stale = Transaction {
        keys: BTreeMap::from([("m/b".to_owned(), second)]),
        writes: BTreeMap::from([("m/b".to_owned(), None), ("m/d".to_owned(), Some("4".to_owned().into()))]),
        ..Transaction::default()
    };
    assert_eq!(store.apply(stale).await, Err(ApplyError::Conflict(Conflict("m/b".to_owned()))));
    assert_eq!(store.newest_revision(), second);
    assert_eq!(scan(&store, "m/").await, [stored("m/b", first, 2), stored("m/c", second, 3)]);
    // Writing the same contents again is a commit.
    let third = write(&store, &[("m/b", Some(2))]).await;
    assert!(second < third);
    assert_eq!(scan(&store, "m/b").await, [stored("m/b", third, 2)]);
}

async fn a_transition_without_writes_commits_nothing<S: Store, G>(open: impl AsyncFn(u64) -> (S, G)) {
    let (store, _guard) = open(100).await;
    let revision = write(&store, &[("m/a", Some(5))]).await;
    let read = store.run(|draft| Ok::<_, ()>(draft.get(&key("m/a")))).await;
    assert_eq!(read, Ok(Committed { answer: Some(5), revision }));
    assert_eq!(store.newest_revision(), revision);
    assert_eq!(store.changes_after(position_of(&store, revision), 10).await, Ok(vec![]));
}

async fn deleting_an_absent_document_is_no_change<S: Store, G>(open: impl AsyncFn(u64) -> (S, G)) {
    let (store, _guard) = open(100).await;
    let start = store.newest_revision();
    assert_eq!(write(&store, &[("m/a", None)]).await, start);
    let revision = write(&store, &[("m/a", None), ("m/b", Some(1))]).await;
    assert!(revision > start);
    assert_eq!(write(&store, &[("m/a", None)]).await, revision);
    let entries = vec![DocumentChange { key: "m/b".to_owned(), value: Some("1".to_owned().into()) }];
    assert_eq!(
        store.changes_after(position_of(&store, start), 10).await,
        Ok(vec![CommitChanges { revision, entries: entries.into() }])
    );
}

async fn a_refusal_writes_nothing<S: Store, G>(open: impl AsyncFn(u64) -> (S, G)) {
    let (store, _guard) = open(100).await;
    let refused = |draft: &mut Draft<'_>| {
        draft.put(&key("m/a"), &1);
        Err::<(), _>("no")
    };
    let taken = |draft: &mut Draft<'_>| {
        draft.put(&key("m/b"), &1);
        Ok::<_, &str>(())
    };
    // The requests are sent together, so that an engine with batches has them in one batch.
    let (first, second, third) = tokio::join!(store.run(refused), store.run(taken), store.run(refused));
    assert_eq!((first, third), (Err(RunError::Refused("no")), Err(RunError::Refused("no"))));
    let revision = second.expect("it commits").revision;
    assert_eq!(store.newest_revision(), revision);
    assert_eq!(scan(&store, "m/").await, [stored("m/b", revision, 1)]);
}

async fn an_oversized_transaction_writes_nothing<S: Store, G>(open: impl AsyncFn(u64) -> (S, G)) {
    let (store, _guard) = open(100).await;
    let start = store.newest_revision();
    let greedy = |draft: &mut Draft<'_>| {
        draft.put(&key("m/a"), &1);
        for i in 0..=READS_MAX {
            draft.get(&key(&format!("m/b/{i}")));
        }
        Ok::<_, ()>(())
    };
    assert!(matches!(store.run(greedy).await, Err(RunError::TooLarge(_))));
    assert_eq!((store.newest_revision(), scan(&store, "m/").await), (start, vec![]));
}

fn change(key: &str, value: Option<u64>) -> DocumentChange {
    DocumentChange { key: key.to_owned(), value: value.map(|v| v.to_string().into()) }
}

async fn changes_come_in_order_once_and_with_deletions<S: Store, G>(open: impl AsyncFn(u64) -> (S, G)) {
    let (store, _guard) = open(100).await;
    let start = store.newest_revision();
    assert_eq!(store.changes_after(position_of(&store, start), 10).await, Ok(vec![]));
    let positions = [
        start,
        write(&store, &[("m/b", Some(1)), ("m/a", Some(1))]).await,
        write(&store, &[("m/a", None)]).await,
        write(&store, &[("m/a", Some(2))]).await,
    ];
    let changes = [
        vec![change("m/a", Some(1)), change("m/b", Some(1))],
        vec![change("m/a", None)],
        vec![change("m/a", Some(2))],
    ];
    let commit =
        |(revision, entries): (&u64, Vec<_>)| CommitChanges { revision: *revision, entries: entries.into() };
    let all: Vec<CommitChanges> = positions[1..].iter().zip(changes).map(commit).collect();
    for (after, position) in positions.iter().enumerate() {
        for limit in 1..=4 {
            let expected: Vec<CommitChanges> = all.iter().skip(after).take(limit).cloned().collect();
            assert_eq!(store.changes_after(position_of(&store, *position), limit).await, Ok(expected));
        }
    }
    assert_eq!(store.changes_after(position_of(&store, start), usize::MAX).await, Ok(all));
}

async fn changes_beyond_the_log_are_compacted<S: Store, G>(open: impl AsyncFn(u64) -> (S, G)) {
    let (store, _guard) = open(5).await;
    let other = Position { store_generation: OTHER_GENERATION, revision: 0 };
    assert_eq!(store.changes_after(other, 10).await, Err(Compacted));
    assert_eq!(store.read_at(other, |_| ()).await, Err(Compacted));
    assert_eq!(store.read_after(other, |_, _| ()).await, Err(Compacted));
    let start = store.newest_revision();
    let future = position_of(&store, start + 1_000_000);
    assert_eq!(store.changes_after(future, 10).await, Err(Compacted), "a position of the future");
    assert_eq!(store.read_at(future, |_| ()).await, Err(Compacted));
    assert_eq!(store.read_after(future, |_, _| ()).await, Err(Compacted));
    let mut positions = vec![start];
    for n in 1..=20 {
        positions.push(write(&store, &[("m/a", Some(n as u64))]).await);
        // The log contains the five newest changes: those after commit n - 5.
        let oldest = n - n.min(5);
        let position = position_of(&store, positions[oldest]);
        let kept = store.changes_after(position, 10).await.expect("the log keeps five");
        assert_eq!(kept.iter().map(|c| c.revision).collect::<Vec<_>>(), positions[oldest + 1..]);
        assert_eq!(store.read_after(position, |_, commits| commits.to_vec()).await, Ok(kept));
        let value = store.read_at(position, |reader| reader.get("m/a")).await;
        assert_eq!(value, Ok((oldest > 0).then(|| stored("m/a", positions[oldest], oldest as u64))));
        if oldest > 0 {
            let compacted = position_of(&store, positions[oldest - 1]);
            assert_eq!(store.changes_after(compacted, 10).await, Err(Compacted));
            assert_eq!(store.read_at(compacted, |_| ()).await, Err(Compacted));
            assert_eq!(store.read_after(compacted, |_, _| ()).await, Err(Compacted));
        }
    }
}

/// Several tasks write at random. Meanwhile the commits after the start are applied to the documents at the start: this
/// gives the documents of the same snapshot, whatever is being committed.
async fn the_commits_after_a_position_lead_to_the_documents_that_are_read_with_them<S: Store, G>(
    open: impl AsyncFn(u64) -> (S, G),
) {
    const WRITERS: u64 = 4;
    let (store, _guard) = open(1000).await;
    let start = position_of(&store, store.newest_revision());
    let writers = (0..WRITERS).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut random = Random(writer);
            for n in 1..=40 {
                let name = format!("m/{}", random.below(8));
                write(&store, &[(name.as_str(), (random.below(4) > 0).then_some(n * WRITERS + writer))])
                    .await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let (mut is_written, mut reads) = (false, 0);
    while !is_written {
        is_written = writers.iter().all(tokio::task::JoinHandle::is_finished);
        let read = store.read_after(start, |reader, commits| {
            let revision = commits.last().map(|last| last.revision);
            (reader.revision(), revision, reader.scan("m/", "", usize::MAX), commits.to_vec())
        });
        let (revision, last, documents, commits) = read.await.expect("all commits are kept");
        assert_eq!(last.unwrap_or(start.revision), revision);
        let mut replayed = BTreeMap::new();
        for CommitChanges { revision, entries } in &commits {
            for entry in entries.iter() {
                match &entry.value {
                    Some(value) => replayed.insert(entry.key.clone(), (*revision, value.clone())),
                    None => replayed.remove(&entry.key),
                };
            }
        }
        let found = documents.into_iter().map(|stored| (stored.key, (stored.revision, stored.value)));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), replayed);
        reads += 1;
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.expect("no panic");
    }
    assert!(reads > 1, "some of them beside the writers");
}

/// Random commits: the full contents of every revision are recorded, then read again.
async fn every_older_revision_reads_as_it_was<S: Store, G>(open: impl AsyncFn(u64) -> (S, G)) {
    let (store, _guard) = open(1000).await;
    let mut random = Random(20);
    let keys: Vec<String> = (0..12).map(|i| format!("m/{}/{}", ["x", "y"][i % 2], i / 2)).collect();
    let mut model: BTreeMap<String, StoredDocument> = BTreeMap::new();
    let mut past = vec![(store.newest_revision(), model.clone())];
    while past.len() <= 120 {
        let mut writes: Vec<(&str, Option<u64>)> = Vec::new();
        for key in &keys {
            if random.below(5) == 0 {
                writes.push((key, (random.below(3) > 0).then(|| random.below(1000))));
            }
        }
        let changes = writes.iter().any(|(key, value)| value.is_some() || model.contains_key(*key));
        let revision = write(&store, &writes).await;
        let before = past.last().expect("the start").0;
        assert!(if changes { revision > before } else { revision == before });
        for (key, value) in &writes {
            match value {
                Some(value) => model.insert(key.to_string(), stored(key, revision, *value)),
                None => model.remove(*key),
            };
        }
        if changes {
            past.push((revision, model.clone()));
        }
    }
    for (revision, model) in &past {
        let (revision, position) = (*revision, position_of(&store, *revision));
        let asked = keys.clone();
        let gets = store
            .read_at(position, move |r| (r.revision(), asked.iter().map(|k| r.get(k)).collect::<Vec<_>>()));
        let expected: Vec<Option<StoredDocument>> = keys.iter().map(|key| model.get(key).cloned()).collect();
        assert_eq!(gets.await, Ok((revision, expected)));
        for (prefix, after, limit) in [
            ("m/", "", usize::MAX),
            ("m/x/", "", 3),
            ("m/x/", "m/x/2", 2),
            ("m/y/", "m/y/1", 9),
            ("m/z", "", 1),
            ("m/", "", 1),
            ("m/", "m/x/3", 2),
        ] {
            let below = model.values().filter(|s| s.key.starts_with(prefix) && s.key.as_str() > after);
            let expected: Vec<StoredDocument> = below.take(limit).cloned().collect();
            let found = store.read_at(position, move |reader| reader.scan(prefix, after, limit)).await;
            assert_eq!(found, Ok(expected), "{prefix} after {after:?} at {revision}");
        }
        // The contents of a revision plus all later changes are the newest contents.
        let mut values: BTreeMap<String, String> =
            model.values().map(|s| (s.key.clone(), s.value.to_string())).collect();
        for DocumentChange { key, value } in store
            .changes_after(position, usize::MAX)
            .await
            .expect("the changes are kept")
            .into_iter()
            .flat_map(|c| c.entries.to_vec())
        {
            match value {
                Some(value) => values.insert(key, value.to_string()),
                None => values.remove(&key),
            };
        }
        let now: BTreeMap<String, String> =
            past[120].1.values().map(|s| (s.key.clone(), s.value.to_string())).collect();
        assert_eq!(values, now);
    }
}

async fn an_older_scan_is_not_shortened_by_later_changes<S: Store, G>(open: impl AsyncFn(u64) -> (S, G)) {
    let (store, _guard) = open(100).await;
    let first = write(&store, &[("m/c", Some(1)), ("m/d", Some(1)), ("m/e", Some(1))]).await;
    write(&store, &[("m/a", Some(2)), ("m/b", Some(2)), ("m/c", None)]).await;
    let found = store.read_at(position_of(&store, first), |reader| reader.scan("m/", "", 2)).await;
    assert_eq!(found, Ok(vec![stored("m/c", first, 1), stored("m/d", first, 1)]));
}

async fn waiting_ends_with_the_next_commit<S: Store, G>(open: impl AsyncFn(u64) -> (S, G)) {
    let (store, _guard) = open(100).await;
    let start = store.newest_revision();
    let (waited, written) = tokio::join!(store.wait_past(start), write(&store, &[("m/a", Some(1))]));
    assert!(waited == written && written > start);
    assert_eq!(store.wait_past(start).await, written, "what is newer already is enough");
    let refused = async {
        let _ = store.run(|_| Err::<(), _>(())).await;
        let _ = store.run(|draft| Ok::<_, ()>(draft.get(&key("m/a")))).await;
    };
    tokio::select! {
        biased;
        newest = store.wait_past(written) => panic!("woken by {newest} without a commit"),
        () = refused => {}
    }
}
