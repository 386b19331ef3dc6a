//! Tests of copied, moved and restored data folders with the real programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tests::host::{Host, sample};
use tests::scene::{Scene, hooks, scene, text};

fn run(program: &str, args: &[&str]) {
    let done = Command::new(program).args(args).status();
    assert!(done.is_ok_and(|status| status.success()), "{program} {args:?}");
}

/// A system with the unit db/0, which is ready.
fn with_db() -> Scene {
    let host = scene();
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.until_status("db/0", "active", "ready");
    host
}

/// The lines with tokens and addresses in the files of a system.
fn secrets(host: &Host) -> Vec<String> {
    let unit = host.unit_folder("db/0").expect("it is deployed");
    let machine = unit.parent().and_then(Path::parent).expect("units are in machines").to_path_buf();
    let files = [host.dir.join("client.yaml"), machine.join("agent.yaml"), unit.join("agent.yaml")];
    let texts = files.map(|file| std::fs::read_to_string(file).expect("it exists"));
    let lines = texts.iter().flat_map(|text| text.lines());
    let is_secret = |line: &&str| line.starts_with("token: ") || line.contains("127.0.0.1:");
    lines.filter(is_secret).map(str::to_owned).collect()
}

#[test]
fn commands_on_a_copy_are_refused_and_a_new_identity_makes_it_a_system_of_its_own() {
    let host = with_db();
    let copy = Host::new(&host.beside("copy"));
    run("cp", &["-a", text(&host.dir), text(&copy.dir)]);
    let before = (host.agent_pid("db/0").expect("it runs"), hooks(&host, "db/0"));
    let expected = format!("cannot use {}: it is a copy of {}\n", copy.dir.display(), host.dir.display());
    for words in [
        &["down"][..],
        &["up"],
        &["up", "--provider", "local"],
        &["status"],
        &["config", "db", "color=red"],
        &["destroy-model", "dev", "--no-prompt"],
        &["add-unit", "db"],
    ] {
        let refused = copy.refused(words);
        assert!(refused.contains(&expected) && refused.contains("--new-identity"), "{words:?}: {refused}");
    }
    let refused = copy.refused(&["up", "--moved"]);
    let end = format!("pintle --data {} down", host.dir.display());
    assert!(refused.contains("--new-identity") && refused.contains(&end), "the original runs: {refused}");
    assert!(host.refused(&["up", "--new-identity"]).contains(text(&host.dir)), "the original is no copy");
    assert_eq!((host.agent_pid("db/0").expect("it runs"), hooks(&host, "db/0")), before);

    copy.ok(&["up", "--new-identity"]);
    copy.until_status("db/0", "active", "ready");
    let (own, others) = (secrets(&copy), secrets(&host));
    assert_eq!((own.len(), others.len()), (6, 6), "{own:?}");
    assert!(own.iter().all(|line| !others.contains(line)), "{own:?} {others:?}");
    // each system has a unit of its own
    copy.ok(&["run", "db/0", "get-units"]);
    assert!(hooks(&copy, "db/0").contains(&"get-units".to_owned()));
    assert_eq!(hooks(&host, "db/0"), before.1);
    copy.ok(&["remove-application", "db", "--no-prompt"]);
    copy.until("the unit of the copy is removed", |copy| copy.unit("db/0").is_none().then_some(()));
    copy.ok(&["down"]);
    assert_eq!(copy.processes(), Vec::<String>::new());
    assert_eq!(host.agent_pid("db/0"), Some(before.0), "the original was never touched");
    host.ok(&["run", "db/0", "get-units"]);
}

/// The first commit ends the controller, whose store is gone; the supervisor ends with all that it has started. `up` waits
/// for that, also if another command was the first in the moved folder.
#[test]
fn a_moved_folder_continues_with_the_next_up_and_nothing_is_created_where_it_was() {
    for has_commit in [true, false] {
        let host = with_db();
        let moved = Host::new(&host.beside("moved"));
        std::fs::rename(&host.dir, &moved.dir).expect("one file system");
        if has_commit {
            let _ = moved.pintle(&["config", "db", "color=blue"]);
        }
        moved.ok(&["up"]);
        moved.until_status("db/0", "active", "ready");
        moved.ok(&["run", "db/0", "get-units"]);
        assert!(!host.dir.exists(), "{:?}", Command::new("find").arg(&host.dir).output());
    }
}

