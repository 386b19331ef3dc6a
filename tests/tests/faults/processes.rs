//! Processes that are killed: the controller, a machine's agent, a unit's agent in an action, the action itself.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tests::host::Host;
use tests::scene::{Scene, scene, text};
use tests::story::{STARTED, counted, deploy, logged, ran, results, until_ran};

/// One unit of tally that has started, whose config-changed and action go on while the file of the answer exists.
fn held() -> (Scene, PathBuf) {
    let scene = scene();
    let hold = scene.beside("hold");
    deploy(&scene, "db", &["--config", &format!("hold={}", text(&hold))]);
    until_ran(&scene, "db/0", &STARTED);
    fs::write(&hold, "").expect("it is ours");
    (scene, hold)
}

/// Waits until the newest process of the charm is this one.
fn until_begun(scene: &Scene, name: &str, times: usize) {
    scene.until(format_args!("{name} has begun"), |_| {
        let begun = ran(scene, "db/0").iter().filter(|ran| *ran == name).count();
        (begun == times).then_some(())
    });
}

/// A program of the data folder is away until the answer is dropped: whoever would start it again stands still.
struct Away<'a> {
    host: &'a Host,
    supervisor: i32,
}

impl<'a> Away<'a> {
    fn take(host: &'a Host, pid_file: &Path) -> Away<'a> {
        let supervisor = host.pid(&host.dir.join("supervisor.pid")).expect("it is up");
        host.signal("STOP", supervisor);
        host.kill(host.pid(pid_file).expect("it runs"));
        Away { host, supervisor }
    }
}

impl Drop for Away<'_> {
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
    until_begun(&scene, "config-changed", 2);
    let away = Away::take(&scene, &scene.dir.join("controller.pid"));
    let said = scene.refused(&["status"]);
    assert!(said.starts_with("ERROR the controller of ") && said.contains("does not answer"), "{said}");
    let (last, _) = scene.runs("db/0").pop().expect("it runs");
    let outcome = scene.unit_folder("db/0").expect("deployed").join(format!("hooks/{last:06}/outcome"));
    let pid = scene.agent_pid("db/0");
    fs::remove_file(&hold).expect("it was made");
    scene.until("the hook has ended", |_| fs::read_to_string(&outcome).ok().filter(|text| text == "exit 0"));
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
fn a_machine_agent_is_killed_beside_its_units_and_finds_them() {
    let (scene, hold) = held();
    let machine_pid = machine(&scene, "db/0").join("machine.pid");
    scene.ok(&["config", "db", "say=x"]);
    until_begun(&scene, "config-changed", 2);
    let unit = scene.agent_pid("db/0").expect("it runs");
    let before = scene.pid(&machine_pid).expect("it runs");
    scene.kill(before);
    scene.until("the machine's agent is back", |host| host.pid(&machine_pid).filter(|now| *now != before));
    fs::remove_file(&hold).expect("it was made");
    until_ran(&scene, "db/0", &[&STARTED[..], &["config-changed"]].concat());
    assert_eq!(scene.agent_pid("db/0"), Some(unit), "the unit's agent was not touched");
    // adopted, not only left alone: it is started again when it dies
    scene.kill(unit);
    scene.until("the unit's agent is back", |host| host.agent_pid("db/0").filter(|now| *now != unit));
    // away together: both come back
    let unit = scene.agent_pid("db/0").expect("it runs");
    let away = Away::take(&scene, &machine_pid);
    scene.kill(unit);
    drop(away);
    scene.until("the unit's agent is back", |host| host.agent_pid("db/0").filter(|now| *now != unit));
    assert_eq!(results(&scene, "db/0", "count")["hooks"], "5", "no hook ran again");
    // a removal that was asked for while it was away
    let away = Away::take(&scene, &machine_pid);
    scene.ok(&["remove-application", "db", "--no-prompt"]);
    until_begun(&scene, "remove", 1);
    assert!(scene.unit_folder("db/0").is_some(), "nobody is there to recall it");
    drop(away);
    scene.until("the unit is gone", |host| {
        let gone = host.status()["applications"]["db"].is_null() && host.unit_folder("db/0").is_none();
        gone.then_some(())
    });
    let ran = ran(&scene, "db/0");
    assert_eq!(ran[ran.len() - 2..], ["stop", "remove"]);
}

/// The action `hold`, asked for and begun.
fn held_action(scene: &Scene) -> std::thread::JoinHandle<tests::host::Said> {
    let dir = scene.dir.clone();
    let asked = std::thread::spawn(move || {
        let host = std::mem::ManuallyDrop::new(Host::new(&dir));
        host.pintle(&["run", "db/0", "hold", "--format", "json"])
    });
    until_begun(scene, "hold", 1);
    asked
}

/// The process of the newest run that a file names.
fn of_run(scene: &Scene, file: &str) -> i32 {
    let (last, _) = scene.runs("db/0").pop().expect("it runs");
    let folder = scene.unit_folder("db/0").expect("deployed").join(format!("hooks/{last:06}"));
    scene.until(format_args!("{file} is written"), |host| host.pid(&folder.join(file)))
}

fn task(said: &tests::host::Said) -> Value {
    let task: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    task["db/0"].clone()
}

#[test]
fn a_hook_that_goes_on_and_on_is_named_with_its_folder_until_it_ends() {
    let (scene, hold) = held();
    scene.ok(&["config", "db", "say=something"]);
    until_begun(&scene, "config-changed", 2);
    let why = scene.until("why names the hook", |host| {
        let why = host.ok(&["why", "db/0"]);
        why.contains("hook.pid").then_some(why)
    });
    assert!(why.contains("running config-changed hook") && why.contains("charm"), "{why}");
    fs::remove_file(&hold).expect("it was made");
    scene.until("why lets go of it", |host| {
        let why = host.ok(&["why", "db/0"]);
        (!why.contains("hook.pid")).then_some(())
    });
}

#[test]
fn what_an_action_prints_is_its_result_byte_for_byte() {
    let (scene, hold) = held();
    fs::remove_file(&hold).expect("it was made");
    let said = scene.pintle(&["run", "db/0", "print", "--format", "json"]);
    let results = &task(&said)["results"];
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
    let said = asked.join().expect("it only asks");
    assert_eq!((said.code, &task(&said)["status"]), (0, &Value::from("completed")), "{said:?}");
    assert_eq!(task(&said)["results"]["held"], "over");
    until_ran(&scene, "db/0", &[&STARTED[..], &["hold"]].concat());
}

#[test]
fn an_action_that_is_killed_fails_and_is_not_run_again() {
    let (scene, _hold) = held();
    let asked = held_action(&scene);
    let action = of_run(&scene, "hook.pid");
    scene.kill(action);
    let said = asked.join().expect("it only asks");
    assert_eq!((said.code, &task(&said)["status"]), (1, &Value::from("failed")), "{said:?}");
    assert_eq!(task(&said)["message"], "killed by signal 9");
    assert!(said.stderr.contains("the following task failed:"), "{said:?}");
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
    let said = asked.join().expect("it only asks");
    assert_eq!((said.code, &task(&said)["status"]), (1, &Value::from("failed")), "{said:?}");
    assert_eq!(task(&said)["message"], "the agent stopped while the action ran");
    // what is asked next runs, and the killed one does not
    assert_eq!(results(&scene, "db/0", "count")["hooks"], "4");
    until_ran(&scene, "db/0", &[&STARTED[..], &["hold", "count"]].concat());
}
