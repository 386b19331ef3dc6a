//! Tests a system that does not start, or of which a part is missing: `pintle up` names the cause within seconds, and
//! brings back what is missing once the cause is removed.

use super::disk::{fill, free};
use super::namespace::with_mounts;
use api::text::fault;
use state::terms::health::{Fault, Limit};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tests::host::{Host, is_root, is_running, skip};
use tests::scene::{scene, text};
use tests::tally::{STARTED, deploy, results, until_ran};

/// Much less than the minute that `up` waits for a controller that may still start.
const SOON: Duration = Duration::from_secs(20);

/// Runs a command that must fail soon, and returns its error.
fn refused_soon(host: &Host, words: &[&str]) -> String {
    let started = Instant::now();
    let error = host.refused(words);
    assert!(started.elapsed() < SOON, "{:?}: {error}", started.elapsed());
    error
}

/// Kills the running controller, and waits until its supervisor waits for the next start of one that ends at once.
fn kill_controller(host: &Host) {
    let pid_file = host.dir.join("controller.pid");
    host.kill(host.pid(&pid_file).expect("it runs"));
}

#[test]
fn up_names_the_file_that_prevents_the_start_of_the_controller_and_leaves_nothing() {
    let host = scene();
    host.ok(&["down"]);
    for name in ["server.pem", "ca-key.pem", "identity.yaml", "secret-keys.yaml"] {
        let file = host.dir.join("controller").join(name);
        let known = fs::read(&file).expect("it exists");
        fs::write(&file, "no such thing").expect("it is ours");
        let error = refused_soon(&host, &["up"]);
        assert!(error.contains(text(&file)), "{error}");
        assert!(host.processes().is_empty(), "{:#?}", host.processes());
        fs::write(&file, known).expect("it is ours");
    }
    // an error that may pass by itself is not refused at the first start, but named after a few of them
    let store = host.dir.join("controller/archives");
    fs::remove_dir_all(&store).expect("it exists");
    fs::write(&store, "").expect("it is ours");
    let error = refused_soon(&host, &["up"]);
    assert!(error.contains(text(&store)), "{error}");
    assert!(host.processes().is_empty(), "{:#?}", host.processes());
    fs::remove_file(&store).expect("it is ours");
    host.ok(&["up"]);
}

/// 1. The controller runs; a file of it is damaged, and it ends. 2. Its supervisor starts it again and again. 3. A
///    person asks for the status, and then repairs the file.
#[test]
fn each_command_names_why_the_controller_does_not_start_again_and_up_starts_it_after_the_repair() {
    let host = scene();
    let file = host.dir.join("controller/server.pem");
    let known = fs::read(&file).expect("it exists");
    fs::write(&file, "").expect("it is ours");
    kill_controller(&host);
    host.until("the status names the file", |host| {
        let status = host.pintle(&["status"]);
        (status.code != 0 && status.stderr.contains(text(&file))).then_some(())
    });
    let error = refused_soon(&host, &["up"]);
    assert!(error.contains(text(&file)), "{error}");
    fs::write(&file, known).expect("it is ours");
    let started = Instant::now();
    host.ok(&["up"]);
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    host.ok(&["status"]);
}

#[test]
fn up_brings_back_a_stopped_supervisor_and_the_controller_that_it_did_not_restart() {
    let host = scene();
    let supervisor = host.pid(&host.dir.join("supervisor.pid")).expect("it is up");
    host.signal("STOP", supervisor);
    kill_controller(&host);
    let started = Instant::now();
    host.ok(&["up"]);
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    assert_eq!(host.pid(&host.dir.join("supervisor.pid")), Some(supervisor));
    // killed, while its controller goes on
    let controller = host.pid(&host.dir.join("controller.pid")).expect("it runs");
    host.kill(supervisor);
    host.until("the supervisor is gone", |host| {
        host.pid(&host.dir.join("supervisor.pid")).is_none().then_some(())
    });
    assert!(host.pid(&host.dir.join("controller.pid")).is_some_and(|pid| pid == controller));
    host.ok(&["up"]);
    kill_controller(&host);
    host.until("a controller is back", |host| (host.pintle(&["status"]).code == 0).then_some(()));
}

