//! `status` as tables (spec/clients.md 3.3).

use crate::render::{Table, natural_entries, row};
use crate::times::Zone;
use api::{ApplicationStatus, Status, StatusInfo, UnitStatus};
use state::charm::{Base, Role, Scope};
use state::terms::names::UnitName;
use state::unit::activity::Activity;

/// Longest version in the App section; a longer one is cut.
const VERSION_WIDTH: usize = 15;

/// The whole page: sections in the order of the spec, empty ones left out.
pub fn page(status: &Status, zone: &Zone, relations: bool) -> String {
    let mut sections = vec![head(status, zone)];
    if !status.applications.is_empty() {
        sections.push(applications(status));
    }
    sections.extend(units(status));
    if !status.machines.is_empty() {
        sections.push(machines(status));
    }
    if relations && !status.relations.is_empty() {
        sections.push(integrations(status));
    }
    sections.join("\n")
}

/// What is said beside the page of a model in which nothing is.
pub fn remark(status: &Status) -> Option<String> {
    let empty = status.applications.is_empty() && status.machines.is_empty();
    empty.then(|| format!("\nModel \"admin/{}\" is empty.\n", status.model.name))
}

fn head(status: &Status, zone: &Zone) -> String {
    let model = &status.model;
    let mut heading = row(["Model", "Controller", "Cloud/Region", "Version", "Timestamp"]);
    let cloud = format!("{}/{}", model.cloud, model.region);
    let now = zone.time_of_day(status.now_ms);
    let mut line = row([&model.name, &model.controller, &cloud, &model.version, &now]);
    let notes = match model.life.is_alive() {
        true => model.status.message.clone(),
        false => format!("model is {}", model.life),
    };
    if !notes.is_empty() {
        heading.push("Notes".to_owned());
        line.push(notes);
    }
    Table { right: &[], rows: vec![heading, line] }.text()
}

fn applications(status: &Status) -> String {
    let headings = ["App", "Version", "Status", "Scale", "Charm", "Channel", "Rev", "Exposed", "Message"];
    let mut rows = vec![row(headings)];
    for (name, app) in natural_entries(&status.applications) {
        let exposed = if app.exposed { "yes" } else { "no" };
        let (version, scale) = (truncate(&app.workload_version), scale(app));
        let (revision, message) = (app.charm_revision.to_string(), &app.status.message);
        let current = &app.status.current;
        rows.push(row([name, &version, current, &scale, &app.charm_name, "", &revision, exposed, message]));
    }
    Table { right: &[3, 6], rows }.text()
}

/// `2`, or `1/2` while some unit's agent is neither idle nor executing.
fn scale(app: &ApplicationStatus) -> String {
    let well = |unit: &&UnitStatus| matches!(unit.agent.current.as_str(), "idle" | "executing");
    let (well, all) = (app.units.values().filter(well).count(), app.units.len());
    if well == all { all.to_string() } else { format!("{well}/{all}") }
}

/// The first characters and dots, where a version is too long.
fn truncate(version: &str) -> String {
    if version.chars().count() <= VERSION_WIDTH {
        return version.to_owned();
    }
    let kept: String = version.chars().take(VERSION_WIDTH - 3).collect();
    format!("{kept}...")
}

fn units(status: &Status) -> Option<String> {
    let mut rows = vec![row(["Unit", "Workload", "Agent", "Machine", "Public address", "Ports", "Message"])];
    for (_, app) in natural_entries(&status.applications) {
        for (name, unit) in app.units.iter().filter(|(_, unit)| unit.principal.is_none()) {
            rows.push(unit_row(name, unit));
            rows.extend(subordinates(status, name).map(|(name, unit)| unit_row(name, unit)));
        }
    }
    (rows.len() > 1).then(|| Table { right: &[], rows }.text())
}

/// The subordinates of one principal.
pub fn subordinates<'a>(
    status: &'a Status,
    principal: &'a UnitName,
) -> impl Iterator<Item = (&'a UnitName, &'a UnitStatus)> {
    let all = status.applications.values().flat_map(|app| &app.units);
    all.filter(move |(_, unit)| unit.principal.as_ref() == Some(principal))
}

/// A subordinate is indented and leaves the machine to its principal.
fn unit_row(name: &UnitName, unit: &UnitStatus) -> Vec<String> {
    let leader = if unit.leader { "*" } else { "" };
    let (indent, machine) = match unit.principal {
        None => ("", unit.machine.as_str()),
        Some(_) => ("  ", ""),
    };
    let name = format!("{indent}{name}{leader}");
    let message = unit_message(&unit.workload, &unit.agent, unit.activity.as_ref());
    let ports = ports(&unit.ports);
    row([&name, &unit.workload.current, &unit.agent.current, machine, &unit.address, &ports, &message])
}

