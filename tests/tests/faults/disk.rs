//! Tests a full disk under a unit's folder and under the controller's. Each test mounts a small file system in its own
//! mount namespace, so that the mount is invisible to other processes and disappears with the test.

use super::namespace::with_mounts;
use super::obstacles::until_fault;
use api::text::fault;
use controller::store::StoreError;
use state::terms::cause::Duty;
use state::terms::health::{Fault, Limit};
use state::terms::write_failure::WriteFailure;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use tests::host::{Host, is_running, programs};
use tests::scene::{Scene, scene, text};
use tests::tally::{STARTED, deploy, ran, results, until_ran};

/// Moves a folder with its content to a separate file system.
fn on_a_small_disk(scene: &Scene, folder: &Path, size: &str) {
    let aside = scene.beside("aside");
    let run = |program: &str, args: &[&str]| {
        let status = Command::new(program).args(args).status();
        assert!(status.is_ok_and(|status| status.success()), "{program} {args:?}");
    };
    run("cp", &["-a", text(folder), text(&aside)]);
    run("mount", &["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "none", text(folder)]);
    run("cp", &["-a", &format!("{}/.", text(&aside)), text(folder)]);
}

/// Fills the file system.
pub fn fill(folder: &Path) {
    let mut ballast = File::create(folder.join("ballast")).expect("there is room for a name");
    let block = [0; 4096];
    while ballast.write_all(&block).is_ok() {}
}

pub fn free(folder: &Path) {
    fs::remove_file(folder.join("ballast")).expect("it was full");
}

#[test]
fn a_unit_on_a_full_disk_waits_for_room_and_repeats_nothing() {
    with_mounts("disk::a_unit_on_a_full_disk_waits_for_room_and_repeats_nothing", || {
        let scene = scene();
        let hold = scene.beside("hold");
        deploy(&scene, "db", &["--config", &format!("hold={}", text(&hold))]);
        until_ran(&scene, "db/0", &STARTED);
        scene.ok(&["down"]);
        let folder = scene.unit_folder("db/0").expect("it is deployed");
        on_a_small_disk(&scene, &folder, "16m");
        scene.ok(&["up"]);
        // the disk becomes full while a hook runs; the hook ends, and the space of its outcome was reserved
        fs::write(&hold, "").expect("it is ours");
        scene.ok(&["config", "db", "say=first"]);
        let mut hooks = [&STARTED[..], &["config-changed"]].concat();
        scene.until("the hook runs", |_| (ran(&scene, "db/0") == hooks).then_some(()));
        let run = scene.run_folder("db/0", scene.runs("db/0").pop().expect("it runs").0).expect("it is kept");
        let hook = scene.until("the hook is known", |host| host.pid(&run.join("hook.pid")));
        fill(&folder);
        fs::remove_file(&hold).expect("it was made");
        scene.until("the hook is over", |_| (!is_running(hook)).then_some(()));
        // another change, which cannot be stored on the full disk either
        scene.ok(&["config", "db", "say=second"]);
        let outcome = || fs::read_to_string(run.join("outcome")).ok();
        assert_eq!(scene.until("its outcome is stored", |_| outcome()).trim(), "exit 0");
        let full = Fault::Limit(Limit::DiskSpace);
        until_fault(&scene, &folder, full);
        assert_eq!(ran(&scene, "db/0"), hooks, "what has ended is not run again");
        scene.ok(&["down"]);
        free(&folder);
        scene.ok(&["up"]);
        hooks.push("config-changed");
        until_ran(&scene, "db/0", &hooks);
        assert_eq!(results(&scene, "db/0", "count")["hooks"], "6");
        hooks.push("count");
        // the disk is full before a hook starts: the hook starts when there is room
        fill(&folder);
        scene.ok(&["config", "db", "say=third"]);
        let machine_log = folder.join("../../machine.log");
        scene.until("the log reports that the disk is full", |_| {
            let logs = [folder.join("agent.log"), machine_log.clone()];
            let written = logs.map(|log| fs::read_to_string(log).unwrap_or_default()).concat();
            (written.contains("(os error 28)") || written.contains(fault::state(full))).then_some(())
        });
        assert_eq!(ran(&scene, "db/0"), hooks, "it has not started");
        until_fault(&scene, &folder, full);
        let unit = scene.unit("db/0").expect("it is deployed");
        assert_ne!(unit["workload-status"]["current"], "error", "a full disk is not the charm's failure");
        free(&folder);
        hooks.push("config-changed");
        until_ran(&scene, "db/0", &hooks);
        assert_eq!(results(&scene, "db/0", "count")["hooks"], "7");
        scene.ok(&["down"]);
    });
}

#[test]
fn a_controller_on_a_full_disk_refuses_and_takes_what_was_kept_when_there_is_room() {
    with_mounts(
        "disk::a_controller_on_a_full_disk_refuses_and_takes_what_was_kept_when_there_is_room",
        || {
            let scene = scene();
            deploy(&scene, "db", &[]);
            deploy(&scene, "web", &[]);
            until_ran(&scene, "db/0", &STARTED);
            until_ran(&scene, "web/0", &STARTED);
            scene.ok(&["down"]);
            let folder = scene.dir.join("controller");
            on_a_small_disk(&scene, &folder, "16m");
            assert!(scene.refused(&["up"]).contains("--restored"), "it may be an older copy");
            scene.ok(&["up", "--restored"]);
            fill(&folder);
            // the write-ahead log of the store has reserved space, which is filled first
            let output = scene.until("a change is refused", |host: &Host| {
                let output = host.pintle(&["config", "db", &format!("say={}", "x".repeat(4000))]);
                let other = host.pintle(&["config", "db", &format!("say={}", "y".repeat(4000))]);
                [output, other].into_iter().find(|output| output.code != 0)
            });
            assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{output:?}");
            assert_eq!(output.stderr.lines().next(), Some(format!("ERROR {}", StoreError::Full).as_str()));
            scene.ok(&["status"]);
            let causes = scene.causes("db/0");
            let duty = causes.first().map(|cause| &cause.duty);
            assert_eq!(duty, Some(&Duty::AcceptChanges(WriteFailure::DiskFull)), "{causes:?}");
            // a process on the machine changes a status, and the agent cannot send that
            let unit = scene.unit_folder("db/0").expect("it is deployed");
            let juju_exec = unit.join("../../tools/unit-db-0/juju-exec");
            let commands = Command::new(juju_exec).args(["db/0", "status-set active full"]).spawn();
            let error = || {
                let why = Command::new(programs().join("pintle-agent")).args(["why", text(&unit)]).output();
                let why = String::from_utf8(why.expect("it was built").stdout).expect("text");
                why.contains(&StoreError::Full.to_string())
            };
            scene.until("the agent names the error of the controller", |_| error().then_some(()));
            free(&folder);
            assert!(commands.expect("it is on the machine").wait().expect("it ends").success());
            scene.until("the controller accepts requests", |_| (!error()).then_some(()));
            scene.ok(&["config", "db", "say=room"]);
            scene.ok(&["integrate", "web:in", "db:out"]);
            scene.until("they are related", |_| {
                ran(&scene, "db/0").contains(&"out-relation-changed".to_owned()).then_some(())
            });
            let hooks = ran(&scene, "db/0");
            for once in
                ["install", "start", "out-relation-created", "out-relation-joined", "out-relation-changed"]
            {
                assert_eq!(hooks.iter().filter(|hook| *hook == once).count(), 1, "{once}: {hooks:?}");
            }
            scene.until("both are idle", |host| {
                let idle =
                    |unit: &str| host.unit(unit).is_some_and(|unit| unit["juju-status"]["current"] == "idle");
                (idle("db/0") && idle("web/0")).then_some(())
            });
            let counted = results(&scene, "db/0", "count")["hooks"].clone();
            assert_eq!(
                counted,
                hooks.len().to_string(),
                "what a hook did while there was no room is there once"
            );
            scene.ok(&["down"]);
        },
    );
}
