//! The architecture as a test: which crate may depend on which, the purity of the core, and the rules of one file each:
//! import cycles (`cycles.rs`), file sizes (`sizes.rs`) and replaced words (`words.rs`). Run it with `cargo tidy`.

mod cycles;
mod list;
mod modules;
mod sizes;
mod source;
mod words;

use source::{files, root};
use std::collections::BTreeMap;
use std::fs;

/// Names under `[dependencies]` of a member.
fn dependencies(member: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(member).join("Cargo.toml")).expect("members have a manifest");
    let section = text.split("\n[").find(|section| section.starts_with("dependencies]")).unwrap_or_default();
    let name = |line: &str| line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned();
    section.lines().skip(1).filter(|line| !line.trim().is_empty()).map(name).collect()
}

#[test]
fn arrows_point_only_towards_fewer_effects() {
    let own = ["state", "charms", "commands", "hook-client", "api", "agent", "controller", "cli", "tests"];
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("state", &[][..]),
        ("charms", &["state"]),
        ("hooks-tools/client", &[]),
        ("hooks-tools/commands", &["state"]),
        ("api", &["state"]),
        ("agent", &["state", "charms", "commands", "hook-client", "api"]),
        ("controller", &["state", "charms", "api"]),
        ("cli", &["state", "charms", "api"]),
    ]);
    for (member, may) in allowed {
        let used = dependencies(member).into_iter().filter(|name| own.contains(&name.as_str()));
        let wrong: Vec<String> = used.filter(|name| !may.contains(&name.as_str())).collect();
        assert!(wrong.is_empty(), "{member} may not depend on {wrong:?}");
    }
}

#[test]
fn the_core_depends_on_data_formats_and_a_digest_only() {
    assert_eq!(dependencies("state"), ["serde", "serde_json", "sha2"]);
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

/// The one variable of the core: which planted fault is chosen, in builds of the simulator only.
#[test]
fn ordinary_builds_have_no_planted_faults() {
    for path in files(&root().join("state/src")) {
        let text = fs::read_to_string(&path).expect("sources are text");
        let variables = text.matches("thread_local!").count() + text.matches("static mut").count();
        let allowed = text.matches("#[cfg(feature = \"mutants\")]\nthread_local!").count();
        assert!(variables == usize::from(path.ends_with("planted.rs")), "{}", path.display());
        assert_eq!(variables, allowed, "{}: only with the feature", path.display());
    }
    let members = ["state", "charms", "hooks-tools/commands", "api", "agent", "controller", "cli", "tests"];
    for member in members {
        let text =
            fs::read_to_string(root().join(member).join("Cargo.toml")).expect("members have a manifest");
        assert!(!text.contains("default = ["), "{member} has features that nobody asked for");
        let asks = text.contains("mutants") && member != "state";
        assert_eq!(asks, member == "tests", "{member} asks for planted faults");
    }
}

#[test]
fn no_literal_of_a_conformance_case_is_in_product_code() {
    for path in files(&root().join("hooks-tools/commands/src")) {
        let text = fs::read_to_string(&path).expect("sources are text");
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        let sample = path.ends_with("sample.rs");
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
