//! Tests what goes wrong on a unit's machine.
//!
//! An obstacle is a fault that a person must remove, or damaged files that were set aside. Until it is removed, `pintle why`
//! and `pintle-agent why` report it with its remedy, and `pintle status` as the message of the agent. What the agent repairs
//! or does without by itself does not stop the unit.

use super::namespace::{again_in, with_mounts};
use agent::journal::STATE_HEAD;
use api::text::cause::{Times, hint, sentence};
use api::text::status_message;
use host::lock::Lock;
use state::terms::cause::{Actor, Cause, Duty, Entity};
use state::terms::health::{Fault, ProcessEnd};
use state::terms::names::UnitName;
use state::terms::status_message::StatusMessage;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::host::{Host, is_root, is_running, programs, sample, skip};
use tests::scene::{Scene, hooks, scene, scene_with, text};
use tests::tally::{STARTED, deploy, ran, until_ran};

/// Deploys one unit of the charm `tally` (`tests::tally`) that is idle. Returns its folder.
fn idle() -> (Scene, PathBuf) {
    idle_in(scene())
}

fn idle_in(scene: Scene) -> (Scene, PathBuf) {
    deploy(&scene, "db", &[]);
    until_ran(&scene, "db/0", &STARTED);
    let folder = scene.unit_folder("db/0").expect("it is deployed");
    (scene, folder)
}

/// The output of `pintle-agent why` for a unit's folder.
fn agent_why(folder: &Path) -> String {
    let shown = Command::new(programs().join("pintle-agent")).arg("why").arg(folder).output();
    let shown = shown.expect("pintle-agent was built");
    assert!(shown.status.success(), "{shown:?}");
    String::from_utf8_lossy(&shown.stdout).into_owned()
}

/// Waits until all three report the obstacle: `why`, `status` as the agent's message, and `pintle-agent why` with the
/// remedy. Returns the cause.
pub fn until_reported(scene: &Scene, folder: &Path, is_reported: impl Fn(&Duty) -> bool) -> Cause {
    let cause = scene.until("why reports the obstacle", |host| {
        host.causes("db/0").into_iter().find(|cause| is_reported(&cause.duty))
    });
    let all = scene.causes("db/0");
    assert!(all.iter().all(|cause| !matches!(cause.duty, Duty::Finish { .. })), "no hook runs: {all:?}");
    let unit = UnitName::new("db", 0);
    // the agent names no machine: its output is read on that machine
    let (message, here) = match cause.duty.clone() {
        Duty::ClearFault { fault, .. } => {
            (StatusMessage::Fault { fault, unit }, Duty::ClearFault { fault, machine: None })
        }
        Duty::InspectSetAside { files, .. } => (
            StatusMessage::FilesSetAside { files: files.clone(), unit },
            Duty::InspectSetAside { files, machine: None },
        ),
        other => panic!("neither a fault nor set-aside files: {other:?}"),
    };
    let message = status_message::describe(&message);
    scene.until("status reports it", |host| (agent_message(host) == message).then_some(()));
    assert!(scene.ok(&["status", "--no-settle"]).contains(&message), "the table shows it, too");
    let here = Cause::new(cause.entity.clone(), here, cause.actor.clone());
    // an agent that is started again and again is running for a moment
    let times = Times { now_ms: 0, time_of_day: None };
    scene.until("pintle-agent why reports it", |_| {
        let local = agent_why(folder);
        (local.contains(&sentence(&here, &times)) && local.contains(&hint(&here, &times))).then_some(())
    });
    cause
}

/// Waits until all three report this fault.
pub fn until_fault(scene: &Scene, folder: &Path, expected: Fault) -> Cause {
    let is_fault = |duty: &Duty| matches!(duty, Duty::ClearFault { fault, .. } if *fault == expected);
    until_reported(scene, folder, is_fault)
}

