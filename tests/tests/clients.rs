//! Tests the guarantees for programs that drive `juju` (spec/clients.md), with the real programs.

use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tests::host::{Host, programs, sample};

fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are text")
}

/// Two related applications whose hooks have all run.
fn pair(dir: &TempDir) -> Host {
    let host = Host::up(&dir.path().canonicalize().expect("the folder was just created").join("data"));
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.ok(&["deploy", text(&sample("pair-web")), "web"]);
    host.ok(&["integrate", "web", "db"]);
    host.until_status("db/0", "active", "web likes green");
    host
}

/// The request changes web, and its effect appears in db two hooks later. A status before that would be outdated.
#[test]
fn the_first_status_after_a_write_shows_its_effects() {
    let dir = TempDir::with_prefix("pintle-settle-").expect("a temporary folder can be created");
    let host = pair(&dir);
    for color in ["blue", "red", "black"] {
        host.ok(&["config", "web", &format!("color={color}")]);
        let unit = host.unit("db/0").expect("it is deployed");
        assert_eq!(unit["workload-status"]["message"], format!("web likes {color}"), "{unit}");
        assert_eq!(unit["juju-status"]["current"], "idle", "{unit}");
    }
}

/// The unmodified jubilant library finds `pintle` as `juju` on the PATH.
#[test]
fn the_jubilant_suite_passes() {
    let dir = TempDir::with_prefix("pintle-jubilant-").expect("a temporary folder can be created");
    let host = Host::up(&dir.path().canonicalize().expect("the folder was just created").join("data"));
    let bin = dir.path().join("bin");
    std::fs::create_dir(&bin).expect("it is a new folder");
    std::os::unix::fs::symlink(programs().join("pintle"), bin.join("juju")).expect("it is a new folder");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let jubilant = here.join("../target/jubilant");
    assert!(jubilant.is_dir(), "jubilant is not installed; run tests/prerequisites.sh");
    let path = std::env::var("PATH").expect("there is a PATH");
    let output = Command::new("python3")
        .arg(here.join("jubilant/suite.py"))
        .arg(sample("any").join(".."))
        .env("PATH", format!("{}:{path}", text(&bin)))
        .env("PYTHONPATH", &jubilant)
        .env("PINTLE_DATA", &host.dir)
        .output()
        .expect("python3 is installed by tests/prerequisites.sh");
    let stdout =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && stdout.ends_with("suite passed\n"),
        "{stdout}\n{}",
        host.diagnostics()
    );
}

