//! `wait-for model|application|machine|unit NAME`: waits until a query about an entity holds (spec/clients.md 3.8).
//!
//! An entity that does not exist yet is waited for. A query about an unknown fact is an error at once.

use crate::command_error::CommandError;
use crate::query::Query;
use crate::render::yaml;
use crate::session::{CommandSession, model_name};
use crate::times;
use api::error::ErrorCode;
use api::text::status_message::describe;
use api::{
    ApplicationStatus, FIRST_USER, GetStatus, MachineStatus, Status, UnitStatus, UserPort, WaitForChange,
};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use state::terms::life::Life;
use state::terms::names::UnitName;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;

/// Arguments of `wait-for`.
#[derive(Debug, Args)]
pub struct WaitForArgs {
    #[command(subcommand)]
    pub entity: WaitedFor,
}

/// The kind of entity.
#[derive(Debug, Subcommand)]
pub enum WaitedFor {
    /// Wait for a model
    Model(WaitArgs),
    /// Wait for an application
    Application(WaitArgs),
    /// Wait for a machine
    Machine(WaitArgs),
    /// Wait for a unit
    Unit(WaitArgs),
}

/// Arguments of each kind.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Name of the entity
    pub name: String,
    /// What must hold, for example status=="active" && len(units)==2; by default, that it is alive and works
    #[arg(long)]
    pub query: Option<String>,
    /// Longest time to wait
    #[arg(long, value_parser = times::duration, default_value = "10m", value_name = "DURATION")]
    pub timeout: Duration,
    /// At the end, print the entity as the query sees it
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub summary: bool,
}

