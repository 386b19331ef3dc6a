//! End-to-end tests of commands beside the hooks: `pintle exec` on units and on machines, and `juju-exec` on the machine.

use api::text::refusal::message;
use host::lock::Lock;
use serde_json::Value;
use state::terms::cause::Duty;
use state::terms::refusal::machine::MachineRefusal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use tests::host::{Host, sample};
use tests::scene::{Scene, hooks, scene, text};

fn started_hello() -> Scene {
    let scene = scene();
    scene.ok(&["deploy", text(&sample("hello"))]);
    scene.until("it has started", |host| hooks(host, "hello/0").contains(&"start".to_owned()).then_some(()));
    scene
}

/// The program `juju-exec` of the machine of hello/0.
fn juju_exec(host: &Host) -> String {
    let folder = host.unit_folder("hello/0").expect("it is deployed");
    text(&folder.join("../../tools/unit-hello-0/juju-exec")).to_owned()
}

fn task(host: &Host, id: &str) -> Value {
    serde_json::from_str(&host.ok(&["show-task", id, "--format", "json"])).expect("JSON")
}

#[test]
fn commands_run_on_a_machine_without_the_context_of_a_unit() {
    let host = started_hello();
    let environment = host.ok(&["exec", "--machine", "0", "--", "env; pwd"]);
    assert!(!environment.contains("JUJU_") && environment.ends_with("\n/\n"), "{environment}");

    let failing = ["exec", "--machine", "0", "--format", "json", "--", "echo out; echo bad >&2; exit 3"];
    let output = host.pintle(&failing);
    let printed: Value = serde_json::from_str(&output.stdout).expect("JSON");
    let (machine, results) = (&printed["0"]["machine"], &printed["0"]["results"]);
    assert_eq!((output.code, machine, &results["return-code"]), (1, &"0".into(), &3.into()));
    assert_eq!((&results["stdout"], &results["stderr"]), (&"out\n".into(), &"bad\n".into()));

    let within = format!("{} hello/0 true", juju_exec(&host));
    let output = host.pintle(&["exec", "--machine", "0", "--format", "json", "--", &within]);
    let printed: Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(printed["0"]["results"]["return-code"], 2, "it would wait for itself: {printed}");

    host.ok(&["add-machine"]);
    let refused = host.refused(&["exec", "--machine", "1", "true"]);
    let no_unit = MachineRefusal::NoUnit { machine: "1".to_owned() };
    assert!(refused.contains(&message(&no_unit.into())), "{refused}");
    let printed = host.ok(&["exec", "--all", "--format", "json", "--", "echo all"]);
    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    let machines = printed.as_object().expect("results by machine").keys().collect::<Vec<_>>();
    assert_eq!(machines, ["0"]);
    assert_eq!(printed["0"]["results"]["stdout"], "all\n");
}

#[test]
fn a_client_that_stops_waiting_ends_nothing_and_cancel_task_ends_the_process() {
    let host = started_hello();
    let marker = host.beside("ended");
    let script = format!("trap 'touch {0}; exit 0' TERM; echo begun; sleep 300 & wait", marker.display());
    host.refused(&["exec", "--machine", "0", "--wait", "1ms", "--", &script]);
    let id = "1";
    host.until("it runs", |host| (task(host, id)["status"] == "running").then_some(()));
    host.ok(&["cancel-task", id]);
    host.until("its process has ended", |_| marker.exists().then_some(()));
    host.until("the task has ended", |host| task(host, id)["timing"]["completed"].is_string().then_some(()));
    assert_eq!(task(&host, id)["machine"], "0");
}