fn agent_message(host: &Host) -> String {
    let unit = host.unit("db/0").expect("it is deployed");
    unit["juju-status"]["message"].as_str().unwrap_or_default().to_owned()
}

/// Changes a setting and waits until the change is applied and no obstacle is reported.
pub fn until_well(scene: &Scene, folder: &Path, hooks_before: &[&str]) {
    scene.ok(&["config", "db", "say=again"]);
    until_ran(scene, "db/0", &[hooks_before, &["config-changed"]].concat());
    scene.until("nothing is wrong", |host| {
        let is_obstacle = |cause: &Cause| {
            cause.actor == Actor::Operator || matches!(cause.duty, Duty::RestartUnitAgent { .. })
        };
        (!host.causes("db/0").iter().any(is_obstacle) && agent_message(host).is_empty()).then_some(())
    });
    scene.until("its folder shows the same", |_| agent_why(folder).starts_with("db/0: idle,").then_some(()));
}

#[test]
fn a_folder_of_a_newer_version_is_reported_until_that_version_is_back() {
    let (scene, folder) = idle();
    scene.ok(&["down"]);
    let state = fs::read_to_string(folder.join("state.yaml")).expect("it was written");
    let document = state.strip_prefix(STATE_HEAD).expect("the file says first what it is");
    let (_, body) = document.split_once('\n').expect("a checksum, then the state");
    let newer = body.replacen("format: 1", "format: 2", 1);
    assert_ne!(newer, body);
    let newer = format!("{STATE_HEAD}# checksum {}\n{newer}", host::digest::checksum(newer.as_bytes()));
    fs::write(folder.join("state.yaml"), &newer).expect("it is ours");
    scene.ok(&["up"]);
    until_fault(&scene, &folder, Fault::FolderFormat);
    let why = scene.ok(&["why", "db/0"]);
    assert!(why.contains("format is 2"), "the last error of the agent: {why}");
    assert_eq!(
        fs::read_to_string(folder.join("state.yaml")).expect("the file exists"),
        newer,
        "it was not changed"
    );
    // the remedy is a newer agent, or here the folder of this version
    fs::write(folder.join("state.yaml"), state).expect("it is ours");
    until_well(&scene, &folder, &STARTED);
}

#[test]
fn a_damaged_state_that_was_set_aside_is_reported_until_it_is_deleted() {
    let (scene, folder) = idle();
    scene.ok(&["down"]);
    fs::write(folder.join("state.yaml"), "# checksum 0\nnothing: 0\n").expect("it is ours");
    scene.ok(&["up"]);
    let file = folder.join("state.yaml.corrupt-1");
    let reported = || {
        until_reported(&scene, &folder, |duty| match duty {
            Duty::InspectSetAside { files, .. } => files.contains(&"state.yaml.corrupt-1".to_owned()),
            _ => false,
        });
    };
    scene.until("it is set aside", |_| file.exists().then_some(()));
    reported();
    // the controller keeps this in memory only: the machine agent must report it to the next controller, too
    let controller = scene.pid(&scene.dir.join("controller.pid")).expect("it runs");
    scene.kill(controller);
    scene.until("another controller serves", |scene| {
        let pid = scene.pid(&scene.dir.join("controller.pid")).filter(|pid| *pid != controller);
        pid.filter(|_| scene.pintle(&["status"]).code == 0)
    });
    reported();
    // the remedy: read the files, and delete them
    for name in ["state.yaml.corrupt-1", "journal.yaml.corrupt-1"] {
        fs::remove_file(folder.join(name)).ok();
    }
    until_well(&scene, &folder, &STARTED);
}

