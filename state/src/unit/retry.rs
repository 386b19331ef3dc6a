//! Decides what follows a run that was interrupted or has failed: whether, when and with which versions it runs again
//! (spec A.8).
//!
//! An interrupted hook runs again immediately and has not failed, unless it was interrupted
//! [`INTERRUPTIONS_MAX`] times in a row; an interrupted action has failed and never runs again. A failed hook is
//! retried with a growing delay until it succeeds, its retries are exhausted, or an operator resolves the error. A
//! retry never delivers older versions than the run before it. `resolve` calls this module for a unit that is not
//! idle.

use super::chosen_operation::{ChosenOperation, start};
use super::decision::{Act, Now, RECONCILE_WAIT_MS, is_first_claim_pending, is_link_fresh};
use super::jitter::jitter;
use super::local::{Episode, INTERRUPTIONS_MAX, Local, Run};
use super::pending_operations::{
    commands, config_digest, is_alive, is_refreshed, pending_action, wanted_charm,
};
use super::pending_relation_hook::{PendingHook, ThisUnit, pending_hook};
use super::pending_secret_hook::is_due;
use super::pending_storage_hook;
use super::record::{Outcome, Record, Timer};
use super::relation_view::RelationView;
use super::snapshot::{HOOK_RETRIES_DEFAULT, Snapshot};
use super::wait_causes::{stale_link_cause, unknown_leader_cause, wait, wait_cause};
use crate::terms::activity::Activity;
use crate::terms::cause::{Actor, Duty, Retry};
use crate::terms::failure_reason::FailureReason;
use crate::terms::names::RelationNumber;
use crate::terms::operation::{Hook, Operation, RelationEvent};
use crate::terms::start_reason::StartReason;

/// The delay of the first retry in milliseconds. Each further delay is twice as long (spec A.8).
const HOOK_RETRY_FIRST_MS: u64 = 5_000;
/// The longest delay in milliseconds: 5 s doubled six times is 320 s, so that the seventh and later delays are 300 s.
const HOOK_RETRY_MAX_MS: u64 = 300_000;

/// Decides what follows a run whose agent died. The agent first searches for the hook and re-attaches it. If there is
/// none, the run starts again immediately and is not a failure of the charm, unless it was interrupted
/// [`INTERRUPTIONS_MAX`] times in a row (design 2); an action does not run again.
pub(super) fn interrupted(local: &Local, view: Option<&Snapshot>, now: &Now, run: &Run) -> Act {
    // a hook that requested an immediate reboot was killed before the request was stored, so it has no process
    if !now.no_run_process && local.reboot.is_none() {
        // if the agent re-attached now, is-leader would report that the hook lost leadership, which may be wrong
        let until_ms = now.agent_start_ms + RECONCILE_WAIT_MS;
        if is_first_claim_pending(now) && now.since_boot_ms < until_ms {
            return wait(Some(until_ms), vec![unknown_leader_cause(local)]);
        }
        return Act::Reattach(run.clone());
    }
    let failed = |reason, retry| {
        let outcome = Outcome::Failed { reason, retry };
        Act::RecordOutcome(local.record(run.operation.clone(), outcome, now.wall_ms))
    };
    if run.operation.runs_once() {
        return failed(FailureReason::Interrupted, None);
    }
    if let Some(instead) = record_without_running(local, view, now, &run.operation) {
        return instead;
    }
    // The view on disk is not synced, so that a power failure may revert it. The hook must not deliver older versions
    // than the interrupted run (I6, I48).
    let is_reverted = run.position.zip(view).is_some_and(|(started, view)| {
        started.store_generation == view.position.store_generation
            && started.revision > view.position.revision
    });
    if is_reverted && !is_link_fresh(now) && matches!(run.operation, Operation::Hook(Hook::Relation { .. })) {
        return wait(None, vec![stale_link_cause(local, now)]);
    }
    if run.attempt >= INTERRUPTIONS_MAX {
        let reason = FailureReason::InterruptedAgain { count: run.attempt };
        return failed(reason, retry_after(local, view, now, &run.operation));
    }
    let operation = refresh(&run.operation, local, view, now);
    let again = Run { attempt: run.attempt + 1, reason: StartReason::Interrupted, ..run.clone() };
    start(local, view, now, Run { operation, ..again })
}

