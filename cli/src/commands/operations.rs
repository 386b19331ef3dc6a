//! `operations` and `show-operation N`: what was run. An operation here is one task and has its number.

use crate::command_error::Failure;
use crate::render::{self, Format, Table, row, task};
use crate::session::Session;
use crate::times::Zone;
use api::{ActionInfo, GetAction, ListActions, UserPort};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Map, Value, json};
use state::terms::status::ActionStatus;

/// Operations shown where nothing else is said, as in Juju.
const LIMIT: usize = 50;

#[derive(Debug, Args)]
pub struct Operations {
    /// Only on units of these applications; comma-separated
    #[arg(long, value_delimiter = ',')]
    pub apps: Vec<String>,
    /// Only on these units
    #[arg(long, value_delimiter = ',')]
    pub units: Vec<String>,
    /// Only these actions
    #[arg(long, value_delimiter = ',')]
    pub actions: Vec<String>,
    /// Only in these states
    #[arg(long, value_delimiter = ',', value_parser = status_words())]
    pub status: Vec<ActionStatus>,
    /// How many; the newest ones
    #[arg(long, default_value_t = LIMIT)]
    pub limit: usize,
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    #[arg(long)]
    pub utc: bool,
}

#[derive(Debug, Args)]
pub struct ShowOperation {
    pub id: u64,
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: Format,
}

/// A status by its word.
fn status_words() -> impl TypedValueParser<Value = ActionStatus> {
    PossibleValuesParser::new(ActionStatus::WORDS).try_map(|word| word.parse())
}

pub async fn list<A: UserPort>(args: &Operations, at: &Session<A>) -> Result<(), Failure> {
    let mut all = at.api.handle(ListActions).await?;
    let any = |words: &[String], text: &str| words.is_empty() || words.iter().any(|word| word == text);
    all.retain(|one| {
        any(&args.apps, &one.unit.application)
            && any(&args.units, &one.unit.to_string())
            && any(&args.actions, &one.action)
            && (args.status.is_empty() || args.status.contains(&one.status))
    });
    all.drain(..all.len().saturating_sub(args.limit));
    if let Some(format) = args.format {
        let operations: Map<String, Value> = all
            .iter()
            .map(|one| (one.id.to_string(), document(one, |task| json!({ "unit": task.unit }))))
            .collect();
        return at.output.say(&render::structured(&operations.into(), format)?);
    }
    let zone = Zone::new(args.utc);
    let time = |ms: Option<i64>| ms.map_or(String::new(), |ms| zone.iso(ms));
    let mut rows = vec![row(["Id", "Status", "Started", "Finished", "Task IDs", "Summary"])];
    for one in &all {
        let id = one.id.to_string();
        rows.push(row([
            &id,
            one.status.as_str(),
            &time(one.started_ms),
            &time(one.completed_ms),
            &id,
            &summary(one),
        ]));
    }
    at.output.say(&Table { right: &[], rows }.text())
}

pub async fn show<A: UserPort>(args: &ShowOperation, at: &Session<A>) -> Result<(), Failure> {
    let one = at.api.handle(GetAction { id: args.id }).await;
    let one = one.map_err(|error| task::unknown(error, "operation", args.id))?;
    at.output.say(&render::structured(&document(&one, task::document), args.format)?)
}

fn summary(one: &ActionInfo) -> String {
    format!("{} run on {}", one.action, one.unit)
}

fn document(one: &ActionInfo, inside: impl Fn(&ActionInfo) -> Value) -> Value {
    let tasks = Map::from_iter([(one.id.to_string(), inside(one))]);
    let timing = task::timing(one);
    json!({ "summary": summary(one), "status": one.status.as_str(), "action": one.action, "timing": timing, "tasks": tasks })
}