/// What runs, in brackets, before the workload's message; while allocating, the agent's own words if the workload
/// has none.
fn unit_message(workload: &StatusInfo, agent: &StatusInfo, activity: Option<&Activity>) -> String {
    let running = match activity {
        Some(Activity::Hook { name, .. }) => Some(name.to_string()),
        Some(Activity::Action { name, .. }) => Some(name.clone()),
        Some(_) | None => None,
    };
    match running {
        Some(name) => format!("({name}) {}", workload.message).trim_end().to_owned(),
        None if agent.current == "allocating" && workload.message.is_empty() => agent.message.clone(),
        None => workload.message.clone(),
    }
}

/// `80,443/tcp 53/udp`: ports of one protocol share its name.
fn ports(ports: &[String]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for port in ports {
        let (numbers, protocol) = port.split_once('/').unwrap_or(("", port));
        match groups.iter_mut().find(|(known, _)| *known == protocol) {
            Some((_, list)) => list.push(numbers),
            None => groups.push((protocol, vec![numbers])),
        }
    }
    let text = |(protocol, numbers): &(&str, Vec<&str>)| match numbers.join(",") {
        numbers if numbers.is_empty() => protocol.to_string(),
        numbers => format!("{numbers}/{protocol}"),
    };
    groups.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// The machines' own table.
pub fn machines(status: &Status) -> String {
    let mut rows = vec![row(["Machine", "State", "Address", "Inst id", "Base", "AZ", "Message"])];
    for (name, machine) in natural_entries(&status.machines) {
        let (base, state) = (base(&machine.base), &machine.agent.current);
        // an agent that is late or lost matters more than that its machine runs
        let said = [&machine.agent.message, &machine.instance.message];
        let message = said.into_iter().find(|text| !text.is_empty()).map_or("", String::as_str);
        rows.push(row([name, state, &machine.address, &machine.instance_id, &base, &machine.zone, message]));
    }
    Table { right: &[], rows }.text()
}

/// `ubuntu@24.04`; of a channel only the track.
fn base(base: &Base) -> String {
    let track = base.channel.split('/').next().unwrap_or_default();
    if base.name.is_empty() { String::new() } else { format!("{}@{track}", base.name) }
}

fn integrations(status: &Status) -> String {
    let mut rows = Vec::new();
    for relation in &status.relations {
        let text = |role: Role| {
            let end = relation.ends.iter().find(|end| end.role == role).or(relation.ends.first());
            end.map(|end| format!("{}:{}", end.application, end.endpoint)).unwrap_or_default()
        };
        let kind = match (relation.ends.len(), relation.scope) {
            (1, _) => "peer",
            (_, Scope::Container) => "subordinate",
            (_, Scope::Global) => "regular",
        };
        let message = match (relation.status.current.as_str(), relation.status.message.as_str()) {
            ("joined", message) => message.to_owned(),
            (current, "") => current.to_owned(),
            (current, message) => format!("{current} - {message}"),
        };
        rows.push(row([&text(Role::Provider), &text(Role::Requirer), &relation.interface, kind, &message]));
    }
    rows.sort();
    rows.insert(0, row(["Integration provider", "Requirer", "Interface", "Type", "Message"]));
    Table { right: &[], rows }.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::unit::hook_name::HookName;

    #[test]
    fn ports_of_one_protocol_share_its_name() {
        let list = |ports: &[&str]| ports.iter().map(|port| port.to_string()).collect::<Vec<_>>();
        assert_eq!(ports(&list(&["80/tcp", "443/tcp", "53/udp", "icmp"])), "80,443/tcp 53/udp icmp");
        assert_eq!(ports(&[]), "");
    }

    #[test]
    fn a_long_version_is_cut_at_fifteen() {
        assert_eq!(truncate("123456789012345"), "123456789012345");
        assert_eq!(truncate("1234567890123456"), "123456789012...");
    }

    #[test]
    fn what_runs_stands_before_the_message() {
        let info = |current: &str, message: &str| StatusInfo {
            current: current.to_owned(),
            message: message.to_owned(),
            ..StatusInfo::default()
        };
        let message = |workload, activity: &Activity| {
            let agent = info("executing", &activity.to_string());
            unit_message(&info("active", workload), &agent, Some(activity))
        };
        assert_eq!(message("ready", &Activity::hook(HookName::ConfigChanged)), "(config-changed) ready");
        assert_eq!(message("", &Activity::Action { id: 1, name: "post".to_owned() }), "(post)");
        assert_eq!(message("ready", &Activity::Deploy), "ready");
        let waits = info("allocating", "waiting for machine");
        assert_eq!(unit_message(&info("waiting", ""), &waits, None), "waiting for machine");
        assert_eq!(unit_message(&info("waiting", "soon"), &waits, None), "soon");
    }
}
