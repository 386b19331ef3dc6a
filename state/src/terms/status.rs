//! The closed vocabularies of statuses (spec/uniter.md F.5, spec/clients.md 2.4): one enum for each.
//!
//! The words are stored, sent and printed exactly as Juju's clients expect them. Code compares variants, never
//! words.

use crate::terms::words::words;

words! {
    /// The progress of an action (which people know as a task).
    ActionStatus {
        /// The action is queued; the unit agent has not started it.
        Pending = "pending",
        /// The unit agent has started it.
        Running = "running",
        /// It finished with success.
        Completed = "completed",
        /// It finished with a failure, or the unit was removed before it could run.
        Failed = "failed",
    }
}

words! {
    /// Where the value of a model setting comes from.
    SettingSource {
        /// The default: the user did not set it.
        Default = "default",
        /// The user set it in the model.
        Model = "model",
    }
}

impl ActionStatus {
    /// Whether the status can no longer change.
    pub fn is_final(self) -> bool {
        match self {
            ActionStatus::Pending | ActionStatus::Running => false,
            ActionStatus::Completed | ActionStatus::Failed => true,
        }
    }
}
