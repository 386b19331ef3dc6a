//! The controller dies: at its first start or under the story, again at the start that follows, and once more later. Its
//! supervisor starts it each time; people give the commands again that got no answer.

use super::*;
use tests::scene::scene_with_restarting_controller;

/// Renames, writes of the store's database and of the mark of how far it has come, syncs, whatever is sent, and writes
/// of the store's log: the fewest first.
const CALLS: [&str; 6] = ["rename", "page", "mark", "fsync", "send", "log"];
/// A start marks, syncs and renames history.yaml, checks the rest, and greets who was waiting.
const START_CALLS: [(&str, usize); 6] =
    [("mark", 1), ("fsync", 1), ("rename", 1), ("fsync", 2), ("log", 1), ("send", 1)];
/// In the first life: of its first start, of what people ask for, and of what agents send.
const SAMPLE: [(&str, usize); 10] = [
    ("log", 40),
    ("page", 1),
    ("mark", 12),
    ("fsync", 30),
    ("rename", 7),
    ("send", 60),
    ("page", 1),
    ("log", 3),
    ("fsync", 15),
    ("rename", 2),
];
/// In the life after that: of attaching agents, their hooks, and the removal.
const LATER: [(&str, usize); 6] =
    [("send", 150), ("fsync", 20), ("log", 120), ("send", 50), ("mark", 9), ("fsync", 33)];

/// One story on a Pintle of its own. Answers which of the controller's deaths came.
fn story(n: usize, first: &Death) -> [bool; 3] {
    let at = |calls: &[(&'static str, usize)], side: usize| {
        let (call, number) = calls[n % calls.len()];
        Death { call, number, side: SIDES[side % 2] }
    };
    let all = [first.clone(), at(&START_CALLS, n / 2), at(&LATER, n + 1)];
    let (dir, environment, deaths) = mortal_folder();
    sentence(&deaths, "controller", &all);
    // what a failed check shows must tell where the controller died
    println!("the controller dies at {all:?}");
    let scene = scene_with_restarting_controller(dir, &environment);
    deploy(&scene, "db", &[]);
    deploy(&scene, "web", &[]);
    two_units_live(&scene, "db", "web");
    [1, 2, 3].map(|n| deaths.join(format!("controller.{n}.died")).exists())
}

#[test]
fn the_controller_may_die_at_any_call_and_again_while_it_starts() {
    if all() {
        return live_all(&CALLS, |n, death| story(n, death)[0]);
    }
    let sides = SIDES.into_iter().cycle();
    let points: Vec<Death> =
        SAMPLE.into_iter().zip(sides).map(|((call, number), side)| Death { call, number, side }).collect();
    let missed = live(&points, |n, death| story(n, death) == [true; 3]);
    assert!(missed.is_empty(), "lives have these calls: {missed:?}");
}
