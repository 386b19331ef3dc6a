//! `kill -9` of a unit's agent, of its hooks' shims, and of the controller, at every write, sync, rename and send of its
//! life, before the call and after it, and a second time while it recovers. A sample of these points; with `PINTLE_CRASH_POINTS=all`,
//! every one.

mod controller;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::scene::{Scene, scene_with};
use tests::tally_scenario::{STARTED, counted, deploy, logged, ran, results, two_units_live};

/// Pairs of units that live at the same time: their waits overlap, two cores stay busy.
const AT_ONCE: usize = 4;
/// A life has fewer calls of one kind: beyond this the search for the last one is broken.
const CALLS_MAX: usize = 4_000;
/// Of a sample: the first calls are the start of an agent and its attach, the later ones hooks and the removal.
const SAMPLE: [usize; 4] = [1, 3, 8, 17];
/// A recovery reads, folds and syncs its files, attaches and sends: its first calls of each kind.
const RECOVERY_CALLS: usize = 6;

/// `append` and `note` write to the journal and to a run's calls, `answer` to a hook's tool, `send` to the controller.
const CALLS: [&str; 7] = ["append", "note", "answer", "send", "fdatasync", "fsync", "rename"];
const SIDES: [&str; 2] = ["before", "after"];

/// Where an agent dies: `fdatasync 3 before`.
#[derive(Clone, Debug)]
struct Death {
    call: &'static str,
    number: usize,
    side: &'static str,
}

/// Compiles the library that does it.
fn library(dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash_points/deaths.c");
    let library = dir.join("deaths.so");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
    assert!(compiled.is_ok_and(|status| status.success()), "cc is there: tests/prerequisites.sh");
    library
}

/// Where a Pintle may live whose programs die as the files in the last folder of the answer say, told by variables.
fn mortal_folder() -> (tempfile::TempDir, [(&'static str, OsString); 2], PathBuf) {
    let dir = tempfile::TempDir::with_prefix("pintle-test-").expect("there is room for a test");
    let deaths = dir.path().join("deaths");
    fs::create_dir(&deaths).expect("it is a new folder");
    let preload = OsString::from(library(dir.path()));
    let environment = [("LD_PRELOAD", preload), ("PINTLE_DEATHS", deaths.clone().into())];
    (dir, environment, deaths)
}

/// A Pintle whose agents die so.
fn mortal() -> (Scene, PathBuf) {
    let (dir, environment, deaths) = mortal_folder();
    (scene_with(dir, &environment), deaths)
}

/// One story in which an agent dies twice. False: its life has no such call.
fn story(scene: &Scene, deaths: &Path, n: usize, first: &Death) -> bool {
    let number = n / CALLS.len() % RECOVERY_CALLS + 1;
    let second = Death { call: CALLS[n % CALLS.len()], number, side: SIDES[n % 2] };
    let (db, web) = (format!("db{n}"), format!("web{n}"));
    let tag = format!("unit-{}-0", if n.is_multiple_of(2) { &db } else { &web });
    sentence(deaths, &tag, &[first.clone(), second.clone()]);
    // what a failed check shows must tell where the agent died
    println!("{tag} dies at {first:?}, then at {second:?}");
    deploy(scene, &db, &[]);
    deploy(scene, &web, &[]);
    two_units_live(scene, &db, &web);
    scene.ok(&["remove-application", &db, "--no-prompt"]);
    deaths.join(format!("{tag}.1.died")).exists()
}

/// Says where the agents of a tag die, the first of them first.
fn sentence(deaths: &Path, tag: &str, all: &[Death]) {
    for (n, Death { call, number, side }) in all.iter().enumerate() {
        let file = deaths.join(format!("{tag}.{}", n + 1));
        fs::write(file, format!("{call} {number} {side}")).expect("it is ours");
    }
}

/// Lives through a story with each of these deaths, some at a time; answers those that did not come: of these the
/// story says false.
fn live(points: &[Death], story: impl Fn(usize, &Death) -> bool + Sync) -> Vec<Death> {
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                while let Some((n, death)) =
                    points.iter().enumerate().nth(next.fetch_add(1, Ordering::SeqCst))
                {
                    if !story(n, death) {
                        missed.lock().expect("no holder panics").push(death.clone());
                    }
                }
            });
        }
    });
    missed.into_inner().expect("no holder panics")
}

/// Whether every point is wanted, not a sample.
fn all() -> bool {
    std::env::var("PINTLE_CRASH_POINTS").is_ok_and(|points| points == "all")
}

