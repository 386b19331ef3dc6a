//! Decides what a unit agent does next, as a pure function: [`next`]`(local, view, now)`.
//!
//! The function is total: for every state it returns an action or the reasons why the unit waits, which `pintle why`
//! shows. No relation hook starts on a view that may be stale.
//!
//! These places decide the order of hooks: `retry` (a run that has not succeeded); the chain of `or_else` in `idle`, and
//! `commands` before it; the `FollowUp` that `local::apply` leaves; `follow_up`, `shut_down` and `relation_hook` in
//! `pending_operations`; and within one kind `pending_relation_hook`, `pending_secret_hook` and `pending_storage_hook`.
//!
//! The agent calls it in a loop, the controller calls it to explain a unit, and dry runs call it to simulate one.

pub use super::decision::{
    Act, CharmOnDisk, LINK_AGE_MAX_MS, Next, NextMessage, Now, RECONCILE_WAIT_MS, Wait, is_reboot_overdue,
};
use super::decision::{is_first_claim_pending, last_heartbeat_ms};
use super::local::{FollowUp, Local, Step};
use super::pending_operations::{
    action, commands, config_changed, created, enter_scope, first_charm, follow_up, is_alive,
    leader_settings_changed, leadership, lost_charm, relation_hook, shut_down, start_after_reboot,
    update_status, update_status_due, upgrade,
};
pub use super::pending_operations::{config_digest, resources_digest};
use super::pending_secret_hook::secret_hook;
use super::pending_storage_hook::{before_install, storage_hook};
use super::retry::{after_failure, interrupted};
use super::snapshot::Snapshot;
pub use super::wait_causes::{fetch_cause, fetch_charm_cause, reboot_cause, requested_reboot_cause};
use super::wait_causes::{no_view_cause, stale_link_cause, unknown_leader_cause, wait, wait_cause};
use crate::terms::cause::{Actor, Duty};
use crate::terms::life::Life;

/// Decides what the unit agent does and sends next.
pub fn next(local: &Local, view: Option<&Snapshot>, now: &Now) -> Next {
    Next { send: send(local, now), act: act(local, view, now) }
}

fn send(local: &Local, now: &Now) -> NextMessage {
    if !now.attached {
        return NextMessage::Attach;
    }
    if let Some(unrecorded) = local.unrecorded_reports.first() {
        return NextMessage::UnrecordedReport(unrecorded.run);
    }
    local.outbox.first().map_or(NextMessage::Nothing, |record| NextMessage::Commit(record.sequence))
}

fn act(local: &Local, view: Option<&Snapshot>, now: &Now) -> Act {
    // Dead and removed require positive evidence from the store generation of the stored state (design 7)
    let known = view.filter(|view| {
        local
            .store_generation
            .is_none_or(|store_generation| store_generation == view.position.store_generation)
    });
    let is_removed = known.is_some_and(|view| view.removed || view.unit.life == Life::Dead);
    if local.dead || is_removed {
        return Act::Finish;
    }
    if let Some(until_ms) = reconcile_until_ms(local, now) {
        return wait(Some(until_ms), vec![wait_cause(local, Duty::CompareState, Actor::Controller)]);
    }
    if local.state_lost {
        return wait(None, vec![wait_cause(local, Duty::RestoreState, Actor::Operator)]);
    }
    match &local.step {
        Step::AwaitingAnswer { sequence, .. } => {
            let answer = wait_cause(local, Duty::AnswerRecord { sequence: *sequence }, Actor::Controller);
            wait(None, vec![answer.since(last_heartbeat_ms(now))])
        }
        Step::Started(_) | Step::Failed(_) | Step::Idle if is_reboot_pending(local, now) => Act::Reboot,
        Step::Started(run) => interrupted(local, known, now, run),
        Step::Failed(episode) => after_failure(local, known, now, episode),
        Step::Idle => match known {
            Some(view) => idle(local, view, now),
            None => wait(None, vec![no_view_cause(local, view, now)]),
        },
    }
}

/// Whether a hook has requested a reboot that has not happened. If the boot is not known, the request is pending
/// until the next run starts.
fn is_reboot_pending(local: &Local, now: &Now) -> bool {
    local.reboot.as_ref().is_some_and(|boot| now.boot.is_empty() || *boot == now.boot)
}

/// Returns until when a starting agent waits for the controller's state before it proceeds without it.
fn reconcile_until_ms(local: &Local, now: &Now) -> Option<u64> {
    let until = now.agent_start_ms + RECONCILE_WAIT_MS;
    // an entity that is missing from a view that has not caught up may be newer than the view rather than removed
    let is_reconciled = now.attached && now.link_age_ms.is_some();
    (!is_reconciled && local.epoch > 0 && now.since_boot_ms < until).then_some(until)
}

/// Decides what an idle unit does next. The chain below is the order of hooks (spec A.2).
fn idle(local: &Local, view: &Snapshot, now: &Now) -> Act {
    let alive = is_alive(local, view);
    let mut waits = Vec::new();
    // The first unit is the leader before its first hook (spec D.4), and leader-elected precedes the first
    // config-changed, even if the agent was restarted in between. Without a connection nothing waits for leadership.
    let first_hooks = local.follow_up == Some(FollowUp::Install) || local.installed && local.config.is_none();
    if first_hooks && alive && is_first_claim_pending(now) {
        return wait(None, vec![unknown_leader_cause(local)]);
    }
    // the hook would not see the secrets that the last one has written
    if view.position.revision < local.secrets_revision {
        return wait(None, vec![stale_link_cause(local, now)]);
    }
    if let Some(act) = commands(local, view, now, None) {
        return act;
    }
    lost_charm(local, view, now, alive)
        .or_else(|| start_after_reboot(local, now))
        .or_else(|| first_charm(local, view, alive))
        .map(|chosen| chosen.act(local, view, now))
        .or_else(|| before_install(local, view, now, alive))
        .or_else(|| follow_up(local, view, now, alive).map(|chosen| chosen.act(local, view, now)))
        .or_else(|| enter_scope(local, view, now, alive, &mut waits))
        .or_else(|| created(local, view, now, alive, &mut waits))
        .or_else(|| leadership(local, now, alive))
        .or_else(|| {
            leader_settings_changed(local, view, now, alive).map(|chosen| chosen.act(local, view, now))
        })
        .or_else(|| secret_hook(local, view, now, alive, &mut waits))
        .or_else(|| action(local, view, now))
        .or_else(|| storage_hook(local, view, now, alive, &mut waits))
        .or_else(|| shut_down(local, view, now, alive, &mut waits))
        .or_else(|| upgrade(local, view, alive).map(|chosen| chosen.act(local, view, now)))
        .or_else(|| config_changed(local, view, alive).map(|chosen| chosen.act(local, view, now)))
        .or_else(|| relation_hook(local, view, now, alive, &mut waits))
        .or_else(|| update_status(local, view, now, alive).map(|chosen| chosen.act(local, view, now)))
        .unwrap_or_else(|| wait(update_status_due(local, view, now, alive), waits))
}
