//! Tests killed processes: the controller, a machine agent, a unit agent during an action, the action itself, a tool.

use api::text::activity::running;
use api::text::fault;
use api::text::refusal::failure;
use serde_json::Value;
use state::terms::activity::Activity;
use state::terms::cause::{Cause, Duty};
use state::terms::failure_reason::FailureReason;
use state::terms::health::ProcessEnd;
use state::terms::hook_name::HookName;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tests::host::Host;
use tests::scene::{Scene, scene, text};
use tests::tally::{STARTED, counted, deploy, logged, ran, results, tally, until_ran};

/// Deploys one unit of tally. Its config-changed and its action run as long as the returned file exists.
fn held() -> (Scene, PathBuf) {
    let scene = scene();
    let hold = scene.beside("hold");
    deploy(&scene, "db", &["--config", &format!("hold={}", text(&hold))]);
    until_ran(&scene, "db/0", &STARTED);
    fs::write(&hold, "").expect("it is ours");
    (scene, hold)
}

/// Waits until this is the newest process of the charm.
fn until_started(scene: &Scene, name: &str, times: usize) {
    scene.until(format_args!("{name} has started"), |_| {
        let started = ran(scene, "db/0").iter().filter(|ran| *ran == name).count();
        (started == times).then_some(())
    });
}

/// Kills a program of the data folder, and stops the supervisor so that the program is not restarted until this guard
/// is dropped.
struct KilledProgram<'a> {
    host: &'a Host,
    supervisor: i32,
}

impl<'a> KilledProgram<'a> {
    fn take(host: &'a Host, pid_file: &Path) -> KilledProgram<'a> {
        let supervisor = host.pid(&host.dir.join("supervisor.pid")).expect("it is up");
        host.signal("STOP", supervisor);
        host.kill(host.pid(pid_file).expect("it runs"));
        KilledProgram { host, supervisor }
    }
}

impl Drop for KilledProgram<'_> {
    fn drop(&mut self) {
        self.host.signal("CONT", self.supervisor);
    }
}

fn machine(host: &Host, unit: &str) -> PathBuf {
    let folder = host.unit_folder(unit).expect("it is deployed");
    folder.parent().and_then(Path::parent).expect("two up").to_path_buf()
}

#[test]
fn a_hook_ends_while_the_controller_is_away_and_its_effects_are_there_once() {
    let (scene, hold) = held();
    scene.ok(&["config", "db", "say=alone"]);
    until_started(&scene, "config-changed", 2);
    let away = KilledProgram::take(&scene, &scene.dir.join("controller.pid"));
    let error = scene.refused(&["status"]);
    assert!(error.starts_with("ERROR ") && error.contains(text(&scene.dir)), "{error}");
    let (last, _) = scene.runs("db/0").pop().expect("it runs");
    let outcome = scene.run_folder("db/0", last).expect("it is kept").join("outcome");
    let pid = scene.agent_pid("db/0");
    fs::remove_file(&hold).expect("it was made");
    scene.until("the hook has ended", |_| {
        fs::read_to_string(&outcome).ok().filter(|text| text.trim() == "exit 0")
    });
    assert_eq!(scene.agent_pid("db/0"), pid, "the agent lives on");
    drop(away);
    scene.until("the controller is back", |host| (host.pintle(&["status"]).code == 0).then_some(()));
    let hooks = [&STARTED[..], &["config-changed"]].concat();
    until_ran(&scene, "db/0", &hooks);
    scene.until("its line is there", |host| (logged(host, "db/0") == counted(&hooks)).then_some(()));
    assert_eq!(results(&scene, "db/0", "count")["hooks"], "5");
    assert_eq!(logged(&scene, "db/0"), counted(&hooks));
    let log = scene.unit_folder("db/0").expect("deployed").join("agent.log");
    let log = fs::read_to_string(log).expect("agents have a log");
    assert_eq!(log.matches("the controller answers again").count(), 1, "{log}");
}

#[test]
fn a_running_hook_is_reported_again_after_a_controller_restart() {
    let (scene, hold) = held();
    scene.ok(&["config", "db", "say=on"]);
    until_started(&scene, "config-changed", 2);
    let running = |host: &Host| {
        let is_running = |cause: &Cause| match &cause.duty {
            Duty::Finish { activity, .. } => *activity == Activity::hook(HookName::ConfigChanged),
            _ => false,
        };
        host.causes("db/0").iter().any(is_running).then_some(())
    };
    scene.until("the hook is reported", running);
    let pid_file = scene.dir.join("controller.pid");
    let before = scene.pid(&pid_file).expect("it runs");
    scene.kill(before);
    scene.until("another controller runs", |host| host.pid(&pid_file).filter(|now| *now != before));
    scene.until("it answers", |host| (host.pintle(&["status"]).code == 0).then_some(()));
    scene.until("the hook is reported to it", running);
    fs::remove_file(&hold).expect("it was made");
    until_ran(&scene, "db/0", &[&STARTED[..], &["config-changed"]].concat());
}

