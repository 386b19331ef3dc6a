//! Tests the cached view after damage: with files truncated, changed, outdated or missing, a starting agent must load
//! either a view that was stored completely, or none.

use agent::folder::UnitFolder;
use agent::folder_port::FolderFiles;
use agent::view_cache::{VIEW_FILE, ViewCache};
use state::unit::snapshot::Snapshot;
use std::path::Path;
use tests::cases::view;
use tests::folder_operations::ready;

/// Two successive views: a bag changes, one relation is removed, and another is added.
fn views() -> [Snapshot; 2] {
    let mut first = view::without_relations();
    first.relations.insert(1, view::relation(1, "db", "mysql"));
    first.relations.insert(2, view::relation(2, "cache", "redis"));
    let mut second = first.clone();
    second.position.revision += 1;
    second.relations.remove(&2);
    second.relations.insert(3, view::relation(3, "cache", "redis"));
    let relation = second.relations.get_mut(&1).expect("it was put there");
    view::write(
        relation,
        state::terms::owner::Owner::Application("mysql".into()),
        &[("k".to_owned(), "v".to_owned())].into(),
    );
    [first, second]
}

fn files(root: &Path) -> Vec<String> {
    let names = std::fs::read_dir(root.join("view")).expect("the folder exists").flatten();
    let mut names: Vec<_> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn the_cached_view_has_one_file_per_relation_and_is_read_back_completely() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = UnitFolder::new(dir.path().to_path_buf());
    let [first, second] = views();
    ready(ViewCache::default().store(&folder, &first));
    assert_eq!(files(dir.path()), ["relation-1.yaml", "relation-2.yaml", "unit.yaml"]);
    assert_eq!(ready(ViewCache::load(&folder)), Some(first));
    // another process continues, and also deletes files that it did not write
    ready(ViewCache::default().store(&folder, &second));
    assert_eq!(files(dir.path()), ["relation-1.yaml", "relation-3.yaml", "unit.yaml"]);
    assert_eq!(ready(ViewCache::load(&folder)), Some(second));
}

#[test]
fn a_view_with_a_damaged_file_is_not_loaded() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = UnitFolder::new(dir.path().to_path_buf());
    let [_, second] = views();
    ready(ViewCache::default().store(&folder, &second));
    for name in [VIEW_FILE, "view/relation-1.yaml"] {
        let whole = std::fs::read(folder.file(name)).expect("the file exists");
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x20;
            for damaged in [&flipped[..], &whole[..at]] {
                std::fs::write(folder.file(name), damaged).expect("it is written");
                let found = ready(ViewCache::load(&folder));
                assert_eq!(found, None, "{name} at byte {at}");
            }
        }
        std::fs::remove_file(folder.file(name)).expect("it was there");
        assert_eq!(ready(ViewCache::load(&folder)), None, "{name} is gone");
        std::fs::write(folder.file(name), &whole).expect("it is written");
    }
    assert_eq!(ready(ViewCache::load(&folder)), Some(second));
}

#[test]
fn a_mixture_of_two_views_is_not_loaded() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = UnitFolder::new(dir.path().to_path_buf());
    let [first, second] = views();
    ready(ViewCache::default().store(&folder, &first));
    let old = std::fs::read(folder.file("view/relation-1.yaml")).expect("the file exists");
    ready(ViewCache::default().store(&folder, &second));
    ready(folder.cache("view/relation-1.yaml", Some(&old)));
    assert_eq!(ready(ViewCache::load(&folder)), None);
}

/// A relation that does not change is written again after its file was damaged.
#[test]
fn a_damaged_file_is_written_again_by_the_next_process() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = UnitFolder::new(dir.path().to_path_buf());
    let [first, _] = views();
    for damage in [Some("torn"), None] {
        ready(ViewCache::default().store(&folder, &first));
        let file = dir.path().join("view/relation-1.yaml");
        match damage {
            Some(text) => std::fs::write(file, text).expect("it is damaged"),
            None => std::fs::remove_file(file).expect("it is lost"),
        }
        assert_eq!(ready(ViewCache::load(&folder)), None);
        ready(ViewCache::default().store(&folder, &first));
        assert_eq!(ready(ViewCache::load(&folder)).as_ref(), Some(&first));
    }
}
