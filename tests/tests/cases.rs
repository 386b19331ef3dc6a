//! Runs the scripted cases of `tests/cases`, and checks that every scenario of the spec has a case or a reference.
//!
//! `UPDATE=1 cargo test` rewrites the expected operations after a change of wording; the difference is reviewed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use tests::cases::{Case, File, Fixtures};

fn folder() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("cases");
    std::env::var_os("CASES").map_or(here, PathBuf::from)
}

fn fixtures() -> Fixtures {
    let text = std::fs::read_to_string(folder().join("fixtures.txt")).unwrap();
    File::parse(&text).unwrap().fixtures()
}

fn files() -> Vec<(PathBuf, File)> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "txt")).collect();
    paths.sort();
    let parse = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let file = File::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, file)
    };
    paths.into_iter().map(parse).collect()
}

fn cases() -> Vec<Case> {
    files().into_iter().flat_map(|(_, file)| file.cases).collect()
}

#[test]
fn every_case_performs_the_expected_operations() {
    let fixtures = fixtures();
    if std::env::var_os("UPDATE").is_some() {
        for (path, file) in files() {
            std::fs::write(&path, file.updated(&fixtures).unwrap()).unwrap();
        }
        return;
    }
    let differences: Vec<String> = cases()
        .iter()
        .filter_map(|case| match catch_unwind(AssertUnwindSafe(|| case.run(&fixtures))) {
            Ok(Ok(difference)) => difference.map(|difference| difference.to_string()),
            Ok(Err(error)) => Some(format!("{error}\n")),
            Err(_) => Some(format!("## {}\n  an assertion of the core failed, see above\n", case.title)),
        })
        .collect();
    assert!(differences.is_empty(), "{} cases differ\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn case_titles_are_unique() {
    let mut titles: Vec<String> = cases().into_iter().map(|case| case.title).collect();
    titles.sort();
    let doubled: Vec<_> = titles.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(doubled.is_empty(), "{doubled:?}");
}

#[test]
fn a_wrong_expectation_is_a_difference() {
    let text = "## a new unit\nrun\n----\nhook start\n= running\n";
    let case = &File::parse(text).unwrap().cases[0];
    let difference = case.run(&Fixtures::new()).unwrap().unwrap();
    assert_eq!(difference.found[0], "install charm local:u-1");
}

#[test]
fn a_case_without_expectation_is_rejected() {
    assert!(File::parse("## a new unit\nrun\n").is_err());
}

#[test]
fn a_command_without_an_effect_is_rejected() {
    for command in [
        "hook start reboots --nwo",
        "hook start rebootsnow",
        "remove action 7",
        "remove subordinate logging/0",
        "secret removed",
        "storage data/0 removed",
        "relation 0 removed",
    ] {
        let text = format!("## a new unit\n{command}\n----\n= running\n");
        File::parse(&text).unwrap().cases[0].run(&Fixtures::new()).expect_err(command);
    }
}

/// The scenarios of `spec/uniter.md` H are numbered from 1 to this.
const SCENARIOS: u32 = 187;

/// The rows of the README's table of scenarios tested elsewhere: the scenarios of each row, and the place of the test.
fn tested_elsewhere() -> Vec<(String, String)> {
    let readme = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let (_, table) = readme.split_once("## Scenarios tested elsewhere").expect("the README has the section");
    let row = |line: &str| {
        let (about, place) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        Some((about.to_owned(), place.to_owned()))
    };
    table.lines().filter_map(row).collect()
}

/// The scenario numbers of a row such as `8, 9, 84 (unknown unit), 133 to 140`, without the notes in parentheses. A row
/// that does not begin with a digit has none.
fn numbers(about: &str) -> Vec<u32> {
    if !about.starts_with(|first: char| first.is_ascii_digit()) {
        return Vec::new();
    }
    let mut words = String::new();
    let mut depth = 0;
    for letter in about.chars() {
        depth += i32::from(letter == '(');
        words.extend((depth == 0).then_some(letter));
        depth -= i32::from(letter == ')');
    }
    let words: Vec<&str> = words.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok());
    let of = |at: usize| match (number(at), words.get(at + 1), number(at + 2)) {
        (Some(from), Some(&"to"), Some(to)) => (from..=to).collect(),
        (from, ..) => from.into_iter().collect::<Vec<u32>>(),
    };
    (0..words.len()).flat_map(of).collect()
}

#[test]
fn every_scenario_of_the_spec_has_a_case_or_a_reference() {
    let titles = cases().into_iter().map(|case| case.title);
    let of_case = |title: String| title.strip_prefix("H.")?.split(' ').next()?.parse().ok();
    let is_unmarked = |title: &String| title.starts_with(|first: char| first.is_ascii_digit());
    let (unmarked, titles): (Vec<String>, Vec<String>) = titles.partition(is_unmarked);
    assert!(unmarked.is_empty(), "write H. before the number of a scenario: {unmarked:?}");
    let here: Vec<u32> = titles.into_iter().filter_map(of_case).collect();
    let there: Vec<u32> = tested_elsewhere().iter().flat_map(|(about, _)| numbers(about)).collect();
    let known = |number: &u32| here.contains(number) || there.contains(number);
    let missing: Vec<u32> = (1..=SCENARIOS).filter(|number| !known(number)).collect();
    assert!(missing.is_empty(), "scenarios {missing:?} have neither a case nor a row in the README's table");
    let unknown: Vec<&u32> = here.iter().chain(&there).filter(|n| !(1..=SCENARIOS).contains(*n)).collect();
    assert!(unknown.is_empty(), "there are no scenarios {unknown:?}");
}

#[test]
fn referenced_test_files_exist() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    for (about, place) in tested_elsewhere() {
        let quoted = place.split('`').skip(1).step_by(2);
        let paths = quoted.filter(|path| path.contains('/'));
        let lost: Vec<&str> = paths.filter(|path| !root.join(path).exists()).collect();
        assert!(lost.is_empty(), "{about}: no {lost:?}");
    }
}

/// The identifiers of tests that a text names: those in backquotes that are no path and no file.
fn named_tests(place: &str) -> Vec<&str> {
    let quoted = place.split('`').skip(1).step_by(2);
    quoted.filter(|name| !name.contains(['/', '.']) && name.contains(['_', '-'])).collect()
}

/// The sources below a folder, without what is built.
fn sources(folder: &Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let (path, name) = (entry.path(), entry.file_name());
        let is_source = path.extension().is_some_and(|extension| extension == "rs" || extension == "yaml");
        if entry.file_type().unwrap().is_dir() && name != "target" && name != "compat" {
            sources(&path, into);
        } else if is_source {
            into.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// A row of a table proves nothing: the tests that it names must exist, as functions or as conformance cases.
#[test]
fn every_scenario_that_is_tested_elsewhere_names_its_tests() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all = String::new();
    for part in ["state", "agent", "controller", "hooks-tools", "host", "charms", "tests"] {
        sources(&root.join(part), &mut all);
    }
    let exists = |name: &&str| {
        all.contains(&format!("fn {name}("))
            || all.contains(&format!("id: {name}\n"))
            || all.contains(&format!("{{id: {name},"))
    };
    for (about, place) in tested_elsewhere().iter().filter(|(about, _)| !numbers(about).is_empty()) {
        let (tests, _) = place.split_once(" | ").unwrap_or_else(|| panic!("{about}: no column of tests"));
        let names = named_tests(tests);
        assert!(!names.is_empty(), "{about}: no test is named");
        let lost: Vec<_> = names.iter().filter(|name| !exists(name)).collect();
        assert!(lost.is_empty(), "{about}: there are no tests {lost:?}");
    }
}