/// Lives through the story with a death at every call there is, of these kinds.
fn live_all(calls: &[&'static str], story: impl Fn(usize, &Death) -> bool + Sync) {
    let mut lived = 0;
    for (call, side) in calls.iter().flat_map(|call| SIDES.map(|side| (*call, side))) {
        for from in (1..CALLS_MAX).step_by(AT_ONCE) {
            let points: Vec<Death> =
                (from..from + AT_ONCE).map(|number| Death { call, number, side }).collect();
            let missed = live(&points, |n, death| story(lived + n, death));
            lived += points.len();
            let (to, beyond) = (from + AT_ONCE - 1, missed.len());
            println!("{call} {side}: {from} to {to} lived, {beyond} beyond the end");
            if beyond == points.len() {
                break;
            }
            assert!(from + AT_ONCE < CALLS_MAX, "{call} does not end");
        }
    }
    println!("{lived} lives");
}

#[test]
fn an_agent_may_die_at_any_call_and_again_while_it_recovers() {
    let (scene, deaths) = mortal();
    let lives = |n: usize, death: &Death| story(&scene, &deaths, n, death);
    if all() {
        return live_all(&CALLS, lives);
    }
    let kinds = CALLS.into_iter().flat_map(|call| SIDES.map(|side| (call, side)));
    let at = |n: usize| SAMPLE[(n + n / SAMPLE.len()) % SAMPLE.len()];
    let points: Vec<Death> =
        kinds.enumerate().map(|(n, (call, side))| Death { call, number: at(n), side }).collect();
    let missed = live(&points, lives);
    assert!(missed.is_empty(), "a life has these calls: {missed:?}");
}

#[test]
fn a_hooks_shim_may_die_at_any_call_and_the_hook_has_its_effects_once() {
    let (scene, deaths) = mortal();
    // its renames: its own pid file, the hook's, the outcome
    let of_install = [
        ("rename", 1, "before"),
        ("rename", 1, "after"),
        ("outcome", 1, "before"),
        ("outcome", 1, "after"),
        ("rename", 3, "before"),
        ("rename", 3, "after"),
    ];
    let of_the_next = [("rename", 2, "before"), ("rename", 2, "after")];
    let all: Vec<Death> = of_install
        .into_iter()
        .chain(of_the_next)
        .map(|(call, number, side)| Death { call, number, side })
        .collect();
    sentence(&deaths, "shim-unit-db-0", &all);
    deploy(&scene, "db", &[]);
    scene.until("db/0 started", |host| {
        let idle = host.unit("db/0")?["juju-status"]["current"] == "idle";
        (idle && ran(&scene, "db/0").last()? == "start").then_some(())
    });
    for n in 1..=all.len() {
        assert!(deaths.join(format!("shim-unit-db-0.{n}.died")).exists(), "{:?} came", all[n - 1]);
    }
    let times = counted(&ran(&scene, "db/0").iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(
        times["install"], 4,
        "started by no shim that died at once, repeated while nobody knew its end"
    );
    // one that was just begun may be killed before its first line
    assert!((1..=3).contains(&times["leader-elected"]), "{times:?}");
    assert_eq!((times["config-changed"], times["start"]), (1, 1), "{times:?}");
    assert_eq!(logged(&scene, "db/0"), counted(&STARTED), "each line is there once");
    assert_eq!(results(&scene, "db/0", "count")["hooks"], "4", "each effect is there once");
    scene.ok(&["remove-application", "db", "--no-prompt"]);
    scene.until("db/0 is gone", |host| host.unit_folder("db/0").is_none().then_some(()));
}

#[test]
fn a_machines_agent_may_die_at_any_call_and_its_unit_is_deployed_once() {
    let (scene, deaths) = mortal();
    // its pid file; the unit's agent.yaml, written, synced and renamed; its token's messages and mark
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
    let all = at.map(|(call, number, side)| Death { call, number, side });
    sentence(&deaths, "machine", &all);
    // two machines a story: each agent that starts, the first time or again, takes the next death
    std::thread::scope(|threads| {
        for n in 0..AT_ONCE {
            let scene = &scene;
            threads.spawn(move || {
                let (db, web) = (format!("db{n}"), format!("web{n}"));
                deploy(scene, &db, &[]);
                deploy(scene, &web, &[]);
                two_units_live(scene, &db, &web);
            });
        }
    });
    let count = |end: &str| {
        let file = |n: &usize| deaths.join(format!("machine.{n}.{end}")).exists();
        (1..=all.len()).filter(file).count()
    };
    assert_eq!(count("taken"), all.len(), "each death was some agent's");
    // an agent that finds its unit deployed writes less: a late death may find no such call
    assert!(count("died") * 3 >= all.len() * 2, "{} of {} died", count("died"), all.len());
}
