//! Tests of the etcd engine alone: several handles, and what goes wrong with a real etcd.

mod files;
mod migration;
mod outages;
mod refused;

use super::concurrency::{assert_serialisable, run_random_transitions};
use super::fixture::{OTHER_GENERATION, etcd_options, key, position_of, scan, stored, write};
use controller::store::etcd::{Etcd, Options};
use controller::store::{Compacted, RunError, Store, StoreError};
use state::documents::draft::{Draft, Key};
use state::terms::names::Uuid;
use state::terms::refusal::transaction::TransactionRefusal;
use test_support::etcd_cluster::EtcdCluster;

/// Opens another handle of the same store, as another controller does.
async fn another(options: &Options) -> Etcd {
    let handle = Uuid(host::random::random_u128());
    Etcd::open(Options { handle, ..options.clone() }).await.expect("opens")
}

#[tokio::test]
async fn transitions_of_two_controllers_are_serialisable() {
    const TASKS: u64 = 8;
    const EACH: u64 = 20;
    let cluster = EtcdCluster::shared();
    let options = etcd_options(&cluster);
    let handles = [another(&options).await, another(&options).await];
    let start = position_of(&handles[0], handles[0].newest_revision());
    run_random_transitions(&handles, TASKS, EACH).await;
    for handle in &handles {
        handle.read(|_| ()).await; // it has what the other one has committed
        let commits = handle.changes_after(start, usize::MAX).await.expect("all are kept");
        assert_eq!(commits.len() as u64, TASKS * EACH);
        assert_serialisable(commits);
    }
}

/// A user who has changed something through one controller sees it through every other one.
#[tokio::test]
async fn every_result_contains_what_another_controller_has_committed_before() {
    let cluster = EtcdCluster::shared();
    let options = etcd_options(&cluster);
    let (first, second) = (another(&options).await, another(&options).await);
    for n in 1..=100 {
        let revision = write(&first, &[("m/a", Some(n))]).await;
        let seen = match n % 4 {
            0 => scan(&second, "m/a").await,
            1 => second
                .read_at(position_of(&first, revision), |reader| reader.get("m/a"))
                .await
                .expect("kept")
                .into_iter()
                .collect(),
            2 => {
                let refused = second.run(|draft| Err::<(), _>(draft.get(&key("m/a"))));
                assert_eq!(refused.await, Err(RunError::Refused(Some(n))));
                continue;
            }
            _ => {
                let changed =
                    second.read_since(position_of(&first, revision - 1), |_, changed| changed).await.0;
                assert_eq!(changed, Some(vec!["m/a".to_owned()]));
                continue;
            }
        };
        assert_eq!(seen, [stored("m/a", revision, n)]);
    }
}

#[tokio::test]
async fn a_store_that_is_opened_again_has_its_documents_and_its_revision() {
    let cluster = EtcdCluster::shared();
    let options = etcd_options(&cluster);
    let store = another(&options).await;
    // More than one page of the list.
    for batch in 0..3_u64 {
        let keys: Vec<String> = (0..150).map(|i| format!("m/{batch}/{i:03}")).collect();
        let writes: Vec<(&str, Option<u64>)> = keys.iter().map(|key| (key.as_str(), Some(batch))).collect();
        write(&store, &writes).await;
    }
    let newest = write(&store, &[("m/0/000", None)]).await;
    let documents = scan(&store, "m/").await;
    assert_eq!(documents.len(), 449);
    drop(store);
    let again = another(&options).await;
    assert_eq!((again.newest_revision(), again.store_generation()), (newest, options.new_generation));
    assert_eq!(scan(&again, "m/").await, documents);
    // Commits before the start of this process are not in its log.
    assert_eq!(again.changes_after(position_of(&again, newest), 9).await, Ok(vec![]));
    assert_eq!(again.changes_after(position_of(&again, newest - 1), 9).await, Err(Compacted));
}

