//! One recorded run: why it ran, and what it saw, called, changed and printed: `pintle-agent show-run`.

use super::changes::Changes;
use super::list::{self, format_duration};
use super::page::{Page, plain};
use super::recorded_run::{DocumentFormat, RecordedRun, unit_folder};
use crate::hook_process::run_files::CONTEXT_FILE;
use crate::hook_session::{AnsweredCall, CALLS, CallsLine, ConfidentialCall, FetchedBagLine, StoredBytes};
use anyhow::Result;
use api::text::start_reason;
use hook_client::shim;
use host::shell;
use serde_json::{Value, json};
use state::terms::settings::Bag;
use state::unit::hook_context::{HookContext, HookRelation, HookTrigger};
use state::unit::hook_context_builder::utc;
use std::path::Path;

/// The number of last lines that are shown of what a run has printed.
const OUTPUT_LINES_MAX: usize = 100;
/// What is shown instead of an output that may contain contents of secrets.
const OMITTED: &str = "it is shown when the agent has masked the secrets in it";

/// The run with this number of the unit in the folder `dir`, as text or as a document.
///
/// # Errors
/// If there is no such run, or it cannot be read.
pub async fn show(dir: &Path, number: u64, format: Option<DocumentFormat>) -> Result<String> {
    let unit = unit_folder(dir)?;
    let run = RecordedRun::read(&unit, number)?;
    let output = run.output(&unit).await;
    let changes = Changes::of(&run.file.context, run.lines());
    match format {
        Some(format) => format.write(&run_to_json(&run, &changes, output.as_deref())),
        None => Ok(run_to_text(&run, &changes, output.as_deref())),
    }
}

/// What the run saw: its context without what a hook does not see. Credentials are replaced by placeholders.
fn context_to_json(context: &HookContext) -> Value {
    let mut seen = serde_json::to_value(context).expect("plain data");
    if let Some(map) = seen.as_object_mut() {
        map.remove("id");
        map.remove("writes");
    }
    let credential = seen.pointer_mut("/cloud/credential/attributes").and_then(Value::as_object_mut);
    for (name, value) in credential.into_iter().flatten() {
        *value = json!(format!("<credential {name}>"));
    }
    seen
}

fn run_to_json(run: &RecordedRun, changes: &Changes, output: Option<&[String]>) -> Value {
    let mut document = list::head_to_json(run);
    document["saw"] = context_to_json(&run.file.context);
    document["called"] = match &run.calls {
        Some(lines) => lines.iter().map(call_to_json).collect(),
        None => Value::Null,
    };
    document["changed"] = changes.document();
    document["printed"] = json!(output);
    document
}

fn bytes_to_json(bytes: &StoredBytes) -> Value {
    match bytes {
        StoredBytes::Text(text) => json!(text),
        StoredBytes::Raw { .. } | StoredBytes::Digest { .. } => json!(bytes),
    }
}

fn call_to_json(line: &CallsLine) -> Value {
    match line {
        CallsLine::Call(call) => json!({
            "call": call.call,
            "at": utc(call.at_ms),
            "pid": call.pid,
            "tool": call.tool,
            "args": call.args.iter().map(bytes_to_json).collect::<Vec<_>>(),
            "stdin": call.stdin.as_ref().map(bytes_to_json),
            "code": call.code,
            "stdout": bytes_to_json(&call.stdout),
            "stderr": bytes_to_json(&call.stderr),
        }),
        CallsLine::Confidential(call) => json!({
            "call": call.call,
            "at": utc(call.at_ms),
            "pid": call.pid,
            "tool": call.confidential_tool,
            "args": call.args,
            "code": call.code,
            "stdout": format_confidential_answer(call),
            "stderr": call.error,
        }),
        CallsLine::Bag(FetchedBagLine { at_ms, fetched, values }) => json!({
            "at": utc(*at_ms),
            "fetched-settings-of": fetched.owner.to_string(),
            "values": values,
        }),
    }
}

