//! `pintle-controller check`: its findings in a store, its exit codes, and that it changes nothing.

use controller::check::{check, run};
use controller::store::Store as _;
use controller::store::sqlite::{Options, Sqlite};
use state::documents::draft::{Draft, Key};
use state::documents::prelude::Model;
use state::terms::names::Uuid;
use std::collections::BTreeMap;
use std::path::Path;

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file"));
    files
        .map(|file| {
            (file.file_name().to_string_lossy().into_owned(), std::fs::read(file.path()).expect("read"))
        })
        .collect()
}

#[tokio::test]
async fn a_check_names_each_finding_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Sqlite::open(folder.path(), Options::new(Uuid(7))).expect("opens");
    let model = Model(Uuid(3));
    let create =
        move |draft: &mut Draft<'_>| state::lifecycle::model::create(draft, model.0, "dev", 0).map(drop);
    store.run(create).await.expect("commits");
    assert_eq!(run(folder.path()), 2, "the store is in use");
    drop(store);
    let report = check(folder.path()).expect("it is closed");
    assert_eq!((report.findings, run(folder.path())), (vec![], 0));

    let store = Sqlite::open(folder.path(), Options::new(Uuid(7))).expect("opens");
    let odd = move |draft: &mut Draft<'_>| {
        draft.put(&Key::new(model.unit_life(Uuid(9)).text().to_owned()), &"Immortal".to_owned());
        draft.put(&model.machine_life(Uuid(5)), &state::terms::life::Life::Alive);
        Ok::<_, ()>(())
    };
    store.run(odd).await.expect("commits");
    drop(store);
    let file = folder.path().join("store.sqlite");
    let connection = rusqlite::Connection::open(&file).expect("a database");
    let damage = "UPDATE documents SET value = '\"Dying\"' WHERE key LIKE '%/model-life'";
    assert_eq!(connection.execute(damage, []), Ok(1));
    drop(connection);
    let before = files(folder.path());
    let findings = check(folder.path()).expect("it is closed").findings.join("\n");
    assert!(findings.contains("/model-life: damaged"), "{findings}");
    assert!(
        findings.contains("/unit-life/00000000-0000-0000-0000-000000000009: unknown variant"),
        "{findings}"
    );
    assert!(findings.contains("I22"), "{findings}");
    assert_eq!(run(folder.path()), 1);
    assert!(files(folder.path()) == before, "nothing is changed");
    std::fs::write(&file, "").expect("emptied");
    let findings = check(folder.path()).expect("the controller is stopped").findings;
    assert_eq!(findings, [refusal(folder.path())]);
    assert_eq!(run(&folder.path().join("elsewhere")), 2);
}

/// What a start prints: the fault and its remedy.
fn refusal(folder: &Path) -> String {
    Sqlite::open(folder, Options::new(Uuid(8))).err().expect("refused").to_string()
}

/// A store with one commit.
async fn fill(folder: &Path) {
    let store = Sqlite::open(folder, Options::new(Uuid(7))).expect("opens");
    let create = |draft: &mut Draft<'_>| state::lifecycle::model::create(draft, Uuid(3), "dev", 0).map(drop);
    store.run(create).await.expect("commits");
}

/// Copies the files of the store over those of another folder.
fn copy(from: &Path, to: &Path) {
    for name in ["store.sqlite", "generation.yaml"] {
        std::fs::copy(from.join(name), to.join(name)).expect("copied");
    }
}

#[tokio::test]
async fn a_check_reports_each_refusal_as_a_start_does() {
    let (data, elsewhere) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let folder = data.path().join("controller/store");
    std::fs::create_dir_all(&folder).expect("made");
    fill(&folder).await;
    let (file, record) = (folder.join("store.sqlite"), folder.join("generation.yaml"));
    let findings = || check(data.path()).expect("it is closed").findings;
    assert_eq!(findings(), [""; 0]);

    let link = elsewhere.path().join("link");
    std::fs::hard_link(&file, &link).expect("linked");
    assert_eq!(findings(), [refusal(&folder)]);
    std::fs::remove_file(link).expect("it exists");

    copy(&folder, elsewhere.path());
    let report = check(elsewhere.path()).expect("it is closed");
    assert_eq!(report.note, Some(refusal(elsewhere.path())), "what a start demands");
    let copied = || check(elsewhere.path()).expect("it is closed").findings;
    assert_eq!((copied(), run(elsewhere.path())), (vec![], 0), "a backup that was unpacked is intact");
    std::fs::remove_file(elsewhere.path().join("generation.yaml")).expect("it exists");
    assert_eq!(copied(), [""; 0], "a copy of the database alone");

    let recorded = std::fs::read(&record).expect("readable");
    std::fs::remove_file(&record).expect("it exists");
    assert_eq!(findings(), [refusal(&folder)]);
    std::fs::write(&record, "").expect("written");
    assert_eq!(findings(), [refusal(&folder)]);

    std::fs::write(&record, recorded).expect("put back");
    std::fs::write(&file, vec![7; 8192]).expect("no database");
    assert_eq!(findings(), [refusal(&folder)]);
    assert_eq!(run(data.path()), 1);
}

#[tokio::test]
async fn a_check_reports_what_a_start_refuses_after_the_first_refusal_was_removed() {
    let (folder, elsewhere) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    fill(folder.path()).await;
    copy(folder.path(), elsewhere.path());
    let file = elsewhere.path().join("store.sqlite");
    let link = folder.path().join("link");
    std::fs::hard_link(&file, &link).expect("linked");
    let shared = refusal(elsewhere.path());
    let found = check(elsewhere.path()).expect("it is closed");
    std::fs::remove_file(link).expect("it exists");
    assert_eq!((found.findings, found.note), (vec![shared], Some(refusal(elsewhere.path()))));
}
