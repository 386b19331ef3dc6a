//! The controller crashes at its first start or during a trial, again at the next start, and once more later. Its
//! supervisor restarts it each time; the trial repeats the commands that received no response.

use super::*;
use tests::scene::scene_with_restarting_controller;

/// Renames, writes of the store's database and of the mark of its newest revision, syncs, sends, and writes of the
/// store's log; the rarest first.
const CALLS: [&str; 7] = ["rename", "page", "mark", "fsync", "fdatasync", "send", "log"];
/// A start writes the mark, syncs and renames generation.yaml, checks the store, and answers the waiting agents.
const START_CALLS: [(&str, usize); 6] =
    [("mark", 1), ("fsync", 1), ("rename", 1), ("fsync", 2), ("log", 1), ("send", 1)];
/// Calls before the first crash: during the first start, and for requests of operators and agents.
const SAMPLE: [(&str, usize); 10] = [
    ("log", 40),
    ("page", 1),
    ("mark", 12),
    ("fdatasync", 30),
    ("rename", 7),
    ("send", 60),
    ("page", 1),
    ("log", 3),
    ("fdatasync", 15),
    ("rename", 2),
];
/// Calls after the second start: for attaching agents, their hooks, and the removal.
const LATER: [(&str, usize); 6] =
    [("send", 150), ("fdatasync", 20), ("log", 120), ("send", 50), ("mark", 9), ("fdatasync", 33)];

/// Runs one trial on a Pintle of its own. Returns which of the controller's crash points were reached.
fn run_trial(n: usize, first: &CrashPoint) -> [bool; 3] {
    let at = |calls: &[(&'static str, usize)], side: usize| {
        let (call, number) = calls[n % calls.len()];
        CrashPoint { call, number, side: SIDES[side % 2] }
    };
    let all = [first.clone(), at(&START_CALLS, n / 2), at(&LATER, n + 1)];
    let (dir, environment, crashes) = crashing_folder();
    schedule_crashes(&crashes, "controller", &all);
    // the output of a failed check must show where the controller crashed
    println!("the controller crashes at {all:?}");
    let scene = scene_with_restarting_controller(dir, &environment);
    deploy(&scene, "db", &[]);
    deploy(&scene, "web", &[]);
    relate_change_and_remove(&scene, "db", "web");
    [1, 2, 3].map(|n| crashes.join(format!("controller.{n}.crashed")).exists())
}

#[test]
fn the_controller_may_crash_at_any_call_and_again_while_it_starts() {
    if every_point() {
        return run_every_point(&CALLS, |n, point| run_trial(n, point)[0]);
    }
    let sides = SIDES.into_iter().cycle();
    let points: Vec<CrashPoint> = SAMPLE
        .into_iter()
        .zip(sides)
        .map(|((call, number), side)| CrashPoint { call, number, side })
        .collect();
    let missed = run_all(&points, |n, point| run_trial(n, point) == [true; 3]);
    assert!(missed.is_empty(), "not reached: {missed:?}");
}
