//! Tests of the SQLite engine alone: durability, the lock, restored backups, and a full disk.

use super::fixture::{GENERATION, OTHER_GENERATION, key, position_of, scan, sqlite, stored, write};
use controller::store::sqlite::{OpenError, Options, Sqlite};
use controller::store::{ApplyError, Committed, Compacted, RunError, Store, StoreError};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use state::documents::draft::{Conflict, Draft, Key, StoredDocument, Transaction};
use state::documents::prelude::Model;
use state::terms::names::Uuid;
use state::terms::write_failure::WriteFailure;
use std::collections::BTreeMap;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

fn open(folder: &Path, new_generation: Uuid) -> Result<Sqlite, OpenError> {
    Sqlite::open(folder, Options::new(new_generation))
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns a transition that keeps the writer busy until the second future is polled. The requests that are sent
/// between the two futures are one batch: the first poll of the transition ends when the writer has started it.
fn hold(store: &Sqlite) -> (impl Future + use<>, impl Future<Output = ()> + use<>) {
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let (start, started) = std::sync::mpsc::channel::<()>();
    let (gate, start) = (std::sync::Mutex::new(gate), std::sync::Mutex::new(start));
    let store = store.clone();
    let wait = move |_: &mut Draft<'_>| {
        start.lock().expect("one holder").send(()).expect("the test waits");
        gate.lock().expect("one holder").recv().map_err(|e| e.to_string())
    };
    let held = async move {
        let mut run = Box::pin(store.run(wait));
        assert!(poll(run.as_mut()).is_pending(), "the gate is closed");
        started.recv().expect("the writer starts it");
        run.await
    };
    (held, async move { open.send(()).expect("the writer waits") })
}

#[tokio::test]
async fn requests_of_one_batch_see_each_other_and_fail_alone() {
    let (store, _folder) = sqlite(100);
    let put = |draft: &mut Draft<'_>| {
        draft.put(&key("m/a"), &1);
        Ok::<_, ()>(())
    };
    let stale = Transaction {
        keys: BTreeMap::from([("m/a".to_owned(), 0)]),
        writes: BTreeMap::from([("m/b".to_owned(), Some("1".to_owned().into()))]),
        ..Transaction::default()
    };
    let refused = |draft: &mut Draft<'_>| {
        draft.put(&key("m/c"), &1);
        Err::<(), _>(draft.get(&key("m/a")))
    };
    let increment = |draft: &mut Draft<'_>| {
        let next = draft.get(&key("m/a")).unwrap_or(0) + 1;
        draft.put(&key("m/a"), &next);
        Ok::<_, ()>(next)
    };
    let (hold, go) = hold(&store);
    let (_, put, stale, refused, increment, ()) =
        tokio::join!(hold, store.run(put), store.apply(stale), store.run(refused), store.run(increment), go);
    assert_eq!(put, Ok(Committed { answer: (), revision: 1 }));
    assert_eq!(stale, Err(ApplyError::Conflict(Conflict("m/a".to_owned()))));
    assert_eq!(refused, Err(RunError::Refused(Some(1))));
    assert_eq!(increment, Ok(Committed { answer: 2, revision: 2 }));
    assert_eq!(scan(&store, "m/").await, [stored("m/a", 2, 2)]);
    let revisions = store.changes_after(position_of(&store, 0), 10).await.map(|c| c.len());
    assert_eq!(revisions, Ok(2), "each commit of a batch is one revision");
}

