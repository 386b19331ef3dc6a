//! `run UNIT… ACTION [key=value…]`: runs an action on units, as one operation, and prints the results (spec/clients.md
//! 2.5, 3.7).
//!
//! Exit codes and error texts are prescribed: clients distinguish an unknown unit (exit code 0, no output) from an
//! unknown action and from a failed task by them.

use crate::command_error::CommandError;
use crate::commands::settings;
use crate::commands::task_results::{RequestedTasks, ResultArgs};
use crate::render::task;
use crate::session::CommandSession;
use api::{UnitChoice, UserPort};
use charms::yaml;
use clap::Args;
use serde_json::Value;
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
    /// A YAML file of parameters; parameters on the command line take precedence
    #[arg(long, value_name = "FILE")]
    pub params: Option<PathBuf>,
    /// Parse parameters as text, not as YAML
    #[arg(long)]
    pub string_args: bool,
    #[command(flatten)]
    pub results: ResultArgs,
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
    let mut tasks = RequestedTasks::new(&args.results, WAIT_DEFAULT, session);
    for unit in &request.units {
        let run = api::EnqueueAction {
            unit: unit.clone(),
            action: request.action.clone(),
            params: request.params.clone(),
            operation: tasks.operation(),
        };
        tasks.add(session.api.handle(run).await);
        if tasks.has_failed() {
            break;
        }
    }
    tasks.finish(task::plain).await
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
    let text = settings::read(file)?;
    yaml::from_str(&text).map_err(|error| bad(error.to_string()))
}

fn parse(text: &str, as_text: bool) -> Result<Value, CommandError> {
    if as_text || text.is_empty() {
        return Ok(text.into());
    }
    yaml::value(text).map_err(|_| {
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
