//! The Python charms of the tests make the same tool calls, print the same and end in the same way with and without a warm
//! parent. The suites of ops themselves run both ways in `real_charms.rs`.

use agent::hook_process::run_files::read_run_file;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tests::host::sample;
use tests::scene::{Scene, scene, text};

/// A model without and one with warm dispatch. The applications of each begin with its name, because units of both are on
/// this host.
const MODELS: [(&str, bool); 2] = [("cold", false), ("warm", true)];

/// What a run has done: the operation, tool, arguments, exit code and output of each call in order, and its outcome and what
/// it has printed.
type Calls = (String, Vec<String>, Vec<String>);

/// What all runs of a unit have done, and how many runs were forked.
fn calls(scene: &Scene, application: &str) -> (Vec<Calls>, usize) {
    let (unit, mut forked) = (format!("{application}/0"), 0);
    let of_run = |(number, operation): (u64, String)| {
        let folder = scene.run_folder(&unit, number).expect("it is kept");
        forked += usize::from(read_run_file(&folder).expect("it was started").is_warm());
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let text = read("calls.yaml");
        let printed =
            ["outcome", "output.log", "stdout", "stderr"].map(|name| normal(scene, &read(name), application));
        (operation, text.lines().filter_map(|line| shown(scene, line, application)).collect(), printed.into())
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
    Some(normal(scene, &fields.join(" "), application))
}

/// A text without what differs between two models: the name of the application, paths, the identifiers of secrets, addresses,
/// and the time and the model of log messages about security.
fn normal(scene: &Scene, text_of_run: &str, application: &str) -> String {
    let mut shown = text_of_run.replace(application, "APPLICATION");
    // paths of the two machines differ
    for (beginning, ends) in [
        (text(&scene.dir), "\"\\ :,)'\n"),
        ("secret:", "\"\\ :,)'\n"),
        ("127.0.", "\"\\/"),
        ("datetime", ","),
        ("appid", ","),
    ] {
        let mut from = 0;
        while let Some(start) = shown[from..].find(beginning).map(|at| from + at) {
            let rest = start + beginning.len();
            let end = shown[rest..].find(|c| ends.contains(c)).map_or(shown.len(), |length| rest + length);
            shown.replace_range(start..end, "OTHER");
            from = start;
        }
    }
    let is_secret = |word: &&str| {
        let is_digit = |byte: u8| byte.is_ascii_digit();
        word.len() == 20
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || is_digit(byte))
            && word.bytes().any(is_digit)
    };
    let words = shown.split(|c: char| !c.is_ascii_alphanumeric());
    let secrets: Vec<String> = words.filter(is_secret).map(str::to_owned).collect();
    for secret in secrets {
        shown = shown.replace(&secret, "SECRET");
    }
    shown
}

/// A charm of the tests, with what is done to its unit after its first hooks: commands in which APPLICATION stands for the
/// name of the application.
struct Example {
    name: &'static str,
    folder: PathBuf,
    deploy: Vec<&'static str>,
    steps: Vec<Vec<String>>,
}

fn stored(scene: &Scene, name: &'static str, version: &str) -> Example {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("real_charms/stored");
    let folder = scene.copy_of(&source, name);
    fs::write(folder.join("requirements.txt"), format!("ops=={version}\n")).expect("written");
    Example { name, folder, deploy: vec!["--storage", "data=2"], steps: Vec::new() }
}

/// A charm of the suites of ops. Its actions run without parameters, also where they fail.
fn of_suite(scene: &Scene, name: &'static str, folder: &str) -> Example {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/ops-suite");
    let sources =
        fs::read_dir(suite).expect("run tests/prerequisites.sh").flatten().map(|entry| entry.path());
    let charms = sources.into_iter().map(|path| path.join("test/charms")).find(|path| path.is_dir());
    let folder = scene.copy_of(&charms.expect("the sources of ops are unpacked").join(folder), name);
    let path = folder.join("charmcraft.yaml");
    let declared = fs::read_to_string(&path).expect("it has one");
    let (mut actions, mut is_action) = (Vec::new(), false);
    for line in declared.lines() {
        if !line.starts_with(' ') {
            is_action = line == "actions:";
        } else if let Some(action) = line.strip_prefix("    ").and_then(|line| line.strip_suffix(':'))
            && is_action
            && !action.starts_with(' ')
        {
            actions.push(action.to_owned());
        }
    }
    assert!(!actions.is_empty(), "{name} has actions");
    // without the tools of its authors
    fs::write(&path, declared.replace("plugin: uv", "plugin: charm").replace("build-snaps: [astral-uv]", ""))
        .expect("written");
    fs::remove_file(folder.join("pyproject.toml")).expect("it has one");
    fs::write(folder.join("requirements.txt"), "ops==3.9.0\n").expect("written");
    let steps = actions
        .iter()
        .chain(&actions)
        .map(|action| ["run", "APPLICATION/0", action].map(str::to_owned).into());
    Example { name, deploy: Vec::new(), steps: steps.collect(), folder }
}