/// Decides what a unit in error does next: a retry, an action, a forced upgrade, or waiting.
pub(super) fn after_failure(local: &Local, view: Option<&Snapshot>, now: &Now, episode: &Episode) -> Act {
    let run = |operation: Operation, reason: StartReason, episode: Option<Episode>| {
        start(local, view, now, Run { episode, ..Run::new(0, operation, reason) })
    };
    let refreshed = || refresh(&episode.operation, local, view, now);
    let again = |reason, open: Option<Episode>| {
        let instead = record_without_running(local, view, now, &episode.operation).map(|act| match act {
            Act::RecordOutcome(record) if open.is_none() => Act::RecordOutcome(without_episode(record)),
            other => other,
        });
        instead.unwrap_or_else(|| run(refreshed(), reason, open))
    };
    // A forced refresh precedes everything else, as in Juju: the failed hook runs again with the new charm.
    let forced = view.filter(|view| view.charm.charm.forced).map(wanted_charm);
    let attempted = match &episode.operation {
        Operation::InstallCharm(charm) => Some(charm),
        _ => local.charm.as_ref(),
    };
    if let Some(wanted) = forced.filter(|wanted| attempted.is_some_and(|charm| is_refreshed(charm, wanted))) {
        return run(Operation::InstallCharm(wanted), StartReason::ForcedRefresh, Some(episode.clone()));
    }
    // No relation hook starts on a stale view, not even a retry (spec B.6.7): the resolved mark may be part of a
    // cached view, and the charm may have observed newer versions since (cargo sim 71023351).
    let of_relation = matches!(episode.operation, Operation::Hook(Hook::Relation { .. }));
    let is_stale = of_relation && !is_link_fresh(now);
    let mark = view.and_then(|view| view.resolved.as_ref()).filter(|mark| mark.episode == episode.id);
    // the installation of a charm cannot be skipped: `resolved` retries it with and without --no-retry (spec A.6)
    let unpacks = matches!(episode.operation, Operation::InstallCharm(_));
    match mark.map(|mark| unpacks || mark.retry) {
        // an operator has ended this episode: another failure starts a new one
        Some(true) if !is_stale => return again(StartReason::Resolved, None),
        Some(false) => {
            let skipped = local.record(refreshed(), Outcome::Skipped, now.wall_ms);
            return Act::RecordOutcome(without_episode(skipped));
        }
        Some(true) | None => {}
    }
    if let Some(view) = view {
        if let Some(commands) = commands(local, view, now, Some(episode)) {
            return commands;
        }
        if let Some(action) = pending_action(local, view, now, Some(episode)) {
            return action;
        }
    }
    // the setting decides now, not when the hook failed: a retry that was switched off is due again when it is on
    let is_off = view.is_some_and(|view| view.model.hook_retries_max == Some(0));
    let timer = episode.retry.as_ref().filter(|_| !now.boot.is_empty() && !is_off);
    let due = timer.map(|timer| due_ms(timer, view, now));
    if due.is_some_and(|due| due <= now.since_boot_ms) {
        if is_stale {
            return wait(None, vec![stale_link_cause(local, now)]);
        }
        let reason = StartReason::Retry { failures: episode.failures };
        return again(reason, Some(episode.clone()));
    }
    let retry = match (due, &episode.retry) {
        _ if is_off => Retry::Off,
        (Some(due), _) => Retry::At(wall_ms(due, now)),
        (None, Some(timer)) => Retry::After(timer.delay_ms),
        (None, None) => Retry::Exhausted,
    };
    let actor = match &episode.operation {
        Operation::Hook(_) | Operation::Action { .. } | Operation::Commands(_) => Actor::Charm,
        Operation::InstallCharm(_) => Actor::Operator,
        Operation::EnterScope { .. }
        | Operation::LeaveScope { .. }
        | Operation::Resync
        | Operation::SetDead => Actor::Controller,
    };
    let (activity, failures) = (Activity::from(&episode.operation), episode.failures);
    let failed = wait_cause(local, Duty::Recover { activity, failures, retry }, actor);
    let mut causes = vec![failed.since(episode.since_ms).failure(episode.reason.clone())];
    if mark.is_some() {
        causes.push(stale_link_cause(local, now));
    }
    let pending = view.map(|view| view.charm.charm.url.clone());
    if let Some((runs, charm_url)) = local.charm.as_ref().map(|charm| charm.url.clone()).zip(pending)
        && runs != charm_url
    {
        causes.push(wait_cause(local, Duty::EndFailure { runs, charm_url }, Actor::Operator));
    }
    wait(due, causes)
}

