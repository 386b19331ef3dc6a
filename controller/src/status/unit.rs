//! The status of a unit: what its charm has reported, and what its agent does or will do next.

use super::machine::{MachineAgent, machine_agent};
use super::status_info::{status_info, stored_status_info};
use crate::presence::PresenceReader;
use api::{Shared, StatusInfo, UnitStatus};
use state::documents::draft::{Reader, Revision, StoredDocument, parse, read};
use state::documents::effective_life;
use state::documents::prelude::{Model, ReplicaDoc, ReportNumber, UnitDoc};
use state::terms::activity::Activity;
use state::terms::names::{UnitName, Uuid};
use state::terms::port_range::{PortRange, Protocol};
use state::terms::status::{AgentStatus, WorkloadStatus};
use state::terms::status_message::StatusMessage;
use state::unit::local::Local;
use state::unit::resolve::{Act, Now, next};
use state::unit::snapshot::Snapshot;
use state::views::decision_view::decision_view;
use state::views::view;

/// A unit as it is shown.
#[derive(Clone)]
pub(super) struct UnitPart {
    pub(super) name: UnitName,
    pub(super) status: Shared<UnitStatus>,
    /// What the unit has set last as the version of the workload, and in which revision.
    pub(super) workload_version: Option<(Revision, String)>,
}

/// Returns a unit as it is shown; none if it does not exist, or is damaged on disk.
pub(super) fn unit_part(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    id: Uuid,
) -> Option<UnitPart> {
    let doc = read(reader, &model.unit(id))?;
    let stored = reader.get(model.workload_version(id).text());
    let version = |stored: StoredDocument| (stored.revision, parse(reader, &stored).unwrap_or_default());
    let machine = read(reader, &model.machine(doc.machine));
    let UnitStatuses { workload, agent, activity } = statuses(reader, model, presence, id, &doc);
    let status = UnitStatus {
        uuid: id,
        life: effective_life::unit_life_of(&mut { reader }, model, id, &doc),
        machine: machine.as_ref().map_or(String::new(), |machine| machine.name.clone()),
        principal: doc.principal.and_then(|id| read(reader, &model.unit(id))).map(|doc| doc.name),
        leader: is_leader(reader, model, id, &doc),
        workload,
        agent,
        activity,
        address: machine.map_or(String::new(), |machine| machine.address),
        ports: ports(reader, model, id),
    };
    Some(UnitPart { name: doc.name, status: status.into(), workload_version: stored.map(version) })
}

pub(super) fn is_leader(reader: &dyn Reader, model: Model, id: Uuid, doc: &UnitDoc) -> bool {
    read(reader, &model.leader(doc.application)).is_some_and(|grant| grant.holder == id)
}

pub(super) fn ports(reader: &dyn Reader, model: Model, unit: Uuid) -> Vec<PortRange> {
    let open = read(reader, &model.ports(unit)).unwrap_or_default();
    let mut ports: Vec<PortRange> = open.into_values().flatten().collect();
    ports.sort_by_key(|range| (range.protocol != Protocol::Icmp, range.from, range.to_string()));
    ports.dedup();
    ports
}

/// Returns a unit's workload status; until a hook sets one, what the unit waits for (spec C.4, scenario 178).
fn workload_status(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    id: Uuid,
    doc: &UnitDoc,
) -> StatusInfo<WorkloadStatus> {
    let status = read(reader, &model.unit_status(id)).unwrap_or_default();
    let is_initial = status.number == ReportNumber::default();
    let shown = stored_status_info(status);
    if is_initial && reader.get(model.session(id).text()).is_some() {
        StatusInfo { message: StatusMessage::AgentInitialising, ..shown }
    } else if is_initial && machine_agent(reader, model, presence, doc.machine) == MachineAgent::Present {
        StatusInfo { message: StatusMessage::InstallingAgent, ..shown }
    } else {
        shown
    }
}

/// The statuses of a unit.
pub struct UnitStatuses {
    pub workload: StatusInfo<WorkloadStatus>,
    pub agent: StatusInfo<AgentStatus>,
    /// The run that the agent executes or will start next.
    pub activity: Option<Activity>,
}

impl UnitStatuses {
    fn new(workload: StatusInfo<WorkloadStatus>, agent: StatusInfo<AgentStatus>) -> UnitStatuses {
        UnitStatuses { workload, agent, activity: None }
    }

    fn executing(
        workload: StatusInfo<WorkloadStatus>,
        activity: Activity,
        since_ms: Option<i64>,
    ) -> UnitStatuses {
        let message = StatusMessage::Executing(activity.clone());
        let agent = status_info(AgentStatus::Executing, message, since_ms);
        UnitStatuses { workload, agent, activity: Some(activity) }
    }
}

