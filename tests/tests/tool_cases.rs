//! Runs the hook-tool cases of `tests/conformance`, and checks that the runner detects wrong expectations.

use tests::tool_cases::{Report, run};

const GIVEN: &str = include_str!("../conformance/hook-tools.yaml");
const OWN: &str = include_str!("../conformance/own.yaml");

fn report(text: &str) -> Report {
    let directory = tempfile::tempdir().unwrap();
    run(text, directory.path()).unwrap()
}

#[test]
fn every_conformance_case_of_a_supported_tool_passes() {
    for text in [GIVEN, OWN] {
        let report = report(text);
        assert_eq!(report.failed, 0, "{}", report.lines.join("\n"));
        assert!(report.passed > 0);
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