/// Removes the episode from a record, because an operator has ended it. If the controller refuses the record, a new
/// episode starts. Otherwise the same resolved mark would apply again after each refusal, in an endless loop.
fn without_episode(record: Record) -> Record {
    Record { episode: None, ..record }
}

/// Returns the action that replaces running an operation again, if the operation has no program or its subject was
/// removed.
fn record_without_running(
    local: &Local,
    view: Option<&Snapshot>,
    now: &Now,
    operation: &Operation,
) -> Option<Act> {
    let record = |operation, outcome| Act::RecordOutcome(local.record(operation, outcome, now.wall_ms));
    match operation {
        Operation::Hook(Hook::LeaderElected { .. })
            if now.leader_generation.is_none() && is_first_claim_pending(now) =>
        {
            Some(wait(None, vec![unknown_leader_cause(local)]))
        }
        // the lease moved before the hook could run: skipped (spec A.15)
        Operation::Hook(Hook::LeaderElected { .. }) if now.leader_generation.is_none() => {
            let operation = Operation::Hook(Hook::LeaderElected { generation: None });
            Some(record(operation, Outcome::Skipped))
        }
        Operation::Hook(Hook::Relation { relation, endpoint, event }) => {
            let known = local.relations.get(relation)?;
            let view = view?;
            if view.relation(*relation, known.uuid).is_some() {
                return None;
            }
            // 1. A hook starts, and the view that it started on is not stored, because the disk is full.
            // 2. The agent and the hook die.
            // 3. The next agent has an older view, from before the relation was added (cargo sim 73006211).
            if !is_link_fresh(now) {
                return Some(wait(None, vec![stale_link_cause(local, now)]));
            }
            let this_unit = ThisUnit { name: &local.name, alive: is_alive(local, view) };
            match (event, pending_hook(known, None, this_unit)) {
                // no unit can join a removed relation: the hook that ends the relation runs instead (H.115)
                (RelationEvent::Joined { .. }, Some(PendingHook::Hook(event))) => {
                    let (relation, endpoint) = (*relation, endpoint.clone());
                    let hook = Hook::Relation { relation, endpoint, event };
                    let chosen = ChosenOperation::hook(hook, StartReason::RelationRemoved);
                    chosen.map(|chosen| chosen.act(local, view, now))
                }
                // counts as done (spec A.8)
                _ => Some(record(operation.clone(), Outcome::Skipped)),
            }
        }
        Operation::Hook(Hook::Secret { leader_only: true, .. })
            if now.leader_generation.is_none() && is_first_claim_pending(now) =>
        {
            Some(wait(None, vec![unknown_leader_cause(local)]))
        }
        // another unit leads now and runs the hook (spec/hook-tools.md 5.5)
        Operation::Hook(Hook::Secret { leader_only: true, .. }) if now.leader_generation.is_none() => {
            Some(record(operation.clone(), Outcome::Skipped))
        }
        // the secret was removed, or it was read or changed by other means
        Operation::Hook(hook @ Hook::Secret { .. })
            if is_link_fresh(now) && view.is_some_and(|view| !is_due(view, hook)) =>
        {
            Some(record(operation.clone(), Outcome::Skipped))
        }
        // the storage was taken away before the hook has succeeded, or was detached by other means
        Operation::Hook(hook @ Hook::Storage { .. })
            if is_link_fresh(now)
                && view.is_some_and(|view| {
                    !pending_storage_hook::is_due(local, view, is_alive(local, view), hook)
                }) =>
        {
            Some(record(operation.clone(), Outcome::Skipped))
        }
        Operation::EnterScope { .. }
        | Operation::LeaveScope { .. }
        | Operation::Resync
        | Operation::SetDead => Some(record(operation.clone(), Outcome::Ok)),
        Operation::InstallCharm(_)
        | Operation::Action { .. }
        | Operation::Commands(_)
        | Operation::Hook(_) => None,
    }
}

