//! `show-status-log ENTITY`: shows the last statuses of a unit or an application (spec/clients.md 3.2).

use crate::command_error::CommandError;
use crate::render::{self, StructuredFormat, Table, row};
use crate::session::CommandSession;
use crate::times::{self, Zone};
use api::text::status_message::describe;
use api::{GetStatusLog, StatusChange, SubjectStatus, UserPort};
use clap::{Args, ValueEnum};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use state::terms::names::BadName;

/// Milliseconds of a day.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// What had the statuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StatusLogKind {
    /// The workload and the agent of a unit
    #[default]
    Unit,
    /// The agent of a unit
    JujuUnit,
    /// The workload of a unit
    Workload,
    /// An application
    Application,
    /// Of Juju, and not kept here
    #[value(hide = true)]
    Machine,
    /// Of Juju, and not kept here
    #[value(hide = true)]
    JujuMachine,
    /// Of Juju, and not kept here
    #[value(hide = true)]
    Model,
}

/// The refusal of a kind of entity whose earlier statuses are not stored.
fn not_kept(entity: &str, kind: StatusLogKind) -> Option<CommandError> {
    let (noun, command) = match kind {
        StatusLogKind::Machine | StatusLogKind::JujuMachine => ("machines", format!("show-machine {entity}")),
        StatusLogKind::Model => ("models", format!("show-model {entity}")),
        StatusLogKind::Unit
        | StatusLogKind::JujuUnit
        | StatusLogKind::Workload
        | StatusLogKind::Application => return None,
    };
    let text = format!(
        "the earlier statuses of {noun} are not stored; --type offers unit, juju-unit, workload and application"
    );
    Some(CommandError::new(text).hint(format!("show the present status: pintle {command}")))
}

/// Arguments of `show-status-log`.
#[derive(Debug, Args)]
pub struct ShowStatusLogArgs {
    /// Unit, or application with --type application
    #[arg(value_name = "ENTITY")]
    pub entity: String,
    /// What had the statuses; application if ENTITY is the name of an application
    #[arg(long = "type", value_enum)]
    pub kind: Option<StatusLogKind>,
    /// The number of changes, the newest ones
    #[arg(short = 'n', default_value_t = 20, conflicts_with_all = ["days", "from_date"])]
    pub number: usize,
    /// Only changes of the last DAYS days
    #[arg(long, value_parser = clap::value_parser!(u16), conflicts_with = "from_date")]
    pub days: Option<u16>,
    /// Only changes since this day (YYYY-MM-DD)
    #[arg(long)]
    pub from_date: Option<Date>,
    /// Show times in UTC
    #[arg(long)]
    pub utc: bool,
    /// Output format; by default a table
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
}

pub async fn run<A: UserPort>(
    args: &ShowStatusLogArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    if let Some(refusal) = args.kind.and_then(|kind| not_kept(&args.entity, kind)) {
        return Err(refusal);
    }
    let is_unit = args.entity.contains('/');
    let get = match (is_unit, args.kind) {
        (true, Some(StatusLogKind::Application)) => {
            return Err(CommandError::usage(format!("{} is no application", args.entity)));
        }
        (true, _) => {
            let unit = args.entity.parse();
            GetStatusLog::Unit(unit.map_err(|bad: BadName| CommandError::usage(bad.to_string()))?)
        }
        (false, None | Some(StatusLogKind::Application)) => GetStatusLog::Application(args.entity.clone()),
        (false, Some(_)) => {
            return Err(CommandError::usage(format!("{} is no unit", args.entity))
                .hint("a unit is named APPLICATION/NUMBER, for example web/0"));
        }
    };
    let mut changes = session.api.handle(get).await?.changes;
    let since_ms = since_ms(args, times::now_ms())?;
    changes.retain(|change| {
        is_of(args.kind, change.status) && since_ms.is_none_or(|since| change.since_ms >= since)
    });
    if since_ms.is_none() {
        changes.drain(..changes.len().saturating_sub(args.number));
    }
    let zone = Zone::new(args.utc);
    session.output.print(&match args.format {
        Some(format) => {
            let changes: Vec<Value> = changes.iter().map(|change| document(change, &zone)).collect();
            render::structured(&changes.into(), format)?
        }
        None => table(&changes, &zone).text(),
    })
}

fn is_of(kind: Option<StatusLogKind>, status: SubjectStatus) -> bool {
    match kind {
        None | Some(StatusLogKind::Unit | StatusLogKind::Application) => true,
        Some(StatusLogKind::JujuUnit) => matches!(status, SubjectStatus::Agent(_)),
        Some(StatusLogKind::Workload) => matches!(status, SubjectStatus::Workload(_)),
        Some(StatusLogKind::Machine | StatusLogKind::JujuMachine | StatusLogKind::Model) => false,
    }
}

/// The time from which changes are shown, if a flag limits it.
fn since_ms(args: &ShowStatusLogArgs, now_ms: i64) -> Result<Option<i64>, CommandError> {
    if let Some(days) = args.days {
        return Ok(Some(now_ms - i64::from(days) * DAY_MS));
    }
    let Some(day) = args.from_date else { return Ok(None) };
    let zone = if args.utc { TimeZone::UTC } else { TimeZone::system() };
    let start =
        day.to_zoned(zone).map_err(|error| CommandError::usage(format!("cannot use this day: {error}")))?;
    Ok(Some(start.timestamp().as_millisecond()))
}

/// The name of the subject in Juju, and the word of its status.
fn names(status: SubjectStatus) -> (&'static str, &'static str) {
    match status {
        SubjectStatus::Agent(status) => ("juju-unit", status.as_str()),
        SubjectStatus::Workload(status) => ("workload", status.as_str()),
        SubjectStatus::Application(status) => ("application", status.as_str()),
    }
}

fn table(changes: &[StatusChange], zone: &Zone) -> Table<'static> {
    let mut rows = vec![row(["Time", "Type", "Status", "Message"])];
    rows.extend(changes.iter().map(|change| {
        let (kind, status) = names(change.status);
        vec![zone.since(change.since_ms), kind.to_owned(), status.to_owned(), describe(&change.message)]
    }));
    Table { right: &[], rows }
}

fn document(change: &StatusChange, zone: &Zone) -> Value {
    let (kind, status) = names(change.status);
    json!({
        "status": status,
        "message": describe(&change.message),
        "since": zone.since(change.since_ms),
        "type": kind,
    })
}
