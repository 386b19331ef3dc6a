//! Which hook of a charm: its name as a type, without the versions that a [`Hook`](super::operation::Hook) carries.
//!
//! A name becomes text where the charm's program is looked up, where people read it, and in the log; nothing parses
//! that text. Used by status reports, by `why` and by dry runs.

use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookName {
    Install,
    LeaderElected,
    ConfigChanged,
    Start,
    UpgradeCharm,
    UpdateStatus,
    Stop,
    Remove,
    Relation { endpoint: String, event: RelationEventName },
}

/// The last part of a relation hook's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelationEventName {
    Created,
    Joined,
    Changed,
    Departed,
    Broken,
}

impl fmt::Display for HookName {
    /// As the charm names the program: `install`, `db-relation-joined`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HookName::Install => "install",
            HookName::LeaderElected => "leader-elected",
            HookName::ConfigChanged => "config-changed",
            HookName::Start => "start",
            HookName::UpgradeCharm => "upgrade-charm",
            HookName::UpdateStatus => "update-status",
            HookName::Stop => "stop",
            HookName::Remove => "remove",
            HookName::Relation { endpoint, event } => return write!(f, "{endpoint}-relation-{event}"),
        })
    }
}

impl fmt::Display for RelationEventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RelationEventName::Created => "created",
            RelationEventName::Joined => "joined",
            RelationEventName::Changed => "changed",
            RelationEventName::Departed => "departed",
            RelationEventName::Broken => "broken",
        })
    }
}
