//! The statuses of a unit: what its charm has reported, and what its agent does or will do next.

use crate::documents::attachment::attachment;
use crate::documents::draft::{Reader, read};
use crate::documents::fake_application::is_fake;
use crate::documents::prelude::{Model, ReplicaDoc, ReportNumber, UnitDoc};
use crate::status::hook_lock;
use crate::status::machine::{MachineAgentState, machine_agent};
use crate::status::presence::PresenceReader;
use crate::status::running::running;
use crate::terms::activity::Activity;
use crate::terms::cause::Duty;
use crate::terms::names::Uuid;
use crate::terms::status::{AgentStatus, WorkloadStatus};
use crate::terms::status_info::StatusInfo;
use crate::terms::status_message::StatusMessage;
use crate::unit::local::Local;
use crate::unit::resolve::{Act, Now, next};
use crate::unit::snapshot::Snapshot;
use crate::views::decision_view::decision_view;
use crate::views::view;

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
    let shown = StatusInfo::from(status);
    if is_initial && attachment(&mut { reader }, model, id).has_attached() {
        StatusInfo { message: StatusMessage::AgentInitialising, ..shown }
    } else if is_initial && machine_agent(reader, model, presence, doc.machine) == MachineAgentState::Present
    {
        StatusInfo { message: StatusMessage::InstallingAgent, ..shown }
    } else {
        shown
    }
}

/// The statuses of a unit.
pub struct UnitStatuses {
    /// The workload status.
    pub workload: StatusInfo<WorkloadStatus>,
    /// The status of the agent.
    pub agent: StatusInfo<AgentStatus>,
    /// The run that the agent executes or will start next, if that is known and the run does not wait for the hook lock.
    pub activity: Option<Activity>,
}

impl UnitStatuses {
    fn new(workload: StatusInfo<WorkloadStatus>, agent: StatusInfo<AgentStatus>) -> UnitStatuses {
        UnitStatuses { workload, agent, activity: None }
    }

    /// The statuses of a unit whose next run waits for a lock of its machine. The agent is shown as `allocating`:
    /// Juju has no status for this, and `idle` and `executing` would be wrong (spec/clients.md 3.4).
    fn waiting(workload: StatusInfo<WorkloadStatus>, message: StatusMessage, since_ms: i64) -> UnitStatuses {
        UnitStatuses::new(workload, StatusInfo::new(AgentStatus::Allocating, message, Some(since_ms)))
    }

    fn executing(
        workload: StatusInfo<WorkloadStatus>,
        activity: Activity,
        since_ms: Option<i64>,
    ) -> UnitStatuses {
        let message = StatusMessage::Executing(activity.clone());
        let agent = StatusInfo::new(AgentStatus::Executing, message, since_ms);
        UnitStatuses { workload, agent, activity: Some(activity) }
    }
}

