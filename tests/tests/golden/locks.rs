//! Examples of what waits for the hook lock, and for that of an execution group.

use state::terms::activity::Activity;
use state::terms::cause::Duty;
use state::terms::hook_name::HookName;
use state::terms::names::UnitName;
use state::terms::status_message::StatusMessage;

fn action(id: u64) -> Activity {
    Activity::Action { id, name: "backup".to_owned() }
}

pub fn hook_lock(holder: &UnitName) -> Duty {
    let (activity, running) = (Activity::hook(HookName::Start), Activity::hook(HookName::Install));
    Duty::ReleaseHookLock { group: None, activity, running, holder: holder.clone() }
}

pub fn group_lock(holder: &UnitName) -> Duty {
    let (group, holder) = (Some("copies".to_owned()), holder.clone());
    Duty::ReleaseHookLock { group, activity: action(2), running: action(1), holder }
}

pub fn waiting_for_group(holder: &UnitName) -> StatusMessage {
    let (group, holder) = (Some("copies".to_owned()), holder.clone());
    StatusMessage::WaitingForHookLock { group, activity: action(2), running: action(1), holder }
}
