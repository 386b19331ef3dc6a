//! What a charm can see of its own process, and how its runs end, with and without a warm parent.

use super::{DISPATCHES, EndedRun, deploy, run, run_warm, scene, set_warm};
use serde_json::Value;

/// How the runs end, by the action's parameter.
const ENDS: [&str; 14] = [
    "return",
    "code",
    "text",
    "raise",
    "interrupt",
    "at once",
    "thread",
    "warn",
    "close",
    "group",
    "SIGKILL",
    "SIGTERM",
    "SIGSEGV",
    "SIGPIPE",
];

fn printed(run: &EndedRun) -> Value {
    let text = run.file("stdout");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?} {:?}", run.file("stderr")))
}

#[test]
fn a_forked_hook_sees_the_same_process() {
    let scene = scene();
    scene.ok(&["model-config", "warm-dispatch=false"]);
    for (name, dispatch) in DISPATCHES {
        deploy(&scene, name, dispatch);
        let unit = format!("{name}/0");
        set_warm(&scene, false, &unit);
        let cold = run(&scene, &unit, &["facts"]);
        assert!(!cold.is_warm);
        let cold = printed(&cold);
        set_warm(&scene, true, &unit);
        let (warm, again) = (run_warm(&scene, &unit, &["facts"]), run_warm(&scene, &unit, &["facts"]));
        for warm in [printed(&warm), printed(&again)] {
            let facts = cold["facts"].as_object().expect("an object");
            for (fact, expected) in facts {
                assert_eq!(warm["facts"][fact], *expected, "{name}: {fact}");
            }
            assert_eq!(warm["facts"]["library-calls"], 1, "{name}: state is shared");
            for holds in
                ["all of environ is shown", "logging began in this process", "the environment of children"]
            {
                assert_eq!(warm["facts"][holds], true, "{name}: {holds}");
            }
        }
        assert_ne!(printed(&warm)["random"], printed(&again)["random"], "{name}: randomness is shared");
    }
}

#[test]
fn a_forked_hook_ends_and_prints_the_same() {
    let scene = scene();
    for (name, dispatch) in &DISPATCHES[..2] {
        deploy(&scene, name, dispatch);
        let unit = format!("{name}/0");
        set_warm(&scene, false, &unit);
        let cold: Vec<_> =
            ENDS.iter().map(|how| run(&scene, &unit, &["end", &format!("how={how}")])).collect();
        set_warm(&scene, true, &unit);
        for (how, cold) in ENDS.iter().zip(cold) {
            let warm = run_warm(&scene, &unit, &["end", &format!("how={how}")]);
            assert!(!cold.is_warm);
            assert_eq!(warm.code, cold.code, "{name}: {how}");
            for file in ["outcome", "stdout", "stderr"] {
                assert_eq!(warm.file(file), cold.file(file), "{name}: {how}: {file}");
            }
            assert!(cold.file("stderr").contains("err"), "{name}: {how}: it ran");
        }
    }
}
