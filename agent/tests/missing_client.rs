//! A machine agent without `pintle-hook` beside `pintle-agent` fails at once, before a unit agent would.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The stderr of `pintle-agent`, alone in a folder, for these arguments, which must fail.
fn run_failing(dir: &Path, args: &[&str]) -> String {
    let program = dir.join("pintle-agent");
    fs::copy(env!("CARGO_BIN_EXE_pintle-agent"), &program).expect("copied");
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().expect("it runs");
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn a_machine_agent_without_the_hook_client_does_not_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = dir.path().join("data");
    fs::create_dir(&data).expect("made");
    let missing = format!("{} is missing", dir.path().join("pintle-hook").display());
    let id = "00000000-0000-4000-8000-000000000005";
    let data = data.to_str().expect("text");
    for args in [&["machine", "--data", data][..], &["enrol", "127.0.0.1:1", "here", id, id, "0"]] {
        let stderr = run_failing(dir.path(), args);
        assert!(stderr.contains(&missing), "{args:?}: {stderr}");
    }
}
