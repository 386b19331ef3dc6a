//! Tests of `pintle-hook --shim`: what it leaves in the folder of the run, and what its hook inherits.

use super::{Folder, PROGRAM};
use hook_client::shim::{
    HOOK_PID, OUTCOME, OUTPUT, OUTPUT_BYTES_MAX, SHIM_ARGUMENT, SHIM_PID, STDERR_LEFT_OUT, STDOUT_LEFT_OUT,
    STREAM_BYTES_MAX,
};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The folder of a run, and the shim of a hook that is a shell script.
fn shim(script: &str) -> (Folder, Command) {
    let folder = Folder::new();
    let program = write_script(&folder.0.join("hook"), script);
    let command = command(&folder, &program);
    (folder, command)
}

fn command(folder: &Folder, program: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg(SHIM_ARGUMENT).arg(&folder.0).arg(program).current_dir(&folder.0);
    let (gate, mut opener) = io::pipe().unwrap();
    opener.write_all(b"\n").unwrap();
    command.env("JUJU_HOOK_NAME", "install").stdin(gate).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Waits until a shim has recorded itself.
pub fn until_recorded(folder: &Folder) {
    let started = Instant::now();
    while !folder.0.join(SHIM_PID).exists() {
        assert!(started.elapsed() < Duration::from_secs(20), "it records itself");
        std::thread::yield_now();
    }
}

/// Another process writes the script: a file that a child of another test has open for writing cannot be executed.
fn write_script(program: &Path, script: &str) -> PathBuf {
    let write = "printf '#!/bin/sh\n%s\n' \"$2\" >\"$1\" && chmod 755 \"$1\"";
    let written = Command::new("/bin/sh").args(["-c", write, "sh"]).arg(program).arg(script).status();
    assert!(written.unwrap().success());
    program.to_path_buf()
}

/// Runs a hook. Returns the folder of the run.
fn run(script: &str) -> Folder {
    let (folder, mut shim) = shim(script);
    assert!(shim.status().unwrap().success());
    folder
}

impl Folder {
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The outcome without the blanks that may follow.
    fn outcome(&self) -> String {
        self.read(OUTCOME).trim_end().to_owned()
    }
}

fn kill(pid: &str) {
    assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success(), "{pid} is alive");
}

#[test]
fn a_hook_does_not_run_if_its_gate_is_closed() {
    for program in ["hook", "missing"] {
        let (folder, _) = shim("echo started >started");
        let (gate, opener) = io::pipe().unwrap();
        let mut shim = command(&folder, &folder.0.join(program)).stdin(gate).spawn().unwrap();
        until_recorded(&folder);
        drop(opener);
        assert!(!shim.wait().unwrap().success());
        for file in ["started", HOOK_PID, OUTCOME] {
            assert!(!folder.0.join(file).exists(), "{program}: {file}");
        }
    }
}

#[test]
fn a_hook_runs_once_its_gate_is_open() {
    let (folder, mut shim) = shim("[ -e opened ]");
    let (gate, mut opener) = io::pipe().unwrap();
    let mut shim = shim.stdin(gate).spawn().unwrap();
    until_recorded(&folder);
    fs::write(folder.0.join("opened"), "").unwrap();
    opener.write_all(b"\n").unwrap();
    assert!(shim.wait().unwrap().success());
    assert_eq!(folder.outcome(), "exit 0");
}

#[test]
fn the_outcome_is_the_exit_code_or_the_signal() {
    assert_eq!(run("exit 7").outcome(), "exit 7");
    assert_eq!(run("kill -9 $$").outcome(), "signal 9");
    assert_eq!(run("kill -34 $$").outcome(), "signal 34");
}

