//! Runner of the hook-tool cases: executes a file of cases with the real tool code, the real environment and the real
//! dispatch decision.
//!
//! The head comment of `tests/conformance/hook-tools.yaml` documents the format. Called by `tests/tests/tool_cases.rs`.

mod difference;
mod effect;
mod fixture;
mod hook;
mod secrets;

use commands::{CallOutcome, Inputs, Need, ToolFormat, ToolReply};
use difference::difference;
use secrets::Secrets;
use serde::Deserialize;
use serde_json::Value;
use state::unit::hook_context::{HookContext, ReportContent};
use std::collections::BTreeMap;
use std::path::Path;

/// The folder of the resources of the unit of all cases.
const RESOURCES: &str = "/var/lib/juju/agents/unit-myapp-0/resources";

/// The result of a file of cases.
#[derive(Default)]
pub struct Report {
    pub passed: usize,
    pub failed: usize,
    /// Failures and questions, as text. No case is skipped.
    pub lines: Vec<String>,
}

#[derive(Deserialize)]
struct File {
    fixtures: BTreeMap<String, Value>,
    #[serde(default)]
    cases: Vec<Case>,
    #[serde(default)]
    format_vectors: Vec<Vector>,
    #[serde(default)]
    env_cases: Vec<hook::EnvCase>,
    #[serde(default)]
    dispatch_cases: Vec<hook::DispatchCase>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    tool: String,
    context: fixture::Source,
    #[serde(default)]
    pre: Vec<Vec<String>>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    stdin: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
    output_file: Option<Value>,
    stdout: Option<String>,
    #[serde(default)]
    alt_stdout: Vec<String>,
    #[serde(default)]
    stdout_contains: Vec<String>,
    #[serde(default)]
    unordered: bool,
    #[serde(default)]
    stderr_contains: Vec<String>,
    rc: u8,
    #[serde(default)]
    alt_rc: Vec<u8>,
    #[serde(default)]
    effect: effect::Expected,
    quirk: Option<String>,
    unsure: Option<String>,
}

#[derive(Deserialize)]
struct Vector {
    value: Value,
    smart: String,
    yaml: String,
    json: String,
}

/// Runs every case of `text`, with the empty folder `directory` as working directory. Fails if the file cannot be
/// parsed.
pub fn run(text: &str, directory: &Path) -> Result<Report, String> {
    let file: File = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
    let mut report = Report::default();
    for case in &file.cases {
        let problems = case.problems(&file.fixtures, directory);
        let question = case.quirk.as_ref().or(case.unsure.as_ref());
        report.count(&case.id, problems, question);
    }
    for (number, vector) in file.format_vectors.iter().enumerate() {
        report.count(&format!("format_vectors[{number}]"), vector.problems(), None);
    }
    for case in &file.env_cases {
        report.count(&case.id, case.problems(&file.fixtures), None);
    }
    for case in &file.dispatch_cases {
        report.count(&case.id, case.problems(), None);
    }
    Ok(report)
}

impl Report {
    /// Counts the result of a case. A mismatch is a question, not a failure, if the case is marked as uncertain.
    fn count(&mut self, id: &str, problems: Vec<String>, question: Option<&String>) {
        match question {
            _ if problems.is_empty() => self.passed += 1,
            Some(why) => self.lines.push(format!("QUESTION {id} ({why})\n{}", problems.join("\n"))),
            None => {
                self.failed += 1;
                self.lines.push(format!("FAILED {id}\n{}", problems.join("\n")));
            }
        }
    }
}

impl Vector {
    fn problems(&self) -> Vec<String> {
        let value = as_doubles(&self.value);
        let formats = [
            (ToolFormat::Smart, &self.smart),
            (ToolFormat::Yaml, &self.yaml),
            (ToolFormat::Json, &self.json),
        ];
        formats
            .into_iter()
            .map(|(format, expected)| (format, expected, format.write(&value)))
            .filter(|(_, expected, actual)| *expected != actual)
            .map(|(format, expected, actual)| difference(&format!("{format:?}"), expected, actual))
            .collect()
    }
}

/// Converts the numbers of a case to doubles, including those written without a decimal point.
fn as_doubles(value: &Value) -> commands::Value {
    match value {
        Value::Number(number) => commands::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        Value::Array(items) => commands::Value::List(items.iter().map(as_doubles).collect()),
        Value::Object(members) => commands::Value::Map(
            members.iter().map(|(key, value)| (key.clone(), as_doubles(value))).collect(),
        ),
        Value::Null | Value::Bool(_) | Value::String(_) => commands::Value::from(value),
    }
}

impl Case {
    fn problems(&self, fixtures: &BTreeMap<String, Value>, directory: &Path) -> Vec<String> {
        match self.run(fixtures, directory) {
            Ok(problems) => problems,
            Err(problem) => vec![format!("  {problem}")],
        }
    }

