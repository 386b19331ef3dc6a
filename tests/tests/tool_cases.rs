//! Runs the hook-tool cases of `tests/conformance`, and checks that the runner skips none and detects wrong expectations.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tests::tool_cases::{Report, run};

const GIVEN: &str = include_str!("../conformance/hook-tools.yaml");
/// The entries of a file that are not lists of cases.
const HEAD: [&str; 3] = ["version", "juju", "fixtures"];

fn report(text: &str) -> Report {
    let directory = tempfile::tempdir().unwrap();
    run(text, directory.path()).unwrap()
}

/// The files of cases, by name.
fn files() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    let entries =
        fs::read_dir(folder).expect("the folder of the cases").map(|entry| entry.expect("an entry").path());
    let text = |path: &Path| fs::read_to_string(path).expect("a file of cases");
    entries.map(|path| (path.display().to_string(), text(&path))).collect()
}

/// Counts the cases of all sections of a file, without the runner, which may not know one of the sections.
fn count_cases(text: &str) -> usize {
    let sections: BTreeMap<String, serde_json::Value> = serde_yaml::from_str(text).expect("a file of cases");
    let count = |cases: &serde_json::Value| cases.as_array().expect("a list of cases").len();
    sections.iter().filter(|(name, _)| !HEAD.contains(&name.as_str())).map(|(_, cases)| count(cases)).sum()
}

#[test]
fn every_conformance_case_of_every_file_passes() {
    let files = files();
    assert!(files.len() >= 2, "{:?}", files.keys());
    for (name, text) in files {
        let report = report(&text);
        assert_eq!(report.failed, 0, "{name}: {}", report.lines.join("\n"));
        assert_eq!(report.passed + report.lines.len(), count_cases(&text), "{name}: a case was skipped");
    }
}

#[test]
fn a_wrong_expectation_fails_its_case() {
    let replacements = [
        ("stdout: \"3306\\n\"", "stdout: \"3307\\n\""),
        ("rc: 2", "rc: 1"),
        ("ERROR no relation id specified", "ERROR no relation name specified"),
        ("delete: [database]", "delete: []"),
        ("open_ports: {'*': [80/tcp]}", "open_ports: {'*': [81/tcp]}"),
        ("immediate: {action_log: [-50%]}", "immediate: {}"),
        ("JUJU_HOOK_NAME: install", "JUJU_HOOK_NAME: start"),
        ("exec: hooks/install", "exec: dispatch"),
        ("yaml: \"'---'\\n\"", "yaml: \"---\\n\""),
    ];
    for (right, wrong) in replacements {
        assert!(GIVEN.contains(right), "{right}");
        let failed = report(&GIVEN.replace(right, wrong)).failed;
        assert!(failed > 0, "{right} -> {wrong}");
    }
}
