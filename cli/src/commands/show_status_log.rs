//! `show-status-log [ENTITY]`: shows the last statuses of a unit, an application, a machine or a model
//! (spec/clients.md 3.2).

use crate::command_error::CommandError;
use crate::render::{self, StructuredFormat, Table, row};
use crate::session::{CommandSession, model_name};
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

/// The kind of entity whose statuses are shown.
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
    /// The instance of a machine
    Machine,
    /// The agent of a machine
    JujuMachine,
    /// A model
    Model,
}

/// Arguments of `show-status-log`.
#[derive(Debug, Args)]
pub struct ShowStatusLogArgs {
    /// Unit, application, machine, or model with --type model, by default the current one
    #[arg(value_name = "ENTITY", required_unless_present = "kind")]
    pub entity: Option<String>,
    /// Kind of entity whose statuses are shown; by default that of ENTITY
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
    let mut changes = match requested(args)? {
        (GetStatusLog::Model, Some(model)) => {
            let model = model_name(model)?;
            session.api.in_model(model).handle(GetStatusLog::Model).await?.changes
        }
        (get, _) => session.api.handle(get).await?.changes,
    };
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

/// What is requested, with the name of the entity.
fn requested(args: &ShowStatusLogArgs) -> Result<(GetStatusLog, Option<&str>), CommandError> {
    let entity = args.entity.as_deref();
    let Some(name) = entity else {
        return match args.kind {
            Some(StatusLogKind::Model) => Ok((GetStatusLog::Model, None)),
            _ => Err(CommandError::usage("the name of the entity is missing")),
        };
    };
    let (is_unit, is_number) = (name.contains('/'), name.bytes().all(|byte| byte.is_ascii_digit()));
    let kind = args.kind.unwrap_or(match (is_unit, is_number) {
        (true, _) => StatusLogKind::Unit,
        (false, true) => StatusLogKind::Machine,
        (false, false) => StatusLogKind::Application,
    });
    let get = match kind {
        StatusLogKind::Unit | StatusLogKind::JujuUnit | StatusLogKind::Workload if is_unit => {
            let unit = name.parse();
            GetStatusLog::Unit(unit.map_err(|bad: BadName| CommandError::usage(bad.to_string()))?)
        }
        StatusLogKind::Unit | StatusLogKind::JujuUnit | StatusLogKind::Workload => {
            return Err(CommandError::usage(format!("invalid unit name {name:?}"))
                .hint("a unit is named APPLICATION/NUMBER, for example web/0"));
        }
        StatusLogKind::Application if is_unit => {
            return Err(CommandError::usage(format!("invalid application name {name:?}: {name} is a unit"))
                .hint("for the statuses of a unit: --type unit"));
        }
        StatusLogKind::Application => GetStatusLog::Application(name.to_owned()),
        StatusLogKind::Machine | StatusLogKind::JujuMachine => GetStatusLog::Machine(name.to_owned()),
        StatusLogKind::Model => GetStatusLog::Model,
    };
    Ok((get, entity))
}

fn is_of(kind: Option<StatusLogKind>, status: SubjectStatus) -> bool {
    match kind {
        None | Some(StatusLogKind::Unit | StatusLogKind::Application | StatusLogKind::Model) => true,
        Some(StatusLogKind::JujuUnit) => matches!(status, SubjectStatus::Agent(_)),
        Some(StatusLogKind::Workload) => matches!(status, SubjectStatus::Workload(_)),
        Some(StatusLogKind::Machine) => matches!(status, SubjectStatus::Instance(_)),
        Some(StatusLogKind::JujuMachine) => matches!(status, SubjectStatus::MachineAgent(_)),
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
        SubjectStatus::MachineAgent(status) => ("juju-machine", status.as_str()),
        SubjectStatus::Instance(status) => ("machine", status.as_str()),
        SubjectStatus::Model(status) => ("model", status.as_str()),
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
