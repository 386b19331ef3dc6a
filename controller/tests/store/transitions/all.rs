//! All transitions, in the order in which the fixture calls them.

use super::*;

pub async fn every_read_of_every_transition_is_a_precondition<S: Store, G>(
    open: impl AsyncFn(u64) -> (S, G),
) {
    let (store, _guard) = open(10_000).await;
    let mut fixture = Fixture { store: &store, called: BTreeSet::new(), ids: Arc::new(AtomicU64::new(1000)) };
    users::build(&mut fixture).await;
    agents::live(&mut fixture).await;
    secrets::use_secrets(&mut fixture).await;
    storage::use_storage(&mut fixture).await;
    development::develop(&mut fixture).await;
    removals::end_subordinate(&mut fixture).await;
    removals::end(&mut fixture).await;
    provisioning::provision(&mut fixture).await;
    forced::force_removal(&mut fixture).await;
    removals::destroy_model(&mut fixture).await;
    assert_eq!(fixture.called, transitions(), "the fixture calls every transition");
}

/// Returns the public functions of `state` that take a draft, except those that are steps of others.
fn transitions() -> BTreeSet<&'static str> {
    const PARTS: &[&str] = &[
        // deletes documents that never change, without reading them
        "log_retention::delete",
        "machine::require_capacity",
        "model::require_alive",
        "relation::find",
        "sequence::advance_to",
        "sequence::take",
        "session::check_epoch",
    ];
    let (mut found, mut parts) = (BTreeSet::new(), BTreeSet::new());
    for module in ["documents", "lifecycle", "agents", "restore", "transitions"] {
        let dir = format!("{}/../state/src/{module}", env!("CARGO_MANIFEST_DIR"));
        for entry in std::fs::read_dir(dir).expect("the modules of the core exist").flatten() {
            let path = entry.path();
            let Some(file) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".rs")) else {
                continue;
            };
            let text = std::fs::read_to_string(&path).expect("sources are text");
            for item in text.split("\npub fn ").skip(1) {
                let head = item.split('{').next().unwrap_or_default();
                let name = format!("{file}::{}", head.split(['(', '<']).next().unwrap_or_default());
                let part = PARTS.iter().copied().find(|part| *part == name);
                match (head.contains("draft: &mut "), part) {
                    (true, Some(part)) => drop(parts.insert(part)),
                    (true, None) => drop(found.insert(&*name.leak())),
                    (false, _) => {}
                }
            }
        }
    }
    assert_eq!(
        parts,
        BTreeSet::from_iter(PARTS.iter().copied()),
        "no such function takes a draft any more: remove it from PARTS"
    );
    found
}
