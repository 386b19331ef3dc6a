//! Why an operation is started, in English.
//!
//! The text follows the operation, in parentheses or after a colon. Called by `cause`, by
//! `agent_act`, and by what agents print about recorded and running runs (`pintle-agent runs`, `show-run`, `follow-runs`).

use state::terms::start_reason::StartReason;

/// The reason as a part of a sentence: `settings changed`.
pub fn describe(reason: &StartReason) -> String {
    match reason {
        StartReason::NoCharm => "the unit has no charm yet",
        StartReason::CharmFolderLost => "the charm's folder was lost",
        StartReason::CharmInstalled => "the charm is deployed",
        StartReason::Refreshed { charm_url } => {
            return format!("the application was refreshed to {charm_url}");
        }
        StartReason::ResourceAttached => "a resource was attached",
        StartReason::ForcedRefresh => "forced refresh",
        StartReason::CharmReplaced => "the charm was replaced",
        StartReason::UpgradePending => "it is pending since a forced refresh",
        StartReason::UpgradeDone => "upgrade-charm is done",
        StartReason::FirstConfiguration => "first configuration",
        StartReason::SettingsChanged => "settings changed",
        StartReason::AddressesChanged => "addresses changed",
        StartReason::TrustChanged => "trust changed",
        StartReason::Configured => "config-changed is done",
        StartReason::LeadershipGained => "this unit became the leader",
        StartReason::StorageChanged => "storage was attached or is to be detached",
        StartReason::SecretDue => "a secret changed, expired or is to be rotated",
        StartReason::LeaderSettingsChanged => "the leader changed its settings",
        StartReason::Rebooted => "the machine was rebooted",
        StartReason::IntervalPassed => "the interval has passed",
        StartReason::RelationAppeared { relation } => return format!("relation {relation} appeared"),
        StartReason::RelationChanged { endpoint, relation } => {
            return format!("relation {endpoint}:{relation} changed");
        }
        StartReason::RelationRemoved => "the relation was removed",
        StartReason::Requested => "requested by a user",
        StartReason::Removed => "the unit is being removed",
        StartReason::Interrupted => "interrupted",
        StartReason::Resolved => "resolved",
        StartReason::Retry { failures } => return format!("retry {failures}"),
    }
    .to_owned()
}
