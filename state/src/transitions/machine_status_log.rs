//! The statuses that a machine has had (`show-status-log`), as far as the store shows them.
//!
//! The transitions of [`instance`](super::instance) add each status that they change. Whether an agent reports is not in
//! the store, so that the silence of an agent is not in the log. A new machine has no log: its first statuses follow from
//! its document. The log is removed with the machine.

use crate::documents::document_reads::Documents;
use crate::documents::draft::Draft;
use crate::documents::prelude::{MachineDoc, Model, StatusChange, StatusLogDoc, SubjectStatus};
use crate::terms::names::Uuid;
use crate::terms::status::{InstanceStatus, MachineAgentStatus};
use crate::terms::status_message::StatusMessage;

/// Returns the log of the machine with this document.
pub fn read(documents: &mut impl Documents, model: Model, id: Uuid, machine: &MachineDoc) -> StatusLogDoc {
    documents.document(&model.status_log(id)).unwrap_or_else(|| {
        let mut log = StatusLogDoc::default();
        for status in [
            SubjectStatus::MachineAgent(MachineAgentStatus::Pending),
            SubjectStatus::Instance(InstanceStatus::Pending),
        ] {
            log.add(StatusChange { since_ms: machine.created_ms, status, message: StatusMessage::Empty });
        }
        log
    })
}

/// Adds the statuses of a machine whose instance and agent have started. Repeating it changes nothing.
pub(super) fn add_started(draft: &mut Draft, model: Model, id: Uuid, now_ms: i64) {
    let instance = (SubjectStatus::Instance(InstanceStatus::Running), StatusMessage::InstanceRunning);
    let agent = (SubjectStatus::MachineAgent(MachineAgentStatus::Started), StatusMessage::Empty);
    add(draft, model, id, [instance, agent], now_ms);
}

/// Adds a provisioning error. Repeating it changes nothing.
pub(super) fn add_failed(draft: &mut Draft, model: Model, id: Uuid, message: &str, now_ms: i64) {
    let status = SubjectStatus::Instance(InstanceStatus::ProvisioningError);
    add(draft, model, id, [(status, StatusMessage::OfProvider(message.to_owned()))], now_ms);
}

fn add(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    statuses: impl IntoIterator<Item = (SubjectStatus, StatusMessage)>,
    now_ms: i64,
) {
    let Some(machine) = draft.get(&model.machine(id)) else { return };
    let mut log = read(draft, model, id, &machine);
    let mut is_changed = false;
    for (status, message) in statuses {
        is_changed |= log.add(StatusChange { since_ms: now_ms, status, message });
    }
    if is_changed {
        draft.put(&model.status_log(id), &log);
    }
}
