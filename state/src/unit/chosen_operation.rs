//! The start of a chosen operation: first the bags that its hook delivers, and a charm that was lost, are fetched, and the
//! lock under which it runs is acquired.
//!
//! Called by `pending_operations`, `pending_secret_hook` and `pending_storage_hook` for pending operations, and by `retry`
//! for those that run again.

use super::decision::{Act, CharmOnDisk, Now};
use super::hook_context_builder;
use super::local::{Local, Run};
use super::snapshot::Snapshot;
use super::wait_causes::{no_view_cause, wait};
use crate::terms::operation::{Hook, Operation};
use crate::terms::run_lock::RunLock;
use crate::terms::start_reason::StartReason;

/// An operation to start.
pub(super) struct ChosenOperation {
    operation: Operation,
    reason: StartReason,
}

impl ChosenOperation {
    pub(super) fn new(operation: Operation, reason: StartReason) -> ChosenOperation {
        ChosenOperation { operation, reason }
    }

    pub(super) fn hook(hook: Hook, reason: StartReason) -> Option<ChosenOperation> {
        Some(ChosenOperation::new(Operation::Hook(hook), reason))
    }

    pub(super) fn act(self, local: &Local, view: &Snapshot, now: &Now) -> Act {
        let run = Run::new(0, self.operation, self.reason);
        start(local, Some(view), now, run)
    }
}

/// Starts a run. If it executes a program of the charm, the agent acquires its lock first and then decides again
/// (design 12).
pub(super) fn start(local: &Local, view: Option<&Snapshot>, now: &Now, run: Run) -> Act {
    if run.operation.runs_charm() && view.is_none() {
        // The context is built from the view. The cached view may be lost while the run that started on it is not.
        return wait(None, vec![no_view_cause(local, None, now)]);
    }
    // both are fetched before the lock is acquired, so that the hooks of other units do not wait for the controller
    if let Some(request) =
        view.and_then(|view| hook_context_builder::bag_to_fetch(local, view, &run.operation))
    {
        return Act::FetchBag(request);
    }
    if let (true, CharmOnDisk::Missing, Some(charm)) = (run.operation.runs_charm(), now.charm, &local.charm) {
        return Act::FetchCharm(charm.clone());
    }
    let lock = view.filter(|_| run.operation.runs_charm()).map(|view| lock_of(view, &run.operation));
    if let Some(lock) = lock.filter(|lock| !now.held_lock.allows(lock)) {
        return Act::AcquireLock(lock);
    }
    let position = view.map(|view| view.position);
    Act::Start(Run { number: local.run + 1, position, leader_generation: now.leader_generation, ..run })
}

/// Returns the lock under which an operation runs a program of the charm.
fn lock_of(view: &Snapshot, operation: &Operation) -> RunLock {
    let parallel = view.model.parallel;
    let action = match operation {
        Operation::Action { name, .. } => view.charm.declared.actions.get(name),
        Operation::Hook(_)
        | Operation::InstallCharm(_)
        | Operation::Commands(_)
        | Operation::EnterScope { .. }
        | Operation::LeaveScope { .. }
        | Operation::Resync
        | Operation::SetDead => None,
    };
    action.map_or(RunLock::of_hook(parallel), |action| RunLock::of_action(action, parallel))
}