#[test]
fn python_charms_make_the_same_tool_calls() {
    let scene = scene();
    let greet = |name: &str| ["run", "APPLICATION/0", "greet", name].map(str::to_owned).to_vec();
    let set = |greeting: &str| ["config", "APPLICATION", greeting].map(str::to_owned).to_vec();
    let hello = Example {
        name: "hello",
        folder: sample("ops-hello"),
        deploy: Vec::new(),
        steps: [greet("name=a"), set("greeting=b"), greet("name=c"), set("greeting=d"), greet("name=e")]
            .into(),
    };
    let versions = [("first", "1.5.4"), ("second", "2.0.0"), ("third", "3.9.0")];
    let examples = [hello].into_iter().chain(versions.map(|(name, version)| stored(&scene, name, version)));
    compare(&scene, examples, 4);
}

/// The suites run them with more of what they can do; here their calls are compared. Those of the charm for hook tools have
/// times, and addresses of their units, so that only its suite runs both ways.
#[test]
fn the_charms_of_the_suites_of_ops_make_the_same_tool_calls() {
    let scene = scene();
    let charms = [("relation", "test_relation"), ("secrets", "test_secrets")];
    let examples = charms.map(|(name, folder)| of_suite(&scene, name, folder));
    compare(&scene, examples, 3);
}

/// Runs each charm in both models.
fn compare(scene: &Scene, examples: impl IntoIterator<Item = Example>, forked_min: usize) {
    let mut forked_runs = 0;
    for example in examples {
        let seen = MODELS.map(|(model, is_warm)| {
            if !scene.ok(&["models", "--format", "json"]).contains(&format!("\"{model}\"")) {
                scene.ok(&["add-model", model]);
            }
            scene.ok(&["switch", model]);
            scene.ok(&["model-config", &format!("warm-dispatch={is_warm}"), "update-status-hook-interval=0"]);
            let application = format!("{model}-{}", example.name);
            eprintln!("{application}");
            let folder = text(&example.folder);
            scene.ok(&[&["deploy", folder, &application], &example.deploy[..]].concat());
            until_idle(scene, &application);
            for step in &example.steps {
                let step: Vec<String> =
                    step.iter().map(|word| word.replace("APPLICATION", &application)).collect();
                // an action may fail
                scene.pintle(&step.iter().map(String::as_str).collect::<Vec<_>>());
                until_idle(scene, &application);
            }
            calls(scene, &application)
        });
        let [(cold, forked_cold), (warm, forked_warm)] = seen;
        for (cold, warm) in cold.iter().zip(&warm) {
            assert_eq!(cold, warm, "{}", example.name);
        }
        assert_eq!(cold.len(), warm.len(), "{}", example.name);
        assert_eq!(forked_cold, 0);
        assert!(cold.iter().map(|(_, calls, _)| calls.len()).sum::<usize>() > 5, "they call tools: {cold:?}");
        forked_runs += forked_warm;
    }
    assert!(forked_runs >= forked_min, "only {forked_runs} runs were forked");
}

/// Waits until the hooks of the unit have run that are pending.
fn until_idle(scene: &Scene, application: &str) {
    scene.until(format_args!("{application} is active and idle"), |host| {
        let unit = host.unit(&format!("{application}/0"))?;
        let statuses = [&unit["workload-status"]["current"], &unit["juju-status"]["current"]];
        (statuses == ["active", "idle"]).then_some(())
    });
}