/// Returns the workload and agent status of a unit. An error of the agent is shown as the workload status (F.5). If the
/// agent is lost, its status is `lost`, and the workload is `unknown` unless it is terminated or in error (scenario 185).
/// If the agent cannot run, or the controller lacks a file that it requests, the agent is `failed`.
pub fn statuses(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    id: Uuid,
    doc: &UnitDoc,
) -> UnitStatuses {
    let workload = workload_status(reader, model, presence, id, doc);
    let agent = read(reader, &model.agent_status(id)).map(StatusInfo::from).unwrap_or_default();
    // the message of a unit that is lost together with its machine names the machine (F.4)
    let lost_machine = || {
        let is_lost = machine_agent(reader, model, presence, doc.machine) == MachineAgentState::Lost;
        let machine = is_lost.then(|| read(reader, &model.machine(doc.machine))).flatten()?;
        Some((
            StatusMessage::MachineNotCommunicating { machine: machine.name },
            Some(presence.last_request_ms(doc.machine)),
        ))
    };
    let health = presence.health(id).filter(|_| workload.current != WorkloadStatus::Terminated);
    let failure = health.as_ref().and_then(|health| StatusMessage::of_failed_agent(health, &doc.name));
    if let Some(message) = failure.filter(|_| lost_machine().is_none()) {
        let since_ms = health.as_ref().and_then(|health| health.exit.as_ref()).map(|exit| exit.since_ms);
        let workload = if agent.current == AgentStatus::Error { as_workload(agent) } else { workload };
        return UnitStatuses::new(workload, StatusInfo::new(AgentStatus::Failed, message, since_ms));
    }
    if !attachment(&mut { reader }, model, id).has_attached() {
        if is_fake(&mut { reader }, model, doc) {
            let agent = StatusInfo { current: AgentStatus::Idle, ..agent };
            return UnitStatuses::new(workload, agent);
        }
        let agent = StatusInfo { current: AgentStatus::Allocating, ..agent };
        return match lost_machine() {
            Some((message, since_ms)) => UnitStatuses::new(
                StatusInfo { message: message.clone(), since_ms, ..workload },
                StatusInfo { message, since_ms, ..agent },
            ),
            None => UnitStatuses::new(workload, agent),
        };
    }
    let in_error = agent.current == AgentStatus::Error;
    if presence.is_lost(id) {
        let (message, agent_message, since_ms) = match lost_machine() {
            Some((message, since_ms)) => (message.clone(), message, since_ms),
            None => {
                let message = StatusMessage::AgentLost { unit: doc.name.clone() };
                (message, StatusMessage::AgentNotCommunicating, Some(presence.last_request_ms(id)))
            }
        };
        // An error that an operator must resolve and a terminated workload remain true (scenario 185).
        let workload = match workload.current {
            _ if in_error => as_workload(agent),
            WorkloadStatus::Terminated => workload,
            _ => StatusInfo::new(WorkloadStatus::Unknown, message, since_ms),
        };
        return UnitStatuses::new(workload, StatusInfo::new(AgentStatus::Lost, agent_message, since_ms));
    }
    if presence.missing_file(id).is_some() {
        let message = StatusMessage::FileMissing { unit: doc.name.clone() };
        let workload = if in_error { as_workload(agent) } else { workload };
        return UnitStatuses::new(workload, StatusInfo::new(AgentStatus::Failed, message, None));
    }
    if let Some(running) = running(reader, model, presence, id) {
        return UnitStatuses::executing(workload, running.activity, Some(running.since_ms));
    }
    let since_ms = agent.since_ms;
    let workload = if in_error { as_workload(agent) } else { workload };
    let replica = read(reader, &model.replica(id));
    let act = replica.as_ref().and_then(|replica| expected_act(reader, model, presence, id, replica));
    // The replica may be older than the boot of the machine: after it the agent is first to attach.
    // A machine that reboots by itself, such as a container, may report before the agents on it have ended for the
    // controller: those that attached in another boot do not run.
    let is_expected = || !presence.has_reported(id) || presence.has_rebooted_since_attach(id, doc.machine);
    let act_of_expected = act.as_ref().filter(|_| is_expected());
    if matches!(act_of_expected, Some(Act::Wait(_) | Act::Finish)) {
        let since_ms = Some(presence.last_request_ms(id));
        let agent = StatusInfo::new(AgentStatus::Allocating, StatusMessage::AgentNotReported, since_ms);
        return UnitStatuses::new(workload, agent);
    }
    match act {
        Some(Act::Start(run)) => {
            let activity = Activity::from(&run.operation);
            let lock = hook_lock::lock_of(reader, model, id, &activity);
            let holder = hook_lock::holder(reader, model, presence, doc.machine, &lock);
            match holder.filter(|_| run.operation.runs_charm()) {
                Some((holder, running)) => {
                    let (group, since_ms, running) = (lock.group(), running.since_ms, running.activity);
                    let message = StatusMessage::WaitingForHookLock { group, activity, running, holder };
                    UnitStatuses::waiting(workload, message, since_ms)
                }
                None => UnitStatuses::executing(workload, activity, since_ms),
            }
        }
        // attached, but no run has completed yet: the agent downloads the charm
        None => UnitStatuses::new(
            workload,
            StatusInfo::new(AgentStatus::Allocating, StatusMessage::Empty, since_ms),
        ),
        Some(Act::Reboot) => {
            let message = match presence.is_reboot_overdue(since_ms) {
                true => StatusMessage::RebootOverdue { unit: doc.name.clone() },
                false => StatusMessage::Empty,
            };
            UnitStatuses::new(workload, StatusInfo::new(AgentStatus::Rebooting, message, since_ms))
        }
        Some(act @ (Act::Wait(_) | Act::Finish)) => {
            let workload = match missing_storage(&act) {
                Some(message) => StatusInfo { current: WorkloadStatus::Waiting, message, ..workload },
                None => workload,
            };
            let files = health.map(|health| health.set_aside).unwrap_or_default();
            let message = match files.is_empty() {
                true => replica.map(skipped_hooks).unwrap_or_default(),
                false => StatusMessage::FilesSetAside { files, unit: doc.name.clone() },
            };
            UnitStatuses::new(workload, StatusInfo::new(AgentStatus::Idle, message, since_ms))
        }
        Some(
            Act::Reattach(_)
            | Act::AcquireLock(_)
            | Act::FetchBag(_)
            | Act::FetchCharm(_)
            | Act::RecordOutcome(_)
            | Act::ChangeLeadership(_),
        ) => UnitStatuses::new(
            workload,
            StatusInfo::new(AgentStatus::Executing, StatusMessage::Empty, since_ms),
        ),
    }
}

