//! `status [FILTER…]`: shows the model as tables, JSON or YAML (spec/clients.md 2.3, 3.3).
//!
//! After a write of the caller, `status` waits until the agents have applied it or a unit fails, for at most 2 s. A client
//! that waits for a state therefore does not take the state before its own write for the one that it waits for, unless the
//! agents take longer.

use crate::command_error::CommandError;
use crate::output::Output;
use crate::render::status_table::{self, PageOptions};
use crate::render::terminal_page::{self, DrawnPage};
use crate::render::{self, status_json, status_summary};
use crate::session::CommandSession;
use crate::times::{self, Zone};
use api::{GetStatus, ListStorage, Shared, StorageInfo, UnitStatus, UserPort};
use clap::Args;
use state::status::settled::UnitProgress;
use state::terms::names::UnitName;
use state::terms::status::AgentStatus;
use state::terms::status_message::StatusMessage;
use state::terms::storage::StorageId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use wildmatch::WildMatch;

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Applications, units, machines or status words to show; * matches any text
    pub filters: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "tabular")]
    pub format: StatusFormat,
    /// Also show relations
    #[arg(long, visible_alias = "integrations")]
    pub relations: bool,
    /// Show the status again at this interval until interrupted
    #[arg(long, value_parser = times::duration, value_name = "DURATION")]
    pub watch: Option<Duration>,
    /// Show times in UTC
    #[arg(long)]
    pub utc: bool,
    /// Also show storage
    #[arg(long)]
    pub storage: bool,
    /// Show statuses in colours, also if the output is not a terminal
    #[arg(long)]
    pub color: bool,
    /// Show no colours
    #[arg(long, conflicts_with = "color")]
    pub no_color: bool,
    #[arg(long, hide = true, value_name = "NUMBER")]
    pub retry_count: Option<u32>,
    #[arg(long, hide = true, value_name = "DURATION")]
    pub retry_delay: Option<String>,
    /// Show the status at once; do not wait until agents have applied your last change
    #[arg(long = "no-settle")]
    pub no_wait_for_agents: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StatusFormat {
    /// Tables
    Tabular,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// One line for each unit
    #[value(alias = "line", alias = "short")]
    Oneline,
    /// How many machines and units have which status
    Summary,
}

/// Longest time that `status` waits until the agents have applied the caller's last write.
const CATCH_UP_MAX: Duration = Duration::from_secs(2);
/// Interval between two requests: half of the shortest hook of a Python charm, which takes 100 ms.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub async fn run<A: UserPort>(args: &StatusArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let Some(every) = args.watch else {
        return show(args, session, &mut DrawnPage::default()).await;
    };
    let mut drawn = DrawnPage::default();
    loop {
        show(args, session, &mut drawn).await?;
        sleep(every).await;
    }
}

/// The most damaged documents that the warning names.
const DAMAGED_NAMES_MAX: usize = 3;

async fn show<A: UserPort>(
    args: &StatusArgs,
    session: &CommandSession<A>,
    drawn: &mut DrawnPage,
) -> Result<(), CommandError> {
    let mut status = caught_up_status(args, session).await?;
    filter(&mut status, &args.filters);
    // as in Juju, only the tables leave out what no flag requests
    let is_structured = matches!(args.format, StatusFormat::Json | StatusFormat::Yaml);
    let storage = match args.storage || is_structured {
        true => storage_of(&status, session.api.handle(ListStorage).await?, &args.filters),
        false => BTreeMap::new(),
    };
    print(&status, &storage, args, &session.output, drawn)?;
    if let Some(cause) = &status.store {
        let zone = Zone::new(args.utc);
        let lines = render::cause::lines(cause, status.now_ms, &zone, session.output.flags());
        session
            .output
            .warn(&[format!("the controller cannot store what agents report:\n{}", lines.trim_end())]);
        *drawn = DrawnPage::default(); // the warning moved the page
    }
    if !status.damaged.is_empty() {
        let names = status.damaged.iter().take(DAMAGED_NAMES_MAX).map(String::as_str).collect::<Vec<_>>();
        let more = match status.damaged.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        session.output.warn(&[format!(
            "what these documents contain is left out, because they are damaged on the disk of the controller: \
             {}{more}; list the damage with: pintle-controller check DIR",
            names.join(", ")
        )]);
        *drawn = DrawnPage::default(); // the warning moved the page
    }
    if !args.filters.is_empty() && status.applications.is_empty() && status.machines.is_empty() {
        let plural = if args.filters.len() == 1 { "" } else { "s" };
        session.output.print_remark(&format!("Nothing matched specified filter{plural}.\n"));
        *drawn = DrawnPage::default();
    }
    Ok(())
}