/// What a call printed that may concern the content of a secret, with placeholders.
fn format_confidential_answer(call: &ConfidentialCall) -> String {
    if let Some(printed) = call.effect.as_ref().and_then(|effect| effect.printed.as_ref()) {
        return printed.clone();
    }
    let lines = call.keys.iter().map(|(key, placeholder)| format!("{key}: {placeholder}\n"));
    if call.code == 0 { lines.collect() } else { String::new() }
}

fn run_to_text(run: &RecordedRun, changes: &Changes, output: Option<&[String]>) -> String {
    let context = &run.file.context;
    let mut page = Page::default();
    page.head(&format!("{} run {}: {}", context.unit, run.number, run.operation()));
    page.line(0, &format!("folder: {}", run.folder.display()));

    page.head("Why it ran");
    page.line(0, &start_reason::describe(&run.file.reason));

    page.head("What it saw");
    write_context(&mut page, context);
    page.end_section(&in_file(&run.folder.join(CONTEXT_FILE)));

    page.head("What it called");
    write_calls(&mut page, run);
    page.end_section(&in_file(&run.folder.join(CALLS)));

    page.head("What it changed");
    let lines = changes.lines(context);
    lines.iter().for_each(|line| page.value(0, "", line));
    if lines.is_empty() {
        page.line(0, "nothing");
    }
    page.end_section(&in_file(&run.folder.join(CALLS)));

    page.head("What it printed");
    match output {
        None => page.line(0, OMITTED),
        Some([]) => page.line(0, "nothing"),
        Some(lines) => write_output(&mut page, lines, &in_file(&run.folder.join(shim::OUTPUT))),
    }

    page.head("How it ended");
    page.line(0, &run.end.text());
    if let Some(started) = run.started_ms {
        let duration =
            run.duration_ms().map(|ms| format!(", took {}", format_duration(ms))).unwrap_or_default();
        page.line(0, &format!("started {}{duration}", utc(started)));
    }
    page.into_text()
}

/// Where something is that is not shown.
pub(super) fn in_file(file: &Path) -> String {
    format!("in {}", file.display())
}

/// The end of what a run has printed. `everything` is where all of it is.
pub(super) fn write_output(page: &mut Page, lines: &[String], everything: &str) {
    let left_out = lines.len().saturating_sub(OUTPUT_LINES_MAX);
    if left_out > 0 {
        page.line(0, &format!("… {left_out} earlier lines are {everything}"));
    }
    lines.iter().skip(left_out).for_each(|line| page.line(0, line));
}

fn write_context(page: &mut Page, context: &HookContext) {
    write_trigger(page, &context.trigger);
    page.line(0, if context.leader { "leader: yes" } else { "leader: no" });
    for (name, value) in context.config.iter().filter(|(_, value)| !value.is_null()) {
        page.value(0, &format!("setting {name} = "), &plain(value));
    }
    for (number, relation) in &context.relations {
        write_relation(page, &context.relation_id(*number).unwrap_or_default(), relation);
    }
    for (id, storage) in &context.storage {
        page.value(0, &format!("storage {id}: {} ", storage.kind.as_str()), &storage.location);
    }
    for (id, secret) in &context.secrets {
        let line = format!("owner {}, revision {}, label {:?}", secret.owner, secret.revision, secret.label);
        page.value(0, &format!("secret {id}: "), &line);
    }
    for (endpoint, ranges) in &context.opened_ports {
        let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
        page.value(0, &format!("opened ports ({endpoint}): "), &ranges.join(" "));
    }
    write_bag(page, 0, "leader setting ", &context.leader_settings);
    write_bag(page, 0, "stored state: ", &context.charm_state);
    let status = &context.statuses.unit;
    page.value(0, &format!("status of the unit: {}: ", status.status), &status.message);
    let addresses =
        [("private address", &context.private_address), ("public address", &context.public_address)];
    for (name, address) in addresses {
        address.iter().for_each(|address| page.value(0, &format!("{name}: "), address));
    }
}

