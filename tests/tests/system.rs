//! End-to-end tests of the real programs on loopback, through their user interfaces. They cover what the simulator
//! cannot run: processes, files, sockets and command lines.

use api::text::refusal::message;
use api::text::status_message;
use serde_json::Value;
use state::terms::hook_name::HookName;
use state::terms::names::UnitName;
use state::terms::refusal::unit::UnitRefusal;
use state::terms::status_message::StatusMessage;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tests::host::{is_root, programs, sample};
use tests::scene::{hooks, scene, scene_with, text};
use tests::tally::{STARTED, deploy, relate_change_and_remove, results, until_ran};

#[test]
fn the_demo_passes_for_an_unprivileged_user() {
    let open = TempDir::with_prefix("pintle-demo-").expect("there is room for a test");
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    fs::set_permissions(open.path(), mode(0o755)).expect("it was just made");
    for program in ["pintle", "pintle-agent", "pintle-controller", "pintle-hook", "demo"] {
        fs::copy(programs().join(program), open.path().join(program)).expect("programs were built");
    }
    let samples = open.path().join("samples");
    let copied = Command::new("cp").arg("-r").arg(sample("hello").join("..")).arg(&samples).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let home = open.path().join("home");
    fs::create_dir(&home).expect("it is a new folder");
    fs::set_permissions(&home, mode(0o777)).expect("it was just made");
    let root = is_root();
    let mut command = if root { Command::new("setpriv") } else { Command::new(open.path().join("demo")) };
    if root {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(open.path().join("demo"));
    }
    let output = command
        .env("HOME", &home)
        .env("TMPDIR", &home)
        .env("PINTLE_SAMPLES", &samples)
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("PINTLE_DATA")
        .output()
        .expect("setpriv is there: tests/prerequisites.sh");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.ends_with("was checked.\n"), "{stdout}");
}

#[test]
fn two_related_units_run_the_hooks_of_the_spec() {
    let scene = scene();
    deploy(&scene, "db", &[]);
    deploy(&scene, "web", &[]);
    relate_change_and_remove(&scene, "db", "web");
}

#[test]
fn a_failing_hook_is_reported_and_waits_for_resolved() {
    let host = scene();
    host.ok(&["model-config", "automatically-retry-hooks=false"]);
    host.ok(&["deploy", text(&sample("broken")), "--config", "fail-in=install"]);
    host.until("the unit is in error", |host| {
        let unit = host.unit("broken/0")?;
        let workload = &unit["workload-status"];
        let failed = status_message::describe(&StatusMessage::HookFailed { hook: HookName::Install });
        let error = workload["current"] == "error" && workload["message"] == failed;
        error.then_some(())
    });
    let why = host.ok(&["why", "broken/0"]);
    assert!(why.contains("install") && why.contains("pintle resolved"), "{why}");
    assert!(why.contains(" status 1: broken: "), "{why}");
    host.ok(&["resolved", "broken/0"]);
    host.until("install ran again", |host| (hooks(host, "broken/0").len() >= 2).then_some(()));
    host.until("and failed again", |host| {
        let unit = host.unit("broken/0")?;
        (unit["workload-status"]["current"] == "error" && unit["juju-status"]["current"] == "idle")
            .then_some(())
    });
    host.ok(&["resolved", "broken/0", "--no-retry"]);
    host.until("the unit has started", |host| {
        hooks(host, "broken/0").contains(&"start".to_owned()).then_some(())
    });
    assert_eq!(hooks(&host, "broken/0")[..2], ["install", "install"], "skipped, not run a third time");
    let healthy = host.until("it is healthy", |host| {
        let output = host.pintle(&["resolved", "broken/0"]);
        (output.code != 0).then_some(output.stderr)
    });
    let no_error = UnitRefusal::NoError { unit: UnitName::new("broken", 0) };
    assert!(healthy.contains(&message(&no_error.into())), "{healthy}");
}

#[test]
fn a_refresh_runs_upgrade_charm_then_config_changed() {
    let host = scene();
    host.ok(&["deploy", text(&sample("hello"))]);
    host.until("it has started", |host| hooks(host, "hello/0").contains(&"start".to_owned()).then_some(()));
    let before = hooks(&host, "hello/0").len();
    let copy = TempDir::new().expect("there is room for a test");
    let folder = copy.path().join("hello");
    let copied = Command::new("cp").arg("-r").arg(sample("hello")).arg(&folder).status();
    assert!(copied.is_ok_and(|status| status.success()));
    fs::write(folder.join("NEWS"), "another revision\n").expect("the copy is ours");
    host.ok(&["refresh", "hello", "--path", text(&folder)]);
    host.until("both hooks ran", |host| {
        let all = hooks(host, "hello/0");
        (all.get(before..)? == ["upgrade-charm", "config-changed"]).then_some(())
    });
    let deployed = host.unit_folder("hello/0").expect("it is deployed").join("charm/NEWS");
    assert!(deployed.is_file(), "the new revision is on disk");
}

