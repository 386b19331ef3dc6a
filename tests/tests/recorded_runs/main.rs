//! The recorded runs of units with the real programs: what people are shown of them, the same run once more, a test that
//! is made of a run, and the command that ends a hook.

mod exported;
mod secrets;

use api::text::cause;
use serde_json::{Value, json};
use state::terms::cause::Duty;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::host::{Host, programs, sample};
use tests::scene::{Scene, scene, text};
use tests::tally::{STARTED, deploy, until_ran};

/// The newest run of a unit whose operation begins so.
fn newest(host: &Host, unit: &str, operation: &str) -> String {
    runs_of(host, unit, operation).pop().expect("there is one")
}

/// The runs of a unit whose operation begins so.
fn runs_of(host: &Host, unit: &str, operation: &str) -> Vec<String> {
    let runs: Value = serde_json::from_str(&host.ok(&["runs", unit, "--format", "json"])).expect("JSON");
    let is_it = |run: &&Value| run["operation"].as_str().is_some_and(|found| found.starts_with(operation));
    runs.as_array().expect("a list").iter().filter(is_it).map(|run| run["run"].to_string()).collect()
}

fn shown(host: &Host, unit: &str, run: &str) -> Value {
    serde_json::from_str(&host.ok(&["show-run", unit, run, "--format", "json"])).expect("JSON")
}

/// A new charm folder beside the data folder, with these files.
fn charm(scene: &Scene, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = scene.beside(name);
    for (file, content) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().expect("in the folder")).expect("there is room");
        fs::write(&path, content).expect("there is room");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    folder
}

/// The digest of each file of a unit's charm and of its runs.
fn files_of(host: &Host, unit: &str) -> BTreeMap<PathBuf, String> {
    let (unit, mut files) = (host.unit_folder(unit).expect("it is deployed"), BTreeMap::new());
    let mut folders = vec![unit.join("charm"), unit.join("hooks")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("it exists").flatten() {
            match entry.file_type().expect("it is listed").is_dir() {
                true => folders.push(entry.path()),
                false => {
                    let digest = host::digest::sha256(&fs::read(entry.path()).expect("it is ours"));
                    files.insert(entry.path(), digest);
                }
            }
        }
    }
    files
}