/// A unit chooses the revision at which a bag is read: without a bound each request could load the whole change log.
#[tokio::test]
async fn a_read_that_would_load_more_than_16_mib_of_the_change_log_is_compacted() {
    let (store, _folder) = sqlite(100);
    let large = format!("\"{}\"", "x".repeat(4 << 20));
    for _ in 0..6 {
        let writes = BTreeMap::from([("m/a".to_owned(), Some(large.clone().into()))]);
        store.apply(Transaction { writes, ..Transaction::default() }).await.expect("it fits");
    }
    assert_eq!(store.read_at(position_of(&store, 3), |reader| reader.revision()).await, Ok(3), "12 MiB");
    assert_eq!(store.read_at(position_of(&store, 2), |_| ()).await, Err(Compacted), "16 MiB and the keys");
    assert_eq!(
        store.read_at(position_of(&store, 0), |_| ()).await,
        Err(Compacted),
        "the first had no document before it"
    );
}

/// What a transition owns is released after its commit: a caller that holds a lock for it may be dropped before.
#[tokio::test]
async fn a_transition_whose_caller_is_dropped_is_kept_until_it_is_committed() {
    let (store, _folder) = sqlite(100);
    let owned = Arc::new(());
    let released = Arc::downgrade(&owned);
    let put = move |draft: &mut Draft<'_>| {
        let _held = &owned;
        draft.put(&key("m/a"), &1);
        Ok::<_, ()>(())
    };
    let (hold, go) = hold(&store);
    let mut hold = pin!(hold);
    assert!(poll(hold.as_mut()).is_pending());
    let mut call = Box::pin(store.run(put));
    assert!(poll(call.as_mut()).is_pending(), "it is in the writer's queue");
    drop(call);
    assert!(released.upgrade().is_some(), "it is not committed yet");
    tokio::join!(hold, go);
    write(&store, &[("m/b", Some(1))]).await;
    assert_eq!(scan(&store, "m/").await, [stored("m/a", 1, 1), stored("m/b", 2, 1)]);
    assert!(released.upgrade().is_none());
}

#[tokio::test]
async fn the_usage_counts_every_document_with_its_key_and_the_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), GENERATION).expect("opens");
    let model = Model(Uuid(7));
    let write = move |draft: &mut Draft<'_>| {
        draft.put(&Key::new(model.log(Uuid(1), 1, 1).text().to_owned()), &"ü".repeat(100));
        draft.put(&model.sequence("machine"), &12);
        Ok::<_, ()>(())
    };
    store.run(write).await.expect("committed");
    let usage = store.usage().await;
    let log = model.log(Uuid(1), 1, 1).text().len() as u64 + 202;
    assert_eq!(usage.log_bytes, BTreeMap::from([((model.0, Uuid(1)), log)]), "bytes, not characters");
    assert_eq!(usage.of_model(model.0), log + model.sequence("machine").text().len() as u64 + 2);
    assert!(usage.change_log_bytes >= usage.of_model(model.0), "{usage:?}");
    assert!(usage.database_bytes > 0 && usage.wal_bytes > 0, "{usage:?}");
}

#[tokio::test]
async fn a_reopened_store_continues_at_its_revision() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), GENERATION).expect("opens");
    write(&store, &[("m/a", Some(1))]).await;
    write(&store, &[("m/a", Some(2))]).await;
    drop(store);
    let store = open(folder.path(), OTHER_GENERATION).expect("opens again at once");
    assert_eq!((store.store_generation(), store.newest_revision()), (GENERATION, 2));
    assert_eq!(write(&store, &[("m/b", Some(3))]).await, 3);
    assert_eq!(store.changes_after(position_of(&store, 0), 10).await.map(|c| c.len()), Ok(3));
}