#[test]
fn a_restart_with_nothing_changed_runs_no_hook() {
    let host = scene();
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.until_status("db/0", "active", "ready");
    let before = hooks(&host, "db/0");
    host.ok(&["down"]);
    assert!(host.processes().is_empty(), "{:#?}", host.processes());
    host.ok(&["up"]);
    host.ok(&["config", "db"]);
    host.until("the agent is back and idle", |host| {
        let pid = host.agent_pid("db/0")?;
        let alive = Path::new(&format!("/proc/{pid}")).exists();
        (alive && host.unit("db/0")?["juju-status"]["current"] == "idle").then_some(())
    });
    // an action runs in the same loop: after it, all earlier decisions have been made
    host.ok(&["run", "db/0", "get-units"]);
    let after: Vec<String> = hooks(&host, "db/0").into_iter().filter(|hook| hook != "get-units").collect();
    assert_eq!(after, before);
}

#[test]
fn a_hook_costs_two_syncs() {
    let host = scene();
    host.ok(&["deploy", text(&sample("pair-web")), "web"]);
    host.until_status("web/0", "blocked", "needs a database");
    let trace = host.dir.join("trace");
    let pid = host.agent_pid("web/0").expect("it runs").to_string();
    let mut strace = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=fsync,fdatasync,sync_file_range,msync", "-o"])
        .arg(&trace)
        .args(["-p", &pid])
        .spawn()
        .expect("strace is there: tests/prerequisites.sh");
    host.until("strace follows the agent", |_| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0")).then_some(())
    });
    let before = hooks(&host, "web/0").len();
    host.ok(&["config", "web", "color=blue"]);
    host.until_logged("color is blue");
    host.until_status("web/0", "blocked", "needs a database");
    assert_eq!(hooks(&host, "web/0").len(), before + 1, "one hook ran");
    let stopped = Command::new("kill").arg(strace.id().to_string()).status();
    assert!(stopped.is_ok_and(|status| status.success()));
    strace.wait().expect("strace ends");
    let trace = fs::read_to_string(&trace).expect("strace wrote it");
    let syncs = trace.lines().filter(|line| line.contains("sync(")).count();
    assert_eq!(syncs, 2, "{trace}");
}

#[test]
fn corrupt_files_are_reported_and_kept_and_the_agent_recovers() {
    let host = scene();
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.until_status("db/0", "active", "ready");
    let before = hooks(&host, "db/0");
    let folder = host.unit_folder("db/0").expect("it is deployed");
    for file in ["state.yaml", "journal.yaml"] {
        host.ok(&["down"]);
        let path = folder.join(file);
        let mut bytes = fs::read(&path).expect("the unit has files");
        if bytes.is_empty() {
            bytes = b"--- # 1 2 3\nnonsense\n".to_vec();
        }
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x55;
        fs::write(&path, &bytes).expect("it is ours");
        host.ok(&["up"]);
        host.until("the agent is back", |host| {
            let pid = host.agent_pid("db/0")?;
            Path::new(&format!("/proc/{pid}")).exists().then_some(())
        });
        host.ok(&["run", "db/0", "get-units"]);
        let log = fs::read_to_string(folder.join("agent.log")).expect("the agent has a log");
        assert!(log.contains(file) && (log.contains("corrupt") || log.contains("torn")), "{log}");
        let hook = |line: &&str| {
            line.contains("operation=hook install run=") && line.contains("finished: ok duration_ms=")
        };
        assert_eq!(log.lines().filter(hook).count(), 1, "{log}");
        assert!(log.contains("controller epoch="), "{log}");
        let after: Vec<String> =
            hooks(&host, "db/0").into_iter().filter(|hook| hook != "get-units").collect();
        assert_eq!(after, before, "after a flipped byte in {file}");
    }
}

