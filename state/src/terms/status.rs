//! The closed vocabularies of statuses (spec/uniter.md F.5, spec/clients.md 2.4): one enum for each, and its words.
//!
//! The words are what is stored, sent and shown, exactly as Juju's clients know them. Code compares variants, never
//! words.

use crate::terms::words::words;

words! {
    /// How far an action is (a task, for people).
    ActionStatus {
        /// Queued; its unit's agent has not started it.
        Pending = "pending",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
    }
}

words! {
    /// Where the value of a model setting comes from.
    SettingSource {
        /// The user did not set it.
        Default = "default",
        Model = "model",
    }
}

impl ActionStatus {
    /// It will not change any more.
    pub fn is_final(self) -> bool {
        match self {
            ActionStatus::Pending | ActionStatus::Running => false,
            ActionStatus::Completed | ActionStatus::Failed => true,
        }
    }
}