#[test]
fn a_hook_that_cannot_be_started_is_refused_with_the_error() {
    let folder = Folder::new();
    let missing = folder.0.join("missing");
    assert!(command(&folder, &missing).status().unwrap().success());
    assert_eq!(folder.outcome(), format!("failed 2 fork/exec {}", missing.display()));
    let no_program = folder.0.join("no-program");
    fs::write(&no_program, "text").unwrap();
    fs::set_permissions(&no_program, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(command(&folder, &no_program).status().unwrap().success());
    assert_eq!(folder.outcome(), format!("failed 8 fork/exec {}", no_program.display()));
}

/// A pid file holds pid and start time. No temporary file is left.
#[test]
fn the_pid_files_name_the_shim_and_the_hook() {
    let (folder, mut shim) =
        shim("cat shim.pid; until [ -e hook.pid ]; do :; done; cut -d' ' -f 1,4,5,22 /proc/$$/stat");
    let mut child = shim.spawn().unwrap();
    assert!(child.wait().unwrap().success());
    let output = folder.read(OUTPUT);
    let mut lines = output.lines().map(|line| line.strip_prefix("stdout: ").unwrap());
    let recorded = folder.read(SHIM_PID);
    assert_eq!(lines.next().unwrap(), recorded.trim(), "it is written before the hook starts");
    assert_eq!(recorded.split(' ').next().unwrap(), child.id().to_string());
    let fields: Vec<&str> = lines.next().unwrap().split(' ').collect();
    let [pid, parent, group, start] = fields[..] else { panic!("{output}") };
    assert_eq!(folder.read(HOOK_PID), format!("{pid} {start}\n"));
    assert_eq!(
        (parent, group),
        (child.id().to_string().as_str(), pid),
        "its shim is its parent, it leads a group"
    );
    let mut names: Vec<_> = fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["hook", HOOK_PID, OUTCOME, OUTPUT, SHIM_PID]);
    for name in [HOOK_PID, OUTCOME, OUTPUT, SHIM_PID] {
        let mode = fs::metadata(folder.0.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn each_line_of_output_has_its_stream_in_front_and_no_control_characters() {
    let folder = run("printf 'one\\n\\ttwo \\033[1m\\n'; sleep 0.05; printf '\\377three' >&2");
    let output = folder.read(OUTPUT);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines, ["stdout: one", "stdout: \ttwo \\u{1b}[1m", "stderr: \u{fffd}three"]);
    assert!(!folder.0.join("stdout").exists(), "only the output of actions is kept unmodified");
}

#[test]
fn a_long_line_is_split_after_4096_bytes() {
    let folder = run("head -c 10000 /dev/zero | tr '\\0' x; echo; echo end");
    let output = folder.read(OUTPUT);
    let lengths: Vec<usize> =
        output.lines().map(|line| line.strip_prefix("stdout: ").unwrap().len()).collect();
    assert_eq!(lengths, [4096, 4096, 1808, 3]);
}

/// Scenario 158. The amount that is reported is also bounded, by the agent.
#[test]
fn a_bounded_part_of_a_hooks_output_is_kept() {
    let folder = run("head -c 10000000 /dev/zero | tr '\\0' x; head -c 10000000 /dev/zero | tr '\\0' x >&2");
    assert_eq!(folder.outcome(), "exit 0");
    let output = folder.read(OUTPUT);
    let discarded = |line: &str| line.strip_prefix("stderr: ")?.split(' ').next()?.parse::<usize>().ok();
    let note = output.lines().find_map(discarded).expect("it says how much was discarded");
    let entries_kept = output.lines().filter(|line| discarded(line).is_none());
    let kept: usize = entries_kept.map(|line| line.len() + 1).sum();
    assert!(kept < OUTPUT_BYTES_MAX && kept > OUTPUT_BYTES_MAX - 2 * 64_000, "{kept} bytes");
    // lines of 4096 bytes, with the name of the stream in front
    let entries = 2 * (10_000_000 + 10_000_000_usize.div_ceil(4096) * ("stdout: ".len() + 1));
    assert_eq!(note, entries - kept);
    // The bound applies to the escaped text.
    let escaped = run("head -c 3000000 /dev/zero").read(OUTPUT);
    assert!(escaped.len() < OUTPUT_BYTES_MAX, "{} bytes", escaped.len());
}

/// The end of the output says why a hook has failed.
#[test]
fn the_beginning_and_the_end_of_a_flood_are_kept() {
    let folder = run("echo first; yes | head -c 30000000; echo Traceback >&2; echo why >&2");
    let output = folder.read(OUTPUT);
    assert!(output.starts_with("stdout: first\n"));
    let last = output.lines().rev().take(2).map(|line| line.trim_start_matches("stderr: "));
    assert_eq!(last.collect::<Vec<_>>(), ["why", "Traceback"]);
    assert!(output.len() < OUTPUT_BYTES_MAX + 100);
}

#[test]
fn the_output_of_an_action_is_kept_unmodified_up_to_its_bound() {
    let (folder, mut shim) =
        shim("printf 'a\\033\\377'; echo HEAD >&2; head -c 5000000 /dev/zero >&2; printf 'TAIL\\377' >&2");
    assert!(shim.env("JUJU_HOOK_NAME", "").status().unwrap().success());
    assert_eq!(fs::read(folder.0.join("stdout")).unwrap(), b"a\x1b\xff");
    assert!(!folder.0.join(STDOUT_LEFT_OUT).exists(), "it is complete");
    let stderr = fs::read(folder.0.join("stderr")).unwrap();
    assert!(stderr.starts_with(b"HEAD\n\0") && stderr.ends_with(b"\0TAIL\xff"), "{} bytes", stderr.len());
    assert!(stderr.len() <= STREAM_BYTES_MAX && stderr.len() >= STREAM_BYTES_MAX - 32 * 1024);
    let left_out: usize = folder.read(STDERR_LEFT_OUT).parse().unwrap();
    assert_eq!(stderr.len() + left_out, 5_000_000 + "HEAD\nTAIL?".len());
}

/// Scenario 156. Output without a final newline is stored, too.
#[test]
fn a_hook_ends_with_its_process_even_if_a_child_keeps_its_output_open() {
    let run_once = || {
        let (folder, mut shim) = shim("sleep 100 & printf $!");
        let started = Instant::now();
        assert!(shim.status().unwrap().success());
        let took = started.elapsed();
        assert_eq!(folder.outcome(), "exit 0");
        // The child belongs to the charm and continues.
        kill(folder.read(OUTPUT).strip_prefix("stdout: ").unwrap().trim());
        took
    };
    // The fastest of three runs, because the machine may be busy.
    let fastest = (0..3).map(|_| run_once()).min().unwrap();
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
}

/// A child that writes for ever does not keep the shim reading.
#[test]
fn a_child_that_goes_on_writing_does_not_delay_the_outcome() {
    let (folder, mut shim) = shim("yes & echo $! >child");
    let started = Instant::now();
    assert!(shim.status().unwrap().success());
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(folder.outcome(), "exit 0");
    let child = folder.read("child");
    let state = || fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
    while !state().is_empty() && !state().contains(" Z ") {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "it ends once its bound is reached: {}",
            state()
        );
        std::thread::yield_now();
    }
}

/// Stdin of the shim is its gate, and stdout the hook lock, which the hook must not have.
#[test]
fn a_hook_has_no_descriptor_of_its_shim() {
    let (folder, mut shim) = shim("exec ls -l /proc/self/fd");
    assert!(shim.stdout(fs::File::open(PROGRAM).unwrap()).status().unwrap().success());
    let output = folder.read(OUTPUT);
    let links: Vec<&str> =
        output.lines().filter_map(|line| line.rsplit_once(" -> ")).map(|(_, link)| link).collect();
    // The last one is the folder that is listed.
    let [stdin, stdout, stderr, listed] = links[..] else { panic!("{output}") };
    assert_eq!(stdin, "/dev/null");
    assert!(stdout.starts_with("pipe:") && stderr.starts_with("pipe:") && stdout != stderr, "{output}");
    assert!(listed.starts_with("/proc/"), "{output}");
}

/// The shim blocks the signal of the hook's end for itself. The hook is no shell, because shells unblock their signals.
#[test]
fn no_signal_is_blocked_in_a_hook() {
    let folder = Folder::new();
    let mut shim = command(&folder, Path::new("/usr/bin/yes")).spawn().unwrap();
    let recorded = folder.0.join(HOOK_PID);
    let started = Instant::now();
    while !recorded.exists() {
        assert!(started.elapsed() < Duration::from_secs(20), "the hook starts");
        std::thread::yield_now();
    }
    let recorded = folder.read(HOOK_PID);
    let pid = recorded.split(' ').next().unwrap();
    let status = fs::read_to_string(Path::new("/proc").join(pid).join("status")).unwrap();
    assert!(status.contains("\nSigBlk:\t0000000000000000\n"), "{status}");
    kill(pid);
    assert!(shim.wait().unwrap().success());
    assert_eq!(folder.outcome(), "signal 9");
}

/// A hook without a pid file would run beside its own repetition.
#[test]
fn a_hook_that_cannot_be_recorded_is_killed() {
    let (folder, mut shim) = shim("echo started >started; sleep 100");
    // A folder in the place of the file: it cannot be replaced.
    fs::create_dir_all(folder.0.join(HOOK_PID).join("taken")).unwrap();
    let started = Instant::now();
    assert!(shim.status().unwrap().success());
    assert!(started.elapsed() < Duration::from_secs(50), "it was waited for");
    assert!(folder.outcome().starts_with("failed 21 fork/exec "), "{}", folder.outcome());
}

#[test]
fn a_shim_that_cannot_record_itself_starts_nothing() {
    let (folder, mut shim) = shim("echo started >started");
    fs::create_dir_all(folder.0.join(SHIM_PID).join("taken")).unwrap();
    assert!(!shim.status().unwrap().success());
    assert!(!folder.0.join(OUTCOME).exists() && !folder.0.join("started").exists());
}

/// The agent may be replaced while the hook runs: the shim does not depend on it.
#[test]
fn the_shim_goes_on_without_its_parent() {
    let (folder, shim) = shim("read line <gate; echo done");
    let gate = folder.0.join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    // A shell starts the shim in its background and ends.
    let mut parent = Command::new("/bin/sh");
    parent.args(["-c", "echo | \"$@\" >/dev/null 2>&1 & echo $!", "sh"]).arg(shim.get_program());
    let parent = parent.args(shim.get_args()).current_dir(&folder.0).output().unwrap();
    let pid = String::from_utf8(parent.stdout).unwrap();
    fs::write(&gate, "go\n").unwrap();
    let process = PathBuf::from("/proc").join(pid.trim());
    let started = Instant::now();
    while process.exists() {
        assert!(started.elapsed() < Duration::from_secs(20), "it ends with its hook");
        std::thread::yield_now();
    }
    assert_eq!((folder.outcome().as_str(), folder.read(OUTPUT).as_str()), ("exit 0", "stdout: done\n"));
}

/// A process that a hook has started in the background prints after the end of the hook: no write kills it, and none
/// waits for a reader.
#[test]
fn a_process_that_outlives_its_hook_may_go_on_printing() {
    let script = "mkfifo go\n(read line <go; for i in 1 2 3; do seq 20000; seq 20000 >&2; done; \
                  echo $? >alive.new; mv alive.new alive) &\necho started";
    let folder = run(script);
    assert_eq!(
        (folder.outcome(), folder.read(OUTPUT)),
        ("exit 0".to_owned(), "stdout: started\n".to_owned())
    );
    fs::write(folder.0.join("go"), "go\n").unwrap();
    let started = Instant::now();
    while !folder.0.join("alive").exists() {
        assert!(started.elapsed() < Duration::from_secs(20), "it was killed, or waits for a reader");
        std::thread::yield_now();
    }
    assert_eq!(folder.read("alive"), "0\n");
}

/// The hook lock is free as soon as the outcome is stored, also while a process that the hook has left behind lives.
#[test]
fn what_a_hook_leaves_behind_does_not_keep_its_lock() {
    let (folder, mut shim) = shim("mkfifo go\n(read line <go) &");
    let (mut lock, locked) = io::pipe().unwrap();
    assert!(shim.stdout(locked).status().unwrap().success());
    drop(shim);
    assert_eq!(io::Read::read(&mut lock, &mut [0]).unwrap(), 0, "no process has it open");
    fs::write(folder.0.join("go"), "go\n").unwrap();
}