/// Also the hook, whose files are gone, and also if the supervisor was killed.
#[test]
fn what_runs_in_a_deleted_folder_ends() {
    for is_supervisor_killed in [false, true] {
        let host = with_db();
        let pid_file = host.beside("pid");
        let command = format!("echo $$ >{0}.new; mv {0}.new {0}; exec sleep 1000", text(&pid_file));
        host.ok(&["exec", "--background", "--unit", "db/0", "--", &command]);
        let sleep = host.until("the command runs", |_| fs::read_to_string(&pid_file).ok());
        let sleep = PathBuf::from(format!("/proc/{}", sleep.trim()));
        assert!(sleep.exists());
        if is_supervisor_killed {
            host.kill(host.pid(&host.dir.join("supervisor.pid")).expect("it is up"));
        }
        host.until("the folder is deleted", |host| fs::remove_dir_all(&host.dir).ok());
        if is_supervisor_killed {
            host.ok(&["down"]);
        }
        host.until("everything has ended", |host| {
            (host.processes().is_empty() && !sleep.exists()).then_some(())
        });
        assert!(!host.dir.exists(), "{:?}", Command::new("find").arg(&host.dir).output());
    }
}

/// The pid files of a backup are those of another time, or there are none.
#[test]
fn down_ends_what_runs_although_a_backup_was_copied_over_the_folder_or_has_replaced_it() {
    for is_replaced in [false, true] {
        let host = with_db();
        host.ok(&["down"]);
        let backup = host.beside("backup");
        run("cp", &["-a", text(&host.dir), text(&backup)]);
        host.ok(&["up"]);
        host.until_status("db/0", "active", "ready");
        if is_replaced {
            host.until("the folder is deleted", |host| fs::remove_dir_all(&host.dir).ok());
            fs::rename(&backup, &host.dir).expect("nothing was created");
        } else {
            run("cp", &["-a", &format!("{}/.", text(&backup)), text(&host.dir)]);
        }
        host.ok(&["down"]);
        assert_eq!(host.processes(), Vec::<String>::new(), "replaced: {is_replaced}");
    }
}

#[test]
fn a_restored_folder_continues_the_original_once_that_is_stated() {
    let host = with_db();
    host.ok(&["down"]);
    let (archive, restored) = (host.beside("backup.tar"), Host::new(&host.beside("restored")));
    run("tar", &["-C", text(&host.dir), "-cf", text(&archive), "."]);
    std::fs::create_dir(&restored.dir).expect("a new folder");
    run("tar", &["-C", text(&restored.dir), "-xf", text(&archive)]);
    std::fs::remove_dir_all(&host.dir).expect("the original is lost");
    for words in [&["up"][..], &["down"], &["status"]] {
        let refused = restored.refused(words);
        assert!(
            refused.contains(&host.dir.display().to_string()) && refused.contains("--moved"),
            "{refused}"
        );
    }
    restored.ok(&["up", "--moved"]);
    restored.until_status("db/0", "active", "ready");
    let before = hooks(&restored, "db/0");
    restored.ok(&["down"]);
    restored.ok(&["up"]);
    restored.ok(&["run", "db/0", "get-units"]);
    assert_eq!(hooks(&restored, "db/0")[..before.len()], before, "no hook ran again");
}

