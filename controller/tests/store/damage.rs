//! Damaged and missing databases are refused, or served without the damaged documents.

use super::fixture::{GENERATION, OTHER_GENERATION, key, position_of, scan, stored, write};
use controller::check::check;
use controller::store::sqlite::{OpenError, Options, Sqlite};
use controller::store::unavailable::{self, Unavailable};
use controller::store::{Compacted, RunError, Store, StoreError};
use state::documents::draft::{Draft, Key};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

async fn filled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Sqlite::open(folder.path(), Options::new(GENERATION)).expect("opens");
    write(&store, &[("m/unit/a", Some(1_000_001)), ("m/unit/b", Some(1_000_002))]).await;
    write(&store, &[("m/unit/c", Some(1_000_003))]).await;
    drop(store);
    folder
}

/// Returns the reason for which the database is refused. `check` reports the same fault and remedy.
fn refusal(folder: &Path) -> String {
    let checked = check(folder).expect("no process has it open").findings;
    match Sqlite::open(folder, Options::new(OTHER_GENERATION)).err() {
        // a folder without the record, which is not that of a controller, is a copy of the database
        Some(error) if folder.join("generation.yaml").exists() && !checked.contains(&error.to_string()) => {
            panic!("{error}: {checked:?}")
        }
        Some(OpenError::NotTheStore { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

/// Records in `copy` that the generation of `folder` was reached there, as a controller does.
fn record_generation(folder: &Path, copy: &Path) {
    let text = std::fs::read_to_string(folder.join("generation.yaml")).expect("readable");
    let file = copy.join("generation.yaml");
    std::fs::write(&file, &text).expect("written");
    let made = file.metadata().expect("it exists");
    let created = made.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let created_ns = created.map_or(0, |age| age.as_nanos());
    let line = |line: &str| match line.split_once(": ") {
        Some(("inode", _)) => format!("inode: {}\n", made.ino()),
        Some(("created_ns", _)) => format!("created_ns: {created_ns}\n"),
        _ => format!("{line}\n"),
    };
    std::fs::write(&file, text.lines().map(line).collect::<String>()).expect("written");
}

#[tokio::test]
async fn a_missing_empty_or_truncated_database_beside_a_generation_is_refused() {
    let folder = filled().await;
    let file = folder.path().join("store.sqlite");
    let bytes = std::fs::read(&file).expect("readable");
    for length in [0, 50, 4096, bytes.len() - 4096, bytes.len() - 1] {
        std::fs::write(&file, &bytes[..length]).expect("written");
        refusal(folder.path());
        assert_eq!(std::fs::read(&file).expect("readable").len(), length, "it is not changed");
    }
    std::fs::remove_file(&file).expect("it exists");
    refusal(folder.path());
    assert!(!file.exists(), "no database is created");
    std::fs::write(&file, &bytes).expect("put back");
    let store = Sqlite::open(folder.path(), Options::new(OTHER_GENERATION)).expect("the right file");
    assert_eq!((store.store_generation(), store.newest_revision()), (GENERATION, 2));
}

#[tokio::test]
async fn a_store_whose_newest_revision_is_not_recorded_is_refused_until_it_is_stated() {
    let folder = filled().await;
    let record = folder.path().join("generation.yaml");
    std::fs::write(&record, "").expect("written");
    refusal(folder.path());
    std::fs::remove_file(&record).expect("it exists");
    refusal(folder.path());
    let restored = Options { restored: true, ..Options::new(OTHER_GENERATION) };
    let store = Sqlite::open(folder.path(), restored).expect("requested");
    assert_eq!((store.store_generation(), store.newest_revision()), (OTHER_GENERATION, 2));
}

#[tokio::test]
async fn an_empty_store_starts_a_generation_only_on_request() {
    let folder = filled().await;
    std::fs::remove_file(folder.path().join("store.sqlite")).expect("it exists");
    refusal(folder.path());
    let restored = Options { restored: true, ..Options::new(OTHER_GENERATION) };
    let store = Sqlite::open(folder.path(), restored).expect("requested");
    assert_eq!((store.store_generation(), store.newest_revision()), (OTHER_GENERATION, 0));
}

#[tokio::test]
async fn a_database_of_another_generation_is_refused() {
    let (folder, other) = (filled().await, tempfile::tempdir().expect("a folder"));
    drop(Sqlite::open(other.path(), Options::new(OTHER_GENERATION)).expect("opens"));
    let name = "store.sqlite";
    std::fs::copy(other.path().join(name), folder.path().join(name)).expect("copied");
    let error = refusal(folder.path());
    assert!(error.contains(&GENERATION.to_string()), "{error}");
}

/// `cp -a d c; pintle --data c up --new-identity; cp c/.../store.sqlite d/...`: the units of `d` are no units of `c`.
#[tokio::test]
async fn the_database_of_a_copy_that_became_a_system_of_its_own_is_refused() {
    let (folder, copy) = (filled().await, tempfile::tempdir().expect("a folder"));
    for name in ["store.sqlite", "generation.yaml"] {
        std::fs::copy(folder.path().join(name), copy.path().join(name)).expect("copied");
    }
    let restored = Options { restored: true, ..Options::new(OTHER_GENERATION) };
    drop(Sqlite::open(copy.path(), restored).expect("requested"));
    std::fs::copy(copy.path().join("store.sqlite"), folder.path().join("store.sqlite")).expect("copied");
    let error = refusal(folder.path());
    assert!(error.contains(&GENERATION.to_string()), "{error}");
}

#[tokio::test]
async fn a_start_of_a_generation_that_was_interrupted_is_continued() {
    let folder = filled().await;
    let file = folder.path().join("generation.yaml");
    let recorded = std::fs::read_to_string(&file).expect("readable");
    let restored = Options { restored: true, ..Options::new(OTHER_GENERATION) };
    drop(Sqlite::open(folder.path(), restored).expect("requested"));
    // the process died after the database and before this file was replaced
    std::fs::write(&file, format!("{recorded}starting: {OTHER_GENERATION}\n")).expect("written");
    // the documents of this store have types of their own
    let findings = check(folder.path()).expect("no process has it open").findings;
    assert!(!findings.iter().any(|finding| finding.contains("store.sqlite")), "{findings:?}");
    let store = Sqlite::open(folder.path(), Options::new(GENERATION)).expect("it was requested");
    assert_eq!(store.store_generation(), OTHER_GENERATION);
}

/// `cp -al d c`: a controller of one folder would change the other.
#[tokio::test]
async fn a_database_that_another_folder_shares_is_refused() {
    let (folder, copy) = (filled().await, tempfile::tempdir().expect("a folder"));
    let (file, link) = (folder.path().join("store.sqlite"), copy.path().join("store.sqlite"));
    std::fs::hard_link(&file, &link).expect("linked");
    let restored = Options { restored: true, ..Options::new(OTHER_GENERATION) };
    let refused = Sqlite::open(copy.path(), restored).err();
    assert!(matches!(refused, Some(OpenError::Shared { .. })), "{refused:?}");
    std::fs::remove_file(&link).expect("removed");
    Sqlite::open(folder.path(), Options::new(OTHER_GENERATION)).expect("it is the only one");
}

#[tokio::test]
async fn the_documents_beside_a_damaged_one_are_served() {
    let folder = filled().await;
    let file = folder.path().join("store.sqlite");
    let mut bytes = std::fs::read(&file).expect("readable");
    let (from, to) = (b"1000002", b"1000006");
    for at in 0..bytes.len() - 7 {
        if bytes[at..at + 7] == *from {
            bytes[at..at + 7].copy_from_slice(to);
        }
    }
    std::fs::write(&file, &bytes).expect("written");
    let store = Sqlite::open(folder.path(), Options::new(OTHER_GENERATION)).expect("opens");
    assert_eq!(scan(&store, "m/unit/a").await, [stored("m/unit/a", 1, 1_000_001)]);
    let (found, damaged) = store.read_available(|reader| reader.scan("m/unit/", "", 9)).await;
    assert_eq!(found, [stored("m/unit/a", 1, 1_000_001), stored("m/unit/c", 2, 1_000_003)]);
    assert_eq!(damaged, ["m/unit/b"]);
}

#[tokio::test]
async fn the_answer_to_a_request_that_needs_a_damaged_document_names_it_and_nothing_changes() {
    let folder = filled().await;
    let connection = rusqlite::Connection::open(folder.path().join("store.sqlite")).expect("a database");
    connection.execute("UPDATE documents SET value = '6' WHERE key = 'm/unit/b'", []).expect("damaged");
    drop(connection);
    let store = Sqlite::open(folder.path(), Options::new(OTHER_GENERATION)).expect("opens");
    let read = unavailable::catch(store.read(|reader| reader.get("m/unit/b"))).await;
    assert_eq!(read, Err(Unavailable::Damaged(vec!["m/unit/b".to_owned()])));
    let decide = |name: &'static str| {
        move |draft: &mut Draft<'_>| {
            let seen = draft.get(&key(name)).is_some();
            draft.put(&key("m/unit/d"), &1);
            if seen { Ok(()) } else { Err(()) }
        }
    };
    // Both requests are in one batch: the one that does not need the damaged document is committed.
    let (damaged, other) = tokio::join!(store.run(decide("m/unit/b")), store.run(decide("m/unit/a")));
    assert_eq!(damaged, Err(RunError::Failed(StoreError::Damaged(vec!["m/unit/b".to_owned()]))));
    assert_eq!(other.map(|committed| committed.revision), Ok(3));
    // A transition that does not read the document may replace it. The log does not contain the previous document, so
    // readers of the log must read all documents again.
    assert_eq!(write(&store, &[("m/unit/b", Some(9))]).await, 4);
    assert_eq!(scan(&store, "m/unit/b").await, [stored("m/unit/b", 4, 9)]);
    assert_eq!(store.changes_after(position_of(&store, 3), 9).await, Err(Compacted));
}

/// For a sample of all bits of the file: the store is refused, or it is served without a wrong document, and the
/// missing documents are named.
#[tokio::test]
async fn no_flipped_bit_is_served_or_ends_the_controller() {
    let (folder, keys): (_, Vec<String>) =
        (tempfile::tempdir().expect("a folder"), (0..200).map(|n| format!("m/unit/{n:03}")).collect());
    let store = Sqlite::open(folder.path(), Options::new(GENERATION)).expect("opens");
    let all: Vec<(&str, Option<u64>)> = keys.iter().map(|key| (key.as_str(), Some(1_000_000))).collect();
    for some in all.chunks(50) {
        write(&store, some).await;
    }
    let intact = scan(&store, "m/").await;
    drop(store);
    let file = folder.path().join("store.sqlite");
    let bytes = std::fs::read(&file).expect("readable");
    let (mut served, mut named) = (0, 0);
    for bit in (0..bytes.len() * 8).step_by(709) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let copy = tempfile::tempdir().expect("a folder");
        std::fs::write(copy.path().join("store.sqlite"), &flipped).expect("written");
        record_generation(folder.path(), copy.path());
        let Ok(store) = Sqlite::open(copy.path(), Options::new(OTHER_GENERATION)) else { continue };
        served += 1;
        let (found, damaged) = store.read_available(|reader| reader.scan("m/", "", usize::MAX)).await;
        named += usize::from(!damaged.is_empty());
        for stored in &intact {
            let is_found = found.contains(stored);
            assert!(is_found || damaged.contains(&stored.key), "bit {bit}: {} in {damaged:?}", stored.key);
            let key = stored.key.clone();
            let (one, damaged) = store.read_available(move |reader| reader.get(&key)).await;
            assert!(
                one.as_ref() == Some(stored) || damaged.contains(&stored.key),
                "bit {bit}: {} {one:?} {damaged:?}",
                stored.key
            );
        }
        assert!(found.iter().all(|stored| intact.contains(stored)), "bit {bit}: {found:?}");
        let put = |draft: &mut Draft<'_>| {
            draft.put(&key("m/unit/new"), &1);
            Ok::<_, ()>(())
        };
        match store.run(put).await {
            Ok(_) | Err(RunError::Failed(StoreError::Damaged(_))) => {}
            other => panic!("bit {bit}: {other:?}"),
        }
        let _ = store.changes_after(position_of(&store, 0), 99).await;
    }
    assert!(served > 100 && named > 20, "{served} served, {named} with a damaged document");
}

