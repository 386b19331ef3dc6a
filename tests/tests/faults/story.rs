//! The story of two related units of the charm `tally`, and what the spec says it makes of them.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tests::host::Host;
use tests::scene::{Scene, text};

/// The charm that counts what is run of it.
pub fn tally() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("charms/tally")
        .canonicalize()
        .expect("it is in the repository")
}

/// The processes of the charm that were started for a unit, in order: by the charm's own file, which Pintle does
/// not know.
pub fn ran(scene: &Scene, unit: &str) -> Vec<String> {
    let all = fs::read_to_string(scene.beside("ran")).unwrap_or_default();
    all.lines().filter_map(|line| line.strip_prefix(unit)?.strip_prefix(' ').map(str::to_owned)).collect()
}

/// Deploys the charm under a name.
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

/// What an action answered.
pub fn results(host: &Host, unit: &str, action: &str) -> Value {
    let said = host.ok(&["run", unit, action, "--format", "json"]);
    let task: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    task[unit]["results"].clone()
}

/// How often each hook of a unit logged itself.
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

/// The same counts of a list.
pub fn counted(hooks: &[&str]) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    hooks.iter().for_each(|hook| *counted.entry((*hook).to_owned()).or_insert(0) += 1);
    counted
}

/// What the first unit of an application runs before anything happens to it.
pub const STARTED: [&str; 4] = ["install", "leader-elected", "config-changed", "start"];