/// 1. A controller and a unit run; the supervisor is killed. 2. `up` stops the controller, and the new one refuses its
///    store, or ends again and again. 3. The unit, whose hook may run or wait to be taken over, goes on.
#[test]
fn units_outlive_a_controller_that_refuses_its_store() {
    let host = scene();
    deploy(&host, "db", &[]);
    until_ran(&host, "db/0", &STARTED);
    let agent = host.agent_pid("db/0").expect("it runs");
    for obstructed in ["controller/server.pem", "controller/archives"] {
        let (file, aside) = (host.dir.join(obstructed), host.beside("aside"));
        fs::rename(&file, &aside).expect("it exists");
        fs::write(&file, "no such thing").expect("it is ours");
        host.kill(host.pid(&host.dir.join("supervisor.pid")).expect("it is up"));
        let error = refused_soon(&host, &["up"]);
        assert!(error.contains(text(&file)), "{error}");
        assert!(is_running(agent), "{obstructed}");
        fs::remove_file(&file).expect("it is ours");
        fs::rename(&aside, &file).expect("it is ours");
        host.ok(&["up"]);
        assert!(is_running(agent), "{obstructed}");
    }
    assert_eq!(results(&host, "db/0", "count")["hooks"], STARTED.len().to_string());
}

#[test]
fn up_on_a_full_disk_names_the_disk() {
    with_mounts("start::up_on_a_full_disk_names_the_disk", || {
        let folder =
            tempfile::TempDir::with_prefix("pintle-test-").expect("a temporary folder can be created");
        let dir = folder.path().canonicalize().expect("it was just created").join("data");
        fs::create_dir(&dir).expect("created");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16m,mode=700", "none", text(&dir)])
            .status();
        assert!(mounted.is_ok_and(|status| status.success()));
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).expect("it is ours");
        names_full_disk(&dir);
    });
}

/// Ext4 counts as free what it keeps for itself, and what root alone can use.
#[test]
fn up_on_a_full_ext4_disk_names_the_disk() {
    let test = "start::up_on_a_full_ext4_disk_names_the_disk";
    let run = |program: &str, args: &[&str]| Command::new(program).args(args).status();
    let is_there = run("mkfs.ext4", &["-V"]).is_ok_and(|status| status.success());
    if !is_root() || !is_there || run("losetup", &["--find"]).is_ok_and(|status| !status.success()) {
        return skip(test, "it needs root, mkfs.ext4 and loop devices");
    }
    with_mounts(test, || {
        let folder =
            tempfile::TempDir::with_prefix("pintle-test-").expect("a temporary folder can be created");
        let folder = folder.path().canonicalize().expect("it was just created");
        let (image, dir) = (folder.join("image"), folder.join("data"));
        fs::create_dir(&dir).expect("created");
        let file = fs::File::create(&image).expect("created");
        file.set_len(64 << 20).expect("a sparse file");
        for (program, args) in
            [("mkfs.ext4", vec!["-q", text(&image)]), ("mount", vec!["-o", "loop", text(&image), text(&dir)])]
        {
            assert!(run(program, &args).is_ok_and(|status| status.success()), "{program}");
        }
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).expect("it is ours");
        names_full_disk(&dir);
    });
}

/// Fills the disk of a data folder, and frees it.
fn names_full_disk(dir: &Path) {
    let host = Host::up(dir);
    host.ok(&["down"]);
    fill(dir);
    let error = refused_soon(&host, &["up"]);
    assert!(names_disk(&error, dir), "{error}");
    assert!(host.processes().is_empty(), "{:#?}", host.processes());
    free(dir);
    host.ok(&["up"]);
}

fn names_disk(error: &str, dir: &Path) -> bool {
    error.contains(text(dir)) && error.contains(fault::state(Fault::Limit(Limit::DiskSpace)))
}

/// The data folder of a test is never the default one.
#[test]
fn the_command_of_a_hint_can_be_pasted() {
    let host = scene();
    let printed = host.ok(&["down"]);
    let error = host.refused(&["status"]);
    for shown in [printed, error] {
        let (_, from) = shown.split_once("pintle up").expect("the command that helps");
        let arguments = from.lines().next().and_then(|line| line.split('"').next()).expect("one line");
        assert!(arguments.contains(text(&host.dir)), "{arguments}: it would start another system");
        let line = format!("{} up{arguments}", text(&host.programs.join("pintle")));
        let pasted = Command::new("sh").args(["-c", &line]).env_remove("PINTLE_DATA").status();
        assert!(pasted.is_ok_and(|status| status.success()), "{line}");
        host.ok(&["status"]);
        host.ok(&["down"]);
    }
}