#[tokio::test]
async fn a_second_opener_is_refused_and_the_holder_is_named() {
    let (store, folder) = sqlite(10);
    match open(folder.path(), GENERATION).err() {
        Some(OpenError::InUse { holder, .. }) => {
            assert!(holder.contains(&std::process::id().to_string()), "{holder}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(write(&store, &[("m/a", Some(1))]).await, 1, "the first process continues");
}

#[tokio::test]
async fn a_store_of_another_version_is_refused_and_not_changed() {
    let (store, folder) = sqlite(10);
    drop(store);
    let file = folder.path().join("store.sqlite");
    let connection = rusqlite::Connection::open(&file).expect("a database");
    connection.pragma_update(None, "user_version", 2).expect("written");
    drop(connection);
    let before = std::fs::read(&file).expect("readable");
    assert!(matches!(open(folder.path(), GENERATION), Err(OpenError::OtherVersion { found: 2, .. })));
    assert!(std::fs::read(&file).expect("readable") == before);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_unchanged() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("store.sqlite");
    let text = "a letter to a friend".repeat(100);
    std::fs::write(&file, &text).expect("written");
    assert!(matches!(open(folder.path(), GENERATION), Err(OpenError::Failed { .. })));
    assert_eq!(std::fs::read_to_string(&file).expect("readable"), text);
}

#[tokio::test]
async fn an_older_copy_is_refused_and_starts_a_new_generation_on_request() {
    let (store, folder) = sqlite(100);
    let file = folder.path().join("store.sqlite");
    write(&store, &[("m/a", Some(1))]).await;
    drop(store);
    let older = std::fs::read(&file).expect("one file after closing");
    let store = open(folder.path(), OTHER_GENERATION).expect("opens");
    write(&store, &[("m/a", Some(2))]).await;
    let lost = position_of(&store, 2);
    drop(store);
    let newest = std::fs::read(&file).expect("one file after closing");

    std::fs::write(&file, &older).expect("restored");
    let error = open(folder.path(), Uuid(9)).err().expect("refused");
    assert!(matches!(error, OpenError::OlderCopy { found: 1, reached: 2, .. }), "{error}");
    assert!(std::fs::read(&file).expect("readable") == older);

    // An operator can put the right file back, or start a new generation.
    std::fs::write(&file, &newest).expect("put back");
    let store = open(folder.path(), Uuid(9)).expect("opens");
    assert_eq!((store.store_generation(), store.newest_revision()), (GENERATION, 2));
    drop(store);
    std::fs::write(&file, &older).expect("restored");
    let restored = |new| Options { restored: true, ..Options::new(new) };
    let store = Sqlite::open(folder.path(), restored(Uuid(9))).expect("the operator states it");
    assert_eq!((store.store_generation(), store.newest_revision()), (Uuid(9), 1));
    drop(store);

    // The same backup once more: its generation has ended, although the file no longer has that generation's revision.
    std::fs::write(&file, &older).expect("restored");
    assert!(matches!(open(folder.path(), OTHER_GENERATION), Err(OpenError::NotTheStore { .. })));
    let store = Sqlite::open(folder.path(), restored(OTHER_GENERATION)).expect("the operator states it");
    assert_eq!((store.store_generation(), store.newest_revision()), (OTHER_GENERATION, 1));
    assert_eq!(write(&store, &[("m/a", Some(3))]).await, 2);
    assert_eq!(write(&store, &[("m/a", Some(4))]).await, 3);
    assert_eq!(store.changes_after(lost, 10).await, Err(Compacted), "the same number, another generation");
    drop(store);
    let store = open(folder.path(), Uuid(9)).expect("opens");
    assert_eq!(store.store_generation(), OTHER_GENERATION, "it continues with the new one");
}

/// `cp -a backup/. DIR`: database and `generation.yaml` are both old, agree, and are written into the existing files.
#[tokio::test]
async fn a_backup_that_was_copied_into_the_folder_is_refused_and_starts_a_new_generation_on_request() {
    let backup = tempfile::tempdir().expect("a folder");
    let copy = |from: &Path, to: &Path| {
        for name in ["store.sqlite", "store.sqlite-wal", "generation.yaml"] {
            match std::fs::copy(from.join(name), to.join(name)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => drop(copied.expect("copied")),
            }
        }
    };
    for was_running in [false, true] {
        let (mut store, folder) = sqlite(100);
        write(&store, &[("m/a", Some(1))]).await;
        if was_running {
            copy(folder.path(), backup.path());
        } else {
            drop(store);
            copy(folder.path(), backup.path());
            store = open(folder.path(), OTHER_GENERATION).expect("opens");
        }
        write(&store, &[("m/a", Some(2))]).await;
        let lost = position_of(&store, 2);
        drop(store);
        copy(backup.path(), folder.path());

        let error = open(folder.path(), Uuid(9)).err().expect("refused");
        assert!(matches!(error, OpenError::CopiedIntoPlace { .. }), "{was_running} {error}");
        let restored = Options { restored: true, ..Options::new(Uuid(9)) };
        let store = Sqlite::open(folder.path(), restored).expect("the operator states it");
        assert_eq!((store.store_generation(), store.newest_revision()), (Uuid(9), 1));
        write(&store, &[("m/a", Some(3))]).await;
        write(&store, &[("m/a", Some(4))]).await;
        assert_eq!(store.changes_after(lost, 10).await, Err(Compacted), "a full view is sent");
        drop(store);
        open(folder.path(), OTHER_GENERATION).expect("it continues");
    }
}

#[tokio::test]
async fn the_operator_can_declare_a_restored_backup() {
    let (store, folder) = sqlite(100);
    write(&store, &[("m/a", Some(1))]).await;
    drop(store);
    let restored = Options { restored: true, ..Options::new(OTHER_GENERATION) };
    let store = Sqlite::open(folder.path(), restored).expect("opens");
    assert_eq!((store.store_generation(), store.newest_revision()), (OTHER_GENERATION, 1));
}

#[tokio::test]
async fn a_full_disk_changes_nothing_and_writes_succeed_after_space_is_freed() {
    let folder = tempfile::tempdir().expect("a folder");
    // An empty store takes some ten pages of 4 KiB, so 40 pages leave room for about 100 KiB.
    let options = Options { pages_max: Some(40), ..Options::new(GENERATION) };
    let store = Sqlite::open(folder.path(), options).expect("opens");
    write(&store, &[("m/a", Some(1))]).await;
    let large = |draft: &mut Draft<'_>| {
        draft.put(&Key::new("m/large".to_owned()), &"x".repeat(400_000));
        draft.put(&key("m/a"), &2);
        Ok::<_, ()>(())
    };
    let small = |draft: &mut Draft<'_>| {
        draft.put(&key("m/a"), &2);
        Ok::<_, ()>(())
    };
    let refused = |draft: &mut Draft<'_>| Err::<(), _>(draft.get(&key("m/a")));
    // 1. A small transaction writes. 2. A refusal depends on it. 3. There is no space for a large transaction of the
    // same batch: the batch is rolled back, so the refusal must not be returned.
    let (hold, go) = hold(&store);
    let (_, small, refused, first, ()) =
        tokio::join!(hold, store.run(small), store.run(refused), store.run(large), go);
    assert_eq!(small, Err(RunError::Failed(StoreError::Full)));
    assert_eq!(refused, Err(RunError::Failed(StoreError::Full)));
    assert_eq!(first, Err(RunError::Failed(StoreError::Full)));
    assert_eq!((store.newest_revision(), scan(&store, "m/").await), (1, vec![stored("m/a", 1, 1)]));
    assert_eq!(store.write_failure(), Some(WriteFailure::DiskFull));
    assert_eq!(write(&store, &[("m/a", Some(3))]).await, 2, "what fits is taken");
    assert_eq!(store.write_failure(), None);
    drop(store);
    let store = open(folder.path(), OTHER_GENERATION).expect("opens");
    assert_eq!(store.store_generation(), GENERATION);
    assert_eq!(store.run(large).await, Ok(Committed { answer: (), revision: 3 }), "there is space");
}

/// `ulimit -f`: the limit applies to the whole process, so the test runs itself again in a process of its own.
#[test]
fn a_limit_of_the_size_of_files_refuses_writes_as_full_and_ends_nothing() {
    const THIS: &str = "sqlite_only::a_limit_of_the_size_of_files_refuses_writes_as_full_and_ends_nothing";
    if std::env::var_os("PINTLE_TEST_FILE_SIZE").is_none() {
        let this = std::env::current_exe().expect("a process knows its program");
        let again = std::process::Command::new(this)
            .args([THIS, "--exact", "--nocapture"])
            .env("PINTLE_TEST_FILE_SIZE", "1")
            .output()
            .expect("it runs");
        assert!(again.status.success(), "{again:?}");
        return;
    }
    host::inherited::protect(); // as the controller does
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (store, _folder) = sqlite(100);
        write(&store, &[("m/a", Some(1))]).await;
        let put = |number: usize| {
            let document = Key::new(format!("m/large/{number}"));
            move |draft: &mut Draft<'_>| {
                draft.get(&document);
                draft.put(&document, &"x".repeat(900_000));
                Ok::<_, ()>(())
            }
        };
        let full = || Err(RunError::Failed(StoreError::Full));
        let (limit, (_, hard)) =
            (Resource::RLIMIT_FSIZE, getrlimit(Resource::RLIMIT_FSIZE).expect("it is known"));
        setrlimit(limit, 400_000, hard).expect("lowered");
        for _ in 0..2 {
            assert_eq!(store.run(put(0)).await, full());
        }
        // The documents of one batch do not fit into SQLite's cache, so that statements that read write to the file, too.
        setrlimit(limit, 3_000_000, hard).expect("raised");
        let (hold, go) = hold(&store);
        let puts = || futures::future::join_all((0..8).map(|number| store.run(put(number))));
        let (_, refused, ()) = tokio::join!(hold, puts(), go);
        assert!(refused.into_iter().all(|answer| answer == full()));
        assert_eq!(scan(&store, "m/").await, [stored("m/a", 1, 1)]);
        setrlimit(limit, hard, hard).expect("raised");
        assert!(puts().await.into_iter().all(|answer| answer.is_ok()), "it goes on");
        assert_eq!(store.newest_revision(), 9);
    });
}