/// Scenarios 65 and 64.
#[test]
fn a_lost_charm_folder_is_fetched_and_upgraded_and_a_complete_copy_is_kept() {
    let host = scene();
    deploy(&host, "db", &[]);
    until_ran(&host, "db/0", &STARTED);
    let charm = host.unit_folder("db/0").expect("it is deployed").join("charm");
    host.ok(&["down"]);
    let aside = host.copy_of(&charm, "aside");
    fs::remove_dir_all(&charm).expect("it is ours");
    fs::rename(&aside, &charm).expect("both are on one disk");
    host.ok(&["up"]);
    assert_eq!(results(&host, "db/0", "count")["hooks"], "4");
    let mut all = [&STARTED[..], &["count"]].concat();
    until_ran(&host, "db/0", &all);
    host.ok(&["down"]);
    fs::remove_dir_all(&charm).expect("it is ours");
    host.ok(&["up"]);
    all.extend(["upgrade-charm", "config-changed"]);
    until_ran(&host, "db/0", &all);
    assert_eq!(results(&host, "db/0", "count")["hooks"], "6", "what the unit stored is with the controller");
}

#[test]
fn a_folder_has_one_agent_and_the_agent_of_a_copy_stops() {
    let host = scene();
    host.ok(&["deploy", text(&sample("hello"))]);
    host.until("it has started", |host| {
        let idle = host.unit("hello/0")?["juju-status"]["current"] == "idle";
        (idle && hooks(host, "hello/0").contains(&"start".to_owned())).then_some(())
    });
    let folder = host.unit_folder("hello/0").expect("it is deployed");
    let agent = |folder: &Path| {
        let output =
            Command::new(programs().join("pintle-agent")).args(["unit", "--dir"]).arg(folder).output();
        let output = output.expect("it was built");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, stderr) = agent(&folder);
    assert_eq!(code, Some(5), "{stderr}");
    let pid = host.agent_pid("hello/0").expect("it runs").to_string();
    assert!(stderr.contains(&pid), "{stderr}");
    let before = hooks(&host, "hello/0");
    let elsewhere = host.dir.join("elsewhere/agents/unit-hello-0");
    fs::create_dir_all(elsewhere.parent().expect("it has one")).expect("it is ours");
    // The agent is stopped meanwhile, because it renames files, an idle one too, while `cp` reads them.
    let succeeds = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    assert!(succeeds(Command::new("kill").args(["-STOP", &pid])));
    assert!(succeeds(Command::new("cp").arg("-a").arg(&folder).arg(&elsewhere)));
    assert!(succeeds(Command::new("kill").args(["-CONT", &pid])));
    fs::remove_file(elsewhere.join("run")).expect("the link to the live agent's sockets");
    let (code, stderr) = agent(&elsewhere);
    assert_eq!(code, Some(5), "{stderr}");
    assert!(stderr.contains("a copy"), "{stderr}");
    let greeting = host.ok(&["run", "hello/0", "greet", "name=you"]);
    assert!(greeting.contains("Hello, you!"), "{greeting}");
    let after: Vec<String> = hooks(&host, "hello/0").into_iter().filter(|hook| hook != "greet").collect();
    assert_eq!(after, before, "the live agent went on undisturbed");
}

#[test]
fn invalid_input_prints_one_line_and_changes_nothing() {
    let host = scene();
    let dir = host.dir.join("charms");
    let charm = |name: &str, files: &[(&str, &str)]| {
        let folder = dir.join(name);
        fs::create_dir_all(folder.join("hooks")).expect("it is ours");
        fs::write(folder.join("hooks/install"), "#!/bin/sh\n").expect("it is ours");
        for (file, content) in files {
            fs::write(folder.join(file), content).expect("it is ours");
        }
        text(&folder).to_owned()
    };
    let revision = || host.status()["applications"].clone();
    let nothing = revision();
    let refused = |args: &[&str], words: &[&str]| {
        let error = host.refused(args);
        assert!(error.starts_with("ERROR "), "{args:?}: {error}");
        for word in words {
            assert!(error.contains(word), "{args:?} does not say {word:?}: {error}");
        }
    };
    refused(&["deploy", &charm("bare", &[])], &["metadata.yaml"]);
    let broken = charm("broken", &[("metadata.yaml", "name: x\nsummary: [\n")]);
    refused(&["deploy", &broken], &["metadata.yaml", "line"]);
    let two =
        charm("two", &[("metadata.yaml", "name: BAD\nsummary: s\ndescription: d\nprovides: {juju-x: y}\n")]);
    refused(&["deploy", &two], &["BAD", "juju-x"]);
    refused(&["deploy", text(&sample("hello")), "Not_A_Name"], &["Not_A_Name"]);
    refused(&["integrate", "no:such", "thing"], &["no"]);
    refused(&["config", "ghost", "a=b"], &["ghost"]);
    assert_eq!(revision(), nothing, "a refusal changes nothing");
    host.ok(&["deploy", text(&sample("pair-web")), "web"]);
    refused(&["deploy", text(&sample("pair-web")), "web"], &["already exists"]);
    refused(&["config", "web", "slow-seconds=soon"], &["slow-seconds", "expected int"]);
    refused(&["config", "web", "colour=red"], &["unknown option", "colour"]);
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    refused(&["integrate", "web:nope", "db"], &["nope"]);
    refused(&["why", "nobody/0"], &["nobody/0"]);
}

