//! `kill -9` of a unit's agent at every write, sync, rename and send of its life, before the call and after it, and a
//! second time while it recovers. A sample of these points; with `PINTLE_CRASH_POINTS=all`, every one.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::scene::{Scene, scene_with, text};
use tests::story::{deploy, two_units_live};

/// Pairs of units that live at the same time: their waits overlap, two cores stay busy.
const AT_ONCE: usize = 4;
/// A life has fewer calls of one kind: beyond this the search for the last one is broken.
const CALLS_MAX: usize = 400;
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

/// A Pintle whose unit agents die as the files in the folder of the answer say.
fn mortal() -> (Scene, PathBuf) {
    let dir = tempfile::TempDir::with_prefix("pintle-test-").expect("there is room for a test");
    let deaths = dir.path().join("deaths");
    fs::create_dir(&deaths).expect("it is a new folder");
    let preload = OsString::from(library(dir.path()));
    let environment = [("LD_PRELOAD", preload), ("PINTLE_DEATHS", deaths.clone().into())];
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

/// Lives through the story with each of these deaths, some at a time; answers those that did not come.
fn live(scene: &Scene, deaths: &Path, points: &[Death], numbered_from: usize) -> Vec<Death> {
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                while let Some((n, death)) =
                    points.iter().enumerate().nth(next.fetch_add(1, Ordering::SeqCst))
                {
                    if !story(scene, deaths, numbered_from + n, death) {
                        missed.lock().expect("no holder panics").push(death.clone());
                    }
                }
            });
        }
    });
    missed.into_inner().expect("no holder panics")
}

#[test]
fn an_agent_may_die_at_any_call_and_again_while_it_recovers() {
    let (scene, deaths) = mortal();
    let all = std::env::var("PINTLE_CRASH_POINTS").is_ok_and(|points| points == "all");
    let kinds = CALLS.into_iter().flat_map(|call| SIDES.map(|side| (call, side)));
    if !all {
        let at = |n: usize| SAMPLE[(n + n / SAMPLE.len()) % SAMPLE.len()];
        let points: Vec<Death> =
            kinds.enumerate().map(|(n, (call, side))| Death { call, number: at(n), side }).collect();
        let missed = live(&scene, &deaths, &points, 0);
        assert!(missed.is_empty(), "a life has these calls: {missed:?}");
        return;
    }
    let mut lived = 0;
    for (call, side) in kinds {
        for from in (1..CALLS_MAX).step_by(AT_ONCE) {
            let points: Vec<Death> =
                (from..from + AT_ONCE).map(|number| Death { call, number, side }).collect();
            let missed = live(&scene, &deaths, &points, lived);
            lived += points.len();
            println!(
                "{call} {side}: {from} to {} lived, {} beyond the end",
                from + AT_ONCE - 1,
                missed.len()
            );
            if missed.len() == points.len() {
                break;
            }
            assert!(from + AT_ONCE < CALLS_MAX, "{call} does not end");
        }
    }
    println!("{lived} lives on {}", text(&scene.dir));
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
