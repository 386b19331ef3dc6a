//! Compares everything that a hook can see of its own process with `tests/golden/hook-process.txt`. Pintle is started
//! by a shell with open files, ignored and blocked signals, lowered limits, a file mode mask and its own PATH: the hook
//! inherits none of them, whether it was started as usual or forked by a warm parent. Also verifies that agents, which have
//! tokens, write no core dumps.
//!
//! The expected text is written by hand from security S44 and S45. A value that differs between hosts is replaced by a
//! description of its origin, for example `the hard limit`.

use agent::hook_process::run_files::read_run_file;
use state::terms::operation::Operation;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tests::host::{Host, is_root, skip};
use tests::scene::text;

/// The script of the shell that replaces itself with `pintle up`. The shell has a file with a secret open.
const SHELL: &str = r#"
exec 7<"$0" 8>&7 9<"$0"
trap '' HUP INT QUIT USR1 TTOU
ulimit -S -c hard 2>/dev/null
ulimit -S -n 300
ulimit -S -s 4096
ulimit -S -t 4000
ulimit -S -f 10000000
umask 0
cd /
SECRET=1 PATH="$PATH:/only/of/this/shell" exec env --block-signal=USR2,CHLD "$@"
"#;

/// The hook writes the properties of its process into its folder. `$$` is the hook's process: a shell that reads this
/// script.
const PROBE: &str = r#"#!/bin/sh
seen=$PWD/seen-${JUJU_HOOK_NAME:-action-$JUJU_ACTION_UUID}
mkdir $seen || exit 0
tr '\0' '\n' < /proc/$$/environ > $seen/environment
cat /proc/self/status > $seen/status
cat /proc/$$/stat > $seen/stat
cat /proc/$$/limits > $seen/limits
cat /proc/$$/oom_score_adj > $seen/oom
readlink /proc/$$/cwd > $seen/cwd
umask > $seen/umask
( ls -l /proc/$$/fd > $seen/descriptors )
touch $seen/done
"#;

/// The same hook, as the program of a Python charm. Python ignores two signals, which the shell would inherit.
const PYTHON: &str = r#"#!/usr/bin/env python3
import os
import signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
os.execv("/bin/sh", ["/bin/sh", "probe"])
"#;

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The fields of `/proc/PID/stat` after the name, by their numbers in proc(5).
fn stat_field(stat: &str, number: usize) -> &str {
    stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(number - 3)).expect("a stat line")
}

/// Soft and hard limit by name, as `/proc/PID/limits` shows them.
fn limits(shown: &str) -> BTreeMap<String, (u64, u64)> {
    let number = |text: &str| text.parse().unwrap_or(u64::MAX);
    let line = |line: &str| {
        let (name, values) = line.split_at_checked(26)?;
        let mut values = values.split_whitespace();
        Some((name.trim().to_owned(), (number(values.next()?), number(values.next()?))))
    };
    shown.lines().skip(1).filter_map(line).collect()
}

/// The properties that the hook has written, one line per item.
fn render(seen: &Path, unit: &Path) -> String {
    let mut lines = Vec::new();
    let stat = read(&seen.join("stat"));
    let pid = stat.split(' ').next().expect("a pid");
    for line in read(&seen.join("descriptors")).lines().skip(1) {
        let (before, target) = line.split_once(" -> ").expect("a link");
        let number = before.rsplit(' ').next().expect("a number");
        let kind = if target.starts_with("pipe:") { "a pipe" } else { target };
        // the shell reads its script
        if !target.ends_with("/charm/dispatch") && !target.ends_with("/charm/probe") {
            lines.push(format!("descriptor {number}: {kind}"));
        }
    }
    let status = |text: &str, name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("{name} in {text}")).trim().to_owned()
    };
    let shown = read(&seen.join("status"));
    for name in ["Umask", "SigPnd", "SigBlk", "SigIgn", "SigCgt"] {
        lines.push(format!("{name}: {}", status(&shown, name)));
    }
    // values that only the host determines are those of the test process
    let inherited = |name: &str, hook: &str, own: &str| {
        format!("{name}: {}", if hook == own { "the caller's" } else { hook })
    };
    for name in ["NoNewPrivs", "Seccomp"] {
        lines.push(inherited(
            name,
            &status(&shown, name),
            &status(&read(Path::new("/proc/self/status")), name),
        ));
    }
    lines.push(format!("umask: {}", read(&seen.join("umask")).trim()));
    for (name, (soft, hard)) in limits(&read(&seen.join("limits"))) {
        let value = match name.as_str() {
            "Max open files" if soft == hard.min(64_000) => "64000, at most the hard limit".to_owned(),
            "Max stack size" if soft == hard.min(8 << 20) => "8 MiB, at most the hard limit".to_owned(),
            "Max core file size" if soft == 0 => "0".to_owned(),
            _ if soft == hard => "the hard limit".to_owned(),
            _ => format!("{soft} of {hard}"),
        };
        lines.push(format!("{name}: {value}"));
    }
    let cwd = read(&seen.join("cwd"));
    lines.push(format!(
        "working directory: UNIT/{}",
        cwd.trim().strip_prefix(text(unit)).unwrap_or(&cwd).trim_matches('/')
    ));
    let own_group = if stat_field(&stat, 5) == pid { "its own" } else { "another process's" };
    lines.push(format!("process group: {own_group}"));
    let session = if stat_field(&stat, 6) == pid { "its own" } else { "the supervisor's" };
    lines.push(format!("session: {session}"));
    lines.push(format!("terminal: {}", stat_field(&stat, 7)));
    lines.push(inherited("nice", stat_field(&stat, 19), stat_field(&read(Path::new("/proc/self/stat")), 19)));
    let oom = "/proc/self/oom_score_adj";
    lines.push(inherited("oom score", read(&seen.join("oom")).trim(), read(Path::new(oom)).trim()));
    let mut variables: Vec<String> = read(&seen.join("environment")).lines().map(str::to_owned).collect();
    variables.sort();
    for variable in variables {
        let (name, value) = variable.split_once('=').expect("a variable");
        match name {
            "PATH" => {
                let (tools, rest) = value.split_once(':').expect("two folders");
                let tools = if tools.ends_with("/tools/unit-probe-0") { "TOOLS" } else { tools };
                lines.push(format!("variable PATH={tools}:{rest}"));
            }
            "JUJU_CONTEXT_ID" => {
                let digits = value.rsplit('-').next().expect("digits");
                let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                let form =
                    if is_hexadecimal { format!("{} digits", digits.len()) } else { digits.to_owned() };
                lines.push(format!(
                    "variable JUJU_CONTEXT_ID={}-{form}",
                    value.trim_end_matches(digits).trim_end_matches('-')
                ));
            }
            _ => lines.push(format!("variable {name}")),
        }
    }
    lines.join("\n") + "\n"
}

