//! The statuses of a machine's agent and of its instance.

use crate::documents::draft::{Reader, read};
use crate::documents::prelude::{GLOBAL, MachineDoc, Model, TokenHolder};
use crate::status::presence::PresenceReader;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::status::{InstanceStatus, MachineAgentStatus};
use crate::terms::status_info::StatusInfo;
use crate::terms::status_message::StatusMessage;

/// The state of a machine's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineAgentState {
    /// The agent has not been started yet: it has no token of its own.
    Pending,
    /// The provider failed, and the agent has not reported since.
    Failed,
    /// The agent is expected to report: it has sent no request since it was to be started, or since the controller
    /// started.
    Expected,
    /// The agent reports regularly.
    Present,
    /// The agent has been silent for longer than it may be between two requests.
    Late,
    /// The agent has been silent for so long that it is shown as lost.
    Lost,
}

/// Returns the state of a machine's agent.
pub fn machine_agent(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    id: Uuid,
) -> MachineAgentState {
    let holder = read(reader, &GLOBAL.token_digest(id)).and_then(|hash| read(reader, &GLOBAL.token(&hash)));
    let error = read(reader, &model.machine_provisioning_error(id));
    // The token is stored before the instance starts, and storing it is recorded as a request of the agent. A request
    // that is not newer than the error therefore does not prove that the agent runs, and neither does the start of the
    // controller, from which the silence of an unknown agent counts.
    if error.is_some_and(|error| !presence.has_reported(id) || presence.last_request_ms(id) <= error.last_ms)
    {
        MachineAgentState::Failed
    } else if !matches!(holder, Some(TokenHolder::Machine { .. })) {
        MachineAgentState::Pending
    } else if presence.is_lost(id) {
        MachineAgentState::Lost
    } else if presence.is_late(id) {
        MachineAgentState::Late
    } else if presence.has_reported(id) {
        MachineAgentState::Present
    } else {
        MachineAgentState::Expected
    }
}

/// The statuses of a machine.
pub struct MachineStatuses {
    /// The status of its agent.
    pub agent: StatusInfo<MachineAgentStatus>,
    /// The status of its instance.
    pub instance: StatusInfo<InstanceStatus>,
}

/// The statuses of a machine with this document and life.
pub fn statuses(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    id: Uuid,
    doc: &MachineDoc,
    life: Life,
) -> MachineStatuses {
    let created = Some(doc.created_ms);
    let silent = || Some(presence.last_request_ms(id));
    let has_reported = presence.has_reported(id);
    let error = read(reader, &model.machine_provisioning_error(id));
    let failed = error.as_ref().map(|error| error.since_ms);
    let (agent, instance) = match (life, machine_agent(reader, model, presence, id)) {
        (Life::Dead, _) => (
            StatusInfo::new(MachineAgentStatus::Stopped, StatusMessage::Empty, None),
            InstanceStatus::Stopped,
        ),
        (Life::Alive, MachineAgentState::Pending) if doc.manual => (
            StatusInfo::new(MachineAgentStatus::Pending, StatusMessage::NotEnrolled, created),
            InstanceStatus::Pending,
        ),
        (Life::Alive | Life::Dying, MachineAgentState::Pending) => (
            StatusInfo::new(MachineAgentStatus::Pending, StatusMessage::Empty, created),
            InstanceStatus::Pending,
        ),
        (Life::Alive | Life::Dying, MachineAgentState::Failed) => {
            (StatusInfo::new(MachineAgentStatus::Down, StatusMessage::Empty, failed), InstanceStatus::Pending)
        }
        (Life::Alive | Life::Dying, MachineAgentState::Lost) => (
            StatusInfo::new(MachineAgentStatus::Down, StatusMessage::AgentNotCommunicating, silent()),
            InstanceStatus::Running,
        ),
        // The machine may not run, after a start of the controller or of its host.
        (Life::Alive | Life::Dying, MachineAgentState::Expected | MachineAgentState::Late)
            if !has_reported =>
        {
            (
                StatusInfo::new(MachineAgentStatus::Pending, StatusMessage::AgentNotReported, silent()),
                InstanceStatus::Pending,
            )
        }
        (Life::Alive | Life::Dying, MachineAgentState::Late) => (
            StatusInfo::new(MachineAgentStatus::Started, StatusMessage::AgentLate, silent()),
            InstanceStatus::Running,
        ),
        (Life::Alive | Life::Dying, MachineAgentState::Expected | MachineAgentState::Present) => (
            StatusInfo::new(MachineAgentStatus::Started, StatusMessage::Empty, created),
            InstanceStatus::Running,
        ),
    };
    let message = match instance {
        InstanceStatus::Running => StatusMessage::InstanceRunning,
        InstanceStatus::Pending | InstanceStatus::Stopped | InstanceStatus::ProvisioningError => {
            StatusMessage::Empty
        }
    };
    let mut instance = StatusInfo::new(instance, message, created);
    if let Some(error) = error {
        let message = StatusMessage::OfProvider(error.message);
        instance = StatusInfo::new(InstanceStatus::ProvisioningError, message, Some(error.since_ms));
    }
    MachineStatuses { agent, instance }
}
