//! The top-level modules of the core are ordered: each imports only the modules before it.
//!
//! A decision in one module can then be understood without the modules after it, and no two of them depend on each
//! other.

use super::modules::{Uses, uses};
use super::source::{root, sources};
use std::fs;

/// The modules of `state/src`, from the one that imports no other to those that no other imports.
const MODULES: [&str; 12] = [
    "charm",
    "terms",
    "unit",
    "machine",
    "documents",
    "lifecycle",
    "agents",
    "restore",
    "views",
    "transitions",
    "status",
    "why",
];

/// The position of the module of a file in the order; none for the root and the tests of the core.
fn position(file: &str) -> Option<usize> {
    let below = file.strip_prefix("state/src/")?;
    let name = below.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    MODULES.iter().position(|module| *module == name)
}

/// The imports of a later module, one per line.
fn upward_imports(uses: &Uses) -> Vec<String> {
    let pairs = uses.iter().flat_map(|(file, used)| used.iter().map(move |other| (file, other)));
    let is_upward = |(file, other): &(&String, &String)| match (position(file), position(other)) {
        (Some(importer), Some(imported)) => importer < imported,
        (None, _) | (_, None) => false,
    };
    pairs.filter(is_upward).map(|(file, other)| format!("{file} imports {other}")).collect()
}

#[test]
fn modules_of_the_core_import_only_modules_before_them() {
    let found = upward_imports(&uses(&sources()));
    assert!(
        found.is_empty(),
        "against the order {}:\n{}\nhint: move what the lower module needs into it, or into one below both",
        MODULES.join(", "),
        found.join("\n")
    );
}

#[test]
fn every_module_of_the_core_has_a_place_in_the_documented_order() {
    let library = fs::read_to_string(root().join("state/src/lib.rs")).expect("the core has a root");
    let mut declared: Vec<&str> =
        library.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let mut modules = MODULES.to_vec();
    declared.sort_unstable();
    modules.sort_unstable();
    assert_eq!(declared, modules, "each module of state/src/lib.rs has a place in the order");
    let order = MODULES.map(|module| format!("`{module}`")).join(" < ");
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("there is a map");
    for (name, text) in [("ARCHITECTURE.md", &map), ("state/src/lib.rs", &library)] {
        let text = text.replace("//! ", "").replace('\n', " ");
        assert!(text.contains(&order), "{name} does not contain the order {order}");
    }
}

#[test]
fn an_upward_import_is_found() {
    let uses = |from: &str, to: &str| Uses::from([(from.to_owned(), [to.to_owned()].into())]);
    let (low, high) = ("state/src/terms/life.rs", "state/src/unit/local.rs");
    assert_eq!(upward_imports(&uses(low, high)).len(), 1);
    assert_eq!(upward_imports(&uses(high, low)).len(), 0);
    assert_eq!(upward_imports(&uses("state/src/tests/views.rs", high)).len(), 0);
    assert_eq!(upward_imports(&uses("state/src/charm/options.rs", "state/src/why/mod.rs")).len(), 1);
}
