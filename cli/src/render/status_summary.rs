//! `status --format summary`, in Juju's layout: the subnets and open ports of all units, how many machines and units have
//! which status, and for each application how many of its units are healthy (`2/3`).

use api::{Shared, Status, UnitStatus};
use state::terms::status::{AgentStatus, WorkloadStatus};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// The column in which the labels end.
const LABEL_WIDTH: usize = 19;

/// The summary of a model, as Juju lays it out.
pub fn summary(status: &Status) -> String {
    let units = || status.applications.values().flat_map(|app| app.units.values());
    let subnets: BTreeSet<String> = units()
        .filter(|unit| !unit.address.is_empty())
        .map(|unit| format!("{}/{}", unit.address, if unit.address.contains(':') { 128 } else { 32 }))
        .collect();
    let ports: BTreeSet<String> =
        units().flat_map(|unit| unit.ports.iter().map(ToString::to_string)).collect();
    let list = |words: BTreeSet<String>| words.into_iter().collect::<Vec<_>>().join(", ");
    let mut text = line("Running on subnets:", list(subnets)) + &line("Utilizing ports:", list(ports));
    let machines = status.machines.values().map(|machine| machine.agent.current.as_str());
    text += &counts("# Machines:", machines);
    text += &counts("# Units:", units().map(|unit| unit.workload.current.as_str()));
    text += &line("# Applications:", format!("({})", status.applications.len()));
    for (name, app) in super::natural_entries(&status.applications) {
        let is_healthy = |unit: &&Shared<UnitStatus>| {
            matches!(unit.agent.current, AgentStatus::Idle | AgentStatus::Executing)
                && unit.workload.current != WorkloadStatus::Error
        };
        let healthy_units = app.units.values().filter(is_healthy).count();
        let exposed = if app.exposed { "  exposed" } else { "" };
        text += &line(name, format!("{healthy_units}/{}{exposed}", app.units.len()));
    }
    text
}

/// The number of entities, and a line for each status that one of them has.
fn counts<'a>(label: &str, statuses: impl Iterator<Item = &'a str>) -> String {
    let mut numbers = BTreeMap::<&str, usize>::new();
    statuses.for_each(|status| *numbers.entry(status).or_default() += 1);
    let mut text = line(label, format!("({})", numbers.values().sum::<usize>()));
    for (status, number) in numbers {
        text += &line(&format!("{status}:"), number);
    }
    text + "\n"
}

fn line(label: &str, value: impl Display) -> String {
    format!("{label:>LABEL_WIDTH$}  {value}").trim_end().to_owned() + "\n"
}