/// Backs up the stored state of a unit, lets it run a hook, and puts the backup back. With `deletes_run` the folder of the
/// newest run is deleted, too, as if the folders of the runs were those of the backup. Returns the files, and the hooks that ran.
/// The journal is the first of the files: one without its state is damaged.
fn put_back_older_state(
    scene: &Scene,
    folder: &Path,
    deletes_run: bool,
) -> ([PathBuf; 2], Vec<&'static str>) {
    scene.ok(&["down"]);
    let files = ["journal.yaml", "state.yaml"].map(|name| folder.join(name));
    let older = files.each_ref().map(|file| fs::read(file).expect("the file exists"));
    scene.ok(&["up"]);
    scene.ok(&["config", "db", "say=newer"]);
    let hooks = [&STARTED[..], &["config-changed"]].concat();
    until_ran(scene, "db/0", &hooks);
    scene.ok(&["down"]);
    for (file, older) in files.iter().zip(older) {
        fs::write(file, older).expect("it is ours");
    }
    if deletes_run {
        let newest = scene.runs("db/0").pop().expect("it ran").0;
        fs::remove_dir_all(scene.run_folder("db/0", newest).expect("it is kept")).expect("it is ours");
    }
    scene.ok(&["up"]);
    (files, hooks)
}

/// The folder of a unit is replaced by an older backup of it.
#[test]
fn an_older_state_that_was_put_back_is_reported_until_the_recorded_one_is_taken_over() {
    let (scene, folder) = idle();
    let (files, hooks) = put_back_older_state(&scene, &folder, true);
    let (fault, unit) = (Fault::OlderState, UnitName::new("db", 0));
    let is_reported =
        |cause: &Cause| matches!(cause.duty, Duty::ClearFault { fault: reported, .. } if reported == fault);
    scene.until("why reports the state", |host| host.causes("db/0").iter().any(is_reported).then_some(()));
    let message = status_message::describe(&StatusMessage::Fault { fault, unit });
    scene.until("status reports it", |host| (agent_message(host) == message).then_some(()));
    assert_eq!(ran(&scene, "db/0"), hooks, "nothing ran in the older state");
    // the remedy
    for file in files {
        fs::remove_file(file).expect("it is ours");
    }
    until_well(&scene, &folder, &hooks);
}

/// The folders of the runs show that the state lacks a hook, which would run again.
#[test]
fn a_state_that_lacks_a_hook_is_set_aside_and_the_hook_is_not_repeated() {
    let (scene, folder) = idle();
    let (files, hooks) = put_back_older_state(&scene, &folder, false);
    let aside = files.map(|file| file.with_extension("yaml.corrupt-1"));
    scene.until("they are set aside", |_| aside.iter().all(|file| file.exists()).then_some(()));
    // a person has seen them
    aside.iter().for_each(|file| fs::remove_file(file).expect("it is ours"));
    until_well(&scene, &folder, &hooks);
}

/// 1. A hook runs. 2. The stored state is deleted, and the agent is killed. 3. The next agent knows nothing of the run,
///    whose outcome nobody would read, and which holds the hook lock.
#[test]
fn a_hook_whose_run_is_no_longer_known_is_ended_and_repeated() {
    let scene = scene();
    let hold = scene.beside("hold");
    deploy(&scene, "db", &["--config", &format!("hold={}", text(&hold))]);
    until_ran(&scene, "db/0", &STARTED);
    let folder = scene.unit_folder("db/0").expect("it is deployed");
    fs::write(&hold, "").expect("it is ours");
    scene.ok(&["config", "db", "say=first"]);
    let mut hooks = [&STARTED[..], &["config-changed"]].concat();
    scene.until("the hook runs", |_| (ran(&scene, "db/0") == hooks).then_some(()));
    let number = |scene: &Scene| scene.runs("db/0").pop().expect("it runs").0;
    let first = number(&scene);
    let run = scene.run_folder("db/0", first).expect("it is kept");
    let hook = scene.until("the hook is known", |host| host.pid(&run.join("hook.pid")));
    for name in ["state.yaml", "journal.yaml"] {
        fs::remove_file(folder.join(name)).expect("the unit has it");
    }
    scene.kill(scene.agent_pid("db/0").expect("it runs"));
    hooks.push("config-changed");
    scene.until("the hook runs again", |_| (ran(&scene, "db/0") == hooks).then_some(()));
    assert!(!is_running(hook), "the first one still runs");
    assert_eq!(number(&scene), first + 1, "a number names one run only");
    fs::remove_file(&hold).expect("it was made");
    until_well(&scene, &folder, &hooks);
}

