//! Crash tests of the real programs: SIGKILL of a unit's agent, of its hooks' shims, of a machine's agent, or of the
//! controller at a chosen write, sync, rename or send, before or after the call, and again while it recovers.
//!
//! A preloaded library (`crashes.c`) kills the program, and lets strace kill a shim. A trial then checks that the
//! hooks ran in order and that each took effect once. The tests run a sample of the crash points; with
//! `PINTLE_CRASH_POINTS=all` they run every one.

mod controller;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::scene::{Scene, scene_with};
use tests::tally::{STARTED, counted, deploy, logged, ran, relate_change_and_remove, results};

/// The number of trials that run at the same time: their waits overlap, so that two cores stay busy.
const AT_ONCE: usize = 4;
/// More calls of one kind than one trial makes. A search for the last call that reaches this number is wrong.
const CALLS_MAX: usize = 4_000;
/// The sampled calls: the first ones are at the start of an agent and its attach, the later ones in hooks and the
/// removal.
const SAMPLE: [usize; 4] = [1, 3, 8, 17];
/// The number of calls of each kind at which the second crash occurs: a recovery reads, folds and syncs its files,
/// attaches and sends.
const RECOVERY_CALLS: usize = 6;

/// `append` and `note` write to the journal and to a run's calls, `answer` to a hook's tool, `send` to the controller.
const CALLS: [&str; 7] = ["append", "note", "answer", "send", "fdatasync", "fsync", "rename"];
const SIDES: [&str; 2] = ["before", "after"];

/// The call at which a program is killed: `fdatasync 3 before`.
#[derive(Clone, Debug)]
struct CrashPoint {
    call: &'static str,
    number: usize,
    side: &'static str,
}

/// Compiles the library that kills the programs, and returns its path.
fn library(dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash_points/crashes.c");
    let library = dir.join("crashes.so");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
    assert!(compiled.is_ok_and(|status| status.success()), "cc is there: tests/prerequisites.sh");
    library
}

/// Returns a folder for a Pintle, the environment that loads the library into its programs, and the folder that
/// [`schedule_crashes`] writes to.
fn crashing_folder() -> (tempfile::TempDir, [(&'static str, OsString); 2], PathBuf) {
    let dir = tempfile::TempDir::with_prefix("pintle-test-").expect("there is room for a test");
    let crashes = dir.path().join("crashes");
    fs::create_dir(&crashes).expect("it is a new folder");
    let preload = OsString::from(library(dir.path()));
    let environment = [("LD_PRELOAD", preload), ("PINTLE_CRASHES", crashes.clone().into())];
    (dir, environment, crashes)
}

/// A Pintle with the library loaded, and the folder that [`schedule_crashes`] writes to.
fn crashing_scene() -> (Scene, PathBuf) {
    let (dir, environment, crashes) = crashing_folder();
    (scene_with(dir, &environment), crashes)
}

/// Runs one trial in which an agent crashes twice. Returns false if it made no such call, so that it did not crash.
fn run_trial(scene: &Scene, crashes: &Path, n: usize, first: &CrashPoint) -> bool {
    let number = n / CALLS.len() % RECOVERY_CALLS + 1;
    let second = CrashPoint { call: CALLS[n % CALLS.len()], number, side: SIDES[n % 2] };
    let (db, web) = (format!("db{n}"), format!("web{n}"));
    let tag = format!("unit-{}-0", if n.is_multiple_of(2) { &db } else { &web });
    schedule_crashes(crashes, &tag, &[first.clone(), second.clone()]);
    // the output of a failed check must show where the agent crashed
    println!("{tag} crashes at {first:?}, then at {second:?}");
    deploy(scene, &db, &[]);
    deploy(scene, &web, &[]);
    relate_change_and_remove(scene, &db, &web);
    scene.ok(&["remove-application", &db, "--no-prompt"]);
    crashes.join(format!("{tag}.1.crashed")).exists()
}

/// Schedules the crashes of the programs with a tag: each program that starts takes the next one.
fn schedule_crashes(crashes: &Path, tag: &str, all: &[CrashPoint]) {
    for (n, CrashPoint { call, number, side }) in all.iter().enumerate() {
        let file = crashes.join(format!("{tag}.{}", n + 1));
        fs::write(file, format!("{call} {number} {side}")).expect("it is ours");
    }
}

/// Runs a trial for each of these crash points, [`AT_ONCE`] at a time. Returns the points that were not reached, for
/// which `run` returns false.
fn run_all(points: &[CrashPoint], run: impl Fn(usize, &CrashPoint) -> bool + Sync) -> Vec<CrashPoint> {
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                while let Some((n, point)) =
                    points.iter().enumerate().nth(next.fetch_add(1, Ordering::SeqCst))
                {
                    if !run(n, point) {
                        missed.lock().expect("no holder panics").push(point.clone());
                    }
                }
            });
        }
    });
    missed.into_inner().expect("no holder panics")
}

/// Whether the tests run every crash point instead of a sample.
fn every_point() -> bool {
    std::env::var("PINTLE_CRASH_POINTS").is_ok_and(|points| points == "all")
}

