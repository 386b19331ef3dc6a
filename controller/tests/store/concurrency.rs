//! Concurrent tasks: no write is lost, and all reads are consistent with the order of revisions (I45).

use super::fixture::{Random, key, position_of, scan, stored};
use controller::store::{CommitChanges, DocumentChange, Store};
use state::documents::draft::{Draft, Key};
use std::collections::BTreeMap;

pub async fn concurrent_increments_are_all_counted<S: Store, G>(open: impl AsyncFn(u64) -> (S, G)) {
    const TASKS: u64 = 40;
    const EACH: u64 = 5;
    let (store, _guard) = open(1000).await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                for _ in 0..EACH {
                    let increment = |draft: &mut Draft<'_>| {
                        let count = draft.get(&key("m/count")).unwrap_or(0) + 1;
                        draft.put(&key("m/count"), &count);
                        Ok::<_, ()>(count)
                    };
                    let committed = store.run(increment).await.expect("fewer tasks than retries");
                    seen.push((committed.revision, committed.answer));
                }
                seen
            })
        })
        .collect();
    let mut seen = Vec::new();
    for task in tasks {
        seen.extend(task.await.expect("no panic"));
    }
    seen.sort_unstable();
    let (revisions, counts): (Vec<_>, Vec<_>) = seen.into_iter().unzip();
    assert_eq!(counts, (1..=TASKS * EACH).collect::<Vec<_>>(), "the n-th commit counts n");
    assert!(revisions.is_sorted_by(|a, b| a < b), "each commit has its own revision");
    let last = *revisions.last().expect("all have committed");
    assert_eq!(scan(&store, "m/").await, [stored("m/count", last, TASKS * EACH)]);
}

/// The reads of one transition in the check below: single documents, a page, and a key below `m/f/` other than `m/f/0`, if
/// `any_key` found one.
type RecordedReads = (Vec<(String, Option<u64>)>, Vec<(String, u64)>, Option<String>);

/// Serialisability: each transition writes what it has read. If the commits are replayed in the order of revisions,
/// each must have read exactly the state after its predecessors.
pub async fn reads_are_consistent_with_the_order_of_revisions<S: Store, G>(
    open: impl AsyncFn(u64) -> (S, G),
) {
    const TASKS: u64 = 12;
    const EACH: u64 = 25;
    let (store, _guard) = open(1000).await;
    let start = position_of(&store, store.newest_revision());
    run_random_transitions(std::slice::from_ref(&store), TASKS, EACH).await;
    let commits = store.changes_after(start, usize::MAX).await.expect("all are kept");
    assert_eq!(commits.len() as u64, TASKS * EACH);
    assert_serialisable(commits);
}

/// Runs tasks that read and write at random, each on one of the handles of a store.
pub async fn run_random_transitions<S: Store>(handles: &[S], tasks: u64, each: u64) {
    let tasks: Vec<_> = (0..tasks)
        .map(|task| {
            let store = handles[task as usize % handles.len()].clone();
            tokio::spawn(async move {
                let mut random = Random(task);
                for n in 0..each {
                    let seed = random.below(u64::MAX);
                    let name = format!("trace/{task}/{n}");
                    store.run(move |draft| random_transition(draft, seed, &name)).await.expect("commits");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
}

/// Replays all commits of a store in the order of their revisions. Panics unless each has read the state after its
/// predecessors.
pub fn assert_serialisable(commits: Vec<CommitChanges>) {
    let mut documents: BTreeMap<String, u64> = BTreeMap::new();
    for CommitChanges { revision, entries } in commits {
        let trace = entries.iter().find(|c| c.key.starts_with("trace/")).expect("each commit has its trace");
        let trace = trace.value.as_ref().expect("traces stay");
        let (gets, page, found): RecordedReads = serde_json::from_str(trace).expect("a trace");
        for (key, value) in gets {
            assert_eq!(documents.get(&key).copied(), value, "{key} as read by revision {revision}");
        }
        let expected: Vec<(String, u64)> =
            documents.range("m/p/".to_owned()..).take(3).map(|(k, v)| (k.clone(), *v)).collect();
        assert_eq!(page, expected, "the page as read by revision {revision}");
        match found {
            Some(witness) => assert!(documents.contains_key(&witness), "{witness} at {revision}"),
            None => assert_eq!(
                documents.keys().find(|k| k.starts_with("m/f/") && *k != "m/f/0"),
                None,
                "at {revision}"
            ),
        }
        for DocumentChange { key, value } in entries.iter().filter(|c| c.key.starts_with("m/")) {
            match value {
                Some(value) => documents.insert(key.clone(), value.parse().expect("a number")),
                None => documents.remove(key),
            };
        }
    }
}

/// Reads and writes at random. `m/p/` sorts last below `m/`, so the replay in [`assert_serialisable`] needs no upper
/// end for its page.
pub fn random_transition(draft: &mut Draft<'_>, seed: u64, name: &str) -> Result<(), ()> {
    let mut random = Random(seed);
    let any = |random: &mut Random| {
        let (prefix, count) = [("m/f/", 3), ("m/k/", 4), ("m/p/", 5)][random.below(3) as usize];
        format!("{prefix}{}", random.below(count))
    };
    let page = draft.page::<u64>("m/p/", "", 3);
    let found = draft.any_key("m/f/", &["m/f/0"]);
    let mut gets = Vec::new();
    for _ in 0..2 {
        let read = any(&mut random);
        gets.push((read.clone(), draft.get(&key(&read))));
    }
    draft.put::<RecordedReads>(&Key::new(name.to_owned()), &(gets, page, found));
    for _ in 0..2 {
        let written = key(&any(&mut random));
        match random.below(2) {
            0 => draft.put(&written, &random.below(1000)),
            _ => draft.remove(&written),
        }
    }
    Ok(())
}
