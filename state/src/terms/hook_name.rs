//! The names of a charm's hooks as a type, without the versions that a [`Hook`](super::operation::Hook) carries.
//!
//! A name becomes text where the agent looks up the charm's program, in messages and in the log; nothing parses that
//! text. Status reports, `pintle why` and dry runs use these names.

use crate::terms::secret::SecretEvent;
use crate::terms::storage::StorageEvent;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The name of a hook. [`Display`](fmt::Display) writes it as charms do: `install`, `db-relation-joined`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HookName {
    /// `install`
    Install,
    /// `leader-elected`
    LeaderElected,
    /// `leader-settings-changed`
    LeaderSettingsChanged,
    /// `config-changed`
    ConfigChanged,
    /// `start`
    Start,
    /// `upgrade-charm`
    UpgradeCharm,
    /// `update-status`
    UpdateStatus,
    /// `stop`
    Stop,
    /// `remove`
    Remove,
    /// `<endpoint>-relation-<event>`
    Relation {
        /// The endpoint of the unit's own charm.
        endpoint: String,
        /// The last part of the name.
        event: RelationEventName,
    },
    /// `secret-changed`, and the other hooks of secrets
    Secret(SecretEvent),
    /// `<storage>-storage-attached` and `<storage>-storage-detaching`
    Storage {
        /// The name of the storage in the charm.
        name: String,
        /// The last part of the name.
        event: StorageEvent,
    },
}

/// The last part of a relation hook's name, as in `db-relation-joined`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RelationEventName {
    /// `created`
    Created,
    /// `joined`
    Joined,
    /// `changed`, of a unit or of an application
    Changed,
    /// `departed`
    Departed,
    /// `broken`
    Broken,
}

impl HookName {
    /// Whether a charm can have a hook of this name, if it has an endpoint or storage of the name in it.
    pub fn is_possible(name: &str) -> bool {
        let fixed = [
            HookName::Install,
            HookName::LeaderElected,
            HookName::LeaderSettingsChanged,
            HookName::ConfigChanged,
            HookName::Start,
            HookName::UpgradeCharm,
            HookName::UpdateStatus,
            HookName::Stop,
            HookName::Remove,
        ];
        let fixed = fixed.into_iter().chain(SecretEvent::ALL.iter().copied().map(HookName::Secret));
        let events = RelationEventName::ALL.iter().map(|event| format!("-relation-{event}"));
        let events = events.chain(StorageEvent::ALL.iter().map(|event| format!("-storage-{event}")));
        let has_owner =
            |event: &String| name.strip_suffix(event.as_str()).is_some_and(|owner| !owner.is_empty());
        fixed.map(|hook| hook.to_string()).any(|hook| hook == name)
            || events.into_iter().any(|event| has_owner(&event))
    }
}

impl RelationEventName {
    /// All events of relations.
    pub const ALL: [RelationEventName; 5] = [
        RelationEventName::Created,
        RelationEventName::Joined,
        RelationEventName::Changed,
        RelationEventName::Departed,
        RelationEventName::Broken,
    ];
}

impl fmt::Display for HookName {
    /// Writes the name of the charm's program: `install`, `db-relation-joined`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HookName::Install => "install",
            HookName::LeaderElected => "leader-elected",
            HookName::LeaderSettingsChanged => "leader-settings-changed",
            HookName::ConfigChanged => "config-changed",
            HookName::Start => "start",
            HookName::UpgradeCharm => "upgrade-charm",
            HookName::UpdateStatus => "update-status",
            HookName::Stop => "stop",
            HookName::Remove => "remove",
            HookName::Secret(event) => return write!(f, "secret-{event}"),
            HookName::Storage { name, event } => return write!(f, "{name}-storage-{event}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_hook_is_fixed_or_ends_in_an_event_of_a_named_owner() {
        for name in
            ["install", "secret-rotate", "db-relation-joined", "a-b-relation-broken", "data-storage-attached"]
        {
            assert!(HookName::is_possible(name), "{name}");
        }
        for name in
            ["", "instal", "secret-joined", "-relation-joined", "relation-joined", "db-relation-attached"]
        {
            assert!(!HookName::is_possible(name), "{name}");
        }
    }
}
