//! The tables of `status`, of which `machines` prints one (spec/clients.md 3.3). Their layout is Juju's; scripts match it.

use crate::render::colour::Colour;
use crate::render::{Colours, Table, natural_entries, owned_name, row, storage};
use crate::times::Zone;
use api::text::status_message::describe;
use api::{ApplicationStatus, MachineStatus, Shared, Status, StatusInfo, StorageInfo, UnitStatus};
use state::charm::{Base, Role, Scope};
use state::terms::activity::Activity;
use state::terms::names::UnitName;
use state::terms::port_range::{PortRange, Protocol};
use state::terms::status::{AgentStatus, InstanceStatus, RelationState, WorkloadStatus};
use state::terms::status_message::StatusMessage;
use state::terms::storage::StorageId;
use std::collections::BTreeMap;

/// Longest version in the App section; a longer one is truncated.
const VERSION_WIDTH: usize = 15;

/// What a page shows beside applications, units and machines.
#[derive(Clone, Copy, Debug)]
pub struct PageOptions<'a> {
    /// The relations.
    pub relations: bool,
    /// This storage.
    pub storage: &'a BTreeMap<StorageId, StorageInfo>,
    /// The colours of statuses, for a terminal.
    pub colours: bool,
    /// The columns of a terminal; none for programs, which get every column.
    pub width: Option<usize>,
}

/// The columns that a narrow terminal does not show, the first ones first (`Table::fitted_text`): in the head, ...
const HEAD_ORDER: &[usize] = &[2, 3, 1];
/// ... of applications: Channel, Rev, Exposed, Charm, Version, Scale
const APPLICATIONS_ORDER: &[usize] = &[5, 6, 7, 4, 1, 3];
/// ... of units: Public address, Ports, Machine
const UNITS_ORDER: &[usize] = &[4, 5, 3];
/// ... and of machines: AZ, Inst id, Base, Address.
const MACHINES_ORDER: &[usize] = &[5, 3, 4, 2];

/// The whole page: sections in the order of the spec, without empty ones. It has no control characters but line breaks and
/// the codes of colours.
pub fn page(status: &Status, zone: &Zone, options: PageOptions<'_>) -> String {
    let PageOptions { relations, storage, colours, width } = options;
    let text = |(table, coloured): (Table, Colours), order: &[usize]| {
        let coloured = if colours { coloured } else { Colours::new() };
        match width {
            Some(width) => table.fitted_text(&coloured, width, order),
            None => table.coloured_text(&coloured),
        }
    };
    let mut sections = vec![text((head(status, zone), Colours::new()), HEAD_ORDER)];
    if !status.applications.is_empty() {
        sections.push(text(applications(status), APPLICATIONS_ORDER));
    }
    sections.extend(units(status).map(|units| text(units, UNITS_ORDER)));
    if !status.machines.is_empty() {
        sections.push(text(machines(status), MACHINES_ORDER));
    }
    if relations && !status.relations.is_empty() {
        sections.push(integrations(status));
    }
    if !storage.is_empty() {
        sections.push(storage::status_table(storage).text());
    }
    sections.join("\n")
}

/// One line for each unit, as Juju's format `oneline`.
pub fn lines(status: &Status) -> String {
    let line = |indent: &str, name: &UnitName, unit: &UnitStatus| {
        let states = (unit.agent.current.as_str(), unit.workload.current.as_str());
        let ports: Vec<String> = unit.ports.iter().map(ToString::to_string).collect();
        let ports = if ports.is_empty() { String::new() } else { format!(" {}", ports.join(", ")) };
        format!("\n{indent}- {name}: {} (agent:{}, workload:{}){ports}", unit.address, states.0, states.1)
    };
    let subordinates = Subordinates::of(status);
    let mut text = String::new();
    for (_, app) in natural_entries(&status.applications) {
        for (name, unit) in app.units.iter().filter(|(_, unit)| unit.principal.is_none()) {
            text += &line("", name, unit);
            for (name, unit) in subordinates.of_principal(name) {
                text += &line("  ", name, unit);
            }
        }
    }
    text + "\n"
}

