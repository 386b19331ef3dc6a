//! The Python charms of the tests make the same tool calls with and without a warm parent.

use agent::hook_process::run_files::read_run_file;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tests::host::sample;
use tests::scene::{Scene, scene, text};

/// A model without and one with warm dispatch. The applications of each begin with its name, because units of both are on
/// this host.
const MODELS: [(&str, bool); 2] = [("cold", false), ("warm", true)];

/// What a run has called: the operation, and tool, arguments, exit code and output of each call, in order.
type Calls = (String, Vec<String>);

/// The calls of all runs of a unit, and how many runs were forked.
fn calls(scene: &Scene, application: &str) -> (Vec<Calls>, usize) {
    let (unit, mut forked) = (format!("{application}/0"), 0);
    let of_run = |(number, operation): (u64, String)| {
        let folder = scene.run_folder(&unit, number).expect("it is kept");
        forked += usize::from(read_run_file(&folder).expect("it was started").is_warm());
        let text = fs::read_to_string(folder.join("calls.yaml")).unwrap_or_default();
        (operation, text.lines().filter_map(|line| shown(scene, line, application)).collect())
    };
    let runs = scene.runs(&unit).into_iter().map(of_run).collect();
    (runs, forked)
}

/// The part of a call that is the same in each model.
fn shown(scene: &Scene, line: &str, application: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line.strip_prefix("- ").unwrap_or(line)).expect("a line is JSON");
    let call =
        [&line, &line["call"], &line["answered"]].into_iter().find(|value| value["tool"].is_string())?;
    let fields =
        ["tool", "args", "code", "stdout", "stderr", "is_leader"].map(|field| call[field].to_string());
    let mut shown = fields.join(" ").replace(application, "APPLICATION");
    // paths of the two machines differ
    let folder = text(&scene.dir);
    while let Some(start) = shown.find(folder) {
        let end = shown[start..].find(['"', '\\', ' ', ':']).map_or(shown.len(), |length| start + length);
        shown.replace_range(start..end, "PATH");
    }
    Some(shown)
}

/// A charm of the tests, with what is done to its unit after its first hooks: commands in which APPLICATION stands for the
/// name of the application.
struct Example {
    name: &'static str,
    folder: PathBuf,
    deploy: Vec<&'static str>,
    steps: Vec<Vec<&'static str>>,
}

fn stored(scene: &Scene, name: &'static str, version: &str) -> Example {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("real_charms/stored");
    let folder = scene.copy_of(&source, name);
    fs::write(folder.join("requirements.txt"), format!("ops=={version}\n")).expect("written");
    Example { name, folder, deploy: vec!["--storage", "data=2"], steps: Vec::new() }
}

#[test]
fn python_charms_make_the_same_tool_calls() {
    let scene = scene();
    let greet = |name: &'static str| vec!["run", "APPLICATION/0", "greet", name];
    let set = |greeting: &'static str| vec!["config", "APPLICATION", greeting];
    let hello = Example {
        name: "hello",
        folder: sample("ops-hello"),
        deploy: Vec::new(),
        steps: [greet("name=a"), set("greeting=b"), greet("name=c"), set("greeting=d"), greet("name=e")]
            .into(),
    };
    let versions = [("first", "1.5.4"), ("second", "2.0.0"), ("third", "3.9.0")];
    let examples = [hello].into_iter().chain(versions.map(|(name, version)| stored(&scene, name, version)));
    let mut forked_runs = 0;
    for example in examples {
        let seen = MODELS.map(|(model, is_warm)| {
            if !scene.ok(&["models", "--format", "json"]).contains(&format!("\"{model}\"")) {
                scene.ok(&["add-model", model]);
            }
            scene.ok(&["switch", model]);
            scene.ok(&["model-config", &format!("warm-dispatch={is_warm}"), "update-status-hook-interval=0"]);
            let application = format!("{model}-{}", example.name);
            let folder = text(&example.folder);
            scene.ok(&[&["deploy", folder, &application], &example.deploy[..]].concat());
            until_idle(&scene, &application);
            for step in &example.steps {
                let step: Vec<String> =
                    step.iter().map(|word| word.replace("APPLICATION", &application)).collect();
                scene.ok(&step.iter().map(String::as_str).collect::<Vec<_>>());
                until_idle(&scene, &application);
            }
            calls(&scene, &application)
        });
        let [(cold, forked_cold), (warm, forked_warm)] = seen;
        assert_eq!(cold, warm, "{}", example.name);
        assert_eq!(forked_cold, 0);
        assert!(cold.iter().map(|(_, calls)| calls.len()).sum::<usize>() > 5, "they call tools: {cold:?}");
        forked_runs += forked_warm;
    }
    assert!(forked_runs >= 4, "only {forked_runs} runs were forked");
}

/// Waits until the hooks of the unit have run that are pending.
fn until_idle(scene: &Scene, application: &str) {
    scene.until(format_args!("{application} is active and idle"), |host| {
        let unit = host.unit(&format!("{application}/0"))?;
        let statuses = [&unit["workload-status"]["current"], &unit["juju-status"]["current"]];
        (statuses == ["active", "idle"]).then_some(())
    });
}
