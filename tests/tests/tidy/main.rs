//! The architecture as a test: which crate may depend on which, the purity of the core, and the rules of one file each:
//! import cycles (`cycles.rs`), the order of the modules of the core (`module_order.rs`), dependencies
//! (`manifests.rs`), file sizes (`sizes.rs`), decisions in the controller (`handlers.rs`), tuples as arguments
//! (`arguments.rs`), reads of what may be no file (`reads.rs`), replaced words (`words.rs`)
//! and English in assertions (`english.rs`). Run it with `cargo tidy`.

mod arguments;
mod cycles;
mod english;
mod handlers;
mod list;
mod manifests;
mod module_order;
mod modules;
mod reads;
mod sizes;
mod source;
mod syntax;
mod words;

use manifests::{dependencies, optional_dependencies};
use source::{files, root};
use std::collections::BTreeMap;
use std::fs;

#[test]
fn arrows_point_only_towards_fewer_effects() {
    let own = [
        "state",
        "host",
        "charms",
        "commands",
        "hook-client",
        "api",
        "agent",
        "controller",
        "cli",
        "test-support",
        "tests",
    ];
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("state", &[][..]),
        ("host", &[]),
        ("charms", &["state", "host"]),
        ("hooks-tools/client", &[]),
        ("hooks-tools/commands", &["state"]),
        ("api", &["state"]),
        ("agent", &["state", "host", "charms", "commands", "hook-client", "api"]),
        ("controller", &["state", "host", "charms", "api"]),
        ("cli", &["state", "host", "charms", "api"]),
        ("tests/support", &["state", "controller"]),
    ]);
    for (member, may) in allowed {
        let all = dependencies(member).into_iter().chain(optional_dependencies(member));
        let used = all.filter(|name| own.contains(&name.as_str()));
        let wrong: Vec<String> = used.filter(|name| !may.contains(&name.as_str())).collect();
        assert!(wrong.is_empty(), "{member} may not depend on {wrong:?}");
    }
}

#[test]
fn the_core_depends_on_data_formats_and_digests_only() {
    assert_eq!(dependencies("state"), ["base64", "md-5", "serde", "serde_json", "sha2"]);
    assert_eq!(
        optional_dependencies("state"),
        ["schemars"],
        "only with the feature schema, which api enables"
    );
    assert!(dependencies("hooks-tools/client").is_empty(), "the tool client has no dependencies");
}

#[test]
fn the_core_has_no_effects() {
    let banned = [
        "std::fs",
        "std::net::Tcp",
        "std::process",
        "std::time",
        "std::env",
        "std::thread",
        "HashMap",
        "HashSet",
        "async fn",
        ".await",
        "println!",
        "SystemTime",
        "Instant::now",
    ];
    for path in files(&root().join("state/src")) {
        let text = fs::read_to_string(&path).expect("sources are text");
        for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let found = banned.iter().find(|word| line.contains(**word));
            assert!(found.is_none(), "{}:{}: {}", path.display(), n + 1, found.unwrap_or(&""));
        }
    }
}

/// Faults are rows of `tests/mutants`, which only generated sources contain.
#[test]
fn the_product_contains_no_mutants() {
    let client = "hooks-tools/client";
    for member in
        ["state", "host", "charms", client, "hooks-tools/commands", "api", "agent", "controller", "cli"]
    {
        let root = root().join(member);
        for path in files(&root.join("src")).into_iter().chain([root.join("Cargo.toml")]) {
            let text = fs::read_to_string(&path).expect("sources are text");
            assert!(!text.contains("mutant"), "{} names mutants", path.display());
            // the engine that a build may leave out with its dependencies
            let text = text.replace("default = [\"etcd\"]", "");
            assert!(!text.contains("default = ["), "{} has features that nobody asked for", path.display());
        }
    }
    for path in files(&root().join("state/src")) {
        let text = fs::read_to_string(&path).expect("sources are text");
        let has_variable = text.contains("thread_local!") || text.contains("static mut");
        assert!(!has_variable, "{}: the core has no variables", path.display());
    }
}

#[test]
fn no_literal_of_a_conformance_case_is_in_product_code() {
    for path in files(&root().join("hooks-tools/commands/src")) {
        let text = fs::read_to_string(&path).expect("sources are text");
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        let sample = path.ends_with("test_context.rs");
        for word in ["mysql", "pgsql", "haproxy", "10.0.1.10"] {
            assert!(sample || !product.contains(word), "{}: {word}", path.display());
        }
    }
}

#[test]
fn every_folder_is_on_the_map() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("there is a map");
    for entry in fs::read_dir(root()).expect("the repository is readable").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = entry.path().is_dir() && !name.starts_with('.') && name != "target";
        assert!(!is_ours || map.contains(&format!("{name}/")), "ARCHITECTURE.md does not mention {name}/");
    }
}