#[tokio::test]
async fn after_a_failed_commit_every_request_fails() {
    let (store, folder) = sqlite(10);
    write(&store, &[("m/a", Some(1))]).await;
    let saboteur = rusqlite::Connection::open(folder.path().join("store.sqlite")).expect("a database");
    saboteur.execute_batch("ALTER TABLE changes RENAME TO elsewhere").expect("sabotaged");
    let put = |draft: &mut Draft<'_>| {
        draft.put(&key("m/a"), &2);
        Ok::<_, ()>(())
    };
    assert!(matches!(store.run(put).await, Err(RunError::Failed(StoreError::Broken(_)))));
    assert_ne!(store.broken().await, "");
    saboteur.execute_batch("ALTER TABLE elsewhere RENAME TO changes").expect("repaired");
    assert!(matches!(store.run(put).await, Err(RunError::Failed(StoreError::Broken(_)))), "it stays broken");
    assert_eq!(store.newest_revision(), 1);
}

/// `rm -rf DIR/controller/store`: what is committed from then on would be lost at the end of the process.
#[tokio::test]
async fn nothing_is_committed_to_a_database_that_was_deleted_or_replaced() {
    for replaced in [false, true] {
        let (store, folder) = sqlite(10);
        write(&store, &[("m/a", Some(1))]).await;
        let file = folder.path().join("store.sqlite");
        std::fs::rename(&file, folder.path().join("elsewhere")).expect("moved away");
        if replaced {
            std::fs::write(&file, "another file").expect("written");
        }
        let put = |draft: &mut Draft<'_>| {
            draft.put(&key("m/a"), &2);
            Ok::<_, ()>(())
        };
        assert!(matches!(store.run(put).await, Err(RunError::Failed(StoreError::Broken(_)))), "{replaced}");
        assert_ne!(store.broken().await, "");
    }
}

