//! The folder `view/`: what the controller last showed, one file a relation, for a start without the controller and
//! for people. A cache: never synced, so any of its files may be old, cut or gone. `unit.yaml` names the checksum of
//! every other file; what does not fit together is no view.

use crate::journal::{Files, checksum};
use serde::{Deserialize, Serialize};
use state::terms::names::RelationNumber;
use state::unit::snapshot::{RelationView, Snapshot};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// All of the view but its relations.
pub const HEAD: &str = "view/unit.yaml";

#[derive(Serialize, Deserialize)]
struct Head {
    /// Checksum of each relation's file.
    relations: BTreeMap<RelationNumber, String>,
    view: Snapshot,
}

fn name(relation: RelationNumber) -> String {
    format!("view/relation-{relation}.yaml")
}

/// The checksum, and the file: a line with it, then the text.
fn encode(what: &impl Serialize) -> (String, Vec<u8>) {
    // JSON is YAML; one value a line is for people
    let body = serde_json::to_string_pretty(what).expect("views are plain data");
    let sum = checksum(body.as_bytes());
    let file = format!("# checksum {sum}\n{body}\n").into_bytes();
    (sum, file)
}

fn decode<T: for<'a> Deserialize<'a>>(file: &[u8]) -> Option<(String, T)> {
    let (first, body) = std::str::from_utf8(file).ok()?.split_once('\n')?;
    let (sum, body) = (first.strip_prefix("# checksum ")?, body.strip_suffix('\n')?);
    (sum == checksum(body.as_bytes())).then_some(())?;
    Some((sum.to_owned(), serde_json::from_str(body).ok()?))
}

async fn read_head<F: Files>(files: &F) -> Option<Head> {
    Some(decode(&files.read(HEAD).await.ok()??)?.1)
}

/// What is in the folder, as far as this process put it there.
#[derive(Default)]
pub struct ViewCache {
    /// Checksum of each relation's file; none = not looked at yet.
    kept: RefCell<Option<BTreeMap<RelationNumber, String>>>,
}

impl ViewCache {
    /// Writes what differs from what is there; the head last, so that a crash leaves no mixture that fits together.
    pub async fn keep<F: Files>(&self, files: &F, view: &Snapshot) {
        let before = match self.kept.take() {
            Some(kept) => kept,
            None => read_head(files).await.map_or_else(BTreeMap::new, |head| head.relations),
        };
        let mut relations = BTreeMap::new();
        for (relation, shown) in &view.relations {
            let (sum, file) = encode(shown);
            if before.get(relation) != Some(&sum) {
                files.cache(&name(*relation), Some(&file)).await;
            }
            relations.insert(*relation, sum);
        }
        let view = Snapshot { relations: BTreeMap::new(), ..view.clone() };
        let head = Head { relations, view };
        files.cache(HEAD, Some(&encode(&head).1)).await;
        for gone in before.keys().filter(|relation| !head.relations.contains_key(relation)) {
            files.cache(&name(*gone), None).await;
        }
        self.kept.replace(Some(head.relations));
    }

    /// The cached view; none when there is none that can be trusted.
    pub async fn load<F: Files>(files: &F) -> Option<Snapshot> {
        let head = read_head(files).await?;
        let mut view = head.view;
        for (relation, kept) in head.relations {
            let (sum, shown) = decode::<RelationView>(&files.read(&name(relation)).await.ok()??)?;
            (sum == kept).then_some(())?;
            view.relations.insert(relation, shown);
        }
        Some(view)
    }
}