#[test]
fn the_proxies_of_a_model_are_set_in_its_next_hook_and_action() {
    let dir = TempDir::with_prefix("pintle-test-").expect("there is room for a test");
    let host = scene_with(dir, &[("KUBERNETES_SERVICE_HOST", "10.9.0.1".into())]);
    let charm = host.copy_of(&sample("hello"), "hello");
    for program in ["hooks/config-changed", "actions/greet"] {
        let dump = "#!/bin/sh\nenv >../dumped && mv ../dumped ../dump-$(basename $0)\n";
        fs::write(charm.join(program), dump).expect("the copy is ours");
    }
    host.ok(&["deploy", text(&charm)]);
    host.until("it has started", |host| hooks(host, "hello/0").contains(&"start".to_owned()).then_some(()));
    let folder = host.unit_folder("hello/0").expect("it is deployed");
    let agent = host.agent_pid("hello/0").expect("it runs");
    let variables = |of: &str| -> Vec<String> {
        let text = fs::read_to_string(folder.join(format!("dump-{of}"))).expect("it ran");
        let is_shown = |line: &&str| {
            let name = line.split('=').next().unwrap_or_default().to_lowercase();
            name.ends_with("_proxy") || name.starts_with("kubernetes")
        };
        let mut shown: Vec<String> = text.lines().filter(is_shown).map(str::to_owned).collect();
        shown.sort();
        shown
    };
    let none_set = [
        "JUJU_CHARM_FTP_PROXY=",
        "JUJU_CHARM_HTTPS_PROXY=",
        "JUJU_CHARM_HTTP_PROXY=",
        "JUJU_CHARM_NO_PROXY=127.0.0.1,localhost,::1",
        "KUBERNETES_SERVICE_HOST=10.9.0.1",
        "NO_PROXY=127.0.0.1,localhost,::1",
        "no_proxy=127.0.0.1,localhost,::1",
    ];
    assert_eq!(variables("config-changed"), none_set);
    host.ok(&[
        "model-config",
        "http-proxy=http://one:1",
        "no-proxy=10.0.0.0/8",
        "juju-https-proxy=https://two:2",
    ]);
    let all_set = [
        "HTTP_PROXY=http://one:1",
        "JUJU_CHARM_FTP_PROXY=",
        "JUJU_CHARM_HTTPS_PROXY=https://two:2",
        "JUJU_CHARM_HTTP_PROXY=",
        "JUJU_CHARM_NO_PROXY=127.0.0.1,localhost,::1",
        "KUBERNETES_SERVICE_HOST=10.9.0.1",
        "NO_PROXY=10.0.0.0/8",
        "http_proxy=http://one:1",
        "no_proxy=10.0.0.0/8",
    ];
    host.ok(&["run", "hello/0", "greet"]);
    assert_eq!(variables("greet"), all_set);
    let before = hooks(&host, "hello/0").len();
    host.ok(&["config", "hello", "greeting=again"]);
    host.until("config-changed ran again", |host| (hooks(host, "hello/0").len() > before).then_some(()));
    host.until("and is over", |host| {
        (host.unit("hello/0")?["juju-status"]["current"] == "idle").then_some(())
    });
    assert_eq!(variables("config-changed"), all_set);
    host.ok(&["model-config", "--reset", "http-proxy,no-proxy,juju-https-proxy"]);
    host.ok(&["run", "hello/0", "greet"]);
    assert_eq!(variables("greet"), none_set);
    assert_eq!(host.agent_pid("hello/0"), Some(agent), "it was not started again");
}