/// A database that is refused may be the only copy: it stays as it is, and so do the commits in its WAL.
#[tokio::test]
async fn a_damaged_database_that_is_refused_is_not_changed() {
    let folder = filled().await;
    let store = Sqlite::open(folder.path(), Options::new(GENERATION)).expect("opens");
    let keys: Vec<String> = (0..50).map(|n| format!("m/unit/{n:03}")).collect();
    write(&store, &keys.iter().map(|key| (key.as_str(), Some(1_000_000))).collect::<Vec<_>>()).await;
    drop(store);
    let store = Sqlite::open(folder.path(), Options::new(GENERATION)).expect("opens");
    write(&store, &[("m/unit/d", Some(1_000_004))]).await;
    let read = |folder: &Path, name: &str| std::fs::read(folder.join(name)).expect("readable");
    let (database, wal) = (read(folder.path(), "store.sqlite"), read(folder.path(), "store.sqlite-wal"));
    assert!(!wal.is_empty(), "the newest commit is in the WAL");
    let mut refused = 0;
    // the headers of all pages
    for at in (0..database.len()).filter(|at| at % 4096 < 8) {
        let mut damaged = database.clone();
        damaged[at] ^= 0x55;
        let copy = tempfile::tempdir().expect("a folder");
        std::fs::write(copy.path().join("store.sqlite"), &damaged).expect("written");
        std::fs::write(copy.path().join("store.sqlite-wal"), &wal).expect("written");
        record_generation(folder.path(), copy.path());
        if Sqlite::open(copy.path(), Options::new(OTHER_GENERATION)).is_ok() {
            continue;
        }
        refused += 1;
        assert_eq!(read(copy.path(), "store.sqlite"), damaged, "byte {at}");
        assert_eq!(read(copy.path(), "store.sqlite-wal"), wal, "byte {at}");
    }
    assert!(refused > 5, "{refused} were refused");
}