#[test]
fn a_controller_restored_from_a_backup_receives_the_lost_records() {
    let host = with_db();
    host.ok(&["deploy", text(&sample("pair-web")), "web"]);
    host.ok(&["integrate", "web", "db"]);
    host.until_status("db/0", "active", "web likes green");
    host.ok(&["down"]);
    let store = host.dir.join("controller/store");
    let (older, newest) = (host.beside("older"), host.beside("newest"));
    let copy_to = |copy: &Path| run("cp", &["-a", text(&store), text(copy)]);
    copy_to(&older);
    host.ok(&["up"]);
    host.ok(&["config", "web", "color=blue"]);
    host.until_status("db/0", "active", "web likes blue");
    host.ok(&["down"]);
    copy_to(&newest);
    let database = |dir: &Path| -> Vec<PathBuf> {
        let files = fs::read_dir(dir).expect("it is a folder").flatten().map(|file| file.path());
        files.filter(|path| text(path).contains("store.sqlite")).collect()
    };
    let put_back = |copy: &Path| {
        database(&store).iter().for_each(|file| fs::remove_file(file).expect("it is ours"));
        for file in database(copy) {
            fs::copy(&file, store.join(file.file_name().expect("files have names"))).expect("a copy");
        }
    };
    let generation = || fs::read_to_string(store.join("generation.yaml")).expect("it exists");
    let recorded = generation();
    put_back(&older);
    // `up` does not choose a remedy for the operator: it reports both at once, and leaves no process running.
    for _ in 0..2 {
        let started = Instant::now();
        let refused = host.refused(&["up"]);
        for part in ["it is an older copy", "put the right file back", "pintle up", "--restored"] {
            assert!(refused.contains(part), "{refused}");
        }
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "it does not wait for a controller that refuses"
        );
        assert_eq!((generation(), host.processes()), (recorded.clone(), vec![]));
    }
    put_back(&newest);
    host.ok(&["up"]);
    host.until_status("db/0", "active", "web likes blue");
    assert!(host.refused(&["up", "--restored"]).contains("is running"));
    host.ok(&["down"]);
    assert_eq!(generation().lines().nth(2), recorded.lines().nth(2));
    put_back(&older);
    host.ok(&["up", "--restored"]);
    assert_ne!(generation().lines().nth(2), recorded.lines().nth(2));
    let restored = generation().lines().nth(2).map(str::to_owned);
    // the setting was lost with the store; the relation settings that the units wrote since the backup were not, and
    // converge with the restored setting
    host.until_status("db/0", "active", "web likes green");
    let log = host.log();
    for (unit, other) in [("db/0", "web/0"), ("web/0", "db/0")] {
        let (stream, joined) = (format!("unit.{unit}.juju-log"), format!("relation-joined: {other}"));
        let joins = log.iter().filter(|line| line.contains(&stream) && line.contains(&joined));
        assert_eq!(joins.count(), 1, "no second joined without a departed");
    }
    // The supervisor starts a controller that was killed with the same generation.
    let controller = host.pid(&host.dir.join("controller.pid")).expect("it runs");
    host.kill(controller);
    host.until("another controller answers", |host| {
        let pid = host.pid(&host.dir.join("controller.pid")).filter(|pid| *pid != controller);
        pid.filter(|_| host.pintle(&["status"]).code == 0)
    });
    assert_eq!(generation().lines().nth(2).map(str::to_owned), restored);
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("readable").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn up_refuses_the_folder_of_something_else_and_accepts_what_is_left_of_a_data_folder() {
    let outer = tempfile::TempDir::with_prefix("pintle-test-").expect("a temporary folder");
    let host = Host::new(&outer.path().canonicalize().expect("it exists").join("data"));
    fs::create_dir(&host.dir).expect("made");
    for (made, is_folder) in [("Cargo.toml", false), (".git", true), ("log", false)] {
        let path = host.dir.join(made);
        if is_folder { fs::create_dir(&path) } else { fs::write(&path, "") }.expect("made");
        let refused = host.refused(&["up"]);
        assert!(refused.contains(text(&host.dir)) && refused.contains(made), "{refused}");
        assert_eq!(names(&host.dir), [made]);
        if is_folder { fs::remove_dir(&path) } else { fs::remove_file(&path) }.expect("it exists");
    }
    // a file system that was just made
    fs::create_dir(host.dir.join("lost+found")).expect("made");
    host.ok(&["up"]);
    host.ok(&["down"]);
    fs::write(host.dir.join("notes.txt"), "of a person").expect("written");
    host.ok(&["up"]);
    host.ok(&["down"]);
    fs::remove_file(host.dir.join("identity.yaml")).expect("it exists");
    host.ok(&["up"]);
    host.ok(&["down"]);
    let is_kept = |name: &&String| ["notes.txt", "log"].contains(&name.as_str());
    for name in names(&host.dir).iter().filter(|name| !is_kept(name)) {
        let path = host.dir.join(name);
        if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.expect("it exists");
    }
    let refused = host.refused(&["up"]);
    assert!(refused.contains("notes.txt"), "{refused}");
    fs::remove_file(host.dir.join("notes.txt")).expect("it exists");
    host.ok(&["up"]);
}