/// What a process has printed on both streams.
fn printed(output: &std::process::Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

fn agent(args: &[&str]) -> std::process::Output {
    Command::new(programs().join("pintle-agent")).args(args).output().expect("it was built")
}

/// Two related units; returns them and the run in which `web/0` heard of its database.
fn pair() -> (Scene, String) {
    let scene = scene();
    scene.ok(&["deploy", text(&sample("pair-db")), "db"]);
    scene.ok(&["deploy", text(&sample("pair-web")), "web"]);
    scene.ok(&["integrate", "web", "db"]);
    scene.until_status("db/0", "active", "web likes green");
    scene.until_status("web/0", "active", "connected to 127.0.0.1");
    let run = newest(&scene, "web/0", "db-relation-changed");
    (scene, run)
}

#[test]
fn a_run_is_listed_and_shown_with_what_it_saw_called_and_changed() {
    let (scene, run) = pair();
    let listed: Value =
        serde_json::from_str(&scene.ok(&["runs", "web/0", "--format", "json"])).expect("JSON");
    let numbers: Vec<u64> = scene.runs("web/0").into_iter().map(|(number, _)| number).collect();
    assert_eq!(
        listed.as_array().expect("a list").iter().map(|run| run["run"].as_u64().unwrap()).collect::<Vec<_>>(),
        numbers
    );
    let table = scene.ok(&["runs", "web/0"]);
    assert_eq!(table.lines().count(), numbers.len() + 1, "{table}");

    let document = shown(&scene, "web/0", &run);
    let folder = scene.run_folder("web/0", run.parse().unwrap()).expect("it is kept");
    assert!(
        folder.ends_with(format!("{:06}-db-relation-changed", run.parse::<u64>().unwrap())),
        "{folder:?}"
    );
    assert_eq!(document["folder"], text(&folder));
    let tools: Vec<&str> = document["called"]
        .as_array()
        .expect("calls")
        .iter()
        .filter_map(|call| call["tool"].as_str())
        .collect();
    assert_eq!(tools, ["relation-get", "juju-log", "relation-get", "status-set"]);
    assert_eq!(document["saw"]["relations"]["0"]["unit_bags"]["db/0"]["host"], "127.0.0.1");
    let status = json!({ "status": "active", "message": "connected to 127.0.0.1" });
    assert_eq!(document["changed"]["unit-status"], status);
    let yaml = scene.ok(&["show-run", "web/0", &run, "--format", "yaml"]);
    assert_eq!(charms::yaml::from_str::<Value>(&yaml).expect("YAML"), document);
    let page = scene.ok(&["show-run", "web/0", &run]);
    for part in [text(&folder), "relation-get host", "db/0: host = 127.0.0.1", "connected to 127.0.0.1"] {
        assert!(page.contains(part), "{part}: {page}");
    }

    // the charm is not one of ops
    let refused = scene.refused(&["export-run", "web/0", &run]);
    assert!(refused.contains("src/charm.py") && !refused.contains("os error"), "{refused}");
    for (args, code) in
        [(["show-run", "web/0", "9999"], 1), (["show-run", "web/9", "1"], 1), (["show-run", "web/0", "x"], 2)]
    {
        let output = scene.pintle(&args);
        assert_eq!((output.code, output.stdout.as_str()), (code, ""), "{output:?}");
        assert!(output.stderr.starts_with("ERROR "), "{output:?}");
    }
    let file = scene.beside("run.txt");
    scene.ok(&["-o", text(&file), "show-run", "web/0", &run]);
    assert_eq!(fs::read_to_string(file).expect("it was written"), page);
}

#[test]
fn a_replayed_run_is_the_same_until_the_charm_is_changed_and_touches_nothing_of_the_unit() {
    let (scene, run) = pair();
    let before = files_of(&scene, "web/0");
    let replayed = scene.pintle(&["replay", "web/0", &run]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    for run in [newest(&scene, "web/0", "config-changed"), newest(&scene, "web/0", "leader-elected")] {
        assert_eq!(scene.pintle(&["replay", "web/0", &run]).code, 0);
    }
    assert_eq!(files_of(&scene, "web/0"), before);

    let unit = scene.unit_folder("web/0").expect("it is deployed");
    let dispatch = unit.join("charm/dispatch");
    let source = fs::read_to_string(&dispatch).expect("it is text");
    // more calls and lines than the page shows of one section
    let more = "set -eu\njuju-log \"in $PWD\"\nstate-set color=blue\n\
                for n in $(seq 450); do juju-log \"$n\"; echo \"$n\"; done\n";
    let changed = source.replacen("set -eu\n", more, 1);
    fs::write(&dispatch, format!("{changed}\nexit 3\n")).expect("it is ours");
    let replayed = scene.pintle(&["replay", "web/0", &run]);
    assert_eq!(replayed.code, 1, "{replayed:?}");
    // the copy is shown by the path that the hook had
    let logged = format!("+ juju-log 'in {}'", text(&unit.join("charm")));
    assert!(replayed.stdout.contains(&logged) && replayed.stdout.contains("color = blue"), "{replayed:?}");
    assert!(!replayed.stdout.contains("pintle-replay-"), "a folder that is deleted: {replayed:?}");
    let kept = scene.pintle(&["replay", "web/0", &run, "--keep"]);
    let named = kept.stdout.split_whitespace().filter(|word| word.contains("pintle-replay-")).map(Path::new);
    let named: Vec<&Path> = named.collect();
    assert!(named.len() >= 3 && named.iter().all(|path| path.exists()), "{kept:?}");
    fs::remove_dir_all(named.last().expect("the folder itself")).expect("it is ours");
    fs::write(&dispatch, source).expect("it is ours");

    // neither the controller nor the agent is needed
    scene.ok(&["down"]);
    let offline = agent(&["replay", text(&unit), &run]);
    assert!(offline.status.success(), "{offline:?}");
    assert!(agent(&["runs", text(&unit)]).status.success());
    let page = agent(&["show-run", text(&unit), &run]);
    assert!(
        page.status.success() && String::from_utf8_lossy(&page.stdout).contains("relation-get host"),
        "{page:?}"
    );
}

#[test]
fn a_replay_that_hangs_is_ended_with_its_processes() {
    let scene = scene();
    let pid = scene.beside("pid");
    let dispatch =
        format!("#!/bin/sh\n[ -e {0}.hang ] || exit 0\nsleep 1000 & echo $! >{0}\nwait\n", text(&pid));
    let folder = charm(
        &scene,
        "slow",
        &[("metadata.yaml", "name: slow\nsummary: s\ndescription: d\n"), ("dispatch", &dispatch)],
    );
    scene.ok(&["deploy", text(&folder)]);
    scene.until("it is installed", |host| (host.runs("slow/0").len() >= 3).then_some(()));
    let run = newest(&scene, "slow/0", "install");
    fs::write(format!("{}.hang", text(&pid)), "").expect("it is ours");
    let replayed = scene.pintle(&["replay", "slow/0", &run, "--timeout", "1s"]);
    assert_eq!(replayed.code, 1, "{replayed:?}");
    let sleeping: i32 = fs::read_to_string(&pid).expect("it ran").trim().parse().expect("a pid");
    scene.until("its processes have ended", |_| {
        (!Path::new(&format!("/proc/{sleeping}")).exists()).then_some(())
    });
}

#[test]
fn what_a_replay_that_was_killed_has_left_is_deleted_by_the_next_one() {
    let scene = scene();
    let (pid, temporary) = (scene.beside("pid"), scene.beside("temporary"));
    fs::create_dir_all(&temporary).expect("there is room");
    let dispatch =
        format!("#!/bin/sh\n[ -e {0}.hang ] || exit 0\necho $$ >{0}\nexec sleep 1000\n", text(&pid));
    let files = [("metadata.yaml", "name: slow\nsummary: s\ndescription: d\n"), ("dispatch", &dispatch)];
    scene.ok(&["deploy", text(&charm(&scene, "slow", &files))]);
    scene.until("it is installed", |host| (host.runs("slow/0").len() >= 3).then_some(()));
    let run = newest(&scene, "slow/0", "install");
    let unit = scene.unit_folder("slow/0").expect("it is deployed");
    let replay = || {
        let mut command = Command::new(programs().join("pintle-agent"));
        command.args(["replay", text(&unit), &run]).env("TMPDIR", &temporary);
        command
    };
    let left = || fs::read_dir(&temporary).expect("it exists").count();
    let hang = format!("{}.hang", text(&pid));
    fs::write(&hang, "").expect("it is ours");
    let mut killed = replay().spawn().expect("it was built");
    let sleeping = scene.until("its hook runs", |host| host.pid(&pid));
    killed.kill().expect("it is ours");
    killed.wait().expect("it is ours");
    fs::remove_file(hang).expect("it is ours");
    assert!(replay().status().expect("it runs").success() && left() == 1, "the hook of the killed one runs");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(sleeping), nix::sys::signal::Signal::SIGKILL)
        .expect("ours");
    scene.until("the next one has deleted everything", |_| {
        (replay().status().expect("it runs").success() && left() == 0).then_some(())
    });
}

#[test]
fn a_hook_that_hangs_is_named_with_its_process_and_ended_by_stop_hook() {
    let scene = scene();
    let hold = scene.beside("hold");
    scene.ok(&["model-config", "automatically-retry-hooks=false"]);
    deploy(&scene, "db", &["--config", &format!("hold={}", text(&hold))]);
    until_ran(&scene, "db/0", &STARTED);
    assert_eq!(scene.pintle(&["stop-hook", "db/0"]).code, 1, "nothing runs");
    fs::write(&hold, "").expect("it is ours");
    scene.ok(&["config", "db", "say=more"]);
    let hangs = |host: &Host| {
        let causes = host.causes("db/0");
        causes.into_iter().find(|cause| matches!(cause.duty, Duty::Finish { .. }))
    };
    let hanging = scene.until("why names the hook", hangs);
    let (run, _) = scene.runs("db/0").pop().expect("it runs");
    let folder = scene.run_folder("db/0", run).expect("it is kept");
    let pid = scene.until("the hook is known", |host| host.pid(&folder.join("hook.pid")));
    let why: Value = serde_json::from_str(&scene.ok(&["why", "db/0", "--format", "json"])).expect("JSON");
    assert_eq!(why["causes"][0]["process"], json!({ "folder": text(&folder), "pid": pid }));
    let page = scene.ok(&["why", "db/0"]);
    let hint = cause::hint(&hanging, &cause::Times { now_ms: 0, time_of_day: None });
    let is_named = hint.contains("pintle stop-hook db/0") && page.contains("pintle stop-hook");
    assert!(is_named && page.contains(text(&folder)) && page.contains(&pid.to_string()), "{page}");
    let unit = scene.unit_folder("db/0").expect("it is deployed");
    let local = String::from_utf8(agent(&["why", text(&unit)]).stdout).expect("text");
    assert!(local.contains(text(&folder)) && local.contains(&pid.to_string()), "{local}");

    scene.ok(&["stop-hook", "db/0"]);
    let outcome = fs::read_to_string(folder.join("outcome")).expect("the hook has ended");
    assert_eq!(outcome.trim_end(), "signal 15");
    scene.until("the hook has failed", |host| {
        (host.unit("db/0")?["workload-status"]["current"] == "error").then_some(())
    });
    assert_eq!(scene.pintle(&["stop-hook", "db/0"]).code, 1, "nothing runs any more");
}

/// Reads each file with a library that is not the product's, and prints those that it cannot read.
const READ_YAML: &str = "
import sys, yaml
for path in sys.argv[1:]:
    try:
        documents = list(yaml.load_all(open(path, newline='').read(), yaml.SafeLoader))
        assert documents and documents[0] is not None
    except Exception as error:
        print(path, error)
";

#[test]
fn every_yaml_file_of_a_unit_is_yaml_whatever_its_charm_writes() {
    let scene = scene();
    let dispatch = "#!/bin/sh\nodd=$(printf 'a\\177b\\302\\205c\\342\\200\\250d\\302\\237\\357\\277\\277\\te: - # \"%%')\n\
                    state-set \"$odd=$odd\"\nstatus-set active \"$odd\"\njuju-log \"$odd\"\n";
    let files = [("metadata.yaml", "name: odd\nsummary: s\ndescription: d\n"), ("dispatch", dispatch)];
    scene.ok(&["deploy", text(&charm(&scene, "odd", &files))]);
    scene.until("its hooks have run", |host| {
        (host.unit("odd/0")?["juju-status"]["current"] == "idle").then_some(())
    });
    let run = newest(&scene, "odd/0", "start");
    let message = shown(&scene, "odd/0", &run)["changed"]["unit-status"]["message"].clone();
    assert!(
        message.as_str().is_some_and(|message| message.contains("a\u{7f}b\u{85}c\u{2028}d\u{9f}")),
        "{message:?}"
    );
    let document = scene.beside("run.yaml");
    scene.ok(&["show-run", "odd/0", &run, "--format", "yaml", "-o", text(&document)]);
    scene.ok(&["down"]);
    let unit = scene.unit_folder("odd/0").expect("it is deployed");
    let of_runs = files_of(&scene, "odd/0").into_keys().filter(|path| path.starts_with(unit.join("hooks")));
    let others = ["", "view"].into_iter().flat_map(|folder| {
        fs::read_dir(unit.join(folder)).expect("it exists").flatten().map(|entry| entry.path())
    });
    let paths: Vec<PathBuf> = of_runs.chain(others).chain([document]).collect();
    let paths: Vec<&str> =
        paths.iter().map(|path| text(path)).filter(|path| path.ends_with(".yaml")).collect();
    for name in
        ["/state.yaml", "/journal.yaml", "/context.yaml", "/calls.yaml", "/view/unit.yaml", "/agent.yaml"]
    {
        assert!(paths.iter().any(|path| path.ends_with(name)), "{name}: {paths:?}");
    }
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/ops-suite");
    let output =
        Command::new("python3").args(["-c", READ_YAML]).args(&paths).env("PYTHONPATH", suite).output();
    let output = output.expect("python3 is installed by tests/prerequisites.sh");
    assert_eq!(printed(&output), "");
    let state = fs::read_to_string(unit.join("state.yaml")).expect("it is text");
    assert!(
        state.starts_with('#') && state.lines().take(3).any(|line| line.contains("pintle-agent show")),
        "{state}"
    );
}
