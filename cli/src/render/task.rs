//! Tasks: what `run` answers (spec/clients.md 2.4, 2.5, 3.7).

use crate::command_error::CommandError;
use crate::render::yaml;
use crate::terminal;
use crate::times::task_time;
use api::ActionInfo;
use api::error::{ApiError, ErrorCode};
use serde_json::{Map, Value};
use state::terms::status::ActionStatus;

/// What stands below the unit's name in JSON and YAML.
pub fn document(task: &ActionInfo) -> Value {
    let mut map = Map::new();
    map.insert("id".into(), task.id.to_string().into());
    map.insert("unit".into(), task.unit.to_string().into());
    map.insert("status".into(), task.status.as_str().into());
    if !task.message.is_empty() {
        map.insert("message".into(), task.message.clone().into());
    }
    if !task.results.is_empty() {
        map.insert("results".into(), Value::Object(task.results.clone().into_iter().collect()));
    }
    if !task.log.is_empty() {
        let lines = task.log.iter().map(|(ms, text)| Value::from(format!("{} {text}", task_time(*ms))));
        map.insert("log".into(), lines.collect());
    }
    map.insert("timing".into(), timing(task).into());
    map.into()
}

/// When it was queued, began and ended, as far as it has.
pub fn timing(task: &ActionInfo) -> Map<String, Value> {
    let times = [
        ("enqueued", Some(task.enqueued_ms)),
        ("started", task.started_ms),
        ("completed", task.completed_ms),
    ];
    times.into_iter().filter_map(|(name, ms)| Some((name.to_owned(), task_time(ms?).into()))).collect()
}

/// The results without the return code, as YAML; for a failed task the reason first.
pub fn plain(task: &ActionInfo) -> Result<String, CommandError> {
    let mut text = String::new();
    if task.status == ActionStatus::Failed {
        text = format!("Action id {} failed: {}\n", task.id, terminal::safe_line(&task.message));
    }
    let results: Map<String, Value> =
        task.results.clone().into_iter().filter(|(key, _)| key != "return-code").collect();
    if !results.is_empty() {
        text += &yaml(&results.into())?;
    }
    Ok(text)
}

/// A refusal in the word of the verb that asked: to the controller all of them are actions.
pub fn unknown_task_error(error: ApiError, kind: &str, id: u64) -> CommandError {
    let message = match error.code == ErrorCode::NotFound && error.message == format!("action {id} not found")
    {
        true => format!("{kind} {id} not found"),
        false => error.message.clone(),
    };
    CommandError { message, ..error.into() }
}

/// How its process ended, if not with 0: killed, or stopped with its agent, it has no return code at all.
fn failure_text(task: &ActionInfo) -> Option<String> {
    match task.results.get("return-code").and_then(Value::as_i64) {
        Some(0) => None,
        Some(code) => Some(format!("return code {code}")),
        None => (task.status == ActionStatus::Failed).then(|| "no return code".to_owned()),
    }
}

/// The error of `run` when processes failed; none = all ended with 0, even where `action-fail` was called.
pub fn failure(tasks: &[ActionInfo]) -> Option<CommandError> {
    let bad: Vec<(&ActionInfo, String)> =
        tasks.iter().filter_map(|task| Some((task, failure_text(task)?))).collect();
    let heading = match bad.len() {
        0 => return None,
        1 => "the following task failed:",
        _ => "the following tasks failed:",
    };
    let lines: Vec<String> =
        bad.iter().map(|(task, end)| format!(" - id \"{}\" with {end}", task.id)).collect();
    let help =
        format!("see what it did: pintle show-task {}, pintle debug-log -i {}", bad[0].0.id, bad[0].0.unit);
    Some(CommandError::new(format!("{heading}\n{}", lines.join("\n"))).hint(help))
}
