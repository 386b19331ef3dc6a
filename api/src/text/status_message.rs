//! The messages of statuses in English, as `status` prints them and `status-get` answers (spec/clients.md 3.3, 3.4).
//!
//! Called by the commands, by the states of entities and by the context of hooks. Scripts that were written for Juju
//! match some of the texts.

use crate::text::activity::{hook_lock, running};
use crate::text::entity_command;
use crate::text::{fault, refusal};
use state::terms::cause::Entity;
use state::terms::hook_name::HookName;
use state::terms::names::UnitName;
use state::terms::status_message::StatusMessage;
use std::fmt::Display;

/// The message: `hook failed: "install"`; empty if there is none.
pub fn describe(message: &StatusMessage) -> String {
    match message {
        StatusMessage::Empty => "",
        StatusMessage::OfCharm(text) | StatusMessage::OfOperator(text) | StatusMessage::OfProvider(text) => {
            text
        }
        StatusMessage::WaitingForMachine => "waiting for machine",
        StatusMessage::InstallingAgent => "installing agent",
        StatusMessage::WaitingForStorage { storage } => return format!("waiting for storage {storage}"),
        StatusMessage::AgentInitialising => "agent initialising",
        StatusMessage::InstallingCharm => "installing charm software",
        StatusMessage::StoppingCharm => "stopping charm software",
        StatusMessage::RemovingCharm => "cleaning up prior to charm deletion",
        StatusMessage::Executing(activity) => return running(activity),
        StatusMessage::WaitingForHookLock { group, activity, running: held_for, holder } => {
            let (lock, next, held_for) = (hook_lock(group.as_deref()), running(activity), running(held_for));
            return format!("waiting for {lock} before {next}: {holder} holds it ({held_for})");
        }
        StatusMessage::HookFailed { hook } => return format!("hook failed: \"{hook}\""),
        StatusMessage::OperationFailed { operation, reason } => {
            return format!("{operation} failed: {}", refusal::failure(reason));
        }
        StatusMessage::RecordRefused { sequence, reason } => {
            return format!("record {sequence} is refused: {}", refusal::message(reason));
        }
        StatusMessage::HooksSkipped { hooks, more } => {
            let mut hooks: Vec<String> = hooks.iter().map(HookName::to_string).collect();
            hooks.extend((*more > 0).then(|| format!("{more} more hooks")));
            return format!("{} skipped", hooks.join(", "));
        }
        StatusMessage::RebootOverdue { unit } => return see_why("the reboot is overdue", unit),
        StatusMessage::FilesSetAside { files, unit } => {
            return see_why(format_args!("damaged files were set aside ({})", files.join(", ")), unit);
        }
        StatusMessage::Fault { fault, unit } => return see_why(fault::state(*fault), unit),
        StatusMessage::FileMissing { unit } => {
            return see_why("a file that it needs is missing or damaged on the controller", unit);
        }
        StatusMessage::AgentEnded { end, count, unit } => {
            return see_why(format_args!("the unit agent {}", fault::end(end, *count)), unit);
        }
        StatusMessage::AgentLost { unit } => return see_why("agent lost", unit),
        StatusMessage::AgentNotCommunicating => NOT_COMMUNICATING,
        StatusMessage::MachineNotCommunicating { machine } => {
            return format!("machine {machine}: {NOT_COMMUNICATING}");
        }
        StatusMessage::AgentLate => "agent is late: it has not reported since",
        StatusMessage::AgentNotReported => "agent has not reported yet",
        StatusMessage::NotEnrolled => "not enrolled yet",
        StatusMessage::InstanceRunning => "Running",
    }
    .to_owned()
}

/// Juju's message for an agent that is lost.
const NOT_COMMUNICATING: &str = "agent is not communicating with the controller";

fn see_why(what: impl Display, unit: &UnitName) -> String {
    format!("{what}, see: {}", entity_command::why(&Entity::Unit(unit.clone())))
}