/// Starts Pintle from the shell, and deploys a charm with these programs.
fn deploy(top: &Path, programs: &[(&str, &str)]) -> Host {
    let charm = top.join("probe");
    fs::create_dir(&charm).expect("it is new");
    let metadata = "name: probe\nsummary: Writes what it sees.\ndescription: For a test.\n";
    fs::write(charm.join("metadata.yaml"), metadata).expect("written");
    fs::write(charm.join("actions.yaml"), "see:\n  description: Writes it.\n").expect("written");
    for (name, program) in programs {
        fs::write(charm.join(name), program).expect("written");
        fs::set_permissions(charm.join(name), fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    let secret = top.join("secret");
    fs::write(&secret, "the secret of a shell").expect("written");
    let host = Host::new(&top.join("data"));
    let up = Command::new("sh")
        .args(["-c", SHELL, text(&secret)])
        .arg(host.programs.join("pintle"))
        .args(["up", "--data", text(&host.dir)])
        .output()
        .expect("a shell");
    assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
    host.ok(&["deploy", text(&charm)]);
    host
}

/// The runs within which a warm parent forks one.
const RUNS_MAX: usize = 10;

#[test]
fn a_forked_hook_sees_the_same_process() {
    let dir = tempfile::TempDir::with_prefix("pintle-hook-").expect("a temporary folder can be created");
    let top = dir.path().canonicalize().expect("the folder was just created");
    let host = deploy(&top, &[("dispatch", PYTHON), ("probe", PROBE)]);
    host.ok(&["model-config", "warm-dispatch=true"]);
    host.until("the first hooks have run", |host| {
        (host.unit("probe/0")?["juju-status"]["current"] == "idle").then_some(())
    });
    let unit = host.unit_folder("probe/0").expect("it is deployed");
    let forked = (0..RUNS_MAX).find_map(|_| {
        host.ok(&["run", "probe/0", "see"]);
        let (number, _) = host.runs("probe/0").pop()?;
        let file = read_run_file(&host.run_folder("probe/0", number)?)?;
        let Operation::Action { id, .. } = file.operation() else { return None };
        file.is_warm().then(|| unit.join(format!("charm/seen-action-{id}")))
    });
    let actual = render(&forked.expect("a warm parent forks it"), &unit);
    let golden = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/hook-process.txt"));
    let of_action = golden.replace("-install-", "-see-").replace(
        "variable JUJU_API_ADDRESSES",
        "variable JUJU_ACTION_NAME\nvariable JUJU_ACTION_TAG\nvariable JUJU_ACTION_UUID\nvariable JUJU_API_ADDRESSES",
    );
    let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(sorted(&actual), sorted(&of_action));
    drop(host);
}

#[test]
fn a_hook_sees_the_same_process_however_pintle_was_started() {
    let dir = tempfile::TempDir::with_prefix("pintle-hook-").expect("a temporary folder can be created");
    let top = dir.path().canonicalize().expect("it exists");
    let host = deploy(&top, &[("dispatch", PROBE)]);
    let secret = top.join("secret");
    let seen = host.until("the hook has written what it sees", |host| {
        let seen = host.unit_folder("probe/0")?.join("charm/seen-install");
        seen.join("done").exists().then_some(seen)
    });
    let unit = host.unit_folder("probe/0").expect("it is deployed");
    let actual = render(&seen, &unit);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/hook-process.txt");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&golden, &actual).expect("written");
    }
    assert_eq!(actual, read(&golden), "the process of a hook has changed");

    // the agent holds a token: nothing of it is written to a core file, and it has nothing of the shell open
    let agent = Path::new("/proc").join(host.agent_pid("probe/0").expect("it runs").to_string());
    assert_eq!(limits(&read(&agent.join("limits")))["Max core file size"].0, 0);
    if is_root() {
        let open = fs::read_dir(agent.join("fd")).expect("root sees it").flatten();
        let open: Vec<_> = open.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
        assert!(!open.is_empty() && !open.contains(&secret), "{open:?}");
    } else {
        skip(
            "hook_isolation, what the agent has open",
            "only root sees it of a process that cannot be dumped",
        );
    }
    // the socket is where no other user can create it first
    let socket = unit.join("run").canonicalize().expect("the folder of the socket");
    assert_eq!(fs::metadata(&socket).expect("it exists").permissions().mode() & 0o777, 0o700);
    drop(host);
    drop(dir);
}