/// None of them is special: a start ends no other controller, and each commits what depends on the commits of the others.
#[tokio::test]
async fn any_number_of_controllers_commit() {
    let cluster = EtcdCluster::shared();
    let options = etcd_options(&cluster);
    let mut handles = vec![another(&options).await];
    for round in 1..=4 {
        handles.push(another(&options).await);
        for handle in &handles {
            let raise = |draft: &mut Draft<'_>| {
                let number = draft.get(&key("m/a")).unwrap_or_default() + 1;
                draft.put(&key("m/a"), &number);
                Ok::<_, ()>(number)
            };
            handle.run(raise).await.expect("it commits");
        }
        let all = handles.last().expect("one").read(|reader| reader.get("m/a")).await.expect("written");
        assert_eq!(all.value.to_string(), (2..=round + 1).sum::<i32>().to_string());
    }
}

#[tokio::test]
async fn a_new_store_generation_ends_the_controllers_of_the_old_one() {
    let cluster = EtcdCluster::shared();
    let options = etcd_options(&cluster);
    let before = another(&options).await;
    write(&before, &[("m/a", Some(1))]).await;
    let restored = Options { restored: true, new_generation: OTHER_GENERATION, ..options.clone() };
    let restored = another(&restored).await;
    assert_eq!(restored.store_generation(), OTHER_GENERATION);
    assert_eq!(scan(&restored, "m/a").await.len(), 1, "the documents stay");
    assert!(matches!(before.broken().await, StoreError::Broken(_)));
}

/// Many handles are opened in the life of a store: their fences do not accumulate, and a handle whose fence was deleted
/// writes it again.
#[tokio::test]
async fn a_handle_continues_after_its_fence_was_deleted() {
    let cluster = EtcdCluster::shared();
    let options = etcd_options(&cluster);
    let store = another(&options).await;
    write(&store, &[("m/a", Some(1))]).await;
    assert!(cluster.etcdctl(&["del", "--prefix", &format!("{}/m/fence/", options.prefix)]));
    let second = write(&store, &[("m/a", Some(2))]).await;
    assert_eq!(scan(&store, "m/").await, [stored("m/a", second, 2)]);
}

/// etcd compares up to the documented limits in one transaction.
#[tokio::test]
async fn the_largest_transaction_commits() {
    use state::documents::draft::{READS_MAX, WRITES_MAX};
    let cluster = EtcdCluster::shared();
    let store = another(&etcd_options(&cluster)).await;
    let largest = |draft: &mut Draft<'_>| {
        for i in 0..READS_MAX {
            draft.get(&key(&format!("model/kind/{i:04}")));
        }
        for i in 0..WRITES_MAX {
            draft.put(&Key::new(format!("model/kind/{i:04}")), &"x".repeat(2_000));
        }
        Ok::<_, ()>(())
    };
    store.run(largest).await.expect("it is within the limits");
    assert_eq!(store.read(|reader| reader.scan("model/", "", usize::MAX).len()).await, WRITES_MAX);
}

/// Comparisons have whole keys, so that a request can be too large although the draft is within its bounds: it is refused
/// before it is sent, and is no outage of the store.
#[tokio::test]
async fn a_transaction_whose_comparisons_leave_no_room_for_its_writes_is_refused() {
    use state::documents::draft::{BYTES_MAX, READS_MAX};
    let cluster = EtcdCluster::shared();
    let store = another(&etcd_options(&cluster)).await;
    let reads_and_writes = |reads: usize, bytes: usize| {
        move |draft: &mut Draft<'_>| {
            for i in 0..reads {
                draft.get(&key(&format!("{}/{i:04}", "k".repeat(150))));
            }
            draft.put(&Key::new("m/written".to_owned()), &"x".repeat(bytes));
            Ok::<_, ()>(())
        }
    };
    let refused = store.run(reads_and_writes(READS_MAX, BYTES_MAX - 100)).await;
    let is_too_large = |error: &RunError<()>| matches!(error, RunError::TooLarge(TransactionRefusal::TooLarge { bytes, max }) if bytes > max);
    assert!(refused.as_ref().is_err_and(is_too_large), "{refused:?}");
    store.run(reads_and_writes(READS_MAX, BYTES_MAX - (256 << 10))).await.expect("it fits");
    store.run(reads_and_writes(100, BYTES_MAX - 100)).await.expect("it fits");
}
