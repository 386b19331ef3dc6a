//! `status [FILTER…]`.

use crate::command_error::Failure;
use crate::output::Output;
use crate::render::{self, status_json, status_table};
use crate::session::Session;
use crate::times::{self, Zone};
use api::{GetStatus, UnitStatus, UserPort};
use clap::Args;
use state::terms::names::UnitName;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[derive(Debug, Args)]
pub struct Status {
    /// Applications, units, machines or status words; * stands for anything
    pub filters: Vec<String>,
    #[arg(long, value_enum, default_value = "tabular")]
    pub format: Format,
    /// Show relations too
    #[arg(long, visible_alias = "integrations")]
    pub relations: bool,
    /// Show again, this often, until interrupted
    #[arg(long, value_parser = times::duration, value_name = "DURATION")]
    pub watch: Option<Duration>,
    /// Times in UTC
    #[arg(long)]
    pub utc: bool,
    #[arg(long, hide = true)]
    pub storage: bool,
    #[arg(long, hide = true)]
    pub color: bool,
    #[arg(long, hide = true)]
    pub no_color: bool,
    /// Answer at once: do not let the agents catch up with your last change first
    #[arg(long = "no-settle")]
    pub no_wait_for_agents: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Tabular,
    Json,
    Yaml,
}

/// Clears the terminal and puts the cursor at its top.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// How long one `status` lets the agents catch up with the caller's last write.
const SETTLE_MAX: Duration = Duration::from_secs(2);
/// Between two looks: half of what the shortest hook of a Python charm takes.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub async fn run<A: UserPort>(args: &Status, at: &Session<A>) -> Result<(), Failure> {
    let Some(every) = args.watch else {
        return show(args, at).await;
    };
    loop {
        at.output.say(CLEAR)?;
        show(args, at).await?;
        sleep(every).await;
    }
}

async fn show<A: UserPort>(args: &Status, at: &Session<A>) -> Result<(), Failure> {
    let mut status = settled(args, at).await?;
    filter(&mut status, &args.filters);
    print(&status, args, &at.output)?;
    if !args.filters.is_empty() && status.applications.is_empty() && status.machines.is_empty() {
        let plural = if args.filters.len() == 1 { "" } else { "s" };
        at.output.note(&format!("Nothing matched specified filter{plural}.\n"));
    }
    Ok(())
}

/// The status once every agent has acted on the caller's last write, on what followed from it too, so that a program
/// that waits for a state never sees the one before its own write (spec/clients.md 2.3). Waiting ends early when a
/// unit fails, and in any case after [`SETTLE_MAX`].
async fn settled<A: UserPort>(args: &Status, at: &Session<A>) -> Result<api::Status, Failure> {
    let mut status = at.api.handle(GetStatus).await?;
    let Some(revision) = at.writes.of(&at.model).filter(|_| !args.no_wait_for_agents) else {
        return Ok(status);
    };
    let end = Instant::now() + SETTLE_MAX;
    loop {
        let mut units = status.applications.values().flat_map(|app| app.units.values());
        // The controller says `idle` only of a unit that has nothing to do at this revision.
        if !units.clone().any(|unit| unit.agent.current == "executing") {
            at.writes.forget(&at.model, revision);
            return Ok(status);
        }
        let failed = units.any(|unit| unit.workload.current == "error" && unit.agent.current == "idle");
        if failed || Instant::now() >= end {
            return Ok(status);
        }
        sleep(LOOK_EVERY).await;
        status = at.api.handle(GetStatus).await?;
    }
}

fn print(status: &api::Status, args: &Status, output: &Output) -> Result<(), Failure> {
    let zone = Zone::new(args.utc);
    let format = match args.format {
        Format::Tabular => {
            output.say(&status_table::page(status, &zone, args.relations))?;
            if let Some(remark) = status_table::remark(status).filter(|_| args.filters.is_empty()) {
                output.note(&remark);
            }
            return Ok(());
        }
        Format::Json => render::Format::Json,
        Format::Yaml => render::Format::Yaml,
    };
    output.say(&render::structured(&status_json::document(status, &zone), format)?)
}

/// Keeps the applications and units that any filter means, the principals of their subordinates, and the machines
/// that these are on or that a filter names.
pub fn filter(status: &mut api::Status, filters: &[String]) {
    if filters.is_empty() {
        return;
    }
    let means = |text: &str| filters.iter().any(|filter| matches(filter, text));
    let all = status.applications.iter();
    let chosen = |app: &str, name: &UnitName, unit: &UnitStatus| {
        let words = [app, &unit.machine, &unit.workload.current, &unit.agent.current];
        means(&name.to_string()) || words.into_iter().any(means)
    };
    let mut units = BTreeSet::new();
    for (app, application) in all {
        for (name, unit) in application.units.iter().filter(|(name, unit)| chosen(app, name, unit)) {
            units.insert(name.clone());
            units.extend(unit.principal.clone());
        }
    }
    let mut used = BTreeSet::new();
    status.applications.retain(|name, application| {
        application.units.retain(|name, _| units.contains(name));
        used.extend(application.units.values().map(|unit| unit.machine.clone()));
        means(name) || means(&application.status.current) || !application.units.is_empty()
    });
    status.machines.retain(|name, _| used.contains(name) || means(name));
    let kept = &status.applications;
    status.relations.retain(|one| one.ends.iter().any(|end| kept.contains_key(&end.application)));
}

/// `*` in `pattern` stands for any text.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(rest) = text.strip_prefix(before) else {
        return false;
    };
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| matches(after, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text) in
            [("web", "web"), ("web/*", "web/10"), ("*", ""), ("*b/*", "web/0"), ("a*c", "abc")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("web", "web2"), ("web/*", "db/0"), ("a*c", "abd"), ("", "a")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
