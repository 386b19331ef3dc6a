//! The folder `view/`: a cache of the last view received from the controller, with one file for each relation.
//!
//! An agent starts from it while the controller is unreachable. It is never synced, so any file may be old,
//! truncated or absent. `unit.yaml` holds the checksum of every other file; if the files do not match, there is
//! no cached view.
//!
//! Written by `journal` (`UnitStorage::cache_view`), and loaded by the unit agent when it starts and by `inspect`.

use crate::folder_port::FolderFiles;
use host::digest::{checksum, verified, with_checksum};
use host::escape::json_as_yaml;
use serde::{Deserialize, Serialize};
use state::terms::names::RelationNumber;
use state::unit::relation_view::RelationView;
use state::unit::snapshot::Snapshot;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The file that holds everything of the view except its relations.
pub const VIEW_FILE: &str = "view/unit.yaml";

/// The content of `view/unit.yaml`.
#[derive(Serialize, Deserialize)]
struct ViewHead {
    /// Checksum of each relation's file.
    relations: BTreeMap<RelationNumber, String>,
    view: Snapshot,
}

fn relation_file(relation: RelationNumber) -> String {
    format!("view/relation-{relation}.yaml")
}

/// Returns the checksum of the text and the file.
fn encode(value: &impl Serialize) -> (String, Vec<u8>) {
    // JSON is valid YAML; one value per line is readable
    let json = serde_json::to_string_pretty(value).expect("views are plain data") + "\n";
    let body = json_as_yaml(&json);
    (checksum(body.as_bytes()), with_checksum(&body).into_bytes())
}

fn decode<T: for<'a> Deserialize<'a>>(file: &[u8]) -> Option<(String, T)> {
    let body = verified(file)?;
    Some((checksum(body.as_bytes()), serde_json::from_str(body).ok()?))
}

async fn read_head<F: FolderFiles>(files: &F) -> Option<ViewHead> {
    Some(decode(&files.read(VIEW_FILE).await.ok()??)?.1)
}

/// The relations whose files are as `unit.yaml` lists them. A file that was damaged or lost is written again.
async fn read_undamaged<F: FolderFiles>(files: &F) -> BTreeMap<RelationNumber, String> {
    let mut undamaged = BTreeMap::new();
    for (relation, expected) in read_head(files).await.map_or_else(BTreeMap::new, |head| head.relations) {
        if read_relation(files, relation, &expected).await.is_some() {
            undamaged.insert(relation, expected);
        }
    }
    undamaged
}

async fn read_relation<F: FolderFiles>(
    files: &F,
    relation: RelationNumber,
    expected: &str,
) -> Option<RelationView> {
    let (checksum, relation_view) = decode(&files.read(&relation_file(relation)).await.ok()??)?;
    (checksum == expected).then_some(relation_view)
}

/// The state of the folder, as far as this process has read or written it.
#[derive(Default)]
pub struct ViewCache {
    /// The checksum of each relation's file. None if the folder has not been read yet. A file that could not be written
    /// or deleted has an empty one, so that this is tried again.
    checksums: RefCell<Option<BTreeMap<RelationNumber, String>>>,
}

impl ViewCache {
    /// Writes the files that have changed. `unit.yaml` is written last, so that no crash leaves a mixture of
    /// views whose checksums match.
    pub async fn store<F: FolderFiles>(&self, files: &F, view: &Snapshot) {
        let before = match self.checksums.take() {
            Some(checksums) => checksums,
            None => read_undamaged(files).await,
        };
        let (mut relations, mut written) = (BTreeMap::new(), BTreeMap::new());
        for (relation, relation_view) in &view.relations {
            let (checksum, file) = encode(relation_view);
            let is_written = before.get(relation) == Some(&checksum)
                || files.cache(&relation_file(*relation), Some(&file)).await;
            written.insert(*relation, if is_written { checksum.clone() } else { String::new() });
            relations.insert(*relation, checksum);
        }
        let view = Snapshot { relations: BTreeMap::new(), ..view.clone() };
        let head = ViewHead { relations, view };
        files.cache(VIEW_FILE, Some(&encode(&head).1)).await;
        for removed in before.keys().filter(|relation| !head.relations.contains_key(relation)) {
            if !files.cache(&relation_file(*removed), None).await {
                written.insert(*removed, String::new());
            }
        }
        self.checksums.replace(Some(written));
    }

    /// The cached view. None if there is no complete and undamaged one.
    pub async fn load<F: FolderFiles>(files: &F) -> Option<Snapshot> {
        let head = read_head(files).await?;
        let mut view = head.view;
        for (relation, expected) in head.relations {
            view.relations.insert(relation, read_relation(files, relation, &expected).await?);
        }
        Some(view)
    }
}