/// Returns the status once every agent has applied the caller's last write and everything that followed from it
/// (spec/clients.md 2.3). Waiting ends early if a unit fails, and in any case after [`CATCH_UP_MAX`].
async fn caught_up_status<A: UserPort>(
    args: &StatusArgs,
    session: &CommandSession<A>,
) -> Result<api::Status, CommandError> {
    let mut status = session.api.handle(GetStatus).await?;
    let Some(revision) = session.notes.last_write(&session.model).filter(|_| !args.no_wait_for_agents) else {
        return Ok(status);
    };
    let end = Instant::now() + CATCH_UP_MAX;
    loop {
        let mut units = status.applications.values().flat_map(|app| app.units.values());
        // The controller reports `idle` only for a unit that has no pending work at this revision.
        let has_work = |unit: &Shared<UnitStatus>| {
            let waits = matches!(unit.agent.message, StatusMessage::WaitingForHookLock { .. });
            waits || unit.agent.current == AgentStatus::Executing
        };
        if !units.clone().any(has_work) {
            session.notes.delete_last_write(&session.model, revision);
            return Ok(status);
        }
        let failed = units.any(|unit| {
            UnitProgress::of(unit.life, unit.workload.current, unit.agent.current) == UnitProgress::Failed
        });
        if failed || Instant::now() >= end {
            return Ok(status);
        }
        sleep(POLL_INTERVAL).await;
        status = session.api.handle(GetStatus).await?;
    }
}

/// The storage of the units that are shown; without filters, also that of no unit.
fn storage_of(
    status: &api::Status,
    mut storage: BTreeMap<StorageId, StorageInfo>,
    filters: &[String],
) -> BTreeMap<StorageId, StorageInfo> {
    let is_shown = |unit: &UnitName| {
        status.applications.get(&unit.application).is_some_and(|app| app.units.contains_key(unit))
    };
    storage.retain(|_, info| filters.is_empty() || info.unit.as_ref().is_some_and(is_shown));
    storage
}

fn print(
    status: &api::Status,
    storage: &BTreeMap<StorageId, StorageInfo>,
    args: &StatusArgs,
    output: &Output,
    drawn: &mut DrawnPage,
) -> Result<(), CommandError> {
    // as `--utc`, for each status of Juju's
    let is_iso =
        std::env::var("JUJU_STATUS_ISO_TIME").is_ok_and(|value| matches!(value.as_str(), "1" | "true"));
    let zone = Zone::new(args.utc || is_iso);
    let format = match args.format {
        StatusFormat::Tabular => {
            let colours = args.color || output.has_colours() && !args.no_color;
            let size = terminal_page::size().filter(|_| output.is_terminal());
            let width = size.map(|size| size.columns);
            let options = PageOptions { relations: args.relations, storage, colours, width };
            let page = status_table::page(status, &zone, options);
            match size.filter(|_| args.watch.is_some()) {
                Some(size) => output.print_safe(&drawn.redraw(&page, size))?,
                None => output.print_safe(&page)?,
            }
            if let Some(remark) = status_table::remark(status).filter(|_| args.filters.is_empty()) {
                output.print_remark(&remark);
            }
            return Ok(());
        }
        StatusFormat::Oneline => return output.print(&status_table::lines(status)),
        StatusFormat::Summary => return output.print(&status_summary::summary(status)),
        StatusFormat::Json => render::StructuredFormat::Json,
        StatusFormat::Yaml => render::StructuredFormat::Yaml,
    };
    output.print(&render::serialized(&status_json::document(status, &zone, storage), format)?)
}

/// Keeps the applications and units that match any filter, the principals of matching subordinates, and the machines
/// that host them or match a filter.
pub fn filter(status: &mut api::Status, filters: &[String]) {
    if filters.is_empty() {
        return;
    }
    let patterns: Vec<WildMatch> = filters.iter().map(|filter| WildMatch::new(filter)).collect();
    let means = |text: &str| patterns.iter().any(|pattern| pattern.matches(text));
    let all = status.applications.iter();
    let chosen = |app: &str, name: &UnitName, unit: &UnitStatus| {
        let words = [app, &unit.machine, unit.workload.current.as_str(), unit.agent.current.as_str()];
        let is_leader = || unit.leader && means(&format!("{app}/leader"));
        means(&name.to_string()) || words.into_iter().any(means) || is_leader()
    };
    let chosen: BTreeSet<UnitName> = all
        .flat_map(|(app, application)| application.units.iter().map(move |(name, unit)| (app, name, unit)))
        .filter(|(app, name, unit)| chosen(app, name, unit))
        .map(|(_, name, _)| name.clone())
        .collect();
    // with a unit its principal and its subordinates are shown, and the other applications on its machine without units
    let (mut units, mut used) = (chosen.clone(), BTreeSet::new());
    for (name, unit) in status.applications.values().flat_map(|application| &application.units) {
        if chosen.contains(name) {
            units.extend(unit.principal.clone());
            used.insert(unit.machine.clone());
        }
        if unit.principal.as_ref().is_some_and(|principal| chosen.contains(principal)) {
            units.insert(name.clone());
        }
    }
    status.applications.retain(|name, application| {
        let is_beside = application.units.values().any(|unit| used.contains(&unit.machine));
        application.units.retain(|name, _| units.contains(name));
        means(name) || means(application.status.current.as_str()) || is_beside
    });
    status.machines.retain(|name, _| used.contains(name) || means(name));
    let kept = &status.applications;
    status.relations.retain(|entry| entry.ends.iter().any(|end| kept.contains_key(&end.application)));
}
