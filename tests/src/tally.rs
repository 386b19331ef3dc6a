//! Two related units of the charm `tally`, which counts its own hooks, and the hooks that the spec requires.
//!
//! Used by the end-to-end tests, most of which inject faults: each hook must take effect exactly once despite them.

use crate::host::Host;
use crate::scene::{Scene, text};
use api::text::refusal::failure;
use serde_json::Value;
use state::terms::failure_reason::FailureReason;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the folder of the charm, which counts its hooks and actions.
pub fn tally() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("charms/tally")
        .canonicalize()
        .expect("the charm is in the repository")
}

/// Returns the processes of the charm that were started for a unit, in order. The charm writes them to a file of its
/// own, which is independent of Pintle.
pub fn ran(scene: &Scene, unit: &str) -> Vec<String> {
    let all = fs::read_to_string(scene.beside("ran")).unwrap_or_default();
    all.lines().filter_map(|line| line.strip_prefix(unit)?.strip_prefix(' ').map(str::to_owned)).collect()
}

/// Deploys the charm as application `name`, with further arguments.
pub fn deploy(scene: &Scene, name: &str, more: &[&str]) {
    let (charm, ran) = (tally(), format!("ran={}", text(&scene.beside("ran"))));
    scene.ok(&[&["deploy", text(&charm), name, "--config", &ran], more].concat());
}

/// Waits until these are all the processes that ran for the unit, and its agent is idle.
pub fn until_ran(scene: &Scene, unit: &str, expected: &[&str]) {
    scene.until(format_args!("{unit} ran {expected:?} of {:?}", ran(scene, unit)), |host: &Host| {
        let idle = host.unit(unit)?["juju-status"]["current"] == "idle";
        (idle && ran(scene, unit).len() >= expected.len()).then_some(())
    });
    assert_eq!(ran(scene, unit), expected, "{unit}");
}

/// Returns how many hooks of a unit took effect, as counted by the charm. An action that ends with its agent never runs
/// again, so the action is requested again.
fn effects(host: &Host, unit: &str) -> Value {
    host.until(format_args!("{unit} counts"), |host| {
        let output = host.pintle(&["run", unit, "count", "--format", "json"]);
        let task: Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let died = task[unit]["message"] == failure(&FailureReason::Interrupted);
        assert!(died || output.code == 0, "{output:?}");
        (!died).then(|| task[unit]["results"]["hooks"].clone())
    })
}

/// Runs an action and returns its results.
pub fn results(host: &Host, unit: &str, action: &str) -> Value {
    let output = host.ok(&["run", unit, action, "--format", "json"]);
    let task: Value = serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"));
    task[unit]["results"].clone()
}

/// Returns how often each hook of a unit wrote its log line.
pub fn logged(host: &Host, unit: &str) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    let stream = format!("unit.{unit}.juju-log");
    for line in host.log().iter().filter(|line| line.contains(&stream)) {
        if let Some((_, hook)) = line.split_once("tally ") {
            *counted.entry(hook.to_owned()).or_insert(0) += 1;
        }
    }
    counted
}

/// Returns how often each hook occurs in a list.
pub fn counted(hooks: &[&str]) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    hooks.iter().for_each(|hook| *counted.entry((*hook).to_owned()).or_insert(0) += 1);
    counted
}

/// The hooks of a first start of the first unit of an application.
pub const STARTED: [&str; 4] = ["install", "leader-elected", "config-changed", "start"];

/// Returns the bag of `other` in the view of `unit`.
fn bag(host: &Host, unit: &str, other: &str) -> Value {
    let shown = host.ok(&["show-unit", unit, "--format", "json"]);
    let shown: Value = serde_json::from_str(&shown).expect("show-unit prints JSON");
    shown[unit]["relation-info"][0]["related-units"][other]["data"].clone()
}

/// Relates two newly deployed applications of one unit each, changes a setting, and removes the second application.
/// Asserts that each step runs exactly the hooks of the spec, and that each hook took effect once.
///
/// Only config-changed writes relation settings, so that no hook is coalesced with another.
pub fn relate_change_and_remove(scene: &Scene, first: &str, second: &str) {
    let (db, web) = (&*format!("{first}/0"), &*format!("{second}/0"));
    let (mut of_db, mut of_web) = (STARTED.to_vec(), STARTED.to_vec());
    until_ran(scene, db, &of_db);
    until_ran(scene, web, &of_web);
    scene.ok(&["integrate", &format!("{second}:in"), &format!("{first}:out")]);
    of_db.extend(["out-relation-created", "out-relation-joined", "out-relation-changed"]);
    of_web.extend(["in-relation-created", "in-relation-joined", "in-relation-changed"]);
    until_ran(scene, db, &of_db);
    until_ran(scene, web, &of_web);
    scene.ok(&["config", second, "say=once"]);
    of_db.push("out-relation-changed");
    of_web.push("config-changed");
    until_ran(scene, web, &of_web);
    until_ran(scene, db, &of_db);
    assert_eq!(bag(scene, db, web)["said"], "once");
    assert_eq!(effects(scene, web), of_web.len().to_string());
    scene.ok(&["remove-application", second, "--no-prompt"]);
    of_web.extend(["in-relation-departed", "in-relation-broken", "stop", "remove"]);
    of_db.extend(["out-relation-departed", "out-relation-broken"]);
    until_ran(scene, db, &of_db);
    scene.until(format_args!("{web} is removed"), |host| {
        let removed = host.status()["applications"][second].is_null() && host.unit_folder(web).is_none();
        removed.then_some(())
    });
    // the action is a process of the charm as well, but not a hook
    let hooks_of_web: Vec<String> = ran(scene, web).into_iter().filter(|name| name != "count").collect();
    assert_eq!(hooks_of_web, of_web);
    assert_eq!(effects(scene, db), of_db.len().to_string(), "each hook took effect once");
    assert_eq!(logged(scene, db), counted(&of_db), "each hook wrote its log line once");
    assert_eq!(logged(scene, web), counted(&of_web), "each hook wrote its log line once");
    assert_eq!(scene.unit(db).expect("the unit exists")["workload-status"]["current"], "active");
}
