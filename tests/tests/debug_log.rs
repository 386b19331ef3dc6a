//! Tests what `debug-log` shows of hooks: the line about the end of each, and their output (spec/clients.md 1.8, 3.6).

use api::LogSource;
use api::text::log::line;
use serde_json::Value;
use state::terms::failure_reason::FailureReason;
use state::terms::hook_name::HookName;
use state::unit::hook_log::{HookEnd, HookHandler};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tests::host::{Host, sample};
use tests::scene::{Scene, hooks, scene, text};

/// Deploys a charm whose `dispatch` is this program.
fn deploy(scene: &Scene, program: &str) {
    let charm = scene.copy_of(&sample("peer"), "peer");
    let dispatch = charm.join("dispatch");
    fs::write(&dispatch, format!("#!/bin/sh\n{program}\n")).expect("it is the test's");
    fs::set_permissions(&dispatch, fs::Permissions::from_mode(0o755)).expect("it is the test's");
    scene.ok(&["deploy", text(&charm)]);
}

/// The level, the module and the message of each line.
fn lines(host: &Host) -> Vec<[String; 3]> {
    let printed = host.ok(&["debug-log", "--replay", "--no-tail", "--format", "json"]);
    let field = |line: &Value, name: &str| line[name].as_str().expect("a text").to_owned();
    let parsed = printed.lines().map(|line| serde_json::from_str(line).expect("one object per line"));
    parsed.map(|line: Value| ["level", "module", "message"].map(|name| field(&line, name))).collect()
}

fn of_dispatch(hook: HookName, end: HookEnd) -> LogSource {
    LogSource::HookEnd { hook, handler: Some(HookHandler::Dispatch), end }
}

fn until_started(scene: &Scene) {
    scene.until("start ran", |host| hooks(host, "peer/0").contains(&"start".to_owned()).then_some(()));
    scene.ok(&["wait-for", "unit", "peer/0", "--query", "agent-status==\"idle\""]);
}

#[test]
fn each_hook_has_one_line_about_its_end_and_its_output_has_the_levels_of_juju() {
    let scene = scene();
    scene.ok(&["model-config", "logging-config=<root>=DEBUG"]);
    deploy(&scene, "echo out; echo err >&2");
    until_started(&scene);
    let lines = lines(&scene);
    for hook in hooks(&scene, "peer/0") {
        let count = |level: &str, module: &str, message: &str| {
            lines
                .iter()
                .filter(|line| line.each_ref().map(String::as_str) == [level, module, message])
                .count()
        };
        let ran = format!("ran \"{hook}\" hook (via hook dispatching script: dispatch)");
        let of_hook = format!("unit.peer/0.{hook}");
        let runs = hooks(&scene, "peer/0").iter().filter(|ran| **ran == hook).count();
        assert_eq!(count("INFO", "juju.worker.uniter.operation", &ran), runs, "{hook}: {lines:?}");
        assert_eq!(count("DEBUG", &of_hook, "out"), runs, "{hook}: {lines:?}");
        assert_eq!(count("WARNING", &of_hook, "err"), runs, "{hook}: {lines:?}");
    }
}

#[test]
fn the_line_about_a_hook_follows_the_level_of_its_module() {
    let scene = scene();
    scene.ok(&["model-config", "logging-config=juju.worker=ERROR"]);
    deploy(&scene, "echo out; [ $JUJU_DISPATCH_PATH != hooks/start ]");
    let modules = scene.until("start has failed", |host| {
        let of_hooks = lines(host).into_iter().filter(|[_, module, _]| module.starts_with("juju."));
        let lines: Vec<_> = of_hooks.map(|[level, _, message]| (level, message)).collect();
        (!lines.is_empty()).then_some(lines)
    });
    let end = HookEnd::Failed(FailureReason::exit(1));
    let failed = line(&of_dispatch(HookName::Start, end), "").into_owned();
    assert_eq!(modules[0], ("ERROR".to_owned(), failed), "{modules:?}");
}

#[test]
fn long_messages_and_results_keep_their_beginning_and_their_end() {
    let scene = scene();
    deploy(&scene, "juju-log \"BEGIN$(head -c 20000 /dev/zero | tr '\\0' x)END\"");
    until_started(&scene);
    let logged = lines(&scene).into_iter().find(|[_, _, message]| message.starts_with("BEGIN"));
    let [_, _, logged] = logged.expect("it was logged");
    assert!(logged.ends_with("xEND"), "{logged}");
    let script = "printf HEAD; head -c 3000000 /dev/zero | tr '\\0' x; echo TAIL";
    let printed = scene.ok(&["exec", "--unit", "peer/0", "--", script]);
    assert!(printed.starts_with("HEADx") && printed.trim_end().ends_with("xTAIL"), "{} bytes", printed.len());
    let printed = scene.ok(&["exec", "--unit", "peer/0", "--", "seq 1 200000"]);
    let numbers: Vec<&str> = printed.lines().filter(|line| line.parse::<u32>().is_err()).collect();
    assert!(
        printed.starts_with("1\n2\n") && printed.trim_end().ends_with("\n200000"),
        "{} bytes",
        printed.len()
    );
    assert_eq!(numbers.iter().filter(|line| !line.is_empty()).count(), 1, "the mark alone: {numbers:?}");
}