/// Only the supervisor sees how it ends. A controller that was restarted is told again.
#[test]
fn a_machine_agent_that_ends_at_each_start_is_named_with_its_end_and_its_error() {
    let (scene, hold) = held();
    fs::remove_file(&hold).expect("it was made");
    let folder = machine(&scene, "db/0");
    let config = folder.join("agent.yaml");
    let set_mode = |mode| fs::set_permissions(&config, fs::Permissions::from_mode(mode)).expect("it is ours");
    set_mode(0o644);
    scene.kill(scene.pid(&folder.join("machine.pid")).expect("it runs"));
    let controller = scene.dir.join("controller.pid");
    let first = scene.pid(&controller).expect("it runs");
    scene.kill(first);
    scene.until("another controller runs", |host| host.pid(&controller).filter(|now| *now != first));
    scene.until("it answers", |host| (host.pintle(&["status"]).code == 0).then_some(()));
    let exits = scene.until("its end is named", |host| {
        host.causes("machine/0").into_iter().find_map(|cause| match cause.duty {
            Duty::RunMachineAgent { exits, .. } => exits,
            _ => None,
        })
    });
    assert!(matches!(exits.end, ProcessEnd::Code(_)) && exits.count >= 3, "{exits:?}");
    assert!(exits.last_error.as_ref().is_some_and(|error| error.contains("agent.yaml")), "{exits:?}");
    let shown = scene.ok(&["why", "machine/0"]);
    assert!(shown.contains(&fault::process_end(&exits.end)) && shown.contains("agent.yaml"), "{shown}");
    set_mode(0o600);
    scene.until("the agent reports again", |host| {
        let is_silent = |cause: &Cause| matches!(cause.duty, Duty::RunMachineAgent { .. });
        (!host.causes("machine/0").iter().any(is_silent)).then_some(())
    });
}

/// Scenario 181, in both variants: the unit agents survive the machine agent, or crash with it.
#[test]
fn a_machine_agent_is_killed_beside_its_units_and_finds_them() {
    let (scene, hold) = held();
    fs::remove_file(&hold).expect("it was made");
    let machine_pid = machine(&scene, "db/0").join("machine.pid");
    let (all, started) = (["db/0", "db/1", "db/2"], ["install", "config-changed", "start"]);
    for more in &all[1..] {
        scene.ok(&["add-unit", "db", "--to", "0"]);
        until_ran(&scene, more, &started);
    }
    fs::write(&hold, "").expect("it is ours");
    scene.ok(&["config", "db", "say=x"]);
    // the hook of the unit that has the machine's hook lock
    scene.until("a hook runs", |_| {
        let hooks_run = all.map(|unit| ran(&scene, unit).len()).iter().sum::<usize>();
        (hooks_run > STARTED.len() + 2 * started.len()).then_some(())
    });
    let agents = || all.map(|unit| scene.agent_pid(unit));
    // also the inode of its folder, which changes if the unit is deployed again
    let given = || {
        all.map(|unit| {
            let folder = scene.unit_folder(unit).expect("it is deployed");
            let number =
                std::os::unix::fs::MetadataExt::ino(&fs::metadata(&folder).expect("the file exists"));
            (number, fs::read_to_string(folder.join("agent.yaml")).expect("it has a token"))
        })
    };
    let (before_of, given_before) = (agents(), given());
    let unit = scene.agent_pid("db/0").expect("it runs");
    let before = scene.pid(&machine_pid).expect("it runs");
    scene.kill(before);
    scene.until("the machine's agent is back", |host| host.pid(&machine_pid).filter(|now| *now != before));
    fs::remove_file(&hold).expect("it was made");
    until_ran(&scene, "db/0", &[&STARTED[..], &["config-changed"]].concat());
    for more in &all[1..] {
        until_ran(&scene, more, &[&started[..], &["config-changed"]].concat());
    }
    assert_eq!(agents(), before_of, "the units' agents were not touched");
    // the unit agent is supervised again: it is restarted when it dies
    scene.kill(unit);
    scene.until("the unit's agent is back", |host| host.agent_pid("db/0").filter(|now| *now != unit));
    // all agents are killed together, and all are restarted
    let before_of = agents();
    let away = KilledProgram::take(&scene, &machine_pid);
    before_of.iter().flatten().for_each(|pid| scene.kill(*pid));
    drop(away);
    for (unit, before) in all.iter().zip(before_of) {
        scene.until(format_args!("the agent of {unit} is back"), |host| {
            host.agent_pid(unit).filter(|now| Some(*now) != before)
        });
    }
    assert_eq!(results(&scene, "db/0", "count")["hooks"], "5", "no hook ran again");
    for more in &all[1..] {
        assert_eq!(results(&scene, more, "count")["hooks"], "4", "{more}");
    }
    assert!(given() == given_before, "three folders and three tokens, and they are as they were");
    // a removal that is requested while the machine agent is down
    let away = KilledProgram::take(&scene, &machine_pid);
    scene.ok(&["remove-application", "db", "--no-prompt"]);
    until_started(&scene, "remove", 1);
    assert!(scene.unit_folder("db/0").is_some(), "nobody is there to recall it");
    drop(away);
    scene.until("the unit is gone", |host| {
        let removed = host.status()["applications"]["db"].is_null() && host.unit_folder("db/0").is_none();
        removed.then_some(())
    });
    let ran = ran(&scene, "db/0");
    assert_eq!(ran[ran.len() - 2..], ["stop", "remove"]);
}