/// Runs a trial with a crash at every call of these kinds.
fn run_every_point(calls: &[&'static str], run: impl Fn(usize, &CrashPoint) -> bool + Sync) {
    let mut runs = 0;
    for (call, side) in calls.iter().flat_map(|call| SIDES.map(|side| (*call, side))) {
        for from in (1..CALLS_MAX).step_by(AT_ONCE) {
            let points: Vec<CrashPoint> =
                (from..from + AT_ONCE).map(|number| CrashPoint { call, number, side }).collect();
            let missed = run_all(&points, |n, point| run(runs + n, point));
            runs += points.len();
            let (to, beyond) = (from + AT_ONCE - 1, missed.len());
            println!("{call} {side}: {from} to {to} ran, {beyond} beyond the last call");
            if beyond == points.len() {
                break;
            }
            assert!(from + AT_ONCE < CALLS_MAX, "{call} does not end");
        }
    }
    println!("{runs} runs");
}

#[test]
fn an_agent_may_crash_at_any_call_and_again_while_it_recovers() {
    let (scene, crashes) = crashing_scene();
    let run = |n: usize, point: &CrashPoint| run_trial(&scene, &crashes, n, point);
    if every_point() {
        return run_every_point(&CALLS, run);
    }
    let kinds = CALLS.into_iter().flat_map(|call| SIDES.map(|side| (call, side)));
    let at = |n: usize| SAMPLE[(n + n / SAMPLE.len()) % SAMPLE.len()];
    let points: Vec<CrashPoint> =
        kinds.enumerate().map(|(n, (call, side))| CrashPoint { call, number: at(n), side }).collect();
    let missed = run_all(&points, run);
    assert!(missed.is_empty(), "not reached: {missed:?}");
}

#[test]
fn a_hooks_shim_may_crash_at_any_call_and_each_hook_takes_effect_once() {
    let (scene, crashes) = crashing_scene();
    // Before it writes its own pid file, reserves the outcome, starts the hook, writes the outcome, renames it, and ends.
    // The hook may have run since the fourth one.
    let of_install =
        [("renameat", 1), ("renameat", 2), ("clone", 1), ("writev", 4), ("renameat", 4), ("exit_group", 1)];
    // before it writes the hook's pid file, and when it waits for the hook
    let of_the_next = [("renameat", 3), ("ppoll", 1)];
    let all: Vec<CrashPoint> = of_install
        .into_iter()
        .chain(of_the_next)
        .map(|(call, number)| CrashPoint { call, number, side: "before" })
        .collect();
    schedule_crashes(&crashes, "shim-unit-db-0", &all);
    deploy(&scene, "db", &[]);
    scene.until("db/0 started", |host| {
        let idle = host.unit("db/0")?["juju-status"]["current"] == "idle";
        (idle && ran(&scene, "db/0").last()? == "start").then_some(())
    });
    for (n, point) in (1..).zip(&all) {
        let trace = crashes.join(format!("shim-unit-db-0.{n}.trace"));
        let trace = fs::read_to_string(&trace).unwrap_or_else(|error| panic!("{point:?}: {error}"));
        assert!(trace.ends_with(" SIGKILL +++\n"), "{point:?} was not reached: {trace}");
    }
    let times = counted(&ran(&scene, "db/0").iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(
        times["install"], 3,
        "not started by a shim that crashed first, repeated while its outcome was unknown"
    );
    // a hook that was just started may be killed before its first line
    assert!((1..=3).contains(&times["leader-elected"]), "{times:?}");
    assert_eq!((times["config-changed"], times["start"]), (1, 1), "{times:?}");
    let (mut lines, mut once) = (logged(&scene, "db/0"), counted(&STARTED));
    // the retry of a hook that was interrupted too often is another run, which writes its line, too; a shim whose run was
    // not stored as started counts for no interruption, so that the run may be the second or the third of these
    assert!(lines.remove("install").is_some_and(|lines| lines <= 2) && once.remove("install") == Some(1));
    assert_eq!(lines, once, "each line is there once");
    assert_eq!(results(&scene, "db/0", "count")["hooks"], "4", "each effect is there once");
    scene.ok(&["remove-application", "db", "--no-prompt"]);
    scene.until("db/0 is gone", |host| host.unit_folder("db/0").is_none().then_some(()));
}

#[test]
fn a_machines_agent_may_crash_at_any_call_and_its_unit_is_deployed_once() {
    let (scene, crashes) = crashing_scene();
    // the pid file; the unit's agent.yaml, written, synced and renamed; the requests and the mark of its token
    let at = [
        ("rename", 1, "before"),
        ("fsync", 1, "before"),
        ("rename", 2, "before"),
        ("rename", 2, "after"),
        ("send", 2, "after"),
        ("send", 3, "before"),
        ("send", 3, "after"),
        ("send", 4, "before"),
        ("rename", 3, "before"),
    ];
    let all = at.map(|(call, number, side)| CrashPoint { call, number, side });
    schedule_crashes(&crashes, "machine", &all);
    // each trial has two machines; each start of a machine agent takes the next crash
    std::thread::scope(|threads| {
        for n in 0..AT_ONCE {
            let scene = &scene;
            threads.spawn(move || {
                let (db, web) = (format!("db{n}"), format!("web{n}"));
                deploy(scene, &db, &[]);
                deploy(scene, &web, &[]);
                relate_change_and_remove(scene, &db, &web);
            });
        }
    });
    let count = |end: &str| {
        let file = |n: &usize| crashes.join(format!("machine.{n}.{end}")).exists();
        (1..=all.len()).filter(file).count()
    };
    assert_eq!(count("taken"), all.len(), "each crash was taken by an agent");
    // an agent that finds its unit deployed writes less: a late crash may find no such call
    assert!(count("crashed") * 3 >= all.len() * 2, "{} of {} crashed", count("crashed"), all.len());
}
