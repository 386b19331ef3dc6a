//! When a unit has a warm parent, and what is left when processes are killed.

use super::{DISPATCHES, agent_log, deploy, last_run, parent_of, probe, run, run_warm, scene, set_warm};
use agent::hook_process::run_files::read_run_file;
use state::terms::operation::Operation;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tests::host::is_running;
use tests::scene::{Scene, text};

/// The dispatch script whose shell replaces itself by Python.
const WITH_EXEC: &str = DISPATCHES[1].1;
/// The dispatch script whose shell waits for Python.
const WITHOUT_EXEC: &str = DISPATCHES[0].1;

/// A unit whose action `wait` runs, forked by a warm parent.
struct Waiting {
    scene: Scene,
    charm: PathBuf,
    /// The command that waits for the action.
    command: Child,
    parent: i32,
    /// The process of the charm.
    hook: i32,
}

const UNIT: &str = "probe/0";

fn waiting(dispatch: &str) -> Waiting {
    let scene = scene();
    deploy(&scene, "probe", dispatch);
    run_warm(&scene, UNIT, &["facts"]);
    let charm = scene.unit_folder(UNIT).expect("it is deployed").join("charm");
    let parent = parent_of(&scene, UNIT).expect("it has a parent");
    let command = Command::new(scene.programs.join("pintle"))
        .args(["--data", text(&scene.dir), "run", UNIT, "wait"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it is built");
    let hook = scene.until("the action runs", |_| pids(&charm).pop());
    let (number, _) = scene.runs(UNIT).pop().expect("it runs");
    let run = scene.run_folder(UNIT, number).expect("it runs");
    assert!(read_run_file(&run).expect("it is started").is_warm());
    Waiting { scene, charm, command, parent, hook }
}

/// The processes of the action `wait` so far.
fn pids(charm: &std::path::Path) -> Vec<i32> {
    let text = fs::read_to_string(charm.join("waiting")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

impl Waiting {
    /// Lets the action end, which succeeds and has run once.
    fn finish(mut self) -> Scene {
        fs::write(self.charm.join("go"), "").expect("written");
        assert!(self.command.wait().expect("it ends").success(), "{}", agent_log(&self.scene, UNIT));
        assert_eq!(pids(&self.charm), [self.hook], "it has run once");
        let run = last_run(&self.scene, UNIT, 0);
        assert_eq!(run.file("outcome").trim(), "exit 0");
        self.scene
    }
}

#[test]
fn a_run_outlives_its_warm_parent() {
    let waiting = waiting(WITH_EXEC);
    let parent = waiting.parent;
    waiting.scene.kill(parent);
    waiting.scene.until("the parent has ended", |_| (!is_running(parent)).then_some(()));
    assert!(is_running(waiting.hook));
    let scene = waiting.finish();
    run_warm(&scene, UNIT, &["facts"]);
    let next = parent_of(&scene, UNIT).expect("there is another parent");
    assert_ne!(next, parent);
    // also an idle one
    scene.kill(next);
    let facts = run(&scene, UNIT, &["facts"]);
    assert_eq!((facts.is_warm, facts.code), (false, 0));
    run_warm(&scene, UNIT, &["facts"]);
}

#[test]
fn a_run_outlives_its_agent_and_its_parent_does_not() {
    let waiting = waiting(WITHOUT_EXEC);
    let agent = waiting.scene.agent_pid(UNIT).expect("it runs");
    waiting.scene.kill(agent);
    waiting.scene.until("the parent has ended", |_| (!is_running(waiting.parent)).then_some(()));
    waiting.scene.until("another agent runs", |host| host.agent_pid(UNIT).filter(|pid| *pid != agent));
    assert!(is_running(waiting.hook));
    let scene = waiting.finish();
    run_warm(&scene, UNIT, &["facts"]);
}

#[test]
fn a_run_without_its_shim_is_killed_and_not_repeated() {
    let waiting = waiting(WITH_EXEC);
    let (number, _) = waiting.scene.runs(UNIT).pop().expect("it runs");
    let run = waiting.scene.run_folder(UNIT, number).expect("it runs");
    let shim = waiting.scene.pid(&run.join("shim.pid")).expect("it runs");
    waiting.scene.kill(shim);
    // an interrupted action fails, and its processes are killed
    waiting.scene.until("the hook has ended", |_| (!is_running(waiting.hook)).then_some(()));
    let mut command = waiting.command;
    assert!(!command.wait().expect("it ends").success());
    assert_eq!(pids(&waiting.charm), [waiting.hook]);
}

#[test]
fn a_cancelled_run_ends_with_its_group() {
    for dispatch in [WITH_EXEC, WITHOUT_EXEC] {
        let mut waiting = waiting(dispatch);
        let (number, _) = waiting.scene.runs(UNIT).pop().expect("it runs");
        let run = waiting.scene.run_folder(UNIT, number).and_then(|folder| read_run_file(&folder));
        let run = run.expect("it runs");
        let Operation::Action { id, .. } = run.operation() else { panic!("it is an action") };
        let task = id.to_string();
        waiting.scene.ok(&["cancel-task", &task]);
        assert!(!waiting.command.wait().expect("it ends").success());
        // the group ends with the process that leads it, or shortly after
        waiting.scene.until("the hook has ended", |_| (!is_running(waiting.hook)).then_some(()));
        assert_eq!(last_run(&waiting.scene, UNIT, 1).file("outcome").trim(), "signal 15");
        assert!(is_running(waiting.parent), "the parent is in another group");
    }
}

/// The version that the library of the charm has in a run, and whether a parent had forked it.
fn version(scene: &Scene) -> (u64, bool) {
    let run = run(scene, UNIT, &["facts"]);
    let printed: serde_json::Value = serde_json::from_str(&run.file("stdout")).expect("facts");
    (printed["facts"]["version"].as_u64().expect("a number"), run.is_warm)
}

fn set_version(charm: &std::path::Path, version: usize) {
    // Python compares the size and the second of the change: a file of another size is compiled again in any case
    let comment = "#".repeat(version);
    let library = charm.join("lib/probe_library.py");
    let text = fs::read_to_string(&library).expect("it exists");
    let lines = text.lines().map(|line| match line.starts_with("VERSION") {
        true => format!("VERSION = {version} {comment}\n"),
        false => format!("{line}\n"),
    });
    // as pip does: another file
    fs::remove_file(&library).expect("it exists");
    fs::write(&library, lines.collect::<String>()).expect("written");
}

#[test]
fn a_refresh_or_a_changed_package_has_a_new_parent() {
    let scene = scene();
    let source = deploy(&scene, "probe", WITH_EXEC);
    run_warm(&scene, UNIT, &["facts"]);
    let installed = scene.unit_folder(UNIT).expect("it is deployed").join("charm");
    let before = parent_of(&scene, UNIT).expect("it has a parent");
    set_version(&installed, 2);
    assert_eq!(version(&scene), (2, false), "the parent has the old package");
    run_warm(&scene, UNIT, &["facts"]);
    assert_eq!(version(&scene), (2, true));
    let after = parent_of(&scene, UNIT).expect("it has a parent");
    assert_ne!(before, after);

    set_version(&source, 3);
    scene.ok(&["refresh", "probe", "--path", text(&source)]);
    scene.until("the new charm is installed", |_| {
        fs::read_to_string(installed.join("lib/probe_library.py")).ok()?.contains("= 3").then_some(())
    });
    scene.until_status(UNIT, "active", "");
    assert_eq!(version(&scene).0, 3);
    run_warm(&scene, UNIT, &["facts"]);
    assert_eq!(version(&scene), (3, true));
    assert!(!is_running(after));
}

#[test]
fn a_setting_of_the_model_ends_the_parent() {
    let scene = scene();
    deploy(&scene, "probe", WITH_EXEC);
    run_warm(&scene, UNIT, &["facts"]);
    let parent = parent_of(&scene, UNIT).expect("it has a parent");
    set_warm(&scene, false, UNIT);
    scene.until("the parent has ended", |_| (!is_running(parent)).then_some(()));
    assert!(!run(&scene, UNIT, &["facts"]).is_warm);
    assert_eq!(parent_of(&scene, UNIT), None);
}

#[test]
fn a_charm_that_cannot_be_forked_runs_without_a_parent_and_is_logged_once() {
    let scene = scene();
    let charm = probe(&scene, "probe", WITH_EXEC);
    let library = charm.join("lib/probe_library.py");
    let text_of_library = fs::read_to_string(&library).expect("it exists");
    let thread =
        "import threading, time\nthreading.Thread(target=time.sleep, args=(0.01,), daemon=True).start()\n";
    let forever = thread.replace("0.01", "60");
    fs::write(&library, format!("{text_of_library}{forever}")).expect("written");
    scene.ok(&["deploy", text(&charm), "probe"]);
    scene.until_status(UNIT, "active", "");
    for _ in 0..4 {
        assert!(!run(&scene, UNIT, &["facts"]).is_warm);
    }
    let log = agent_log(&scene, UNIT);
    assert_eq!(log.lines().filter(|line| line.contains("threads")).count(), 1, "{log}");

    // another revision may have one
    fs::write(&library, text_of_library).expect("written");
    scene.ok(&["refresh", "probe", "--path", text(&charm)]);
    run_warm(&scene, UNIT, &["facts"]);
}

/// A charm that prints when its modules are imported prints in each hook.
#[test]
fn what_an_import_prints_is_printed_by_each_run() {
    let scene = scene();
    let charm = probe(&scene, "probe", WITH_EXEC);
    let library = charm.join("lib/probe_library.py");
    let text_of_library = fs::read_to_string(&library).expect("it exists");
    fs::write(&library, format!("{text_of_library}\nprint('imported')\n")).expect("written");
    scene.ok(&["deploy", text(&charm), "probe"]);
    scene.until_status(UNIT, "active", "");
    for _ in 0..3 {
        let run = run(&scene, UNIT, &["end", "how=return"]);
        assert!(!run.is_warm);
        assert!(run.file("stdout").starts_with("imported\n"));
    }
}

/// Without a dispatch script each action has a program of its own. A warm parent has imported one program, and forks no
/// other.
#[test]
fn a_charm_without_dispatch_has_a_parent_for_the_program_that_is_repeated() {
    let scene = scene();
    let charm = probe(&scene, "probe", WITH_EXEC);
    for folder in ["actions", "hooks"] {
        fs::create_dir(charm.join(folder)).expect("a new folder");
    }
    fs::copy(charm.join("dispatch"), charm.join("hooks/stop")).expect("copied");
    for action in ["facts", "end"] {
        fs::copy(charm.join("src/charm.py"), charm.join("actions").join(action)).expect("copied");
    }
    fs::rename(charm.join("lib/probe_library.py"), charm.join("actions/probe_library.py")).expect("moved");
    fs::remove_file(charm.join("dispatch")).expect("it exists");
    fs::remove_dir_all(charm.join("src")).expect("it exists");
    scene.ok(&["deploy", text(&charm), "probe"]);
    scene.until("the first hooks have run", |host| {
        (host.unit(UNIT)?["juju-status"]["current"] == "idle").then_some(())
    });
    assert!(!run(&scene, UNIT, &["facts"]).is_warm);
    assert_eq!(parent_of(&scene, UNIT), None);
    let facts = run_warm(&scene, UNIT, &["facts"]);
    let printed: serde_json::Value = serde_json::from_str(&facts.file("stdout")).expect("facts");
    let program = printed["facts"]["argv"][0].as_str().expect("a path");
    assert!(program.ends_with("/charm/actions/facts"), "{program}");
    assert!(!run(&scene, UNIT, &["end", "how=return"]).is_warm);
    assert!(run(&scene, UNIT, &["facts"]).is_warm, "the parent is kept");
}
