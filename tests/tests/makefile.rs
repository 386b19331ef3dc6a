//! The Makefile finds the programs in the folder into which cargo has put them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tests::host::programs;

/// Stands for cargo, whose output is in `$CARGO_TARGET_DIR`: records its arguments, and runs the demo only to name the folder.
const CARGO: &str = r#"#!/bin/sh
echo "$1" >> "$CARGO_TARGET_DIR/calls"
[ "$1" = run ] || exit 0
while [ "$1" != -- ]; do shift; done
shift
[ $# = 0 ] || exec "$CARGO_TARGET_DIR/debug/demo" "$@"
"#;

#[test]
fn make_uses_the_programs_in_the_target_folder_that_the_environment_names() {
    let outer = tempfile::tempdir().expect("there is room for a test");
    let target = outer.path().canonicalize().expect("it exists").join("elsewhere");
    let debug = target.join("debug");
    fs::create_dir_all(&debug).expect("the folder is new");
    // a program finds its folder by its own file, so that a link would lead back
    fs::copy(programs().join("demo"), debug.join("demo")).expect("it was built");
    fs::write(debug.join("pintle"), "").expect("the folder is new");
    let cargo = outer.path().join("cargo");
    fs::write(&cargo, CARGO).expect("the folder is new");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let make = |goal: &str| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut command = Command::new("make");
        command.args(["-s", goal, &format!("CARGO={}", cargo.display())]).current_dir(root);
        let output = command.env("CARGO_TARGET_DIR", &target).output().expect("make is installed");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(Path::new(make("programs").trim_end()), debug);
    make("demo");
    let calls = fs::read_to_string(target.join("calls")).expect("it ran");
    assert_eq!(calls.lines().collect::<Vec<_>>(), ["run", "build", "run"]);
}