const CHILD: &str = "PINTLE_STORE_TEST_FOLDER";

/// A child process commits from several tasks and prints each number once its commit is acknowledged, until it is
/// killed.
#[test]
fn acknowledged_commits_survive_kill_9() {
    use std::io::{BufRead as _, BufReader, Write as _};
    if let Some(folder) = std::env::var_os(CHILD) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let store = open(Path::new(&folder), GENERATION).expect("opens");
            let tasks: Vec<_> =
                (0..8).map(|task| tokio::spawn(commit_for_ever(store.clone(), task))).collect();
            for task in tasks {
                task.await.expect("no panic");
            }
        });
        unreachable!("it commits until it is killed");
    }
    async fn commit_for_ever(store: Sqlite, task: u64) {
        // Numbers continue from the newest revision, so that no child repeats those of an earlier one.
        for n in store.newest_revision().. {
            let (a, b) = (key(&format!("m/a/{task}/{n}")), key(&format!("m/b/{task}/{n}")));
            let pair = move |draft: &mut Draft<'_>| {
                draft.put(&a, &n);
                draft.put(&b, &n);
                Ok::<_, ()>(())
            };
            store.run(pair).await.expect("commits");
            let mut out = std::io::stdout();
            writeln!(out, "\nacknowledged {task}/{n}").and_then(|()| out.flush()).expect("the parent reads");
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut acknowledged = Vec::new();
    for _ in 0..3 {
        let mut child = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "sqlite_only::acknowledged_commits_survive_kill_9", "--nocapture"])
            .env(CHILD, folder.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("starts");
        let mut enough = 50;
        for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
            let Some(name) = line.expect("text").strip_prefix("acknowledged ").map(str::to_owned) else {
                continue;
            };
            acknowledged.push(name);
            enough -= 1;
            if enough == 0 {
                child.kill().expect("killed"); // what it had printed until then is still read
            }
        }
        child.wait().expect("ended");
        assert!(enough <= 0, "the child ended by itself");
    }
    let store = open(folder.path(), OTHER_GENERATION).expect("opens");
    assert_eq!(store.store_generation(), GENERATION, "a crash is no restored copy");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let (a, b) = runtime.block_on(async { (scan(&store, "m/a/").await, scan(&store, "m/b/").await) });
    let names = |stored: &[StoredDocument]| stored.iter().map(|s| s.key[4..].to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&a), names(&b), "each commit is complete or absent");
    let kept: std::collections::BTreeSet<String> = names(&a).into_iter().collect();
    let lost: Vec<_> = acknowledged.iter().filter(|name| !kept.contains(*name)).collect();
    assert_eq!(lost, Vec::<&String>::new());
}

/// 1. A read runs. 2. The controller stops: the call and the last handle of the store are dropped. 3. The read ends. The
///    store waits for it, so that the last connection merges the WAL into the database.
#[tokio::test]
async fn a_store_that_is_closed_waits_for_the_read_that_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), GENERATION).expect("opens");
    write(&store, &[("m/a", Some(1))]).await;
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let (started, starts) = tokio::sync::oneshot::channel();
    let read = store.read(move |reader| {
        started.send(()).expect("the test waits");
        waits.recv().expect("the test goes on");
        reader.revision()
    });
    tokio::select! {
        _ = read => panic!("it waits"),
        starts = starts => starts.expect("it starts"),
    }
    let closing = std::thread::spawn(move || drop(store));
    go_on.send(()).expect("the read waits");
    closing.join().expect("no one panics");
    assert!(!folder.path().join("store.sqlite-wal").exists(), "the WAL is merged");
}

#[test]
fn no_database_is_created_in_a_folder_whose_models_are_in_etcd() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("etcd.yaml"), "").expect("written");
    let error = open(folder.path(), GENERATION).err().expect("refused");
    assert!(matches!(error, OpenError::InEtcd { .. }), "{error}");
    assert!(!folder.path().join("store.sqlite").exists());
}