/// Returns the message of a unit that is not installed because it waits for storage.
fn missing_storage(act: &Act) -> Option<StatusMessage> {
    let Act::Wait(wait) = act else { return None };
    wait.causes.iter().find_map(|cause| match &cause.duty {
        Duty::ProvideStorage { storage } => {
            Some(StatusMessage::WaitingForStorage { storage: storage.clone() })
        }
        _ => None,
    })
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

/// Returns what the unit's agent would do next if it had received every change of the model: the result of the agent's
/// own decision function, applied to the replica of its state. `boot` is the boot of its machine, empty if it is not known.
/// Of units with an agent, [`statuses`] shows one as idle only if the result is to wait or to finish. Returns `None` if the
/// controller has no replica of the unit yet, or no view of it.
pub fn next_act(reader: &dyn Reader, model: Model, id: Uuid, boot: String) -> Option<Act> {
    let local = read(reader, &model.replica(id))?.local;
    let view = view::full_view(reader, model, id)?;
    let snapshot = Snapshot::from_full(view.delta).expect("the controller computes full views");
    Some(next_act_in(&local, snapshot, boot))
}

/// Whether the agent of a unit would start nothing and waits for nothing, according to the replica of its state.
pub(crate) fn has_nothing_to_do(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    id: Uuid,
) -> bool {
    let replica = read(reader, &model.replica(id));
    let act = replica.and_then(|replica| expected_act(reader, model, presence, id, &replica));
    matches!(&act, Some(Act::Wait(wait)) if wait.causes.is_empty())
}

/// As [`next_act`], from the part of the view that decides what a unit does next, in the boot that its agent has reported.
fn expected_act(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    id: Uuid,
    replica: &ReplicaDoc,
) -> Option<Act> {
    Some(next_act_in(&replica.local, decision_view(reader, model, id)?, presence.boot(id)))
}

/// What a unit with this state and this view would do next in this boot of its machine; an empty one is not known. The view
/// of a reader has no store generation; the lease is taken to be valid while the view names this unit as the leader.
fn next_act_in(local: &Local, mut view: Snapshot, boot: String) -> Act {
    view.position.store_generation = local.store_generation.unwrap_or_default();
    let leader = view.leader.as_ref().filter(|grant| grant.holder == local.name);
    let leader_generation = leader.map(|grant| grant.generation);
    let now = Now { boot, leader_generation, ..Now::hypothetical() };
    next(local, Some(&view), &now).act
}