fn write_trigger(page: &mut Page, trigger: &HookTrigger) {
    match trigger {
        HookTrigger::Relation { about, .. } => {
            let unit = about.unit.as_ref().map_or_else(|| about.application.clone(), ToString::to_string);
            page.line(0, &format!("the hook is about {unit} in relation {}", about.relation));
        }
        HookTrigger::Storage { id, location, .. } => {
            page.value(0, &format!("the hook is about storage {id}: "), location);
        }
        HookTrigger::Secret { id, label, .. } => {
            page.value(0, &format!("the hook is about secret {id}, label "), label);
        }
        HookTrigger::Action(action) => {
            for (name, value) in &action.params {
                page.value(0, &format!("parameter {name} = "), &plain(value));
            }
        }
        HookTrigger::Commands(commands) => page.value(0, "commands: ", &commands.script),
        HookTrigger::Hook(_) | HookTrigger::Workload { .. } => {}
    }
}

fn write_relation(page: &mut Page, id: &str, relation: &HookRelation) {
    let suspended = if relation.suspended { ", suspended" } else { "" };
    let (with, life) = (&relation.remote_application, relation.life);
    page.line(0, &format!("relation {id} with {with}: {life}{suspended}"));
    let members: Vec<String> = relation.members.iter().map(ToString::to_string).collect();
    page.value(1, "members: ", &members.join(" "));
    for (unit, settings) in &relation.unit_bags {
        write_bag(page, 1, &format!("{unit}: "), settings);
    }
    for (application, settings) in &relation.application_bags {
        write_bag(page, 1, &format!("{application}: "), settings);
    }
    for owner in &relation.omitted.bags {
        page.line(1, &format!("{owner}: fetched when a tool reads it"));
    }
}

fn write_bag(page: &mut Page, depth: usize, of: &str, settings: &Bag) {
    for (key, value) in settings {
        page.value(depth, &format!("{of}{key} = "), value);
    }
}

fn write_calls(page: &mut Page, run: &RecordedRun) {
    match run.calls.as_deref() {
        None => page.line(0, "its calls cannot be read"),
        Some([]) => page.line(0, "nothing"),
        Some(lines) => lines.iter().for_each(|line| write_call(page, line)),
    }
}

/// A call as a line for a shell.
pub(super) fn format_command(tool: &str, args: &[String]) -> String {
    shell::line(&[&[tool.to_owned()], args].concat())
}

/// Stored bytes as text: of bytes that are not text, how many.
pub(super) fn format_bytes(bytes: &StoredBytes) -> String {
    match bytes {
        StoredBytes::Text(text) => text.clone(),
        StoredBytes::Raw { bytes } => format!("({} bytes that are not text)", bytes.len()),
        StoredBytes::Digest { length, sha256 } => format!("({length} bytes, sha256 {sha256})"),
    }
}

fn write_call(page: &mut Page, line: &CallsLine) {
    match line {
        CallsLine::Call(call) => {
            let AnsweredCall { call: number, tool, args, stdin, code, stdout, stderr, .. } = call;
            let args: Vec<String> = args.iter().map(format_bytes).collect();
            write_command(page, *number, &format_command(tool, &args), *code);
            if let Some(stdin) = stdin {
                page.value(2, "stdin: ", &format_bytes(stdin));
            }
            write_answer(page, &format_bytes(stdout), &format_bytes(stderr));
        }
        CallsLine::Confidential(call) => {
            write_command(page, call.call, &format_command(&call.confidential_tool, &call.args), call.code);
            write_answer(page, &format_confidential_answer(call), call.error.as_deref().unwrap_or_default());
        }
        CallsLine::Bag(FetchedBagLine { fetched, values, .. }) => {
            let count = values.as_ref().map_or(0, Bag::len);
            page.line(0, &format!("the agent fetched {count} settings of {}", fetched.owner));
        }
    }
}

fn write_command(page: &mut Page, number: u32, line: &str, code: u8) {
    page.value(0, &format!("{number}. "), line);
    if code != 0 {
        page.line(2, &format!("exit {code}"));
    }
}

fn write_answer(page: &mut Page, stdout: &str, stderr: &str) {
    if !stdout.is_empty() {
        page.value(2, "", stdout);
    }
    if !stderr.is_empty() {
        page.value(2, "stderr: ", stderr);
    }
}