    fn run(&self, fixtures: &BTreeMap<String, Value>, directory: &Path) -> Result<Vec<String>, String> {
        let fixture = fixture::resolve(fixtures, &self.context)?;
        let before = fixture::context(&fixture)?;
        let here = directory.to_string_lossy();
        let placed = |text: &str| text.replace("${DIR}", &here);
        let mut files = BTreeMap::from([("metadata.yaml".to_owned(), fixture::metadata(&fixture)?)]);
        files.extend(self.files.clone());
        for (name, text) in &files {
            std::fs::write(directory.join(name), placed(text)).map_err(|error| error.to_string())?;
        }
        let mut context = before.clone();
        let mut immediate = Vec::new();
        let mut secrets = Secrets::of(&fixture)?;
        for words in &self.pre {
            let (name, args) = words.split_first().ok_or("an empty command in pre")?;
            let reply = tool(&mut context, name, args, "", directory, &mut secrets)?;
            if reply.code != 0 {
                return Err(format!("pre {words:?}: {}", String::from_utf8_lossy(&reply.stderr)));
            }
            immediate.extend(reply.reports);
        }
        let args: Vec<String> = self.args.iter().map(|arg| placed(arg)).collect();
        let reply = tool(&mut context, &self.tool, &args, &placed(&self.stdin), directory, &mut secrets)?;

        let mut problems = Vec::new();
        if reply.code != self.rc && !self.alt_rc.contains(&reply.code) {
            problems.push(difference("rc", self.rc, reply.code));
        }
        self.compare_stdout(&String::from_utf8_lossy(&reply.stdout), placed, &mut problems);
        let stderr = String::from_utf8_lossy(&reply.stderr);
        let silent = self.stderr_contains.is_empty() && !stderr.is_empty();
        if silent || self.stderr_contains.iter().any(|part| !stderr.contains(&placed(part))) {
            problems.push(difference("stderr", &self.stderr_contains, &stderr));
        }
        if let Some(expected) = &self.output_file {
            problems.extend(output_file_problem(expected, directory));
        }
        immediate.extend::<Vec<ReportContent>>(reply.reports);
        problems.extend(self.effect.problems(&before, &context, &immediate, &secrets.tracked));
        for name in files.keys() {
            std::fs::remove_file(directory.join(name)).map_err(|error| error.to_string())?;
        }
        Ok(problems)
    }

    fn compare_stdout(&self, actual: &str, placed: impl Fn(&str) -> String, problems: &mut Vec<String>) {
        if let Some(expected) = &self.stdout {
            let mut accepted = [expected].into_iter().chain(&self.alt_stdout).map(|text| placed(text));
            let same =
                |text: String| text == actual || (self.unordered && in_order(&text) == in_order(actual));
            if !accepted.any(same) {
                problems.push(difference("stdout", expected, actual));
            }
        }
        if self.stdout_contains.iter().any(|part| !actual.contains(&placed(part))) {
            problems.push(difference("stdout", &self.stdout_contains, actual));
        }
    }
}

/// Returns the members of a JSON list, or else the lines, sorted.
fn in_order(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = match serde_json::from_str(text) {
        Ok(Value::Array(items)) => items.iter().map(Value::to_string).collect(),
        _ => text.lines().map(str::to_owned).collect(),
    };
    parts.sort();
    parts
}

/// Checks an output file, expected as `{name: text}` or `{path: name, content: text}`.
fn output_file_problem(expected: &Value, directory: &Path) -> Option<String> {
    let text = |key: &str| expected.get(key).and_then(Value::as_str);
    let content = text("content").or(text("text"));
    let (path, content) = match (text("path"), content) {
        (Some(path), Some(content)) => (path, content),
        _ => {
            let (path, content) = expected.as_object()?.iter().next()?;
            (path.as_str(), content.as_str()?)
        }
    };
    let path = path.replace("${DIR}", &directory.to_string_lossy());
    let actual = std::fs::read_to_string(directory.join(&path)).unwrap_or_else(|error| error.to_string());
    (actual != content).then(|| difference(&format!("file {path}"), content, actual))
}

/// Performs one call of a tool: reads its input from `stdin` and `directory`, and writes its output file there.
fn tool(
    context: &mut HookContext,
    name: &str,
    args: &[String],
    stdin: &str,
    directory: &Path,
    secrets: &mut Secrets,
) -> Result<ToolReply, String> {
    let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
    let mut inputs = Inputs { now_ms: secrets::NOW_MS, ..Inputs::default() };
    loop {
        let before = context.clone();
        match commands::call(context, name, &args, &inputs) {
            CallOutcome::Reply(reply) => {
                if let Some((path, text)) = &reply.output_file {
                    std::fs::write(directory.join(path), text).map_err(|error| error.to_string())?;
                }
                return Ok(reply);
            }
            CallOutcome::Need(_) if *context != before => return Err("a need changed the context".to_owned()),
            CallOutcome::Need(Need::LeaderSettings(_)) if inputs.leader_write.is_none() => {
                inputs.leader_write = Some(Ok(()));
            }
            CallOutcome::Need(Need::Secret(need)) if inputs.secret.is_none() => {
                inputs.secret = Some(secrets.answer(need));
            }
            CallOutcome::Need(Need::Resource(need)) if inputs.resource.is_none() => {
                inputs.resource = Some(Ok(format!("{RESOURCES}/{}/{}", need.name, need.filename)));
            }
            CallOutcome::Need(Need::Stdin) if inputs.stdin.is_none() => {
                inputs.stdin = Some(stdin.as_bytes().to_vec())
            }
            CallOutcome::Need(Need::File(path)) if !inputs.files.contains_key(&path) => {
                let absolute = directory.join(&path);
                let content = std::fs::read(&absolute)
                    .map_err(|_| format!("open {}: no such file or directory", absolute.display()));
                inputs.files.insert(path, content);
            }
            CallOutcome::Need(need) => return Err(format!("asked twice for {need:?}")),
        }
    }
}