/// Returns the workload and agent status of a unit. An error of the agent is shown as the workload status (F.5). If the
/// agent is lost, both statuses are unknown, except where the last reported one remains true.
pub fn statuses(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    id: Uuid,
    doc: &UnitDoc,
) -> UnitStatuses {
    let workload = workload_status(reader, model, presence, id, doc);
    let agent = read(reader, &model.agent_status(id)).map(stored_status_info).unwrap_or_default();
    // the message of a unit that is lost together with its machine names the machine (F.4)
    let lost_with = || {
        let is_lost = machine_agent(reader, model, presence, doc.machine) == MachineAgent::Lost;
        let machine = is_lost.then(|| read(reader, &model.machine(doc.machine))).flatten()?;
        Some((
            StatusMessage::MachineNotCommunicating { machine: machine.name },
            Some(presence.last_heartbeat_ms(doc.machine)),
        ))
    };
    let health = presence.health(id).filter(|_| workload.current != WorkloadStatus::Terminated);
    let failure = health.as_ref().and_then(|health| StatusMessage::of_failed_agent(health, &doc.name));
    if let Some(message) = failure.filter(|_| lost_with().is_none()) {
        let since_ms = health.as_ref().and_then(|health| health.exit.as_ref()).map(|exit| exit.since_ms);
        let workload = if agent.current == AgentStatus::Error { as_workload(agent) } else { workload };
        return UnitStatuses::new(workload, status_info(AgentStatus::Failed, message, since_ms));
    }
    if reader.get(model.session(id).text()).is_none() {
        let agent = StatusInfo { current: AgentStatus::Allocating, ..agent };
        return match lost_with() {
            Some((message, since_ms)) => UnitStatuses::new(
                StatusInfo { message: message.clone(), since_ms, ..workload },
                StatusInfo { message, since_ms, ..agent },
            ),
            None => UnitStatuses::new(workload, agent),
        };
    }
    let failed = agent.current == AgentStatus::Error;
    if presence.is_lost(id) {
        let (message, silent, since_ms) = match lost_with() {
            Some((message, since_ms)) => (message.clone(), message, since_ms),
            None => {
                let message = StatusMessage::AgentLost { unit: doc.name.clone() };
                (message, StatusMessage::AgentNotCommunicating, Some(presence.last_heartbeat_ms(id)))
            }
        };
        // An error that an operator must resolve and a terminated workload remain true (scenario 185).
        let workload = match workload.current {
            _ if failed => as_workload(agent),
            WorkloadStatus::Terminated => workload,
            _ => status_info(WorkloadStatus::Unknown, message, since_ms),
        };
        return UnitStatuses::new(workload, status_info(AgentStatus::Lost, silent, since_ms));
    }
    if let Some(running) = presence.executing(id) {
        return UnitStatuses::executing(workload, running.activity, Some(running.since_ms));
    }
    let since_ms = agent.since_ms;
    let workload = if failed { as_workload(agent) } else { workload };
    let replica = read(reader, &model.replica(id));
    let act = replica.as_ref().and_then(|replica: &ReplicaDoc| {
        let view = decision_view(reader, model, id)?;
        Some(next_act_in(&replica.local, view))
    });
    match act {
        Some(Act::Start(run)) => UnitStatuses::executing(workload, Activity::from(&run.operation), since_ms),
        // attached, but no run has completed yet: the agent downloads the charm
        None => {
            UnitStatuses::new(workload, status_info(AgentStatus::Allocating, StatusMessage::Empty, since_ms))
        }
        Some(Act::Reboot) => {
            let message = match presence.is_reboot_overdue(since_ms) {
                true => StatusMessage::RebootOverdue { unit: doc.name.clone() },
                false => StatusMessage::Empty,
            };
            UnitStatuses::new(workload, status_info(AgentStatus::Rebooting, message, since_ms))
        }
        Some(Act::Wait(_) | Act::Finish) => {
            let files = health.map(|health| health.set_aside).unwrap_or_default();
            let message = match files.is_empty() {
                true => replica.map(skipped_hooks).unwrap_or_default(),
                false => StatusMessage::FilesSetAside { files, unit: doc.name.clone() },
            };
            UnitStatuses::new(workload, status_info(AgentStatus::Idle, message, since_ms))
        }
        Some(
            Act::Reattach(_)
            | Act::AcquireHookLock
            | Act::FetchBag(_)
            | Act::RecordOutcome(_)
            | Act::PersistEvent(_),
        ) => UnitStatuses::new(workload, status_info(AgentStatus::Executing, StatusMessage::Empty, since_ms)),
    }
}

/// Returns the message about the hooks that an operator has skipped; empty if there are none (spec A.8).
fn skipped_hooks(replica: ReplicaDoc) -> StatusMessage {
    StatusMessage::of_skipped_hooks(&replica.local.skipped)
}

/// The error of an agent as it is shown: as the workload status.
fn as_workload(agent: StatusInfo<AgentStatus>) -> StatusInfo<WorkloadStatus> {
    let StatusInfo { current: _, message, since_ms, data } = agent;
    StatusInfo { current: WorkloadStatus::Error, message, since_ms, data }
}

/// Returns what the unit's agent would do next if it had received every change of the model. This is the agent's own
/// decision function, applied to the replica of its state. A unit is idle only if the result is to wait. None if the
/// controller has no replica yet.
pub fn next_act(reader: &dyn Reader, model: Model, id: Uuid) -> Option<Act> {
    let local = read(reader, &model.replica(id))?.local;
    let view = view::full_view(reader, model, id)?;
    let snapshot = Snapshot::from_full(view.delta).expect("the controller computes full views");
    Some(next_act_in(&local, snapshot))
}

/// What a unit with this state and this view would do next.
fn next_act_in(local: &Local, mut view: Snapshot) -> Act {
    view.position.store_generation = local.store_generation.unwrap_or_default();
    let leader = view.leader.as_ref().filter(|grant| grant.holder == local.name);
    let now = Now { leader_generation: leader.map(|grant| grant.generation), ..Now::hypothetical() };
    next(local, Some(&view), &now).act
}
