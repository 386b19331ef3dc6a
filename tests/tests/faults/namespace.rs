//! Runs a test again in its own namespaces, where it is root and its changes are invisible to other processes.

use std::process::Command;

/// The environment variable that names the test that runs inside its namespace.
const INSIDE: &str = "PINTLE_TEST_INSIDE";

/// Runs a test again under `unshare` with these arguments; inside of it, runs `test`.
pub fn again_in(arguments: &[&str], name: &str, test: impl FnOnce()) {
    if std::env::var(INSIDE).is_ok_and(|inside| inside == name) {
        return test();
    }
    let this = std::env::current_exe().expect("a process knows its program");
    let again = Command::new("unshare")
        .args(arguments)
        .arg(this)
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, name)
        .output()
        .expect("unshare is there: tests/prerequisites.sh");
    let (stdout, stderr) = (String::from_utf8_lossy(&again.stdout), String::from_utf8_lossy(&again.stderr));
    assert!(again.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("1 passed"), "{stdout}");
}

/// Runs a test again in a mount namespace where it is root; inside of it, runs `test`.
pub fn with_mounts(name: &str, test: impl FnOnce()) {
    again_in(namespace(), name, test);
}

/// The arguments of `unshare` for a mount namespace: allowed for root, and for others if user namespaces are enabled.
fn namespace() -> &'static [&'static str] {
    let ways: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    let works = |way: &&&[&str]| {
        let tried = Command::new("unshare").args(**way).arg("true").output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    ways.iter().find(works).expect("make test needs mount namespaces: be root, or allow user namespaces")
}
