//! The list of tests, and parts of tests, that cannot run on this host. `make test` prints it at its end.
//!
//! Included as a file by crates whose tests cannot depend on this crate.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Records that a test, or a part of it, cannot run on this host, and why.
pub fn skip(test: &str, reason: &str) {
    let this = std::env::current_exe().expect("a process knows its program");
    note(&target(&this).join("skipped-tests"), test, reason);
}

/// The folder of cargo's artifacts: a test is in `deps` of a profile's folder, a program in the profile's folder.
fn target(program: &Path) -> PathBuf {
    let mut profile = program.parent().expect("programs lie in folders");
    if profile.ends_with("deps") {
        profile = profile.parent().expect("deps has a parent");
    }
    profile.parent().expect("a profile has a parent").to_path_buf()
}

fn note(list: &Path, test: &str, reason: &str) {
    let mut file = File::options().create(true).append(true).open(list).expect("target is writable");
    file.write_all(format!("{test}: {reason}\n").as_bytes()).expect("target has room");
}

#[test]
fn every_skipped_test_is_named_with_its_reason() {
    let list = std::env::temp_dir().join(format!("pintle-test-skipped-{}", std::process::id()));
    note(&list, "first", "root");
    note(&list, "second", "hosts");
    let named = std::fs::read_to_string(&list).expect("the list was written");
    std::fs::remove_file(&list).expect("it is ours");
    let lines: Vec<&str> = named.lines().collect();
    assert_eq!(lines, ["first: root", "second: hosts"]);
    for program in ["/target/debug/deps/agent-0", "/target/debug/pintle"] {
        assert_eq!(target(Path::new(program)), Path::new("/target"), "{program}");
    }
}