#[tokio::test]
async fn the_change_log_is_bounded_in_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { changes_bytes_max: 11_000, ..Options::new(GENERATION) };
    let store = Sqlite::open(folder.path(), options).expect("opens");
    let put = |bytes: usize| {
        let document = Key::new("m/large".to_owned());
        move |draft: &mut Draft<'_>| {
            draft.put(&document, &"x".repeat(bytes));
            Ok::<_, ()>(())
        }
    };
    for _ in 0..20 {
        store.run(put(1_000)).await.expect("commits");
    }
    // Each entry has the new document and the previous one: 2 KiB.
    assert_eq!(store.changes_after(position_of(&store, 15), 99).await.map(|changes| changes.len()), Ok(5));
    assert_eq!(store.changes_after(position_of(&store, 10), 99).await, Err(Compacted));
    store.run(put(50_000)).await.expect("commits");
    assert_eq!(
        store.changes_after(position_of(&store, 20), 99).await.map(|changes| changes.len()),
        Ok(1),
        "the newest"
    );
    assert_eq!(store.changes_after(position_of(&store, 19), 99).await, Err(Compacted));
}

#[tokio::test]
async fn the_file_shrinks_after_documents_were_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { changes_kept: 1, ..Options::new(GENERATION) };
    let store = Sqlite::open(folder.path(), options).expect("opens");
    let put = |n: usize, text: Option<String>| {
        move |draft: &mut Draft<'_>| {
            let key = Key::<String>::new(format!("m/large/{n}"));
            match &text {
                Some(text) => draft.put(&key, text),
                None => draft.remove(&key),
            }
            Ok::<_, ()>(())
        }
    };
    for n in 0..40 {
        store.run(put(n, Some("x".repeat(500_000)))).await.expect("commits");
    }
    for n in 0..40 {
        store.run(put(n, None)).await.expect("commits");
    }
    let pages = |folder: &Path| {
        let connection = rusqlite::Connection::open(folder.join("store.sqlite")).expect("a database");
        let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).expect("a number");
        pages
    };
    let before = pages(folder.path());
    for n in 0..1_200 {
        store.run(put(99, Some(n.to_string()))).await.expect("commits");
    }
    let after = pages(folder.path());
    assert!(before > 4_800 && after < 1_200, "{before} pages, later {after}");
}
