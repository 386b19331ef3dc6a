//! The documents and texts of tasks, as `run` and `show-task` print them (spec/clients.md 2.4, 2.5, 3.7).
//!
//! Clients match the error texts of failed tasks, so they are fixed.

use crate::command_error::CommandError;
use crate::render::yaml;
use crate::terminal_escape;
use crate::times::task_time;
use api::text::{action as text, refusal};
use api::{ActionDoc, ActionFailure};
use serde_json::{Map, Value};
use state::terms::process_result::{ProcessResult, StreamOutput};
use state::terms::status::ActionStatus;
use std::collections::BTreeMap;

/// What a task runs on: the name of its unit, or of the machine that commands were requested for.
pub fn receiver(task: &ActionDoc) -> String {
    task.machine.clone().unwrap_or_else(|| task.unit_name.to_string())
}

/// The kind of the receiver, which is its key in documents.
pub fn receiver_kind(task: &ActionDoc) -> &'static str {
    if task.machine.is_some() { "machine" } else { "unit" }
}

/// The receiver as a tag of Juju: `unit-web-0`, `machine-0-lxd-1`.
pub fn receiver_tag(task: &ActionDoc) -> String {
    format!("{}-{}", receiver_kind(task), receiver(task).replace('/', "-"))
}

/// The document below the name of the receiver, for JSON and YAML.
pub fn document(task: &ActionDoc) -> Value {
    let mut map = Map::from_iter([
        ("id".to_owned(), task.id.to_string().into()),
        (receiver_kind(task).to_owned(), receiver(task).into()),
    ]);
    map.extend(progress(task));
    map.into()
}

/// The document below the number of a task, among the tasks of its operation.
pub fn document_in_operation(task: &ActionDoc) -> Value {
    let mut map = Map::from_iter([("host".to_owned(), receiver(task).into())]);
    map.extend(progress(task));
    map.into()
}

/// What is known of the run of a task.
fn progress(task: &ActionDoc) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("status".into(), task.status.as_str().into());
    if let Some(message) = text::message(task) {
        map.insert("message".into(), message.into());
    }
    let results = results(task);
    if !results.is_empty() {
        map.insert("results".into(), Value::Object(results.into_iter().collect()));
    }
    if !task.log.is_empty() {
        let lines =
            task.log.iter().map(|line| Value::from(format!("{} {}", task_time(line.at_ms), line.text)));
        map.insert("log".into(), lines.collect());
    }
    let timing = timing(Some(task.enqueued_ms), task.started_ms, task.completed_ms);
    map.insert("timing".into(), timing.into());
    map
}

/// The key of the exit code in [`results`].
const RETURN_CODE: &str = "return-code";

/// The results in Juju's form: what the charm set, and the exit code and the output of the process under fixed keys.
/// Juju shows a refusal of the writes as an error that the action printed.
pub fn results(action: &ActionDoc) -> BTreeMap<String, Value> {
    let ProcessResult { stdout, mut stderr, .. } = action.process.clone().unwrap_or_default();
    if let Some(ActionFailure::Refused { refusal }) = &action.failure {
        let error = format!("ERROR {}\n", refusal::message(refusal));
        stderr = match stderr {
            None => Some(StreamOutput::Text(error)),
            Some(StreamOutput::Text(printed)) => Some(StreamOutput::Text(printed + &error)),
            // what is added to base64 could not be decoded
            Some(StreamOutput::Base64(printed)) => Some(StreamOutput::Base64(printed)),
        };
    }
    let mut results = action.results.clone();
    let exit_code = action.process.as_ref().map(|process| process.exit_code);
    results.extend(exit_code.map(|code| (RETURN_CODE.to_owned(), code.into())));
    for (stream, printed) in [("stdout", stdout), ("stderr", stderr)] {
        let Some(printed) = printed else { continue };
        if let StreamOutput::Base64(_) = printed {
            results.insert(format!("{stream}-encoding"), "base64".into());
        }
        results.insert(stream.to_owned(), printed.stored_text().into());
    }
    results
}

/// The times at which a task or an operation was enqueued, started and completed, as far as they are known.
pub fn timing(
    enqueued_ms: Option<i64>,
    started_ms: Option<i64>,
    completed_ms: Option<i64>,
) -> Map<String, Value> {
    let times = [("enqueued", enqueued_ms), ("started", started_ms), ("completed", completed_ms)];
    times.into_iter().filter_map(|(name, ms)| Some((name.to_owned(), task_time(ms?).into()))).collect()
}

