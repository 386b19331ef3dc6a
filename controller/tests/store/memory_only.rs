//! Tests of the in-memory engine alone: recording, replay and forks.

use super::concurrency::random_transition;
use super::fixture::{GENERATION, OTHER_GENERATION, key, position_of, scan, stored, write};
use controller::store::{Committed, Compacted, Store};
use state::documents::draft::Conflict;
use test_support::memory_store::{MemoryStore, replay};

#[tokio::test]
async fn recorded_transactions_replay_and_a_changed_one_does_not() {
    let store = MemoryStore::new(GENERATION);
    store.record();
    let tasks = (0..10).map(|task| {
        let store = store.clone();
        tokio::spawn(async move {
            store.run(move |draft| random_transition(draft, task, &format!("trace/{task}"))).await
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic").expect("commits");
    }
    let mut recorded = store.recorded();
    assert_eq!(recorded.len(), 10);
    assert_eq!(replay(&recorded), Ok(()));
    // The fifth transaction claims to have read a document that never existed.
    recorded[4].1.keys.insert("m/never".to_owned(), 1);
    assert_eq!(replay(&recorded), Err((5, Conflict("m/never".to_owned()))));
}

#[tokio::test]
async fn other_transactions_commit_between_the_reads_and_the_commit_of_a_transition() {
    let store = MemoryStore::new(GENERATION);
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = runs.clone();
    let slow = store.run(move |draft| {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let seen = draft.get(&key("m/a"));
        draft.put(&key("m/b"), &0);
        Ok::<_, ()>(seen)
    });
    let (committed, _) = tokio::join!(slow, write(&store, &[("m/a", Some(1))]));
    assert_eq!(committed, Ok(Committed { answer: Some(1), revision: 2 }));
    assert_eq!(runs.load(std::sync::atomic::Ordering::Relaxed), 2, "overtaken once");
}

#[tokio::test]
async fn a_fork_is_independent_and_has_its_own_generation() {
    let store = MemoryStore::new(GENERATION);
    write(&store, &[("m/a", Some(1))]).await;
    let fork = store.fork(OTHER_GENERATION);
    write(&store, &[("m/a", Some(2))]).await;
    assert_eq!((fork.newest_revision(), scan(&fork, "m/").await), (1, vec![stored("m/a", 1, 1)]));
    write(&fork, &[("m/b", Some(3))]).await;
    assert_eq!(scan(&store, "m/").await, [stored("m/a", 2, 2)]);
    assert_eq!(fork.changes_after(position_of(&store, 1), 10).await, Err(Compacted));
    assert_eq!(fork.changes_after(position_of(&fork, 1), 10).await.map(|c| c.len()), Ok(1));
}