/// Requests the action `hold` and waits until it has started.
fn held_action(scene: &Scene) -> std::thread::JoinHandle<tests::host::CommandOutput> {
    let dir = scene.dir.clone();
    let asked = std::thread::spawn(move || {
        let host = std::mem::ManuallyDrop::new(Host::new(&dir));
        host.pintle(&["run", "db/0", "hold", "--format", "json"])
    });
    until_started(scene, "hold", 1);
    asked
}

/// Returns the process ID in this pid file of the newest run.
fn of_run(scene: &Scene, file: &str) -> i32 {
    let (last, _) = scene.runs("db/0").pop().expect("it runs");
    let folder = scene.run_folder("db/0", last).expect("it is kept");
    scene.until(format_args!("{file} is written"), |host| host.pid(&folder.join(file)))
}

fn task(output: &tests::host::CommandOutput) -> Value {
    let task: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    task["db/0"].clone()
}

/// Scenarios 155 and 156: while a hook runs, a setting changes and changes again; each hook leaves a child behind that
/// holds its output open.
#[test]
fn a_hook_sees_one_configuration_and_its_child_keeps_nobody_waiting() {
    let scene = scene();
    let (hold, report) = (scene.beside("hold"), scene.beside("report"));
    let charm = scene.copy_of(&tally(), "twice");
    let dispatch = fs::read_to_string(charm.join("dispatch")).expect("the charm has one");
    let holding = "    hold\n    ;;\nstart)";
    assert!(dispatch.contains(holding));
    let twice = format!(
        "    say=$(config-get say)\n    sleep 600 &\n    hold\n    echo \"$! $say $(config-get say)\" >>{}\n    ;;\nstart)",
        text(&report)
    );
    fs::write(charm.join("dispatch"), dispatch.replace(holding, &twice)).expect("it is ours");
    let options = [("ran", scene.beside("ran")), ("hold", hold.clone())];
    let options = options.map(|(name, path)| format!("{name}={}", text(&path)));
    let [ran_option, hold_option] = &options;
    scene.ok(&["deploy", text(&charm), "db", "--config", ran_option, "--config", hold_option]);
    until_ran(&scene, "db/0", &STARTED);
    fs::write(&hold, "").expect("it is ours");
    scene.ok(&["config", "db", "say=one"]);
    until_started(&scene, "config-changed", 2);
    scene.ok(&["config", "db", "say=two"]);
    let view = scene.unit_folder("db/0").expect("deployed").join("view/unit.yaml");
    scene.until("the agent was shown the change", |_| {
        fs::read_to_string(&view).is_ok_and(|view| view.contains("two")).then_some(())
    });
    fs::remove_file(&hold).expect("it was made");
    until_ran(&scene, "db/0", &[&STARTED[..], &["config-changed", "config-changed"]].concat());
    let report = fs::read_to_string(report).expect("the hooks wrote it");
    let (children, read): (Vec<&str>, Vec<&str>) =
        report.lines().map(|line| line.split_once(' ').expect("a pid, and what was read")).unzip();
    assert_eq!(read, ["nothing nothing", "one one", "two two"]);
    for child in children {
        assert!(Path::new("/proc").join(child).exists(), "{child} lives on: nobody waited for it");
        scene.kill(child.parse().expect("a pid"));
    }
}