/// bash calls the program for each word; the last word of `line` is the one that is completed.
fn completed(host: &Host, line: &[&str]) -> Vec<String> {
    const COMPLETE: &str = "source <(pintle completion bash)
        COMP_WORDS=(pintle \"$@\"); COMP_CWORD=$#; COMP_TYPE=9
        _clap_complete_pintle pintle \"${@: -1}\"
        printf '%s\\n' \"${COMPREPLY[@]}\"";
    let path = std::env::var("PATH").expect("there is a PATH");
    let output = Command::new("bash")
        .args(["-c", COMPLETE, "bash"])
        .args(line)
        .env("PATH", format!("{}:{path}", text(&programs())))
        .env("PINTLE_DATA", &host.dir)
        .output()
        .expect("bash is there");
    let words = String::from_utf8(output.stdout).expect("names are text");
    words.lines().filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[test]
fn a_shell_completes_commands_and_the_names_of_the_model() {
    let dir = TempDir::with_prefix("pintle-complete-").expect("a temporary folder can be created");
    let host = pair(&dir);
    assert_eq!(completed(&host, &["destroy-"]), ["destroy-model"]);
    assert_eq!(completed(&host, &["show-unit", "w"]), ["web/0"]);
    assert_eq!(completed(&host, &["config", "d"]), ["db"]);
    assert_eq!(completed(&host, &["why", "relation/"]), ["relation/0"]);
    assert_eq!(completed(&host, &["switch", "d"]), ["dev"]);
    assert_eq!(completed(&host, &["status", "-m", ""]), ["dev"]);
    assert_eq!(completed(&host, &["--model", "=", "dev", "config", "w"]), ["web"]);
    host.ok(&["down"]);
    assert_eq!(completed(&host, &["show-unit", "w"]), Vec::<String>::new());
}

/// On a local machine a program runs as the same user, in the folder of the machine.
#[test]
fn ssh_runs_a_command_in_a_machine_and_scp_copies_its_files() {
    let dir = TempDir::with_prefix("pintle-ssh-").expect("a temporary folder can be created");
    let host = Host::up(&dir.path().canonicalize().expect("the folder was just created").join("data"));
    host.ok(&["deploy", text(&sample("hello"))]);
    host.until("the unit leads", |host| host.unit("hello/0")?["leader"].as_bool().filter(|leads| *leads));
    let folder = host.unit_folder("hello/0").expect("it is deployed");
    let machine = folder.parent().and_then(Path::parent).expect("it is in a machine's folder");
    assert_eq!(host.ok(&["ssh", "hello/0", "pwd"]), format!("{}\n", machine.display()));
    assert_eq!(
        host.ok(&["ssh", "0", "echo", "a b", "c;", "echo $0"]),
        "a b c\nsh\n",
        "a shell joins the words"
    );
    let ended = host.pintle(&["ssh", "hello/leader", "-T", "exit 7"]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (7, "", ""));
    // the key that a suite gives to every machine, and the user as whom the programs run anyway
    let own = Command::new("id").arg("-un").output().expect("coreutils has it").stdout;
    let target = format!("{}@hello/0", String::from_utf8_lossy(&own).trim());
    assert_eq!(host.ok(&["ssh", &target, "-i", "/nowhere", "-o", "BatchMode=yes", "echo", "-n", "a"]), "a");
    assert_eq!(host.pintle(&["ssh", "hello/0", "-L", "8080:localhost:80", "true"]).code, 2);
    for (target, code) in [("hello/9", 1), ("7", 1), ("web/0", 1), ("not-me@hello/0", 2)] {
        let refused = host.pintle(&["ssh", target, "pwd"]);
        assert_eq!((refused.code, refused.stdout.as_str()), (code, ""), "{target}: {refused:?}");
    }

    let local = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(local("tree/below")).expect("a new folder");
    std::fs::write(local("tree/below/.hidden"), "in a tree").expect("written");
    std::fs::write(local("one"), "one").expect("written");
    host.ok(&["scp", text(&local("one")), "hello/0:renamed"]);
    host.ok(&["scp", "--", "-r", "-i", "/nowhere", text(&local("tree")), text(&local("one")), "0:."]);
    let read = |path: &str| std::fs::read_to_string(machine.join(path)).unwrap_or_default();
    assert_eq!([read("renamed"), read("one"), read("tree/below/.hidden")], ["one", "one", "in a tree"]);
    host.ok(&["scp", "hello/0:tree/below/.hidden", text(&local(".back"))]);
    assert_eq!(std::fs::read_to_string(local(".back")).expect("copied"), "in a tree");
    for [from, to] in
        [["hello/0:tree", "x"], ["hello/0:none", "x"], ["hello/0:one", "none/x"], ["one", "hello/9:x"]]
    {
        assert_eq!(host.pintle(&["scp", from, to]).code, 1, "{from} {to}");
    }
    assert!(!Path::new("x").exists(), "nothing is left of what failed");

    // more than a pipe holds, to a place that does not exist: the reader must end, too
    std::fs::write(local("large"), vec![b'x'; 4 << 20]).expect("written");
    let refused = host.refused(&["scp", text(&local("large")), "hello/0:none/below/large"]);
    assert!(refused.contains("none/below/large") && refused.lines().count() == 1, "{refused}");
    for path in ["hello/0:", "hello/0:.", "hello/0:.."] {
        assert_eq!(host.pintle(&["scp", "-r", path, text(dir.path())]).code, 2, "{path}");
    }
}

/// The commands that jhack sends for `fire` and `sync` to a unit of a machine, which name the paths of Juju.
#[test]
fn jhack_fires_a_hook_and_pushes_files_to_a_local_machine() {
    let dir = TempDir::with_prefix("pintle-jhack-").expect("a temporary folder can be created");
    let host = Host::up(&dir.path().canonicalize().expect("the folder was just created").join("data"));
    host.ok(&["deploy", text(&sample("hello"))]);
    host.until_status("hello/0", "active", "Hello");
    let charm = "/var/lib/juju/agents/unit-hello-0/charm";
    let hook = format!("{charm}/hooks/update-status");
    assert!(host.ok(&["ssh", "hello/0", "cat", &hook]).contains("still here"));
    // a charm without dispatch is known by this exit code
    assert_eq!(host.pintle(&["ssh", "hello/0", "cat", &format!("{charm}/dispatch")]).code, 1);
    let fired =
        "sudo /usr/bin/juju-exec -u hello/0 JUJU_DISPATCH_PATH=hooks/update-status JUJU_MODEL_NAME=dev";
    let fire = |hook: &str| {
        let words: Vec<&str> = ["ssh", "hello/0"].into_iter().chain(fired.split(' ')).chain([hook]).collect();
        host.ok(&words);
    };
    fire(&hook);
    host.until("the hook has run", |host| {
        host.ok(&["debug-log", "--limit", "0"]).contains("still here").then_some(())
    });

    let push = |text: &str, path: &str| {
        let file = dir.path().join("pushed");
        std::fs::write(&file, text).expect("written");
        let mut command = Command::new(programs().join("pintle"));
        command.args(["ssh", "hello/0", "sudo", "-i", &format!("sudo tee {path}")]);
        command
            .stdin(std::fs::File::open(&file).expect("it was just written"))
            .stdout(std::process::Stdio::null());
        assert!(command.env("PINTLE_DATA", &host.dir).status().expect("it runs").success(), "{path}");
    };
    host.ok(&["ssh", "hello/0", "sudo", "mkdir", "-p", &format!("{charm}/src")]);
    push("changed", &format!("{charm}/src/charm.py"));
    let folder = host.unit_folder("hello/0").expect("it is deployed").join("charm");
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap_or_default();
    assert_eq!(read("src/charm.py"), "changed");
    push("#!/bin/sh\njuju-log \"fired: $JUJU_DISPATCH_PATH\"\n", &hook);
    fire(&hook);
    host.until("the changed hook has run", |host| {
        host.ok(&["debug-log", "--limit", "0"]).contains("fired: hooks/update-status").then_some(())
    });
    host.ok(&["scp", text(&dir.path().join("pushed")), &format!("hello/0:{charm}/copied")]);
    assert!(read("copied").starts_with("#!/bin/sh"));
    host.ok(&["scp", &format!("hello/0:{charm}/copied"), text(&dir.path().join("back"))]);
    assert!(dir.path().join("back").exists());
}

/// A repeated command adds only what an overlay adds.
#[test]
fn a_bundle_is_deployed_and_a_repeated_command_adds_what_is_missing() {
    let dir = TempDir::with_prefix("pintle-bundle-").expect("a temporary folder can be created");
    let host = Host::up(&dir.path().canonicalize().expect("the folder was just created").join("data"));
    let file = dir.path().join("bundle.yaml");
    let sample = |name: &str| sample(name).canonicalize().expect("a sample").display().to_string();
    let bundle = format!(
        "applications:\n  web:\n    charm: {}\n    num_units: 1\n    to: db\n    options: {{color: red}}\n  \
         db: {{charm: {}, num_units: 1, to: ['0'], expose: true}}\nmachines: {{'0': {{}}}}\nrelations:\n- [web, db]\n",
        sample("pair-web"),
        sample("pair-db")
    );
    std::fs::write(&file, bundle).expect("written");
    let changes = host.pintle(&["deploy", text(&file), "--dry-run"]);
    assert_eq!(
        (changes.code, host.status()["applications"].clone()),
        (0, serde_json::json!({})),
        "{changes:?}"
    );
    host.ok(&["deploy", text(&file)]);
    host.until_status("db/0", "active", "web likes red");
    let status = host.status();
    let unit =
        |application: &str| status["applications"][application]["units"][format!("{application}/0")].clone();
    assert_eq!(unit("web")["machine"], unit("db")["machine"], "they are placed beside each other");
    assert_eq!(status["applications"]["db"]["exposed"], true);
    assert_eq!(status["machines"].as_object().map(|machines| machines.len()), Some(1));

    let overlay = dir.path().join("overlay.yaml");
    std::fs::write(&overlay, "applications: {web: {num_units: 2, options: {color: blue}}}\n")
        .expect("written");
    host.ok(&["deploy", text(&file), "--overlay", text(&overlay)]);
    host.until("web/1 is connected", |host| {
        (host.unit("web/1")?["workload-status"]["current"] == "active").then_some(())
    });
    host.until_status("db/0", "active", "web likes blue");
    assert_eq!(host.status()["applications"]["web"]["units"].as_object().map(|units| units.len()), Some(2));
    std::fs::write(&overlay, "applications: {web: {trust: true}}\n").expect("written");
    assert_eq!(
        host.pintle(&["deploy", text(&file), "--overlay", text(&overlay)]).code,
        1,
        "trust must be granted"
    );
}

/// A terminal of a program. The program loses it when this is dropped.
struct Terminal(std::process::Child);

impl Terminal {
    fn open(host: &Host, args: &[&str]) -> Terminal {
        let program = programs().join("pintle");
        let words = [text(&program), "--data", text(&host.dir)];
        let line = words.iter().chain(args).copied().collect::<Vec<_>>().join(" ");
        let script = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn();
        Terminal(script.expect("util-linux has it"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("it is our child");
    }
}

/// Runs tmux on the session of a unit, and returns what it prints.
fn tmux(session: &str, args: &[&str]) -> String {
    let output = Command::new("tmux").args(["-L", session]).args(args).output().expect("tmux is installed");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn hooks_are_run_by_hand_in_a_debug_session_and_as_usual_after_it() {
    let dir = TempDir::with_prefix("pintle-debug-").expect("a temporary folder can be created");
    let host = Host::up(&dir.path().canonicalize().expect("the folder was just created").join("data"));
    // no other test has a unit of this name, which is that of the session
    let name = format!("debugged-{}", "x".repeat(8));
    host.ok(&["deploy", text(&sample("pair-web")), &name]);
    let (unit, session) = (format!("{name}/0"), format!("unit-{name}-0"));
    host.until("the unit is idle", |host| {
        (host.unit(&unit)?["juju-status"]["current"] == "idle").then_some(())
    });
    for names in [["debug-hooks", &unit, "nothing"], ["debug-code", &unit, "nothing"]] {
        assert_eq!(host.pintle(&names).code, 1);
    }
    let file = host.unit_folder(&unit).expect("it is deployed").join("debug-session.json");
    for command in ["debug-hooks", "debug-code"] {
        assert_eq!(host.pintle(&[command, &unit]).code, 1, "there is no terminal");
        assert!(!file.exists());
    }

    let terminal = Terminal::open(&host, &["debug-hooks", &format!("{name}/leader"), "config-changed"]);
    host.until("the session is open", |_| file.exists().then_some(()));
    host.ok(&["config", &name, "color=red"]);
    host.until("the window is open", |_| {
        tmux(&session, &["list-windows", "-F", "#W"]).contains("config-changed").then_some(())
    });
    // the hook has not run if the terminal is lost, although the last command of its shell has succeeded
    drop(terminal);
    host.until_status(&unit, "error", "hook failed: \"config-changed\"");
    host.until("the session has ended", |_| (!file.exists()).then_some(()));

    let terminal = Terminal::open(&host, &["debug-hooks", &unit]);
    host.until("the session is open", |_| file.exists().then_some(()));
    host.ok(&["resolved", &unit]);
    host.until("the window is open", |_| {
        tmux(&session, &["list-windows", "-F", "#W"]).contains("config-changed").then_some(())
    });
    // the window is open before the controller knows that the hook runs
    host.until("the session is named", |host| {
        let why = host.ok(&["why", &unit, "--format", "json"]);
        let why: serde_json::Value = serde_json::from_str(&why).expect("JSON");
        let mut causes = why["causes"].as_array()?.iter();
        let named = causes.find(|cause| cause["duty"]["end-debug-session"].is_object())?;
        (named["actor"] == "operator").then_some(())
    });
    let keys = "status-set active \"$JUJU_DISPATCH_PATH $(umask)\"; exit";
    tmux(&session, &["send-keys", "-t", "config-changed", keys, "Enter"]);
    host.until_status(&unit, "active", "hooks/config-changed 0022");
    drop(terminal);
    host.until("the session has ended", |_| (!file.exists()).then_some(()));

    let _terminal = Terminal::open(&host, &["debug-code", &unit]);
    host.until("the session is open", |_| file.exists().then_some(()));
    tmux(&session, &["set-option", "-g", "remain-on-exit", "on"]);
    host.ok(&["config", &name, "color=blue"]);
    host.until("the program has run in a window", |_| {
        tmux(&session, &["list-windows", "-F", "#W"]).contains("config-changed").then_some(())
    });
    host.until("the hook has ended", |host| {
        (host.unit(&unit)?["juju-status"]["current"] == "idle").then_some(())
    });
}
