//! The table of mutants: every row applies to the current product, and names an existing check and existing numbers of
//! the fault profile.

use mutants::{table, tree};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tests::sim::checks::Checks;
use tests::sim::mutants::Mutant;
use tests::sim::profile::FaultProfile;

/// The number of mutants of the product and of the simulator's ports, so that no mutant is removed by accident.
const MUTANTS: usize = 175;

#[test]
fn no_mutant_is_lost() {
    assert_eq!(table::mutants().len() + Mutant::SIMULATOR_MUTANTS.len(), MUTANTS);
    let names: BTreeSet<&str> = table::mutants().iter().map(|mutant| mutant.name.as_str()).collect();
    assert_eq!(names.len(), table::mutants().len(), "names are unique");
}

#[test]
fn the_original_code_of_every_row_occurs_exactly_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files: BTreeSet<&str> = table::mutants().iter().map(|mutant| mutant.file.as_str()).collect();
    let broken = files.into_iter().filter_map(|file| {
        let source = fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"));
        source.and_then(|source| tree::mutated(file, &source).map_err(|error| format!("{error:#}"))).err()
    });
    let broken: Vec<String> = broken.collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_row_changes_something_and_is_described() {
    for mutant in table::mutants() {
        assert!(mutant.changes().all(|(code, instead)| code != instead), "{}", mutant.name);
        assert!(mutant.about.ends_with('.'), "{}: describe it in one sentence", mutant.name);
    }
}

#[test]
fn every_mutant_names_a_check_and_numbers_of_the_profile() {
    let checks = Checks::names();
    let rows = (0..table::mutants().len()).map(Mutant::Product);
    for mutant in Mutant::SIMULATOR_MUTANTS.into_iter().chain(rows) {
        assert!(checks.contains(&mutant.target()), "{}: no check {}", mutant.name(), mutant.target());
    }
    for mutant in table::mutants() {
        let unknown = mutant.mix.keys().find(|name| !FaultProfile::NAMES.contains(&name.as_str()));
        assert_eq!(unknown, None, "{}", mutant.name);
    }
}
