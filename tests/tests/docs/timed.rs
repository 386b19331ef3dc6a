//! Tests `tests/timed.sh`, through which `make test` runs the suites: it prints the ten slowest at the end.

use super::root;
use std::fs;
use std::process::Command;

#[test]
fn the_slowest_suites_are_named_at_the_end_and_the_status_is_kept() {
    let folder = tempfile::tempdir().expect("there is room for a test");
    let mut output = String::from("   Doc-tests api\ntest result: ok. 0 passed; finished in 7.50s\n");
    for n in 0..11 {
        let line =
            format!("     Running tests/s{n}/main.rs (target/debug/deps/suite_{n}-0123456789abcdef)\n");
        output.push_str(&line);
        output.push_str(&format!("test result: FAILED. 1 passed; 1 failed; finished in {n}.25s\n"));
    }
    let file = folder.path().join("output");
    fs::write(&file, &output).expect("there is room for a test");
    let script = format!("cat {}; exit 101", file.display());
    let timed = Command::new(root().join("tests/timed.sh")).args(["sh", "-c", &script]).output();
    let timed = timed.expect("there is a shell");
    assert_eq!(timed.status.code(), Some(101));
    let printed = String::from_utf8(timed.stdout).expect("text");
    let last = printed.strip_prefix(&output).expect("the output of the command comes first");
    let suites: Vec<&str> = last.lines().skip(1).filter_map(|line| line.split("  ").last()).collect();
    let named = |suites: &[u32]| suites.iter().map(|n| format!("suite_{n}")).collect::<Vec<_>>();
    let expected = [named(&[10, 9, 8]), vec!["api (doc)".to_owned()], named(&[7, 6, 5, 4, 3, 2])].concat();
    assert_eq!(suites, expected);
}
