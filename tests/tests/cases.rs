//! Every script of `tests/cases` does what it says. `UPDATE=1 cargo test` rewrites what they expect, after a change
//! of wording; the difference is what is reviewed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
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
fn every_case_does_what_it_says() {
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
            Err(_) => Some(format!("## {}\n  a promise of the core is broken, see above\n", case.title)),
        })
        .collect();
    assert!(differences.is_empty(), "{} cases differ\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn no_two_cases_have_one_name() {
    let mut titles: Vec<String> = cases().into_iter().map(|case| case.title).collect();
    titles.sort();
    let doubled: Vec<_> = titles.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(doubled.is_empty(), "{doubled:?}");
}

#[test]
fn a_case_that_expects_something_else_differs() {
    let text = "## a new unit\nlook\n----\nhook start\n= running\n";
    let case = &File::parse(text).unwrap().cases[0];
    let difference = case.run(&Fixtures::new()).unwrap().unwrap();
    assert_eq!(difference.found[0], "deploy local:u-1");
}

#[test]
fn a_case_that_expects_nothing_is_refused() {
    assert!(File::parse("## a new unit\nlook\n").is_err());
}

/// The scenarios of `spec/uniter.md` H are numbered from 1 to this.
const SCENARIOS: u32 = 187;

/// The rows of the README's table of what is no decision of the agent: what each is about, and where it is shown.
fn elsewhere() -> Vec<(String, String)> {
    let readme = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let (_, table) = readme.split_once("## Not here").expect("it says what is not here");
    let row = |line: &str| {
        let (about, place) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        Some((about.to_owned(), place.to_owned()))
    };
    table.lines().filter_map(row).collect()
}

/// `8, 9, 84 (unknown unit), 133 to 140`: what stands in parentheses is for people. A row about anything but scenarios
/// begins with a word.
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
fn every_scenario_of_the_spec_has_a_case_or_says_where_it_is_shown() {
    let titles = cases().into_iter().map(|case| case.title);
    let of_case = |title: String| title.strip_prefix("H.")?.split(' ').next()?.parse().ok();
    let here: Vec<u32> = titles.filter_map(of_case).collect();
    let there: Vec<u32> = elsewhere().iter().flat_map(|(about, _)| numbers(about)).collect();
    let known = |number: &u32| here.contains(number) || there.contains(number);
    let missing: Vec<u32> = (1..=SCENARIOS).filter(|number| !known(number)).collect();
    assert!(missing.is_empty(), "scenarios {missing:?} have neither a case nor a row in the README's table");
    let unknown: Vec<&u32> = here.iter().chain(&there).filter(|n| !(1..=SCENARIOS).contains(*n)).collect();
    assert!(unknown.is_empty(), "there are no scenarios {unknown:?}");
}

#[test]
fn the_files_that_are_said_to_show_a_scenario_are_there() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    for (about, place) in elsewhere() {
        let quoted = place.split('`').skip(1).step_by(2);
        let paths = quoted.filter(|path| path.contains('/'));
        let lost: Vec<&str> = paths.filter(|path| !root.join(path).exists()).collect();
        assert!(lost.is_empty(), "{about}: no {lost:?}");
    }
}
