//! `run UNIT… ACTION [key=value…]` (spec/clients.md 2.5, 3.7).

use crate::command_error::Failure;
use crate::render::{self, task};
use crate::session::Session;
use crate::terminal::safe_line;
use crate::times::{self, Zone};
use api::error::ErrorCode;
use api::{ActionInfo, GetAction, ListModels, RunActionResponse, UserPort, WaitForChange};
use clap::Args;
use serde_json::{Map, Value};
use state::terms::names::UnitName;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long results are waited for where nothing else is said.
const WAIT: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub struct Run {
    /// Units (web/0, web/leader), the action, and its parameters as key=value
    #[arg(required = true)]
    pub words: Vec<String>,
    #[arg(long, value_enum, default_value = "plain")]
    pub format: Format,
    /// How long to wait for the results
    #[arg(long, value_parser = times::duration, value_name = "DURATION")]
    pub wait: Option<Duration>,
    /// A YAML file of parameters; those on the command line win
    #[arg(long, value_name = "FILE")]
    pub params: Option<PathBuf>,
    /// Take parameters as text, not as YAML
    #[arg(long)]
    pub string_args: bool,
    /// Do not wait
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
pub enum Format {
    Plain,
    Json,
    Yaml,
}

/// The command line, understood.
#[derive(Debug, PartialEq)]
struct Wish {
    units: Vec<String>,
    action: String,
    params: BTreeMap<String, Value>,
}

pub async fn run<A: UserPort>(args: &Run, at: &Session<A>) -> Result<(), Failure> {
    let wish = understand(args)?;
    let mut tasks = Vec::new();
    for unit in &wish.units {
        let run = api::Run { unit: unit.clone(), action: wish.action.clone(), params: wish.params.clone() };
        match at.api.handle(run).await {
            Ok(task) => {
                at.note_write(task.revision);
                tasks.push(task);
            }
            // Clients know an unknown unit by exit code 0 with nothing on stdout.
            Err(error) if error.code == ErrorCode::NotFound => {
                // where the model itself is unknown, that is an error as everywhere
                let models = at.api.handle(ListModels).await?;
                if !models.iter().any(|model| model.name == at.model || model.uuid.to_string() == at.model) {
                    return Err(error.into());
                }
                at.output.note(&format!(
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
        at.output.note(&format!(
            "Scheduled task {}\nCheck its state with: pintle show-task {}\n",
            ids.join(", "),
            ids[0]
        ));
        return Ok(());
    }
    let limit = args.wait.unwrap_or(WAIT);
    let done = tokio::time::timeout(limit, results(&tasks, args, at)).await.map_err(|_| {
        let units: Vec<String> = tasks.iter().map(|task| format!("unit {}", task.unit)).collect();
        let text = format!("timed out waiting for results from: {}", units.join(", "));
        Failure::new(text).hint(format!("the task goes on: pintle show-task {} --wait 5m", tasks[0].id))
    })??;
    print(&done, args, at)?;
    task::failure(&done).map_or(Ok(()), Err)
}

/// Units come first, then the action, then pairs.
fn understand(args: &Run) -> Result<Wish, Failure> {
    let is_unit = |word: &&String| {
        word.parse::<UnitName>().is_ok() || word.split_once('/').is_some_and(|(_, unit)| unit == "leader")
    };
    let units: Vec<String> = args.words.iter().take_while(is_unit).cloned().collect();
    if units.is_empty() {
        let text = format!("{:?} is not a unit (like web/0 or web/leader)", args.words[0]);
        return Err(Failure::usage(text));
    }
    let applications = |unit: &String| unit.split('/').next().map(str::to_owned);
    if units.iter().any(|unit| applications(unit) != applications(&units[0])) {
        return Err(Failure::usage("all units of one run must be of one application"));
    }
    let mut rest = args.words[units.len()..].iter();
    let action = rest.next().ok_or_else(|| Failure::usage("no action named"))?.clone();
    let mut params = args.params.as_deref().map_or(Ok(BTreeMap::new()), params_of_file)?;
    for word in rest {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("expected key=value, got {word:?}")))?;
        put(&mut params, key, parse(value, args.string_args)?)?;
    }
    Ok(Wish { units, action, params })
}

fn params_of_file(file: &Path) -> Result<BTreeMap<String, Value>, Failure> {
    let bad = |why: String| Failure::new(format!("cannot use parameters of {}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
    serde_yaml::from_str(&text).map_err(|error| bad(error.to_string()))
}

fn parse(text: &str, as_text: bool) -> Result<Value, Failure> {
    if as_text || text.is_empty() {
        return Ok(text.into());
    }
    serde_yaml::from_str(text)
        .map_err(|_| Failure::usage(format!("{text:?} is not YAML")).hint("or say --string-args"))
}

/// Sets `a.b.c`, making the maps between. Keys are lower case letters, digits and inner dashes.
fn put(params: &mut BTreeMap<String, Value>, key: &str, value: Value) -> Result<(), Failure> {
    let good = |part: &str| {
        let plain = part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        plain && !part.is_empty() && !part.starts_with('-') && !part.ends_with('-')
    };
    if !key.split('.').all(good) {
        let text =
            format!("{key:?} is not a key: lower case letters, digits and inner dashes, nested by dots");
        return Err(Failure::usage(text));
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
    put(&mut below, inner, value)?;
    params.insert(first.to_owned(), Value::Object(below.into_iter().collect()));
    Ok(())
}

/// Waits until all tasks are done.
async fn results<A: UserPort>(
    tasks: &[RunActionResponse],
    args: &Run,
    at: &Session<A>,
) -> Result<Vec<ActionInfo>, Failure> {
    let plain = args.format == Format::Plain;
    let zone = Zone::new(args.utc);
    let mut done = Vec::new();
    for enqueued in tasks {
        if plain {
            at.output.note(&format!("Waiting for task {}...\n", enqueued.id));
        }
        let mut shown = 0;
        let told = |task: &ActionInfo| {
            for (ms, line) in task.log.iter().skip(shown).filter(|_| plain) {
                at.output.note(&format!("{} {}\n", zone.log_time(*ms, false, false), safe_line(line)));
            }
            shown = task.log.len();
        };
        done.push(finished(enqueued.id, at, told).await?);
    }
    Ok(done)
}

/// The task once it is done. Looks again whenever the controller's store has moved on, and tells what it sees.
pub async fn finished<A: UserPort>(
    id: u64,
    at: &Session<A>,
    mut tell: impl FnMut(&ActionInfo),
) -> Result<ActionInfo, Failure> {
    let mut after = None;
    loop {
        after = Some(at.api.handle(WaitForChange { after }).await?);
        let task = at.api.handle(GetAction { id }).await?;
        tell(&task);
        if task.status.is_final() {
            return Ok(task);
        }
    }
}

fn print<A>(tasks: &[ActionInfo], args: &Run, at: &Session<A>) -> Result<(), Failure> {
    let format = match args.format {
        Format::Plain => {
            for task in tasks {
                let heading = if tasks.len() > 1 { format!("{}:\n", task.unit) } else { String::new() };
                at.output.say(&format!("{heading}{}", task::plain(task)?))?;
            }
            return Ok(());
        }
        Format::Json => render::Format::Json,
        Format::Yaml => render::Format::Yaml,
    };
    let all: Map<String, Value> =
        tasks.iter().map(|task| (task.unit.to_string(), task::document(task))).collect();
    at.output.say(&render::structured(&all.into(), format)?)
}
