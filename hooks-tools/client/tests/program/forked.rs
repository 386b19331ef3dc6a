//! Tests of `pintle-hook --forked`, where a shell forks a hook and replaces itself by the shim, as the child of a warm parent
//! does; and of `pintle-hook --warm-parent`.

use super::{Folder, PROGRAM};
use hook_client::shim::{
    FORKED_ARGUMENT, FORKED_SHIM_WAITS, HOOK_PID, OUTCOME, OUTPUT, SHIM_PID, WARM_PARENT_ARGUMENT,
};
use std::fs;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};

/// Opening a FIFO blocks until both ends are open. The shell therefore first opens each FIFO for reading and writing (6, 7
/// and 8), so that neither the hook nor the shell blocks, and closes these once both have their own ends. The hook waits for
/// a line in `start`, and ends if the shim closes it.
const FORK: &str = r#"
mkfifo start out err
exec 6<>start 7<>out 8<>err
( exec 9<start 6>&-; read line <&9 || exit 1; HOOK ) >out 2>err 7>&- 8>&- &
hook=$!
exec 3<out 4<err 5>start
exec 6>&- 7>&- 8>&-
exec "$PROGRAM" --forked "$PWD" ./hook $hook
"#;

/// The shim of a forked hook that runs this script, with this gate.
fn fork(folder: &Folder, script: &str, gate: io::PipeReader) -> Child {
    fork_with(folder, script, gate, Stdio::null())
}

/// The same, with this socket of the run.
fn fork_with(folder: &Folder, script: &str, gate: io::PipeReader, socket: Stdio) -> Child {
    let script = FORK.replace("HOOK", script);
    Command::new("/bin/sh")
        .args(["-c", &script])
        .current_dir(&folder.0)
        .env("PROGRAM", PROGRAM)
        .env("JUJU_HOOK_NAME", "install")
        .stdin(gate)
        .stdout(Stdio::null())
        .stderr(socket)
        .spawn()
        .unwrap()
}

/// The outcome of a forked hook that runs this script, and what it has printed.
fn run(script: &str) -> (String, String) {
    let folder = Folder::new();
    let (gate, mut opener) = io::pipe().unwrap();
    opener.write_all(b"\n").unwrap();
    assert!(fork(&folder, script, gate).wait().unwrap().success());
    let read = |name: &str| fs::read_to_string(folder.0.join(name)).unwrap_or_default();
    for pid in [SHIM_PID, HOOK_PID] {
        assert_eq!(read(pid).split(' ').count(), 2, "{pid}");
    }
    (read(OUTCOME).trim_end().to_owned(), read(OUTPUT))
}

#[test]
fn the_outcome_and_the_output_of_a_forked_hook_are_stored() {
    assert_eq!(FORKED_ARGUMENT, "--forked");
    assert_eq!(run("echo out; exit 7"), ("exit 7".to_owned(), "stdout: out\n".to_owned()));
    assert_eq!(run("echo err >&2"), ("exit 0".to_owned(), "stderr: err\n".to_owned()));
    assert_eq!(run("kill -9 $(sh -c 'echo $PPID')").0, "signal 9");
}

#[test]
fn a_forked_hook_does_not_run_if_its_gate_is_closed() {
    let folder = Folder::new();
    let (gate, opener) = io::pipe().unwrap();
    let mut shim = fork(&folder, "echo ran >ran", gate);
    super::shim::until_recorded(&folder);
    drop(opener);
    assert!(!shim.wait().unwrap().success());
    for file in ["ran", HOOK_PID, OUTCOME] {
        assert!(!folder.0.join(file).exists(), "{file}");
    }
}

/// The agent opens the gate only after it has received the report of the shim, which therefore reports before it waits.
#[test]
fn the_shim_of_a_forked_hook_reports_that_it_waits() {
    let folder = Folder::new();
    let (mut reports, other_end) = std::os::unix::net::UnixStream::pair().unwrap();
    let (gate, mut opener) = io::pipe().unwrap();
    let mut shim = fork_with(&folder, "true", gate, std::os::fd::OwnedFd::from(other_end).into());
    let mut report = [0];
    reports.read_exact(&mut report).unwrap();
    assert_eq!(report, [FORKED_SHIM_WAITS]);
    opener.write_all(b"\n").unwrap();
    assert!(shim.wait().unwrap().success());
    assert_eq!(reports.read(&mut report).unwrap(), 0, "the socket is closed with the shim");
}

/// The hook was killed before it could run, for example because the host has no memory.
#[test]
fn a_forked_hook_that_has_ended_before_its_start_has_an_outcome() {
    let folder = Folder::new();
    let (gate, mut opener) = io::pipe().unwrap();
    let mut shim = fork(&folder, "true", gate);
    super::shim::until_recorded(&folder);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", shim.id())).unwrap();
    let hook = children.trim();
    assert!(Command::new("kill").args(["-9", hook]).status().unwrap().success());
    let stat = format!("/proc/{hook}/stat");
    while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    opener.write_all(b"\n").unwrap();
    assert!(shim.wait().unwrap().success());
    assert_eq!(fs::read_to_string(folder.0.join(OUTCOME)).unwrap().trim_end(), "signal 9");
}

/// Starts `/bin/sh` with this script as a warm parent that imports this file first.
fn start_warm_parent(folder: &Folder, imported: &str, probe: &str) -> std::process::Output {
    let (socket, _other_end) = std::os::unix::net::UnixStream::pair().unwrap();
    let script =
        "trap '' HUP; umask 0; exec 9</dev/null \"$PROGRAM\" \"$OPTION\" \"$1\" /bin/sh name -c \"$2\"";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "sh", imported, probe]).current_dir(&folder.0).env("PROGRAM", PROGRAM);
    command.env("OPTION", WARM_PARENT_ARGUMENT).stdin(std::os::fd::OwnedFd::from(socket));
    command.stderr(Stdio::null()).output().unwrap()
}

/// The process has the socket as file 3, an empty standard input, the output of its parent, and no other file; its umask,
/// limits, signals and name are those of a hook.
#[test]
fn a_warm_parent_inherits_what_a_hook_inherits() {
    let folder = Folder::new();
    fs::write(folder.0.join("imported"), "").unwrap();
    let probe = "ls -l /proc/$$/fd; umask; ulimit -S -c; grep SigIgn /proc/$$/status; echo $0; cat";
    let printed = String::from_utf8(start_warm_parent(&folder, "imported", probe).stdout).unwrap();
    let files: Vec<&str> =
        printed.lines().filter_map(|line| line.split_once(" -> ").map(|(_, to)| to)).collect();
    let [input, _, _, control] = files[..] else { panic!("{printed}") };
    assert_eq!((input, control.split(':').next()), ("/dev/null", Some("socket")));
    let rest: Vec<&str> =
        printed.lines().filter(|line| !line.contains(" -> ") && !line.starts_with("total")).collect();
    assert_eq!(rest, ["0022", "0", "SigIgn:\t0000000000000000", "name"]);
}

/// Without the file, the program would run the charm itself.
#[test]
fn a_warm_parent_is_not_started_without_the_file_that_it_imports_first() {
    let refused = start_warm_parent(&Folder::new(), "absent", "echo started");
    assert_eq!((refused.status.code(), refused.stdout), (Some(127), Vec::new()));
}
