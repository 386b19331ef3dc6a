//! The manifests: every dependency is used, and every version is in the one table of the workspace.
//!
//! Whether a dependency is used is decided by its name in the sources, which needs no tool and no build.

use super::source::{files, root};
use std::collections::BTreeMap;
use std::fs;

const MEMBERS: [&str; 12] = [
    "state",
    "host",
    "charms",
    "hooks-tools/client",
    "hooks-tools/commands",
    "api",
    "agent",
    "controller",
    "cli",
    "tests",
    "tests/support",
    "tests/mutants",
];

/// The dependencies in a section of a manifest: name and line.
fn section(folder: &str, title: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("members have a manifest");
    let section = text.split("\n[").find_map(|section| section.strip_prefix(&format!("{title}]\n")));
    let lines = section.unwrap_or_default().lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let name = |line: &str| line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned();
    lines.map(|line| (name(line), line.to_owned())).collect()
}

/// The names under `[dependencies]` of a member, without optional ones.
pub fn dependencies(member: &str) -> Vec<String> {
    named_dependencies(member, false)
}

/// The names of the optional dependencies of a member: none of its features is on by default.
pub fn optional_dependencies(member: &str) -> Vec<String> {
    named_dependencies(member, true)
}

fn named_dependencies(member: &str, optional: bool) -> Vec<String> {
    let all = section(member, "dependencies").into_iter();
    let asked = all.filter(|(_, line)| line.contains("optional = true") == optional);
    asked.map(|(name, _)| name).collect()
}

/// All sources of a member in these of its folders.
fn text(member: &str, folders: &[&str]) -> String {
    let folders = folders.iter().map(|folder| root().join(member).join(folder)).filter(|path| path.exists());
    let files = folders.flat_map(|folder| files(&folder));
    files.map(|file| fs::read_to_string(file).expect("sources are text")).collect()
}

#[test]
fn every_dependency_is_used() {
    for member in MEMBERS {
        let (product, all) = (text(member, &["src"]), text(member, &["src", "tests", "benches"]));
        for (kind, text) in [("dependencies", &product), ("dev-dependencies", &all)] {
            for (name, _) in section(member, kind) {
                // a library that does not have the name of its package
                let path = if name == "md-5" { "md5".to_owned() } else { name.replace('-', "_") };
                let is_used = ["::", "!", ";"].iter().any(|end| text.contains(&format!("{path}{end}")));
                assert!(is_used, "{member} does not use {name} of its {kind}");
            }
        }
    }
}

#[test]
fn every_version_is_in_the_table_of_the_workspace() {
    let mut used = Vec::new();
    for member in MEMBERS {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (name, line) in section(member, kind) {
                assert!(line.contains("workspace = true"), "{member} has a version of its own: {line}");
                used.push(name);
            }
        }
    }
    for (name, _) in section(".", "workspace.dependencies") {
        assert!(used.contains(&name), "no crate uses {name} of the table of the workspace");
    }
}

/// A number that wraps hides newer documents. The programs of a release are not those of the tests, so that no test would
/// find it.
#[test]
fn released_programs_stop_at_an_overflow() {
    let profile = |name| section(".", &format!("profile.{name}")).into_iter().collect::<BTreeMap<_, _>>();
    let (checks, inherits) = ("overflow-checks", "inherits");
    assert_eq!(profile("release").get(checks).map(String::as_str), Some("overflow-checks = true"));
    for inheriting in ["dist", "sim"] {
        let profile = profile(inheriting);
        assert_eq!(profile.get(inherits).map(String::as_str), Some("inherits = \"release\""), "{inheriting}");
        assert_eq!(profile.get(checks), None, "{inheriting}");
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace has a manifest");
    let settings = manifest.lines().filter(|line| line.starts_with(checks));
    assert_eq!(settings.count(), 1, "a package has no setting of its own");
}
