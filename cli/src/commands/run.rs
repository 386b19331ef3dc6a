//! `run UNIT… ACTION [key=value…]`: runs an action on units and prints the results (spec/clients.md 2.5, 3.7).
//!
//! Exit codes and error texts are prescribed: clients distinguish an unknown unit (exit code 0, no output) from an
//! unknown action and from a failed task by them.

use crate::command_error::CommandError;
use crate::render::{self, task};
use crate::session::CommandSession;
use crate::terminal_escape::safe_line;
use crate::times::{self, Zone};
use api::error::ErrorCode;
use api::{ActionDoc, EnqueueActionResponse, GetAction, ListModels, UnitChoice, UserPort, WaitForChange};
use clap::Args;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default of `--wait`, as in Juju.
const WAIT_DEFAULT: Duration = Duration::from_secs(60);

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Units (web/0, web/leader), the action, and its parameters as key=value
    #[arg(required = true)]
    pub words: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "plain")]
    pub format: RunFormat,
    /// Longest time to wait for the results; by default 60s
    #[arg(long, value_parser = times::duration, value_name = "DURATION")]
    pub wait: Option<Duration>,
    /// A YAML file of parameters; parameters on the command line take precedence
    #[arg(long, value_name = "FILE")]
    pub params: Option<PathBuf>,
    /// Parse parameters as text, not as YAML
    #[arg(long)]
    pub string_args: bool,
    /// Do not wait for the results
    #[arg(long, conflicts_with = "wait")]
    pub background: bool,
    #[arg(long, hide = true)]
    pub utc: bool,
    #[arg(long, hide = true)]
    pub color: bool,
    #[arg(long, hide = true)]
    pub no_color: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RunFormat {
    /// The results as YAML, without the return code
    Plain,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// The parsed words of the command line.
#[derive(Debug, PartialEq)]
struct ActionRequest {
    units: Vec<UnitChoice>,
    action: String,
    params: BTreeMap<String, Value>,
}

pub async fn run<A: UserPort>(args: &RunArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let request = parse_words(args)?;
    let mut tasks = Vec::new();
    for unit in &request.units {
        let run = api::EnqueueAction {
            unit: unit.clone(),
            action: request.action.clone(),
            params: request.params.clone(),
        };
        match session.api.handle(run).await {
            Ok(task) => {
                session.note_write(task.revision);
                tasks.push(task);
            }
            // Clients recognise an unknown unit by exit code 0 with nothing on stdout.
            Err(error) if error.code == ErrorCode::NotFound => {
                // An unknown model is an error, as in every command.
                let models = session.api.handle(ListModels).await?;
                if !models
                    .iter()
                    .any(|model| model.name == session.model || model.uuid.to_string() == session.model)
                {
                    return Err(error.into());
                }
                session.output.print_remark(&format!(
                    "Operation failed to schedule any tasks:\n{}\n",
                    safe_line(&error.message)
                ));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if tasks.is_empty() {
        return Ok(());
    }
    if args.background {
        let ids: Vec<String> = tasks.iter().map(|task| task.id.to_string()).collect();
        session.output.print_remark(&format!(
            "Scheduled task {}\nCheck its state with: pintle show-task {}\n",
            ids.join(", "),
            ids[0]
        ));
        return Ok(());
    }
    let limit = args.wait.unwrap_or(WAIT_DEFAULT);
    let done = tokio::time::timeout(limit, results(&tasks, args, session)).await.map_err(|_| {
        let units: Vec<String> = tasks.iter().map(|task| format!("unit {}", task.unit)).collect();
        let text = format!("timed out waiting for results from: {}", units.join(", "));
        CommandError::new(text).hint(format!(
            "the task keeps running; to wait for it: pintle show-task {} --wait 5m",
            tasks[0].id
        ))
    })??;
    print(&done, args, session)?;
    task::failure(&done).map_or(Ok(()), Err)
}

/// Parses the words: units, then the action, then key=value pairs.
fn parse_words(args: &RunArgs) -> Result<ActionRequest, CommandError> {
    let units: Vec<UnitChoice> = args.words.iter().map_while(|word| word.parse().ok()).collect();
    if units.is_empty() {
        let text = format!(
            "invalid unit name {:?}: expected APPLICATION/NUMBER or APPLICATION/leader, for example web/0",
            args.words[0]
        );
        return Err(CommandError::usage(text));
    }
    if units.iter().any(|unit| unit.application() != units[0].application()) {
        return Err(CommandError::usage("cannot run an action on units of different applications"));
    }
    let mut rest = args.words[units.len()..].iter();
    let action = rest
        .next()
        .ok_or_else(|| {
            CommandError::usage("the name of the action is missing: expected UNIT ACTION [KEY=VALUE...]")
        })?
        .clone();
    let mut params = args.params.as_deref().map_or(Ok(BTreeMap::new()), params_from_file)?;
    for word in rest {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| CommandError::usage(format!("expected key=value, got {word:?}")))?;
        insert_nested(&mut params, key, parse(value, args.string_args)?)?;
    }
    Ok(ActionRequest { units, action, params })
}

fn params_from_file(file: &Path) -> Result<BTreeMap<String, Value>, CommandError> {
    let bad =
        |why: String| CommandError::new(format!("cannot read parameters from {}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
    serde_yaml::from_str(&text).map_err(|error| bad(error.to_string()))
}

fn parse(text: &str, as_text: bool) -> Result<Value, CommandError> {
    if as_text || text.is_empty() {
        return Ok(text.into());
    }
    serde_yaml::from_str(text).map_err(|_| {
        CommandError::usage(format!("cannot parse {text:?} as YAML")).hint("to use it as text: --string-args")
    })
}

/// Sets the parameter `a.b.c`, and creates the maps `a` and `a.b` if necessary. Each part of a key consists of
/// lower-case letters, digits and inner hyphens.
fn insert_nested(params: &mut BTreeMap<String, Value>, key: &str, value: Value) -> Result<(), CommandError> {
    let is_valid = |part: &str| {
        let plain = part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        plain && !part.is_empty() && !part.starts_with('-') && !part.ends_with('-')
    };
    if !key.split('.').all(is_valid) {
        let text = format!(
            "invalid parameter key {key:?}: use lower-case letters, digits and inner hyphens; dots for nesting"
        );
        return Err(CommandError::usage(text));
    }
    let (first, inner) = key.split_once('.').map_or((key, None), |(first, inner)| (first, Some(inner)));
    let Some(inner) = inner else {
        params.insert(first.to_owned(), value);
        return Ok(());
    };
    let mut below: BTreeMap<String, Value> = match params.remove(first) {
        Some(Value::Object(map)) => map.into_iter().collect(),
        _ => BTreeMap::new(),
    };
    insert_nested(&mut below, inner, value)?;
    params.insert(first.to_owned(), Value::Object(below.into_iter().collect()));
    Ok(())
}

/// Waits until all tasks are completed; with the plain format it prints their log lines as they arrive.
async fn results<A: UserPort>(
    tasks: &[EnqueueActionResponse],
    args: &RunArgs,
    session: &CommandSession<A>,
) -> Result<Vec<ActionDoc>, CommandError> {
    let plain = args.format == RunFormat::Plain;
    let zone = Zone::new(args.utc);
    let mut done = Vec::new();
    for enqueued in tasks {
        if plain {
            session.output.print_remark(&format!("Waiting for task {}...\n", enqueued.id));
        }
        let mut shown = 0;
        let print_log = |task: &ActionDoc| {
            for (ms, line) in task.log.iter().skip(shown).filter(|_| plain) {
                session.output.print_remark(&format!(
                    "{} {}\n",
                    zone.log_time(*ms, false, false),
                    safe_line(line)
                ));
            }
            shown = task.log.len();
        };
        done.push(wait_for_task(enqueued.id, session, print_log).await?);
    }
    Ok(done)
}

/// Waits until the task is completed and returns it. Requests the task again after every change of the controller's
/// store, and calls `observe` with each answer.
///
/// # Errors
/// If the task does not exist, or the controller does not answer.
pub async fn wait_for_task<A: UserPort>(
    id: u64,
    session: &CommandSession<A>,
    mut observe: impl FnMut(&ActionDoc),
) -> Result<ActionDoc, CommandError> {
    let mut after = None;
    loop {
        after = Some(session.api.handle(WaitForChange { after }).await?);
        let task = session.api.handle(GetAction { id }).await?;
        observe(&task);
        if task.status.is_final() {
            return Ok(task);
        }
    }
}

fn print<A>(tasks: &[ActionDoc], args: &RunArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let format = match args.format {
        RunFormat::Plain => {
            for task in tasks {
                let heading = if tasks.len() > 1 { format!("{}:\n", task.unit_name) } else { String::new() };
                session.output.print(&format!("{heading}{}", task::plain(task)?))?;
            }
            return Ok(());
        }
        RunFormat::Json => render::StructuredFormat::Json,
        RunFormat::Yaml => render::StructuredFormat::Yaml,
    };
    let all: Map<String, Value> =
        tasks.iter().map(|task| (task.unit_name.to_string(), task::document(task))).collect();
    session.output.print(&render::structured(&all.into(), format)?)
}