/// The remark that is printed for an empty model.
pub fn remark(status: &Status) -> Option<String> {
    let empty = status.applications.is_empty() && status.machines.is_empty();
    empty.then(|| format!("\nModel {:?} is empty.\n", owned_name(&status.model.name)))
}

fn head(status: &Status, zone: &Zone) -> Table<'static> {
    let model = &status.model;
    let mut heading = row(["Model", "Controller", "Cloud/Region", "Version", "Timestamp"]);
    let cloud = format!("{}/{}", model.cloud, model.region);
    let now = zone.time_of_day(status.now_ms);
    let mut line = row([&model.name, &model.controller, &cloud, &model.version, &now]);
    let notes = match model.life.is_alive() {
        true => describe(&model.status.message),
        false => format!("model is {}", model.life),
    };
    if !notes.is_empty() {
        heading.push("Notes".to_owned());
        line.push(notes);
    }
    Table { right: &[], rows: vec![heading, line] }
}

fn applications(status: &Status) -> (Table<'static>, Colours) {
    let headings = ["App", "Version", "Status", "Scale", "Charm", "Channel", "Rev", "Exposed", "Message"];
    let (mut rows, mut colours) = (vec![row(headings)], Colours::new());
    for (name, app) in natural_entries(&status.applications) {
        let exposed = if app.exposed { "yes" } else { "no" };
        let (version, scale) = (truncate(&app.workload_version), scale(app));
        let (revision, message) = (app.charm_revision.to_string(), describe(&app.status.message));
        let current = app.status.current.as_str();
        colours.extend(Colour::of_workload(app.status.current).map(|colour| ((rows.len(), 2), colour)));
        rows.push(row([name, &version, current, &scale, &app.charm_name, "", &revision, exposed, &message]));
    }
    (Table { right: &[3, 6], rows }, colours)
}

/// `2`, or `1/2` if the agent of one unit is neither idle nor executing.
fn scale(app: &ApplicationStatus) -> String {
    let is_healthy =
        |unit: &&Shared<UnitStatus>| matches!(unit.agent.current, AgentStatus::Idle | AgentStatus::Executing);
    let (healthy, all) = (app.units.values().filter(is_healthy).count(), app.units.len());
    if healthy == all { all.to_string() } else { format!("{healthy}/{all}") }
}

/// A version of at most [`VERSION_WIDTH`] characters; a longer one ends with dots.
fn truncate(version: &str) -> String {
    if version.chars().count() <= VERSION_WIDTH {
        return version.to_owned();
    }
    let start: String = version.chars().take(VERSION_WIDTH - 3).collect();
    format!("{start}...")
}

fn units(status: &Status) -> Option<(Table<'static>, Colours)> {
    let mut colours = Colours::new();
    let mut rows = vec![row(["Unit", "Workload", "Agent", "Machine", "Public address", "Ports", "Message"])];
    let subordinates = Subordinates::of(status);
    for (_, app) in natural_entries(&status.applications) {
        for (name, unit) in app.units.iter().filter(|(_, unit)| unit.principal.is_none()) {
            let principal = std::iter::once((name, &**unit));
            for (name, unit) in principal.chain(subordinates.of_principal(name).iter().copied()) {
                let at = rows.len();
                colours.extend(Colour::of_workload(unit.workload.current).map(|colour| ((at, 1), colour)));
                colours.extend(Colour::of_agent(unit.agent.current).map(|colour| ((at, 2), colour)));
                rows.push(unit_row(name, unit));
            }
        }
    }
    (rows.len() > 1).then_some((Table { right: &[], rows }, colours))
}