/// Deploys two units to one machine. Their actions create the file `begun-ACTION` and end when their folder has the file
/// `go`; `copy` and `same` are of one execution group.
fn two_units_with_actions() -> Scene {
    let scene = scene();
    let charm = scene.copy_of(&sample("hello"), "hello");
    let actions = "slow: {}\nparallel: {parallel: true}\ncopy: {execution-group: copies}\n\
                   same: {parallel: true, execution-group: copies}\n";
    fs::write(charm.join("actions.yaml"), actions).expect("it is the test's");
    let program = "#!/bin/sh\ntouch begun-$JUJU_ACTION_NAME\nwhile [ ! -e go ]; do sleep 0.05; done\n";
    for action in ["slow", "parallel", "copy", "same"] {
        let file = charm.join("actions").join(action);
        fs::write(&file, program).expect("it is the test's");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it is the test's");
    }
    scene.ok(&["deploy", text(&charm)]);
    scene.ok(&["add-unit", "hello", "--to", "0"]);
    for unit in ["hello/0", "hello/1"] {
        scene.until("it started", |host| hooks(host, unit).contains(&"start".to_owned()).then_some(()));
    }
    scene
}

/// The execution group whose lock the unit waits for; an inner none for the hook lock.
fn awaited_lock(host: &Host, unit: &str) -> Option<Option<String>> {
    host.causes(unit).into_iter().find_map(|cause| match cause.duty {
        Duty::ReleaseHookLock { group, .. } => Some(group),
        _ => None,
    })
}

#[test]
fn actions_wait_for_the_lock_that_their_charm_declares_and_no_other() {
    let host = two_units_with_actions();
    let file =
        |unit: &str, name: &str| host.unit_folder(unit).expect("it is deployed").join("charm").join(name);
    let started = |unit: &str, action: &str| {
        host.ok(&["run", unit, action, "--background"]);
        host.until(action, |_| file(unit, &format!("begun-{action}")).exists().then_some(()));
    };
    started("hello/0", "slow");
    fs::write(file("hello/1", "go"), "").expect("written");
    for action in ["parallel", "copy"] {
        host.ok(&["run", "hello/1", action]);
    }
    host.ok(&["run", "hello/1", "slow", "--background"]);
    host.until("it waits for the hook lock", |host| {
        (awaited_lock(host, "hello/1") == Some(None)).then_some(())
    });
    assert!(!file("hello/1", "begun-slow").exists());
    fs::write(file("hello/0", "go"), "").expect("written");
    host.until("both have run", |_| file("hello/1", "begun-slow").exists().then_some(()));
    fs::remove_file(file("hello/0", "go")).expect("written above");

    started("hello/0", "copy");
    host.ok(&["run", "hello/1", "slow"]);
    host.ok(&["run", "hello/1", "same", "--background"]);
    let copies = Some(Some("copies".to_owned()));
    host.until("it waits for the group", |host| (awaited_lock(host, "hello/1") == copies).then_some(()));
    // the shim of the action holds the lock when its agent is dead
    let lock = file("hello/0", "").ancestors().nth(3).expect("three up").join("hook-copies.lock");
    host.signal("KILL", host.agent_pid("hello/0").expect("it runs"));
    assert!(Lock::take(&lock, "a test").expect("it can be opened").is_err(), "the action runs");
    assert!(!file("hello/1", "begun-same").exists());
    fs::write(file("hello/0", "go"), "").expect("written");
    host.until("it has run", |_| file("hello/1", "begun-same").exists().then_some(()));
    host.until("the action was not lost", |host| (task(host, "5")["status"] == "completed").then_some(()));
}

/// The charm declares no storage, which the controller finds when it applies the record of the commands.
#[test]
fn juju_exec_fails_if_the_controller_refuses_the_changes_of_its_commands() {
    let host = started_hello();
    let exec = |script: &str| -> Output {
        Command::new(juju_exec(&host)).args(["hello/0", script]).output().expect("it is on the machine")
    };
    let refused = exec("echo out; storage-add nosuch");
    assert_eq!((refused.status.code(), &refused.stdout[..]), (Some(1), &b"out\n"[..]));
    assert!(refused.stderr.starts_with(b"ERROR "), "{}", String::from_utf8_lossy(&refused.stderr));
    let failed = exec("storage-add nosuch; exit 3");
    assert_eq!(failed.status.code(), Some(3), "nothing is changed, and nothing refused");
    let accepted = exec("open-port 8080");
    assert_eq!((accepted.status.code(), &accepted.stderr[..]), (Some(0), &b""[..]));
}
