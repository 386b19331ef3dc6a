//! Documents of the statuses that charms and agents set, and of those that they have had.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::names::Uuid;
use crate::terms::status::{AgentStatus, InstanceStatus, MachineAgentStatus, ModelState, WorkloadStatus};
use crate::terms::status_message::StatusMessage;
use crate::terms::unit_documents::StatusDoc;
use serde::{Deserialize, Serialize};

/// The most changes of one subject that the status log of an entity has: as many as `show-status-log` prints by default.
pub const STATUS_CHANGES_MAX: usize = 20;
/// The most bytes of the message of a change in JSON, so that the status log of a unit or a machine, with two subjects, has
/// at most 2 * 20 * (512 + 200) bytes, 28 KiB.
pub const STATUS_CHANGE_MESSAGE_BYTES_MAX: usize = 512;

/// What had a status, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SubjectStatus {
    /// The workload of a unit.
    Workload(WorkloadStatus),
    /// The agent of a unit.
    Agent(AgentStatus),
    /// An application, whose leader has set the status.
    Application(WorkloadStatus),
    /// The agent of a machine.
    MachineAgent(MachineAgentStatus),
    /// The instance of a machine.
    Instance(InstanceStatus),
    /// A model.
    Model(ModelState),
}

/// One status that an entity has had.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatusChange {
    /// Since when.
    pub since_ms: i64,
    /// The status.
    pub status: SubjectStatus,
    /// The message, cut after [`STATUS_CHANGE_MESSAGE_BYTES_MAX`] bytes.
    pub message: StatusMessage,
}

/// The last statuses of a unit, an application or a machine, oldest first: at most [`STATUS_CHANGES_MAX`] of each subject.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusLogDoc {
    /// The changes.
    pub changes: Vec<StatusChange>,
}

impl StatusLogDoc {
    /// Adds a change. Returns whether it differs from the last one of its subject; otherwise nothing is added.
    pub fn add(&mut self, mut change: StatusChange) -> bool {
        change.message = cut(change.message);
        let is_same_subject = |known: &StatusChange| {
            std::mem::discriminant(&known.status) == std::mem::discriminant(&change.status)
        };
        let (mut count, mut first, mut last) = (0, None, None);
        for (at, known) in self.changes.iter().enumerate().filter(|(_, known)| is_same_subject(known)) {
            (count, first, last) = (count + 1, first.or(Some(at)), Some(known));
        }
        if last.is_some_and(|last| (last.status, &last.message) == (change.status, &change.message)) {
            return false;
        }
        if let Some(oldest) = first.filter(|_| count >= STATUS_CHANGES_MAX) {
            self.changes.remove(oldest);
        }
        self.changes.push(change);
        true
    }
}

/// A message of at most [`STATUS_CHANGE_MESSAGE_BYTES_MAX`] bytes: the beginning of a text, and nothing of a fact that is
/// longer.
fn cut(message: StatusMessage) -> StatusMessage {
    let start = |text: &str| {
        let mut bytes = 0;
        let fits = |c: &char| {
            // as JSON escapes it
            bytes += if c.is_control() {
                6
            } else if ['"', '\\'].contains(c) {
                2
            } else {
                c.len_utf8()
            };
            bytes <= STATUS_CHANGE_MESSAGE_BYTES_MAX
        };
        text.chars().take_while(fits).collect::<String>()
    };
    match message {
        StatusMessage::OfCharm(text) => StatusMessage::OfCharm(start(&text)),
        StatusMessage::OfProvider(text) => StatusMessage::OfProvider(start(&text)),
        other => {
            let bytes = serde_json::to_vec(&other).map_or(usize::MAX, |bytes| bytes.len());
            if bytes <= STATUS_CHANGE_MESSAGE_BYTES_MAX { other } else { StatusMessage::Empty }
        }
    }
}

impl Model {
    /// The workload status of a unit, which its charm sets.
    pub fn unit_status(&self, id: Uuid) -> Key<StatusDoc> {
        self.key(Kind::UnitStatus, &[id])
    }
    /// The agent status of a unit.
    pub fn agent_status(&self, id: Uuid) -> Key<StatusDoc<AgentStatus>> {
        self.key(Kind::AgentStatus, &[id])
    }
    /// The status of an application, which the leader sets.
    pub fn application_status(&self, id: Uuid) -> Key<StatusDoc> {
        self.key(Kind::ApplicationStatus, &[id])
    }
    /// The statuses that a unit, an application or a machine has had.
    pub fn status_log(&self, id: Uuid) -> Key<StatusLogDoc> {
        self.key(Kind::StatusLog, &[id])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(number: usize) -> StatusChange {
        let message = StatusMessage::OfCharm(number.to_string());
        StatusChange { since_ms: 0, status: SubjectStatus::Workload(WorkloadStatus::Active), message }
    }

    #[test]
    fn a_status_log_keeps_the_last_changes_of_each_subject() {
        let mut log = StatusLogDoc::default();
        let idle = SubjectStatus::Agent(AgentStatus::Idle);
        let agent = StatusChange { since_ms: 0, status: idle, message: StatusMessage::Empty };
        assert!(log.add(agent.clone()));
        for number in 0..STATUS_CHANGES_MAX + 3 {
            assert!(log.add(workload(number)));
            assert!(!log.add(StatusChange { since_ms: 1, ..workload(number) }), "the same status again");
        }
        assert!(!log.add(agent.clone()), "it is still the last one of the agent");
        let kept: Vec<StatusChange> = (3..STATUS_CHANGES_MAX + 3).map(workload).collect();
        assert_eq!(log.changes, [vec![agent], kept].concat());
    }

    #[test]
    fn the_message_of_a_change_is_bounded() {
        let mut log = StatusLogDoc::default();
        let long = "\u{20ac}".repeat(STATUS_CHANGE_MESSAGE_BYTES_MAX);
        log.add(StatusChange { message: StatusMessage::OfCharm(long.clone()), ..workload(0) });
        let StatusMessage::OfCharm(kept) = &log.changes[0].message else { panic!("a text") };
        assert!(long.starts_with(kept) && kept.len() > STATUS_CHANGE_MESSAGE_BYTES_MAX - 3);
        assert!(kept.len() <= STATUS_CHANGE_MESSAGE_BYTES_MAX);
    }
}
