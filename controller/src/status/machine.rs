//! The status of a machine: its agent, as the presence of the agents shows it, and its instance.

use super::status_info::status_info;
use crate::presence::PresenceReader;
use api::{MachineStatus, Shared};
use state::documents::draft::{Reader, read};
use state::documents::prelude::{GLOBAL, MachineDoc, Model, TokenHolder};
use state::terms::life::Life;
use state::terms::names::Uuid;
use state::terms::status::{InstanceStatus, MachineAgentStatus};
use state::terms::status_message::StatusMessage;

/// The state of a machine's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineAgent {
    /// The agent has not been started yet: it has no token.
    Pending,
    /// The provider failed, and the agent has not reported since.
    Failed,
    /// The agent reports regularly.
    Present,
    /// The agent has been silent for longer than [`crate::presence::LATE_AFTER_MS`].
    Late,
    /// The agent has been silent for longer than [`crate::presence::LOST_AFTER_MS`].
    Lost,
}

/// Returns the state of a machine's agent.
pub fn machine_agent(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    id: Uuid,
) -> MachineAgent {
    let holder = read(reader, &GLOBAL.token_of(id)).and_then(|hash| read(reader, &GLOBAL.token(&hash)));
    let error = read(reader, &model.machine_provisioning_error(id));
    // The token is stored before the instance starts, and that counts as a heartbeat, so it proves nothing.
    if error.is_some_and(|error| presence.last_heartbeat_ms(id) <= error.last_ms) {
        MachineAgent::Failed
    } else if !matches!(holder, Some(TokenHolder::Machine { .. })) {
        MachineAgent::Pending
    } else if presence.is_lost(id) {
        MachineAgent::Lost
    } else if presence.is_late(id) {
        MachineAgent::Late
    } else {
        MachineAgent::Present
    }
}

/// Returns the name and the status of a machine.
pub(super) fn machine_status(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    id: Uuid,
) -> Option<(String, Shared<MachineStatus>)> {
    let doc: MachineDoc = read(reader, &model.machine(id))?;
    let life = read(reader, &model.machine_life(id)).unwrap_or(Life::Dead);
    let created = Some(doc.created_ms);
    let silent = || Some(presence.last_heartbeat_ms(id));
    let made = read(reader, &model.machine_instance(id));
    let error = read(reader, &model.machine_provisioning_error(id));
    let failed = error.as_ref().map(|error| error.since_ms);
    let (agent, instance) = match (life, machine_agent(reader, model, presence, id)) {
        (Life::Dead, _) => {
            (status_info(MachineAgentStatus::Stopped, StatusMessage::Empty, None), InstanceStatus::Stopped)
        }
        (Life::Alive | Life::Dying, MachineAgent::Pending) => {
            (status_info(MachineAgentStatus::Pending, StatusMessage::Empty, created), InstanceStatus::Pending)
        }
        (Life::Alive | Life::Dying, MachineAgent::Failed) => {
            (status_info(MachineAgentStatus::Down, StatusMessage::Empty, failed), InstanceStatus::Pending)
        }
        (Life::Alive | Life::Dying, MachineAgent::Lost) => (
            status_info(MachineAgentStatus::Down, StatusMessage::AgentNotCommunicating, silent()),
            InstanceStatus::Running,
        ),
        (Life::Alive | Life::Dying, MachineAgent::Late) => (
            status_info(MachineAgentStatus::Started, StatusMessage::AgentLate, silent()),
            InstanceStatus::Running,
        ),
        (Life::Alive | Life::Dying, MachineAgent::Present) => {
            (status_info(MachineAgentStatus::Started, StatusMessage::Empty, created), InstanceStatus::Running)
        }
    };
    let message = match instance {
        InstanceStatus::Running => StatusMessage::InstanceRunning,
        InstanceStatus::Pending | InstanceStatus::Stopped | InstanceStatus::ProvisioningError => {
            StatusMessage::Empty
        }
    };
    let mut instance = status_info(instance, message, created);
    if let Some(error) = error {
        let message = StatusMessage::OfProvider(error.message);
        instance = status_info(InstanceStatus::ProvisioningError, message, Some(error.since_ms));
    }
    let status = MachineStatus {
        uuid: id,
        life,
        agent,
        instance,
        address: doc.address,
        base: made.as_ref().and_then(|made| made.base.clone()).unwrap_or_default(),
        instance_id: made.and_then(|made| made.id),
        zone: String::new(),
    };
    Some((doc.name, status.into()))
}
