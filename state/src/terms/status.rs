//! The closed vocabularies of statuses (spec/uniter.md F.5, spec/clients.md 2.4): one enum for each.
//!
//! The words are stored, sent and printed exactly as Juju's clients expect them. Code compares variants, never
//! words.

use crate::terms::string_enum::string_enum;

string_enum! {
    /// The status of a workload, worst first: an application shows the worst status of its units (spec/clients.md
    /// 3.4). A charm sets the four from `blocked` to `active`.
    #[derive(Default)]
    WorkloadStatus {
        /// The agent is in error: a hook failed.
        Error = "error",
        /// The charm cannot continue before a person acts.
        Blocked = "blocked",
        /// The charm works.
        Maintenance = "maintenance",
        /// The unit waits for another entity.
        Waiting = "waiting",
        /// The workload runs.
        Active = "active",
        /// The last hook of the unit has run.
        Terminated = "terminated",
        /// The charm has set no status, or the agent is lost.
        #[default]
        Unknown = "unknown",
    }
}

string_enum! {
    /// The status of a unit agent.
    #[derive(Default)]
    AgentStatus {
        /// The agent has not started, or downloads the charm.
        #[default]
        Allocating = "allocating",
        /// The agent runs an operation or is about to.
        Executing = "executing",
        /// Nothing that concerns the unit is pending.
        Idle = "idle",
        /// An operation failed. Stored only: it is shown as the workload status.
        Error = "error",
        /// A hook requested a reboot of the machine.
        Rebooting = "rebooting",
        /// The agent has been silent for too long.
        Lost = "lost",
        /// The agent ends repeatedly, or cannot continue before a person removes what prevents it.
        Failed = "failed",
    }
}

string_enum! {
    /// The status of a machine agent.
    MachineAgentStatus {
        /// The agent has not started yet.
        Pending = "pending",
        /// The agent reports.
        Started = "started",
        /// The machine is Dead.
        Stopped = "stopped",
        /// The agent has been silent for too long, or the provider failed.
        Down = "down",
    }
}

string_enum! {
    /// The status of the instance of a machine.
    InstanceStatus {
        /// The instance does not run yet.
        Pending = "pending",
        /// The instance runs.
        Running = "running",
        /// The machine is Dead.
        Stopped = "stopped",
        /// The provider failed.
        ProvisioningError = "provisioning error",
    }
}

string_enum! {
    /// The status of a relation.
    RelationState {
        /// No unit of at least one end is in scope.
        Joining = "joining",
        /// Units of both ends are in scope.
        Joined = "joined",
        /// The relation is suspended, and units are still in scope.
        Suspending = "suspending",
        /// The relation is suspended, and no unit is in scope.
        Suspended = "suspended",
        /// The relation is being removed.
        Broken = "broken",
    }
}

string_enum! {
    /// The status of a model.
    #[derive(Default)]
    ModelState {
        /// The model accepts changes.
        #[default]
        Available = "available",
        /// The model is being destroyed.
        Destroying = "destroying",
    }
}

string_enum! {
    /// The progress of an action, which is shown to people as a task.
    ActionStatus {
        /// The action is enqueued; the unit agent has not started it.
        Pending = "pending",
        /// The unit agent has started it.
        Running = "running",
        /// A user cancelled it while it ran, and its process is being ended.
        Aborting = "aborting",
        /// It finished with success.
        Completed = "completed",
        /// It finished with a failure, or the unit was removed before it could run.
        Failed = "failed",
        /// A user cancelled it before the controller had received a report of its start. If the unit had started it
        /// already, its report or its record replaces this status.
        Cancelled = "cancelled",
        /// A user cancelled it while it ran, and it has ended without success.
        Aborted = "aborted",
    }
}

string_enum! {
    /// Where the value of a model setting comes from.
    SettingSource {
        /// The default: the user did not set it.
        Default = "default",
        /// The user set it in the model.
        Model = "model",
    }
}

impl ActionStatus {
    /// The status of an operation whose tasks have these statuses, as in Juju: it runs while a task does, and has failed if
    /// one has. None without a task.
    pub fn of_operation(tasks: impl IntoIterator<Item = ActionStatus>) -> Option<ActionStatus> {
        let order = |status: &ActionStatus| match status {
            ActionStatus::Running => 0,
            ActionStatus::Aborting => 1,
            ActionStatus::Pending => 2,
            ActionStatus::Failed => 3,
            ActionStatus::Aborted => 4,
            ActionStatus::Cancelled => 5,
            ActionStatus::Completed => 6,
        };
        tasks.into_iter().min_by_key(order)
    }

    /// Whether no further progress of the action is expected.
    pub fn is_final(self) -> bool {
        match self {
            ActionStatus::Pending | ActionStatus::Running | ActionStatus::Aborting => false,
            ActionStatus::Completed
            | ActionStatus::Failed
            | ActionStatus::Cancelled
            | ActionStatus::Aborted => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ActionStatus::{self, Cancelled, Completed, Failed, Pending, Running};

    #[test]
    fn an_operation_runs_while_a_task_does_and_fails_if_one_has_failed() {
        for (tasks, expected) in [
            (&[Completed, Completed][..], Some(Completed)),
            (&[Failed, Running], Some(Running)),
            (&[Failed, Pending], Some(Pending)),
            (&[Completed, Failed, Cancelled], Some(Failed)),
            (&[Completed, Cancelled], Some(Cancelled)),
            (&[], None),
        ] {
            assert_eq!(ActionStatus::of_operation(tasks.iter().copied()), expected, "{tasks:?}");
        }
    }
}
