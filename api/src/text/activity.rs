//! What a unit agent is doing, as its status message tells it.
//!
//! Called by the messages of statuses and by causes. Scripts that were written for Juju match some of the texts.

use state::terms::activity::Activity;

/// The lock that a unit waits for: that of an execution group, or the hook lock.
pub(crate) fn hook_lock(group: Option<&str>) -> String {
    match group {
        Some(group) => format!("the machine's lock of execution group {group:?}"),
        None => "the machine's hook lock".to_owned(),
    }
}

/// Juju's message for an agent that runs an operation: `running config-changed hook`, `running action post`.
pub fn running(activity: &Activity) -> String {
    match activity {
        Activity::InstallCharm => "installing charm software".to_owned(),
        Activity::EnterScope { relation, endpoint } => format!("enter scope {endpoint}:{relation}"),
        Activity::LeaveScope { relation } => format!("leave scope {relation}"),
        Activity::Hook { name, remote_unit: None } => format!("running {name} hook"),
        Activity::Hook { name, remote_unit: Some(unit) } => format!("running {name} hook for {unit}"),
        Activity::Action { name, .. } => format!("running action {name}"),
        Activity::Commands => "running commands".to_owned(),
        Activity::Resync => "resync".to_owned(),
        Activity::SetDead => "set dead".to_owned(),
    }
}