#[test]
fn a_socket_folder_of_another_user_is_reported_until_it_is_removed() {
    if !is_root() {
        return skip(
            "a_socket_folder_of_another_user_is_reported_until_it_is_removed",
            "only root gives a folder away",
        );
    }
    // a short path, so that the socket is in the folder of the unit
    let short = tempfile::TempDir::with_prefix("p").expect("a temporary folder can be created");
    let (scene, folder) = idle_in(scene_with(short, &[]));
    scene.ok(&["down"]);
    let run = folder.join("run");
    assert!(run.join("agent.socket").exists() && !run.is_symlink(), "{}", run.display());
    let chown = Command::new("chown").args(["-h", "65534", text(&run)]).status();
    assert!(chown.is_ok_and(|status| status.success()));
    scene.ok(&["up"]);
    until_fault(&scene, &folder, Fault::SocketFolder);
    // the remedy
    fs::remove_dir_all(&run).expect("root may");
    until_well(&scene, &folder, &STARTED);
}

#[test]
fn a_folder_that_is_read_only_is_reported_until_it_is_writable() {
    let test = "obstacles::a_folder_that_is_read_only_is_reported_until_it_is_writable";
    with_mounts(test, || {
        let (scene, folder) = idle();
        let mount = |args: &[&str]| {
            // while the agent has a file open for writing, the mount cannot become read-only
            scene.until(format_args!("mount {args:?}"), |_| {
                let status = Command::new("mount").args(args).arg(&folder).status();
                status.is_ok_and(|status| status.success()).then_some(())
            });
        };
        mount(&["--bind", text(&folder)]);
        // the files that the agent had open before are writable further
        mount(&["-o", "remount,ro,bind"]);
        scene.kill(scene.agent_pid("db/0").expect("it runs"));
        until_fault(&scene, &folder, Fault::UnwritableFolder);
        mount(&["-o", "remount,rw,bind"]);
        until_well(&scene, &folder, &STARTED);
    });
}

#[test]
fn an_agent_that_ends_by_itself_again_and_again_is_reported_with_its_end_and_its_last_line() {
    let (scene, folder) = idle();
    scene.ok(&["down"]);
    let config = folder.join("agent.yaml");
    let known = fs::read_to_string(&config).expect("the file exists");
    let tools = folder.join("../../tools/unit-db-0");
    fs::remove_dir_all(&tools).expect("it was there");
    fs::write(&tools, "no folder").expect("it is ours");
    scene.ok(&["up"]);
    scene.until("why and status report the end", |host| {
        let ended = |cause: Cause| match cause.duty {
            Duty::RestartUnitAgent { exit, .. } if exit.count > 1 => Some((exit, cause.last_error)),
            _ => None,
        };
        let (exit, last_error) = host.causes("db/0").into_iter().find_map(ended)?;
        assert_eq!((&exit.end, last_error.is_some()), (&ProcessEnd::Code(1), true), "{exit:?}");
        let (end, unit) = (exit.end, UnitName::new("db", 0));
        let message = status_message::describe(&StatusMessage::AgentEnded { end, count: exit.count, unit });
        // the agent may have ended once more in between
        (agent_message(host) == message).then_some(())
    });
    assert_eq!(fs::read_to_string(&config).expect("the file exists"), known);
    fs::remove_file(&tools).expect("it is ours");
    until_well(&scene, &folder, &STARTED);
}

