//! The conflict test of all transitions: calls each at least once, and fails if `state` has one that was not called.

use super::*;
use std::fs;
use std::path::Path;

pub async fn every_read_of_every_transition_is_a_precondition<S: Store, G>(
    open: impl AsyncFn(u64) -> (S, G),
) {
    let (store, _guard) = open(10_000).await;
    let mut fixture = Fixture { store: &store, called: BTreeSet::new(), ids: Arc::new(AtomicU64::new(1000)) };
    users::build(&mut fixture).await;
    agents::run_units(&mut fixture).await;
    secrets::use_secrets(&mut fixture).await;
    storage::use_storage(&mut fixture).await;
    development::use_development_model(&mut fixture).await;
    removals::remove_subordinate(&mut fixture).await;
    removals::remove_all(&mut fixture).await;
    provisioning::provision(&mut fixture).await;
    forced::force_removal(&mut fixture).await;
    removals::destroy_model(&mut fixture).await;
    assert_eq!(fixture.called, transitions(), "the fixture calls every transition");
}

/// The modules of `state` that contain transitions.
const MODULES: [&str; 5] = ["documents", "lifecycle", "agents", "restore", "transitions"];

/// Functions that take a draft and need no call: steps of other transitions, and one that reads nothing.
const EXEMPT: [&str; 8] = [
    // writes nothing: it is called with a read only
    "leader_claim::require_claimant",
    // deletes documents that never change, without reading them
    "log_retention::delete",
    "machine::require_capacity",
    "model::require_alive",
    "relation::find",
    "sequence::advance_to",
    "sequence::take",
    "session::check_epoch",
];

/// The functions of [`MODULES`] that take a draft, except [`EXEMPT`].
fn transitions() -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    for module in MODULES {
        let folder = format!("{}/../state/src/{module}", env!("CARGO_MANIFEST_DIR"));
        found.extend(functions_of_drafts(Path::new(&folder)));
    }
    for name in EXEMPT {
        assert!(found.remove(name), "{name} does not take a draft any more: remove it from EXEMPT");
    }
    found.into_iter().map(|name| &*name.leak()).collect()
}

/// The free public functions with a parameter `draft: &mut` in the files of a folder and its sub-folders, as `file::name`.
fn functions_of_drafts(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("the folder exists").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(functions_of_drafts(&path));
            continue;
        }
        let Some(file) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".rs")) else {
            continue;
        };
        let text = fs::read_to_string(&path).expect("sources are text");
        for item in text.split("\npub fn ").skip(1) {
            let head = item.split('{').next().unwrap_or_default();
            if head.contains("draft: &mut ") {
                found.insert(format!("{file}::{}", head.split(['(', '<']).next().unwrap_or_default()));
            }
        }
    }
    found
}

#[test]
fn a_transition_in_a_sub_folder_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("below")).expect("it is new");
    let source = "\npub fn enter(draft: &mut Draft, id: Uuid) {}\npub fn shown(reader: &dyn Reader) {}\n";
    for file in ["scope.rs", "below/storage.rs"] {
        fs::write(folder.path().join(file), source).expect("it is new");
    }
    let expected = ["scope::enter", "storage::enter"].map(str::to_owned);
    assert_eq!(functions_of_drafts(folder.path()), BTreeSet::from(expected));
}
