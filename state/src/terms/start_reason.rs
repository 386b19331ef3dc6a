//! Why the unit agent starts an operation.
//!
//! The resolver stores a [`StartReason`] with each run; `pintle why`, `pintle-agent why` and `context.yaml` show it. No
//! decision depends on it. The English is in `api::text::start_reason`.

use crate::terms::names::RelationNumber;
use serde::{Deserialize, Serialize};

/// Why an operation is started. Created in `pending_operations` and `retry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StartReason {
    // The unit's charm.
    /// The unit has no charm yet.
    NoCharm,
    /// The folder of the charm was lost.
    CharmFolderLost,
    /// The first charm was deployed.
    CharmInstalled,
    /// The application was refreshed to another charm.
    Refreshed {
        /// The charm's URL.
        charm_url: String,
    },
    /// A user has attached a file to a resource of the application.
    ResourceAttached,
    /// The application was refreshed by force while the unit was in error.
    ForcedRefresh,
    /// The charm was replaced.
    CharmReplaced,
    /// The charm was replaced by force while the unit was in error, and upgrade-charm has not run since.
    UpgradePending,
    /// upgrade-charm was run.
    UpgradeDone,

    // The unit's configuration, leadership and machine.
    /// The unit has not been configured yet.
    FirstConfiguration,
    /// The settings of the application changed.
    SettingsChanged,
    /// The addresses of the unit changed.
    AddressesChanged,
    /// The application became trusted, or is trusted no longer.
    TrustChanged,
    /// The first config-changed was run.
    Configured,
    /// The unit became the leader.
    LeadershipGained,
    /// The leader has changed its settings.
    LeaderSettingsChanged,
    /// A secret that the unit owns or reads requires a hook.
    SecretDue,
    /// Storage was attached to the unit, or is to be detached.
    StorageChanged,
    /// The machine was rebooted.
    Rebooted,
    /// The interval of update-status has passed.
    IntervalPassed,

    // Relations.
    /// The unit has entered a new relation.
    RelationAppeared {
        /// The relation.
        relation: RelationNumber,
    },
    /// The members or the settings of a relation changed.
    RelationChanged {
        /// The endpoint of the unit's own charm.
        endpoint: String,
        /// The relation.
        relation: RelationNumber,
    },
    /// The relation was removed while its relation-joined hook was interrupted or in error.
    RelationRemoved,

    // Requests, removal and failures.
    /// An operator requested an action.
    Requested,
    /// The unit is being removed.
    Removed,
    /// The run before this one was interrupted.
    Interrupted,
    /// An operator resolved the failure.
    Resolved,
    /// The agent retries a failed operation.
    Retry {
        /// How often it has failed in a row.
        failures: u32,
    },
}