/// The test holds the unit's hook lock, which the reboot requires.
#[test]
fn a_reboot_that_does_not_come_is_reported_and_comes_when_the_lock_is_free() {
    let scene = scene();
    let charm = scene.copy_of(&sample("peer"), "peer");
    let hold = scene.beside("hold");
    let program = format!(
        "#!/bin/sh\nset -eu\ncase $JUJU_DISPATCH_PATH in\nhooks/config-changed)\n\
         if [ ! -e done ]; then touch done; touch {hold}; while [ -e {hold} ]; do sleep 0.05; done; juju-reboot; fi;;\nesac\n",
        hold = hold.display()
    );
    fs::write(charm.join("dispatch"), program).expect("it is the test's");
    scene.ok(&["deploy", text(&charm)]);
    scene.until("the hook runs", |_| hold.exists().then_some(()));
    let machine = scene
        .unit_folder("peer/0")
        .expect("it is deployed")
        .ancestors()
        .nth(2)
        .expect("two up")
        .to_path_buf();
    // the lock of hooks that run in parallel: this hook does not hold it, and the reboot needs it
    let folder = scene.unit_folder("peer/0").expect("it is deployed");
    let lock = Lock::take(&folder.join("hook.lock"), "a test").expect("it is ours");
    let lock = lock.expect("hooks of this machine hold the one of the machine");
    fs::remove_file(&hold).expect("the hook made it");
    scene.until("why reports the reboot", |host| {
        host.causes("peer/0").iter().any(|cause| cause.duty == Duty::Reboot).then_some(())
    });
    // the request appears to be eleven minutes old
    let request = machine.join("reboot");
    scene.until("it is requested", |_| request.exists().then_some(()));
    let before = std::time::SystemTime::now() - std::time::Duration::from_secs(660);
    fs::File::options()
        .write(true)
        .open(&request)
        .and_then(|file| file.set_modified(before))
        .expect("it is ours");
    let overdue = agent_why(&folder);
    let by_hand = Duty::RebootByHand { machine: Some("0".to_owned()) };
    let by_hand = Cause::new(Entity::Unit(UnitName::new("peer", 0)), by_hand, Actor::Operator).since(0);
    let times = Times { now_ms: 660_000, time_of_day: None };
    assert!(
        overdue.contains(&sentence(&by_hand, &times)) && overdue.contains(&hint(&by_hand, &times)),
        "{overdue}"
    );
    // the remedy: end what delays it
    drop(lock);
    scene.until("the machine was rebooted", |_| {
        (machine.join("boot").exists() && !request.exists()).then_some(())
    });
    scene.until("start ran", |host| hooks(host, "peer/0").contains(&"start".to_owned()).then_some(()));
}

#[test]
fn without_inotify_the_agents_of_a_machine_go_on_by_polling() {
    let test = "obstacles::without_inotify_the_agents_of_a_machine_go_on_by_polling";
    again_in(&["--user", "--map-root-user"], test, || {
        fs::write("/proc/sys/user/max_inotify_instances", "0").expect("it is the namespace's own limit");
        let (scene, folder) = idle();
        let machine = folder.ancestors().nth(2).expect("two up");
        let log = scene.until("the machine agent reports the setting", |_| {
            let log = fs::read_to_string(machine.join("machine.log")).unwrap_or_default();
            log.contains("fs.inotify.max_user_instances").then_some(log)
        });
        assert!(log.contains("polling every"), "{log}");
        // a changed log level is found by polling, by the machine agent and by the unit agent
        fs::write(machine.join("log-level"), "debug").expect("it is ours");
        scene.until("the level is followed", |_| {
            let log = fs::read_to_string(folder.join("agent.log")).unwrap_or_default();
            log.contains("log level").then_some(())
        });
        scene.kill(scene.agent_pid("db/0").expect("it runs"));
        until_well(&scene, &folder, &STARTED);
        assert_eq!(ran(&scene, "db/0").len(), STARTED.len() + 1);
    });
}