/// The state of agents is not in the store, so that the status is requested at this interval, too.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub async fn run<A: UserPort>(args: &WaitForArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let (kind, facts, default, args): (_, fn(&Status, &str) -> Option<Value>, _, _) = match &args.entity {
        WaitedFor::Model(args) => ("model", model, r#"life=="alive" && status=="available""#, args),
        WaitedFor::Application(args) => {
            ("application", application, r#"life=="alive" && status=="active""#, args)
        }
        WaitedFor::Machine(args) => ("machine", machine, r#"life=="alive" && status=="started""#, args),
        WaitedFor::Unit(args) => ("unit", unit, r#"life=="alive" && workload-status=="active""#, args),
    };
    let text = args.query.as_deref().unwrap_or(default);
    let invalid = |error| CommandError::new(format!("cannot evaluate the query {text:?}: {error}"));
    let query = Query::parse(text).map_err(invalid)?;
    let name = if kind == "model" { model_name(&args.name)? } else { &args.name };
    // the words wait for a model that is not the current one, too
    let api = session.api.in_model(if kind == "model" { name } else { &session.model });
    session.output.print_remark(&format!("Waiting for {kind} {name:?}: {text}\n"));
    let until_true = async {
        let (mut after, mut last) = (None, None);
        loop {
            let status = match api.handle(GetStatus).await {
                Ok(status) => Some(status),
                // the model was destroyed
                Err(error) if error.code == ErrorCode::NotFound && last.is_some() => None,
                Err(error) => return Err(error.into()),
            };
            let found =
                status.and_then(|status| facts(&status, name)).and_then(|facts| facts.as_object().cloned());
            let is_removed = found.is_none() && last.is_some();
            if let Some(mut facts) = found.or_else(|| last.take()) {
                if is_removed {
                    facts.insert("life".to_owned(), Life::Dead.to_string().into());
                }
                let mut printed = Vec::new();
                let holds =
                    query.holds(&facts, &mut |line| printed.push(line.to_owned())).map_err(invalid)?;
                printed.iter().for_each(|line| session.output.print_remark(&format!("{line}\n")));
                if holds {
                    return Ok(());
                }
                if is_removed {
                    return Err(CommandError::new(format!("{kind} {name:?} was removed")));
                }
                last = Some(facts);
            }
            if let Ok(changed) = timeout(POLL_INTERVAL, api.handle(WaitForChange { after })).await {
                match changed {
                    Ok(changed) => after = Some(changed),
                    // the model was destroyed: the next status shows that
                    Err(error) if error.code == ErrorCode::NotFound && last.is_some() => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    };
    let reached = timeout(args.timeout, until_true).await;
    if args.summary
        && let Ok(status) = api.handle(GetStatus).await
        && let Some(facts) = facts(&status, name)
    {
        session.output.print_remark(&yaml(&facts)?);
    }
    reached.unwrap_or_else(|_| {
        let choice = match kind {
            "model" => "model".to_owned(),
            "machine" => format!("machine/{name}"),
            _ => name.to_owned(),
        };
        Err(CommandError::new(format!("timed out waiting for {name:?} to reach goal state"))
            .hint(format!("see why it waits: pintle why {choice}")))
    })?;
    session.output.print_remark(&format!("{kind} {name:?} has reached it\n"));
    Ok(())
}

fn entries<'a, N: ToString + 'a>(facts: impl Iterator<Item = (N, Value)>) -> Value {
    facts.map(|(name, facts)| (name.to_string(), facts)).collect::<Map<String, Value>>().into()
}

fn model(status: &Status, name: &str) -> Option<Value> {
    let shown = &status.model;
    let is_named = shown.name == name || shown.uuid.to_string() == name;
    let applications =
        status.applications.iter().map(|(name, app)| (name, application_facts(status, name, app)));
    let units = status.applications.values().flat_map(|app| &app.units);
    is_named.then(|| {
        json!({
            "name": shown.name,
            "owner": FIRST_USER,
            "is-controller": false,
            "life": shown.life,
            "status": shown.status.current.as_str(),
            "applications": entries(applications),
            "machines": entries(status.machines.iter().map(|(name, machine)| (name, machine_facts(name, machine)))),
            "units": entries(units.map(|(name, unit)| (name, unit_facts(name, unit)))),
        })
    })
}

fn application(status: &Status, name: &str) -> Option<Value> {
    status.applications.get(name).map(|app| application_facts(status, name, app))
}

fn application_facts(status: &Status, name: &str, app: &ApplicationStatus) -> Value {
    let used: BTreeSet<&String> = app.units.values().map(|unit| &unit.machine).collect();
    let machines = used.into_iter().filter_map(|name| Some((name, status.machines.get(name)?)));
    json!({
        "name": name,
        "life": app.life,
        "status": app.status.current.as_str(),
        "charm": app.charm_name,
        "charm-url": app.charm_url,
        "min-units": 0,
        "exposed": app.exposed,
        "subordinate": app.subordinate,
        "workload-version": app.workload_version,
        "units": entries(app.units.iter().map(|(name, unit)| (name, unit_facts(name, unit)))),
        "machines": entries(machines.map(|(name, machine)| (name, machine_facts(name, machine)))),
    })
}

fn machine(status: &Status, name: &str) -> Option<Value> {
    status.machines.get(name).map(|machine| machine_facts(name, machine))
}

fn machine_facts(name: &str, machine: &MachineStatus) -> Value {
    json!({
        "id": name,
        "name": name,
        "life": machine.life,
        "status": machine.agent.current.as_str(),
        "instance-status": machine.instance.current.as_str(),
        "address": machine.address,
    })
}

fn unit(status: &Status, name: &str) -> Option<Value> {
    let name: UnitName = name.parse().ok()?;
    let unit = status.applications.get(&name.application)?.units.get(&name)?;
    Some(unit_facts(&name, unit))
}

fn unit_facts(name: &UnitName, unit: &UnitStatus) -> Value {
    json!({
        "name": name.to_string(),
        "application": name.application,
        "life": unit.life,
        "workload-status": unit.workload.current.as_str(),
        "workload-message": describe(&unit.workload.message),
        "agent-status": unit.agent.current.as_str(),
        "leader": unit.leader,
        "machine": unit.machine,
        "machine-id": unit.machine,
        "public-address": unit.address,
        "subordinate": unit.principal.is_some(),
    })
}