/// The subordinates of each principal.
pub struct Subordinates<'a>(BTreeMap<&'a UnitName, Vec<(&'a UnitName, &'a UnitStatus)>>);

impl<'a> Subordinates<'a> {
    /// The subordinates of all principals of a model.
    pub fn of(status: &'a Status) -> Subordinates<'a> {
        let mut by_principal = BTreeMap::<_, Vec<_>>::new();
        for (name, unit) in status.applications.values().flat_map(|app| &app.units) {
            if let Some(principal) = &unit.principal {
                by_principal.entry(principal).or_default().push((name, &**unit));
            }
        }
        Subordinates(by_principal)
    }

    /// The subordinates of one principal, in the order of their applications.
    pub fn of_principal(&self, principal: &UnitName) -> &[(&'a UnitName, &'a UnitStatus)] {
        self.0.get(principal).map_or(&[], Vec::as_slice)
    }
}

/// The row of a unit. A subordinate is indented, and its machine is omitted because it is the principal's.
fn unit_row(name: &UnitName, unit: &UnitStatus) -> Vec<String> {
    let leader = if unit.leader { "*" } else { "" };
    let (indent, machine) = match unit.principal {
        None => ("", unit.machine.as_str()),
        Some(_) => ("  ", ""),
    };
    let name = format!("{indent}{name}{leader}");
    let message = unit_message(&unit.workload, &unit.agent, unit.activity.as_ref());
    let ports = ports(&unit.ports);
    let (current, agent) = (unit.workload.current.as_str(), unit.agent.current.as_str());
    row([&name, current, agent, machine, &unit.address, &ports, &message])
}

/// The message of a unit: the running hook or action in brackets, then the message of the workload. The message of the
/// agent replaces it while the agent has failed, reboots or waits for the hook lock, or is allocating without a message of the workload, and
/// follows it in brackets while the agent is idle and the unit has no error.
fn unit_message(
    workload: &StatusInfo<WorkloadStatus>,
    agent: &StatusInfo<AgentStatus>,
    activity: Option<&Activity>,
) -> String {
    let running = match activity {
        Some(Activity::Hook { name, .. }) => Some(name.to_string()),
        Some(Activity::Action { name, .. }) => Some(name.clone()),
        Some(_) | None => None,
    };
    match running {
        Some(name) => format!("({name}) {}", describe(&workload.message)).trim_end().to_owned(),
        None if agent.current == AgentStatus::Allocating && workload.message.is_empty() => {
            describe(&agent.message)
        }
        None if has_problem(agent) => describe(&agent.message),
        None if workload.current == WorkloadStatus::Error => describe(&workload.message),
        None if agent.current == AgentStatus::Idle && !agent.message.is_empty() => {
            format!("{} ({})", describe(&workload.message), describe(&agent.message)).trim_start().to_owned()
        }
        None => describe(&workload.message),
    }
}

/// Whether the message of the agent is more urgent than that of the workload: the agent cannot continue.
fn has_problem(agent: &StatusInfo<AgentStatus>) -> bool {
    let waits = matches!(agent.message, StatusMessage::WaitingForHookLock { .. });
    waits
        || matches!(agent.current, AgentStatus::Failed | AgentStatus::Rebooting) && !agent.message.is_empty()
}

/// `80,443/tcp 53/udp`: ports are grouped by protocol.
fn ports(ports: &[PortRange]) -> String {
    let mut groups: Vec<(Protocol, Vec<String>)> = Vec::new();
    for range in ports {
        match groups.iter_mut().find(|(known, _)| *known == range.protocol) {
            Some((_, list)) => list.push(range.numbers()),
            None => groups.push((range.protocol, vec![range.numbers()])),
        }
    }
    let text = |(protocol, numbers): &(Protocol, Vec<String>)| match protocol {
        Protocol::Icmp => protocol.as_str().to_owned(),
        Protocol::Tcp | Protocol::Udp => format!("{}/{}", numbers.join(","), protocol.as_str()),
    };
    groups.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// The table of machines, with the colours of their states.
pub fn machines(status: &Status) -> (Table<'static>, Colours) {
    let mut colours = Colours::new();
    let mut rows = vec![row(["Machine", "State", "Address", "Inst id", "Base", "AZ", "Message"])];
    for (name, machine) in natural_entries(&status.machines) {
        let (base, state) = (base(&machine.base), machine.agent.current.as_str());
        // The message of an unreachable agent is more important than the message of the running instance.
        let messages = [&machine.agent.message, &machine.instance.message];
        let message =
            messages.into_iter().find(|message| !message.is_empty()).map(describe).unwrap_or_default();
        let instance = instance_id(machine);
        colours.extend(Colour::of_machine(machine.agent.current).map(|colour| ((rows.len(), 1), colour)));
        rows.push(row([name, state, &machine.address, instance, &base, "", &message]));
    }
    (Table { right: &[], rows }, colours)
}

/// The provider's name for the instance of a machine, or Juju's word for an instance that was not started yet.
pub fn instance_id(machine: &MachineStatus) -> &str {
    machine.instance_id.as_deref().unwrap_or(InstanceStatus::Pending.as_str())
}

/// `ubuntu@24.04`: the name and the track of the channel.
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
        let message = match (relation.status.current, describe(&relation.status.message).as_str()) {
            (RelationState::Joined, message) => message.to_owned(),
            (current, "") => current.to_string(),
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
    use state::terms::hook_name::HookName;

    #[test]
    fn ports_are_grouped_by_protocol() {
        let list =
            |ports: &[&str]| ports.iter().map(|port| port.parse().expect("a range")).collect::<Vec<_>>();
        assert_eq!(ports(&list(&["80/tcp", "443/tcp", "53/udp", "icmp"])), "80,443/tcp 53/udp icmp");
        assert_eq!(ports(&[]), "");
    }

    #[test]
    fn a_version_is_truncated_to_fifteen_characters() {
        assert_eq!(truncate("123456789012345"), "123456789012345");
        assert_eq!(truncate("1234567890123456"), "123456789012...");
    }

    #[test]
    fn the_running_hook_precedes_the_message() {
        fn info<S: Default>(current: S, message: StatusMessage) -> StatusInfo<S> {
            StatusInfo { current, message, ..StatusInfo::default() }
        }
        let of_charm = |status, text: &str| info(status, StatusMessage::OfCharm(text.to_owned()));
        let message = |workload, activity: &Activity| {
            let agent = info(AgentStatus::Executing, StatusMessage::Executing(activity.clone()));
            unit_message(&of_charm(WorkloadStatus::Active, workload), &agent, Some(activity))
        };
        assert_eq!(message("ready", &Activity::hook(HookName::ConfigChanged)), "(config-changed) ready");
        assert_eq!(message("", &Activity::Action { id: 1, name: "post".to_owned() }), "(post)");
        assert_eq!(message("ready", &Activity::InstallCharm), "ready");
        let waits = info(AgentStatus::Allocating, StatusMessage::WaitingForMachine);
        let why = describe(&waits.message);
        assert_eq!(unit_message(&of_charm(WorkloadStatus::Waiting, ""), &waits, None), why);
        assert_eq!(unit_message(&of_charm(WorkloadStatus::Waiting, "soon"), &waits, None), "soon");
        let (activity, running) = (Activity::hook(HookName::Start), Activity::hook(HookName::Install));
        let message = StatusMessage::WaitingForHookLock {
            group: None,
            activity,
            running,
            holder: UnitName::new("db", 0),
        };
        let lock = info(AgentStatus::Allocating, message);
        assert_eq!(
            unit_message(&of_charm(WorkloadStatus::Active, "ready"), &lock, None),
            describe(&lock.message),
            "why nothing happens is more important than what the charm has set"
        );
    }
}