/// Converts a time since boot to the wall clock, in milliseconds since 1970.
fn wall_ms(since_boot_ms: u64, now: &Now) -> i64 {
    let remaining_ms = i64::try_from(since_boot_ms.saturating_sub(now.since_boot_ms)).unwrap_or(i64::MAX);
    now.wall_ms.saturating_add(remaining_ms)
}

/// Returns when a retry is due, in milliseconds since boot: earlier by what the clock of the model was advanced since the
/// timer was started.
fn due_ms(timer: &Timer, view: Option<&Snapshot>, now: &Now) -> u64 {
    let from = if timer.boot == now.boot { timer.started_ms } else { now.agent_start_ms };
    let advanced_ms = view.map_or(0, |view| view.model.advanced_ms.saturating_sub(timer.advanced_ms));
    from.saturating_add(timer.delay_ms).saturating_sub(advanced_ms)
}

/// Returns when to retry `operation` if it fails now, or `None` if its retries are exhausted. While retries are switched
/// off the timer runs as well, so that the hook is retried when they are switched on again; `after_failure` decides.
pub fn retry_after(
    local: &Local,
    view: Option<&Snapshot>,
    now: &Now,
    operation: &Operation,
) -> Option<Timer> {
    let same = local.episode().filter(|episode| episode.operation.is_same_as(operation));
    let failures = same.map_or(0, |episode| episode.failures).saturating_add(1);
    let max = view.map_or(Some(HOOK_RETRIES_DEFAULT), |view| view.model.hook_retries_max);
    let max = max.map(|max| if max == 0 { HOOK_RETRIES_DEFAULT } else { max });
    if max.is_some_and(|max| failures > max) {
        return None;
    }
    let doubled = HOOK_RETRY_FIRST_MS << (failures - 1).min(16);
    let delay = doubled.min(HOOK_RETRY_MAX_MS);
    // The delay is up to a tenth longer, so that units that failed together do not retry together. It is a function
    // of the unit and the number of failures, so that a simulation is reproducible.
    let jitter = jitter(local.unit, u64::from(failures)) % (delay / 10);
    Some(Timer {
        boot: now.boot.clone(),
        started_ms: now.since_boot_ms,
        delay_ms: delay + jitter,
        advanced_ms: view.map_or(0, |view| view.model.advanced_ms),
    })
}

