//! No files import each other in a cycle, except three lifecycles, which are mutually recursive.
//!
//! A change in one file of a cycle can affect all of its files, so that none can be read, tested or moved alone.

use super::modules::{Uses, uses};
use super::source::sources;
use std::collections::BTreeSet;

/// The removal of a unit can remove its application, that of the application its relations, and that of a relation the
/// memberships of units.
const LIFECYCLES: [&str; 3] = ["application.rs", "relation.rs", "unit.rs"];

/// The files that a file imports, directly or through others.
fn reached<'a>(uses: &'a Uses, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&str> =
        uses.get_key_value(from).map(|(file, _)| file.as_str()).into_iter().collect();
    while let Some(file) = waiting.pop() {
        let used = uses.get(file).into_iter().flatten().map(String::as_str);
        waiting.extend(used.filter(|next| found.insert(*next)));
    }
    found
}

/// The cycles: sets of files in which each file reaches every other one.
fn cycles(uses: &Uses) -> BTreeSet<BTreeSet<&str>> {
    let reach: Vec<(&str, BTreeSet<&str>)> =
        uses.keys().map(|file| (file.as_str(), reached(uses, file))).collect();
    let mut found = BTreeSet::new();
    for (file, reached) in reach.iter().filter(|(file, reached)| reached.contains(file)) {
        let back = reach.iter().filter(|(other, back)| reached.contains(other) && back.contains(file));
        found.insert(back.map(|(other, _)| *other).collect());
    }
    found
}

/// Whether a cycle is the mutual recursion of lifecycles in the core.
fn is_of_lifecycles(cycle: &BTreeSet<&str>) -> bool {
    let is_lifecycle = |file: &&str| {
        file.strip_prefix("state/src/lifecycle/").is_some_and(|name| LIFECYCLES.contains(&name))
    };
    cycle.iter().all(is_lifecycle)
}

/// The imports within a cycle, one line per file.
fn drawn(uses: &Uses, cycle: &BTreeSet<&str>) -> String {
    let line = |file: &&str| {
        let used: Vec<&str> =
            uses[*file].iter().map(String::as_str).filter(|other| cycle.contains(other)).collect();
        format!("  {file} -> {}\n", used.join(", "))
    };
    cycle.iter().map(line).collect()
}

#[test]
fn no_files_import_each_other_in_a_cycle() {
    let uses = uses(&sources());
    let cycles = cycles(&uses).into_iter().filter(|cycle| !is_of_lifecycles(cycle));
    let cycles: Vec<String> = cycles.map(|cycle| drawn(&uses, &cycle)).collect();
    assert!(
        cycles.is_empty(),
        "files import each other in a cycle:\n{}\nhint: move what both need into a file of its own",
        cycles.join("\n")
    );
}

#[test]
fn every_cycle_is_found_and_only_that_of_the_lifecycles_is_allowed() {
    let uses = |pairs: &[(&str, &str)]| {
        let mut uses = Uses::new();
        for (from, to) in pairs {
            uses.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            uses.entry((*to).to_owned()).or_default();
        }
        uses
    };
    let three = uses(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]);
    assert_eq!(cycles(&three), BTreeSet::from([BTreeSet::from(["b", "c"])]));
    let allowed = |files: [&'static str; 2]| is_of_lifecycles(&BTreeSet::from(files));
    assert!(allowed(["state/src/lifecycle/unit.rs", "state/src/lifecycle/relation.rs"]));
    assert!(!allowed(["state/src/lifecycle/unit.rs", "state/src/lifecycle/machine.rs"]));
    assert!(!allowed(["state/src/model/unit.rs", "state/src/unit/relation.rs"]));
    assert!(!allowed(["state/src/why/unit.rs", "state/src/why/relation.rs"]));
}
