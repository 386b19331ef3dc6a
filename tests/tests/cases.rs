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
