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
    assert!(matches!(&findings[..], [one] if one.starts_with("store.sqlite: ")), "{findings:?}");
    assert_eq!(run(&folder.path().join("elsewhere")), 2);
}