#[test]
fn a_hook_that_goes_on_and_on_is_named_with_its_folder_until_it_ends() {
    let (scene, hold) = held();
    scene.ok(&["config", "db", "say=something"]);
    until_started(&scene, "config-changed", 2);
    let why = scene.until("why names the hook", |host| {
        let why = host.ok(&["why", "db/0"]);
        why.contains("stop-hook").then_some(why)
    });
    assert!(
        why.contains(&running(&Activity::hook(HookName::ConfigChanged))) && why.contains("charm"),
        "{why}"
    );
    fs::remove_file(&hold).expect("it was made");
    scene.until("why no longer names the hook", |host| {
        let why = host.ok(&["why", "db/0"]);
        (!why.contains("stop-hook")).then_some(())
    });
}

#[test]
fn a_tool_may_be_killed_at_any_of_its_calls_and_what_it_sets_is_there_or_is_not() {
    let (scene, _hold) = held();
    let swept = results(&scene, "db/0", "sweep");
    let number = |name: &str| swept[name].as_str().and_then(|text| text.parse::<u32>().ok());
    let (points, took) = (number("points").expect("a number"), number("took").expect("a number"));
    assert!(points >= 5, "it opens a socket, connects, writes, reads and ends: {swept}");
    assert_eq!(swept["lived"], "0", "each call was met: {swept}");
    assert!((1..points).contains(&took), "killed before its call it set nothing, after it all: {swept}");
    assert_eq!(results(&scene, "db/0", "count")["swept"], swept["last"], "and no more when the action ended");
}

#[test]
fn what_an_action_prints_is_its_result_byte_for_byte() {
    let (scene, hold) = held();
    fs::remove_file(&hold).expect("it was made");
    let output = scene.pintle(&["run", "db/0", "print", "--format", "json"]);
    let results = &task(&output)["results"];
    assert_eq!(results["stdout"], format!("{:05000}", 7), "no line is cut, no newline is added");
    assert_eq!((&results["stderr"], &results["stderr-encoding"]), (&"/wo=".into(), &"base64".into()));
}

#[test]
fn an_action_outlives_the_agent_that_began_it() {
    let (scene, hold) = held();
    let asked = held_action(&scene);
    let agent = scene.agent_pid("db/0").expect("it runs");
    scene.kill(agent);
    scene.until("another agent", |host| host.agent_pid("db/0").filter(|now| *now != agent));
    fs::remove_file(&hold).expect("it was made");
    let output = asked.join().expect("it only asks");
    assert_eq!((output.code, &task(&output)["status"]), (0, &Value::from("completed")), "{output:?}");
    assert_eq!(task(&output)["results"]["held"], "over");
    until_ran(&scene, "db/0", &[&STARTED[..], &["hold"]].concat());
}

#[test]
fn an_action_that_is_killed_fails_and_is_not_run_again() {
    let (scene, _hold) = held();
    let asked = held_action(&scene);
    let action = of_run(&scene, "hook.pid");
    scene.kill(action);
    let output = asked.join().expect("it only asks");
    assert_eq!((output.code, &task(&output)["status"]), (1, &Value::from("failed")), "{output:?}");
    let killed = task(&output)["message"].as_str().expect("a message").to_owned();
    assert!(killed.ends_with("signal 9"), "{killed}");
    assert!(output.stderr.contains("task failed"), "{output:?}");
    until_ran(&scene, "db/0", &[&STARTED[..], &["hold"]].concat());
    assert_eq!(scene.unit("db/0").expect("deployed")["workload-status"]["current"], "active", "no error");
}

#[test]
fn an_action_killed_with_its_agent_fails_and_is_not_run_again() {
    let (scene, _hold) = held();
    let asked = held_action(&scene);
    let (agent, shim, action) =
        (scene.agent_pid("db/0").expect("it runs"), of_run(&scene, "shim.pid"), of_run(&scene, "hook.pid"));
    [agent, shim, action].into_iter().for_each(|pid| scene.kill(pid));
    let output = asked.join().expect("it only asks");
    assert_eq!((output.code, &task(&output)["status"]), (1, &Value::from("failed")), "{output:?}");
    assert_eq!(task(&output)["message"], failure(&FailureReason::Interrupted));
    // the next action runs, and the killed one does not run again
    assert_eq!(results(&scene, "db/0", "count")["hooks"], "4");
    until_ran(&scene, "db/0", &[&STARTED[..], &["hold", "count"]].concat());
}