/// Returns the same operation with the newest versions: a retried hook reads, and commits, the newest view.
fn refresh(operation: &Operation, local: &Local, view: Option<&Snapshot>, now: &Now) -> Operation {
    let Some(view) = view else { return operation.clone() };
    match operation {
        Operation::InstallCharm(_) => Operation::InstallCharm(wanted_charm(view)),
        Operation::Hook(Hook::ConfigChanged(_)) => Operation::Hook(Hook::ConfigChanged(config_digest(view))),
        Operation::Hook(Hook::Start { .. }) => Operation::Hook(Hook::Start { boot: now.boot.clone() }),
        Operation::Hook(Hook::LeaderElected { .. }) => {
            Operation::Hook(Hook::LeaderElected { generation: now.leader_generation })
        }
        Operation::Hook(Hook::LeaderSettingsChanged { .. }) => {
            Operation::Hook(Hook::LeaderSettingsChanged { version: view.newest_leader_settings().version })
        }
        Operation::Hook(Hook::Relation { relation, endpoint, event }) => {
            let known = local.relations.get(relation);
            let remote = known.and_then(|known| view.relation(*relation, known.uuid));
            let event = refresh_event(event, remote, local, *relation);
            Operation::Hook(Hook::Relation { relation: *relation, endpoint: endpoint.clone(), event })
        }
        Operation::Hook(
            Hook::Install
            | Hook::UpgradeCharm
            | Hook::UpdateStatus
            | Hook::Stop
            | Hook::Remove
            | Hook::Secret { .. }
            | Hook::Storage { .. },
        )
        | Operation::EnterScope { .. }
        | Operation::LeaveScope { .. }
        | Operation::Action { .. }
        | Operation::Commands(_)
        | Operation::Resync
        | Operation::SetDead => operation.clone(),
    }
}

fn refresh_event(
    event: &RelationEvent,
    remote: Option<&RelationView>,
    local: &Local,
    relation: RelationNumber,
) -> RelationEvent {
    let newest = |unit| remote.and_then(|remote| remote.version(unit));
    match event {
        RelationEvent::Joined { unit, version } => {
            RelationEvent::Joined { unit: unit.clone(), version: newest(unit).unwrap_or(*version) }
        }
        RelationEvent::Changed { unit, version } => {
            // a unit that left and re-entered has another membership, and this changed belongs to the old one
            let member = local.relations.get(&relation).and_then(|local| local.members.get(unit));
            let same = newest(unit).filter(|v| member.is_none_or(|m| m.incarnation == v.incarnation));
            RelationEvent::Changed { unit: unit.clone(), version: same.unwrap_or(*version) }
        }
        RelationEvent::ApplicationChanged { application, counter } => {
            let owner = crate::terms::owner::Owner::Application(application.clone());
            let newest = remote.and_then(|remote| remote.bag(&owner)).map_or(*counter, |bag| bag.counter);
            RelationEvent::ApplicationChanged { application: application.clone(), counter: newest }
        }
        RelationEvent::Created | RelationEvent::Departed { .. } | RelationEvent::Broken => event.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::names::{UnitName, Uuid};
    use crate::terms::run_lock::HeldLock;
    use crate::unit::decision::CharmOnDisk;
    use crate::unit::local::Event;
    use crate::unit::resolve::next;

    #[test]
    fn an_orphaned_hook_is_reattached_once_the_leader_is_known() {
        let mut local = Local::new(Uuid(2), UnitName::new("web", 0));
        let operation = Operation::Hook(Hook::UpdateStatus);
        let run = Run { leader_generation: Some(1), ..Run::new(1, operation, StartReason::IntervalPassed) };
        local.apply(&Event::Started(run.clone()));
        let now = Now {
            boot: "boot".into(),
            since_boot_ms: 60_000,
            agent_start_ms: 60_000,
            wall_ms: 0,
            held_lock: HeldLock::None,
            no_run_process: false,
            attached: true,
            link_age_ms: Some(0),
            leader_generation: None,
            is_leader_known: false,
            idle_ms: 0,
            charm: CharmOnDisk::Complete,
            commands: None,
        };
        let Act::Wait(waits) = next(&local, None, &now).act else { panic!("the leader is not known yet") };
        assert_eq!(waits.until_ms, Some(62_000), "the agent waits no longer for the first claim");
        let reattach = Act::Reattach(run);
        assert_eq!(next(&local, None, &Now { is_leader_known: true, ..now.clone() }).act, reattach);
        assert_eq!(next(&local, None, &Now { since_boot_ms: 62_000, ..now.clone() }).act, reattach);
        assert_eq!(
            next(&local, None, &Now { attached: false, ..now }).act,
            reattach,
            "without a session there is no claim"
        );
    }
}
