//! The parsers of the real jubilant accept every document that the client prints for the sample model.

mod samples;

use api::{ActionFailure, StatusInfo};
use cli::commands::show_model;
use cli::render::{application_config, status_json, task, unit};
use cli::times::Zone;
use samples::*;
use serde_json::{Map, Value, json};
use state::terms::process_result::ProcessResult;
use state::terms::status::ActionStatus;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

#[test]
fn jubilant_parses_every_document() {
    let zone = Zone::new(false);
    let mut bare = sample();
    bare.applications.clear();
    bare.machines.clear();
    bare.model.status = StatusInfo::default();
    let (name, failed) = (sample_unit().name.to_string(), {
        let mut task = sample_task();
        task.status = ActionStatus::Failed;
        task.failure = Some(ActionFailure::ActionFail { message: "the book is frozen".to_owned() });
        task.process = Some(ProcessResult { exit_code: 1, ..ProcessResult::default() });
        task
    });
    let named = |name: &str, value: Value| Value::Object(Map::from_iter([(name.to_owned(), value)]));
    let documents = json!({
        "status": status_json::document(&sample(), &zone, &BTreeMap::new()),
        "status of an empty model": status_json::document(&bare, &zone, &BTreeMap::new()),
        "status with storage": status_json::document(&sample(), &zone, &sample_storage()),
        "show-unit": named(&name, unit::document(&sample_unit(), &unit::ShowUnitFilter::default())),
        "config": application_config::document(&sample_config()),
        "show-model": named("dev", show_model::document(&sample_model())),
        "run": named(&name, task::document(&sample_task())),
        "run that fails": named(&name, task::document(&failed)),
    });
    let file = tempfile::NamedTempFile::new().expect("there is room for a test");
    std::fs::write(file.path(), documents.to_string()).expect("it is ours");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let jubilant = here.join("../target/jubilant");
    assert!(jubilant.is_dir(), "jubilant is not there: tests/prerequisites.sh installs it");
    let script = here.join("../tests/jubilant/parse_status.py");
    let output = Command::new("python3").arg(script).arg(file.path()).env("PYTHONPATH", jubilant).output();
    let output = output.expect("python3 is there: tests/prerequisites.sh");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    // the last line of the script
    let read_all = stdout.lines().count() == 1 && stdout.starts_with("jubilant understands");
    assert!(output.status.success() && read_all, "{stdout}{stderr}");
}