/// The plain format: the results as YAML without the return code. For a failed task the message is in the first line.
///
/// # Errors
/// If the results cannot be represented.
pub fn plain(task: &ActionDoc) -> Result<String, CommandError> {
    let mut plain = String::new();
    match task.status {
        ActionStatus::Failed => {
            let message = text::message(task).unwrap_or_default();
            plain = format!("Action id {} failed: {message}\n", task.id);
        }
        ActionStatus::Cancelled => plain = format!("Action id {} was cancelled\n", task.id),
        ActionStatus::Aborted => plain = format!("Action id {} was aborted\n", task.id),
        ActionStatus::Pending | ActionStatus::Running | ActionStatus::Aborting | ActionStatus::Completed => {}
    }
    let results: Map<String, Value> =
        results(task).into_iter().filter(|(key, _)| key != RETURN_CODE).collect();
    if !results.is_empty() {
        plain += &yaml(&results.into())?;
    }
    Ok(plain)
}

/// The plain format of commands: what they printed, stdout before stderr, each ended by a newline, why their changes were
/// refused, and the message of commands that have no exit code.
pub fn printed(task: &ActionDoc) -> String {
    let mut plain = String::new();
    let results = results(task);
    let streams = ["stdout", "stderr"].map(|stream| results.get(stream).and_then(Value::as_str));
    for printed in streams.into_iter().flatten() {
        plain += printed;
        if !printed.is_empty() && !printed.ends_with('\n') {
            plain.push('\n');
        }
    }
    let message = text::message(task).filter(|_| task.process.is_none());
    if let Some(message) = message {
        plain += &format!("{}\n", terminal_escape::safe_line(&message));
    }
    plain
}

/// The failure of a task's process, if it did not exit with 0. A process that was killed or stopped with its agent
/// has no return code.
fn failure_text(task: &ActionDoc) -> Option<String> {
    match &task.process {
        Some(ProcessResult { exit_code: 0, .. }) => None,
        Some(ProcessResult { exit_code, .. }) => Some(format!("return code {exit_code}")),
        None => {
            let is_failure = task.status.is_final() && task.status != ActionStatus::Completed;
            is_failure.then(|| "no return code".to_owned())
        }
    }
}

/// The message of an action that called `action-fail` in a process that exited with 0, as a line for stderr.
pub fn action_failure(task: &ActionDoc) -> Option<String> {
    let is_failed = task.status == ActionStatus::Failed && failure_text(task).is_none();
    let message = text::message(task).unwrap_or_default();
    is_failed.then(|| {
        terminal_escape::safe_line(&format!("action {} of {} failed: {message}", task.name, receiver(task)))
    })
}

/// The error of `run` if processes failed. `None` if all exited with 0, even if `action-fail` was called.
pub fn failure(tasks: &[ActionDoc]) -> Option<CommandError> {
    let bad: Vec<(&ActionDoc, String)> =
        tasks.iter().filter_map(|task| Some((task, failure_text(task)?))).collect();
    let heading = match bad.len() {
        0 => return None,
        1 => "the following task failed:",
        _ => "the following tasks failed:",
    };
    let lines: Vec<String> =
        bad.iter().map(|(task, end)| format!(" - id \"{}\" with {end}", task.id)).collect();
    let help =
        format!("for details: pintle show-task {}, pintle debug-log -i {}", bad[0].0.id, bad[0].0.unit_name);
    Some(CommandError::new(format!("{heading}\n{}", lines.join("\n"))).hint(help))
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::terms::names::{UnitName, Uuid};
    use state::terms::refusal::RefusalReason;

    /// Commands that ended well, and whose changes the controller refuses: nothing else tells why the task has failed.
    #[test]
    fn commands_print_why_their_changes_were_refused() {
        let reason = RefusalReason::NotAuthorised;
        let why = format!("ERROR {}\n", refusal::message(&reason));
        let text = |text: &str| Some(StreamOutput::Text(text.to_owned()));
        for (stdout, stderr, printed_before) in
            [(text("rc=0\n"), None, "rc=0\n"), (text("out"), text("bad\n"), "out\nbad\n"), (None, None, "")]
        {
            let task = ActionDoc {
                id: 56,
                operation: 56,
                unit: Uuid(1),
                unit_name: UnitName::new("kit", 0),
                machine: None,
                name: "juju-exec".to_owned(),
                params: BTreeMap::new(),
                status: ActionStatus::Failed,
                failure: Some(ActionFailure::Refused { refusal: Box::new(reason.clone()) }),
                results: BTreeMap::new(),
                process: Some(ProcessResult { exit_code: 1, stdout, stderr }),
                log: Vec::new(),
                enqueued_ms: 1,
                started_ms: Some(2),
                completed_ms: Some(3),
            };
            assert_eq!(printed(&task), format!("{printed_before}{why}"));
            assert!(failure(&[task]).is_some());
        }
    }
}
