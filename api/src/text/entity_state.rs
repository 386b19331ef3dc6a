//! The state of an entity in English, as `pintle why` prints it after the life of the entity.

use crate::text::activity;
use crate::text::count::counted;
use crate::text::status_message;
use crate::why::{EntityState, HookLock};
use state::terms::names::UnitName;
use state::terms::status::WorkloadStatus;

/// The state in a few words: `idle`, `2 units, hook lock held by web/0 (running action backup), waited for by web/1`.
pub fn describe(state: &EntityState) -> String {
    match state {
        EntityState::Unit { workload, .. } if workload.current == WorkloadStatus::Error => {
            status_message::describe(&workload.message)
        }
        EntityState::Unit { agent, .. } if agent.message.is_empty() => agent.current.to_string(),
        EntityState::Unit { agent, .. } => {
            format!("{}: {}", agent.current, status_message::describe(&agent.message))
        }
        EntityState::Application { units } => counted(*units, "unit"),
        EntityState::Relation { units_in_scope } => format!("{} in scope", counted(*units_in_scope, "unit")),
        EntityState::Machine { units, hook_lock: None } => counted(*units, "unit"),
        EntityState::Machine { units, hook_lock: Some(lock) } => {
            format!("{}, {}", counted(*units, "unit"), hook_lock(lock))
        }
        EntityState::Model { applications, machines } => {
            format!("{}, {}", counted(*applications, "application"), counted(*machines, "machine"))
        }
    }
}

fn hook_lock(lock: &HookLock) -> String {
    let HookLock { holder, running, waiters } = lock;
    let held = format!("hook lock held by {holder} ({})", activity::running(running));
    if waiters.is_empty() {
        return held;
    }
    let names: Vec<String> = waiters.iter().map(UnitName::to_string).collect();
    format!("{held}, waited for by {}", names.join(", "))
}