#[test]
fn up_fails_at_once_if_its_port_is_in_use_and_leaves_nothing() {
    let host = scene();
    host.ok(&["down"]);
    let file = fs::read_to_string(host.dir.join("client.yaml")).expect("it stays");
    let address = file.lines().find_map(|line| line.strip_prefix("controller: ")).expect("an address");
    let listener = std::net::TcpListener::bind(address).expect("it is free while all is down");
    let started = std::time::Instant::now();
    let error = host.refused(&["up"]);
    // less than the minute that up waits for an unreachable controller
    assert!(started.elapsed() < std::time::Duration::from_secs(30), "{:?}", started.elapsed());
    assert!(error.contains(address), "{error}");
    assert!(host.processes().is_empty(), "{:#?}", host.processes());
    drop(listener);
    host.ok(&["up"]);
}

#[test]
fn a_tool_without_a_running_hook_is_refused() {
    let host = scene();
    host.ok(&["deploy", text(&sample("hello"))]);
    host.until("it has started", |host| {
        let idle = host.unit("hello/0")?["juju-status"]["current"] == "idle";
        (idle && hooks(host, "hello/0").contains(&"start".to_owned())).then_some(())
    });
    let folder = host.unit_folder("hello/0").expect("it is deployed");
    let socket =
        folder.join("run").canonicalize().expect("run is the folder of the socket").join("agent.socket");
    let tool = |context: Option<&str>| {
        let mut command = Command::new(programs().join("pintle-hook"));
        command.arg("config-get").env_clear().env("JUJU_AGENT_SOCKET_NETWORK", "unix");
        command.env("JUJU_AGENT_SOCKET_ADDRESS", &socket);
        context.map(|context| command.env("JUJU_CONTEXT_ID", context));
        let output = command.output().expect("it was built");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(tool(None), (Some(1), "ERROR JUJU_CONTEXT_ID not set\n".to_owned()));
    let stale = tool(Some("hello/0-start-00000000000000000000000000000000"));
    assert_eq!(stale, (Some(1), "ERROR bad request: this context is closed\n".to_owned()));
}

/// The charm is from the source distribution of ops (tests/prerequisites.sh), and is deployed unmodified from its folder.
#[test]
fn a_third_party_ops_charm_reads_its_relations() {
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/ops-suite");
    let charm = suites.join("ops-3.9.0/test/charms/test_relation");
    let host = scene();
    host.ok(&["deploy", text(&charm), "test-relation", "--num-units", "2"]);
    host.ok(&["deploy", text(&sample("any"))]);
    host.ok(&["integrate", "test-relation:db", "any:db"]);
    host.ok(&["integrate", "test-relation:ingress", "any:ingress"]);
    host.until_status("test-relation/0", "active", "ok");
    host.until_status("test-relation/1", "active", "ok");
    let units = host.until("both relations and the peer are seen", |host| {
        let output = host.pintle(&["run", "test-relation/0", "get-units", "--format", "json"]);
        let task: Value = serde_json::from_str(&output.stdout).ok()?;
        let units = task["test-relation/0"]["results"]["units"].as_str()?;
        let units: Value = serde_json::from_str(units).ok()?;
        (units.as_object()?.len() == 3).then_some(units)
    });
    let expected = r#"{"db": ["any/0"], "ingress": ["any/0"], "peer": ["test-relation/1"]}"#;
    assert_eq!(units, serde_json::from_str::<Value>(expected).expect("it is JSON"));
}

/// The files of a data directory are never readable by other users.
#[test]
fn tokens_are_readable_by_their_user_only() {
    let host = scene();
    host.ok(&["deploy", text(&sample("hello"))]);
    host.until("it has started", |host| {
        let idle = host.unit("hello/0")?["juju-status"]["current"] == "idle";
        (idle && hooks(host, "hello/0").contains(&"start".to_owned())).then_some(())
    });
    let folder = host.unit_folder("hello/0").expect("it is deployed");
    let files: [PathBuf; 3] =
        [host.dir.join("client.yaml"), folder.join("agent.yaml"), folder.join("../../agent.yaml")];
    for file in files {
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(&file).expect("the file exists").permissions(),
        );
        assert_eq!(mode & 0o077, 0, "{}", file.display());
    }
    let loose = Command::new("chmod").arg("644").arg(host.dir.join("client.yaml")).status();
    assert!(loose.is_ok_and(|status| status.success()));
    let error = host.refused(&["status"]);
    assert!(error.contains("client.yaml") && error.contains("600"), "{error}");
    let tight = Command::new("chmod").arg("600").arg(host.dir.join("client.yaml")).status();
    assert!(tight.is_ok_and(|status| status.success()));
}
