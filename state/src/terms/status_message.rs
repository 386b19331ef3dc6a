//! The message of a status: what a charm, an operator or a provider wrote, or a fact that the core or the controller
//! has found.
//!
//! Messages are stored and sent as this type. Their English is in `api::text::status_message`; nothing parses it.

use crate::terms::activity::Activity;
use crate::terms::failure_reason::FailureReason;
use crate::terms::health::{Fault, ProcessEnd, UnitHealth};
use crate::terms::hook_name::HookName;
use crate::terms::names::UnitName;
use crate::terms::operation::Operation;
use crate::terms::refusal::RefusalReason;
use crate::terms::storage::StorageId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The most skipped hooks that a message names: with 255 bytes each they take 5 KiB of a status.
const SKIPPED_SHOWN_MAX: usize = 20;

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The message of a status. Created in `transitions::run_reports`, `lifecycle::unit` and `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StatusMessage {
    /// No message.
    #[default]
    Empty,

    // Texts of a charm, an operator or a provider.
    /// The text of a charm; may be empty.
    OfCharm(String),
    /// The text of an operator, for example the reason of a suspended relation; may be empty.
    OfOperator(String),
    /// The error of the provider of a machine.
    OfProvider(String),

    // The workload of a unit, before and after its charm sets the status.
    /// The machine of the unit does not run yet.
    WaitingForMachine,
    /// The machine agent starts the unit agent.
    InstallingAgent,
    /// The unit is not installed before it has its storage.
    WaitingForStorage {
        /// The first instance that is not provided.
        storage: StorageId,
    },
    /// The unit agent has attached, and no run has completed.
    AgentInitialising,
    /// The charm is deployed, and its install hook has not run.
    InstallingCharm,
    /// The stop hook runs or has failed.
    StoppingCharm,
    /// The remove hook is next, runs or has failed.
    RemovingCharm,

    // The agent of a unit.
    /// The agent runs this or is about to.
    Executing(Activity),
    /// The agent runs this as soon as another unit of the machine has released the hook lock, or that of an execution
    /// group.
    WaitingForHookLock {
        /// The execution group; none for the hook lock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<String>,
        /// What the unit runs next.
        activity: Activity,
        /// What the other unit runs.
        running: Activity,
        /// The other unit.
        holder: UnitName,
    },
    /// A hook failed.
    HookFailed {
        /// The hook.
        hook: HookName,
    },
    /// An operation that is no hook failed.
    OperationFailed {
        /// The operation.
        operation: Box<Operation>,
        /// Why.
        reason: FailureReason,
    },
    /// A record can never be applied.
    RecordRefused {
        /// The number of the record.
        sequence: u64,
        /// Why.
        reason: Box<RefusalReason>,
    },
    /// An operator skipped these hooks, and they have not succeeded since; not empty.
    HooksSkipped {
        /// The first 20 of them.
        hooks: BTreeSet<HookName>,
        /// How many there are besides.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: usize,
    },
    /// The machine did not reboot in time.
    RebootOverdue {
        /// The unit whose hook requested the reboot.
        unit: UnitName,
    },
    /// Damaged files of the unit's stored state were set aside.
    FilesSetAside {
        /// The files.
        files: Vec<String>,
        /// The unit.
        unit: UnitName,
    },
    /// The agent cannot continue before a person removes a fault.
    Fault {
        /// The fault.
        fault: Fault,
        /// The unit.
        unit: UnitName,
    },
    /// The controller lacks a file that the agent requests: a charm archive, or the file of a resource.
    FileMissing {
        /// The unit.
        unit: UnitName,
    },
    /// The agent ends repeatedly.
    AgentEnded {
        /// How it ended the last time.
        end: ProcessEnd,
        /// How often it has ended.
        count: u32,
        /// The unit.
        unit: UnitName,
    },

    // Silent agents.
    /// The workload status is unknown because the unit agent is lost.
    AgentLost {
        /// The unit.
        unit: UnitName,
    },
    /// The agent is lost.
    AgentNotCommunicating,
    /// The unit is lost together with the agent of its machine.
    MachineNotCommunicating {
        /// The name of the machine.
        machine: String,
    },
    /// The machine agent is late.
    AgentLate,
    /// The agent has sent no request since the controller or the machine was started.
    AgentNotReported,
    /// Nobody has enrolled the manually provisioned machine yet.
    NotEnrolled,

    // Machines.
    /// The instance runs.
    InstanceRunning,
}

impl StatusMessage {
    /// Returns the message for a unit agent that cannot continue; none after a single end without a fault, because the
    /// agent is restarted at once.
    pub fn of_failed_agent(health: &UnitHealth, unit: &UnitName) -> Option<StatusMessage> {
        let unit = unit.clone();
        match (health.fault(), &health.exit) {
            (Some(fault), _) => Some(StatusMessage::Fault { fault, unit }),
            (None, Some(exit)) if exit.count > 1 => {
                Some(StatusMessage::AgentEnded { end: exit.end, count: exit.count, unit })
            }
            (None, _) => None,
        }
    }

    /// Returns the message about skipped hooks; empty if there are none (spec A.8, scenario 50).
    pub fn of_skipped_hooks(hooks: &BTreeSet<HookName>) -> StatusMessage {
        match hooks.is_empty() {
            true => StatusMessage::Empty,
            false => StatusMessage::HooksSkipped {
                hooks: hooks.iter().take(SKIPPED_SHOWN_MAX).cloned().collect(),
                more: hooks.len().saturating_sub(SKIPPED_SHOWN_MAX),
            },
        }
    }

    /// Whether the message has no text.
    pub fn is_empty(&self) -> bool {
        match self {
            StatusMessage::OfCharm(text)
            | StatusMessage::OfOperator(text)
            | StatusMessage::OfProvider(text) => text.is_empty(),
            fact => *fact == StatusMessage::Empty,
        }
    }
}
