//! What follows a run that was interrupted or failed: whether it is run again, on what, and when (spec A.8).

use super::activity::Activity;
use super::local::{Episode, INTERRUPTIONS_MAX, Local, Run};
use super::operation::{Hook, Operation, RelationEvent};
use super::record::{Outcome, Record, Timer};
use super::relations::{self, Owed, ThisUnit};
use super::resolve::{
    Act, Chosen, Now, RECONCILE_WAIT_MS, begin, cause, charm_of, config_digest, fresh, is_alive,
    is_first_claim_pending, pending_action, stale, unknown_leader_reason, wait,
};
use super::snapshot::{RelationView, Snapshot};
use crate::terms::cause::{Actor, Duty, Retry};
use crate::terms::names::{RelationNumber, Uuid};
use sha2::{Digest, Sha256};

/// First delay of a retry; doubles each time (spec A.8).
pub const RETRY_FIRST_MS: u64 = 5_000;
/// 5 s doubled six times is 320 s: the seventh and later delays are this.
pub const RETRY_MAX_MS: u64 = 300_000;
/// The cause of what is left to do in a relation that went while a joined of it was under way.
pub const RELATION_GONE: &str = "the relation is gone";

/// A run whose agent died. It is run again at once, and is never the charm's failure (design 2); an action is
/// never run again.
pub(super) fn interrupted(local: &Local, view: Option<&Snapshot>, now: &Now, run: &Run) -> Act {
    // one that asked for a reboot at once was ended before that was written down
    if !now.orphan_missing && local.reboot.is_none() {
        // a tool that asks meanwhile would make the hook lose leadership that nobody has taken
        let until_ms = now.agent_start_ms + RECONCILE_WAIT_MS;
        if is_first_claim_pending(now) && now.since_boot_ms < until_ms {
            return wait(Some(until_ms), vec![unknown_leader_reason(local)]);
        }
        return Act::Reattach(run.clone());
    }
    let failed = |reason: &str, retry| {
        let outcome = Outcome::Failed { reason: reason.to_owned(), retry };
        Act::RecordOutcome(local.record(run.operation.clone(), outcome, now.wall_ms))
    };
    if matches!(run.operation, Operation::Action { .. }) {
        return failed("the agent stopped while the action ran", None);
    }
    if let Some(instead) = record_without_running(local, view, now, &run.operation) {
        return instead;
    }
    // the view kept on disk is not synced: power may have set it back, and older news is no news (I6, I48)
    let set_back = run.position.zip(view).is_some_and(|(began, view)| {
        began.store_generation == view.position.store_generation && began.revision > view.position.revision
    });
    if set_back && !fresh(now) && matches!(run.operation, Operation::Hook(Hook::Relation { .. })) {
        return wait(None, vec![stale(local, now)]);
    }
    if run.attempt >= INTERRUPTIONS_MAX {
        return failed("interrupted three times in a row", retry_after(local, view, now, &run.operation));
    }
    let operation = refresh(&run.operation, local, view, now);
    let again = Run { attempt: run.attempt + 1, cause: "interrupted".into(), ..run.clone() };
    begin(local, view, now, Run { operation, ..again })
}

pub(super) fn after_failure(local: &Local, view: Option<&Snapshot>, now: &Now, episode: &Episode) -> Act {
    let run = |operation: Operation, cause: String, episode: Option<Episode>| {
        let run = Run { number: 0, operation, attempt: 1, cause, position: None, leads: None, episode };
        begin(local, view, now, run)
    };
    let refreshed = || refresh(&episode.operation, local, view, now);
    let again = |cause, open: Option<Episode>| {
        let instead = record_without_running(local, view, now, &episode.operation).map(|act| match act {
            Act::RecordOutcome(record) if open.is_none() => Act::RecordOutcome(without_episode(record)),
            other => other,
        });
        instead.unwrap_or_else(|| run(refreshed(), cause, open))
    };
    // No relation hook begins on a stale view, a retry neither (spec B.6.7): a person may have asked for it in the view
    // that an agent kept, and newer news have been delivered since (cargo sim 71023351).
    let of_relation = matches!(episode.operation, Operation::Hook(Hook::Relation { .. }));
    let is_stale = of_relation && !fresh(now);
    let mark = view.and_then(|view| view.resolved.as_ref()).filter(|mark| mark.episode == episode.id);
    // a charm that is not there cannot be skipped: both kinds try the unpack again (spec A.6)
    let unpacks = matches!(episode.operation, Operation::InstallCharm(_));
    match mark.map(|mark| unpacks || mark.retry) {
        // a person ended this episode: failing again is another one
        Some(true) if !is_stale => return again("resolved".into(), None),
        Some(false) => {
            let skipped = local.record(refreshed(), Outcome::Skipped, now.wall_ms);
            return Act::RecordOutcome(without_episode(skipped));
        }
        Some(true) | None => {}
    }
    if let Some(view) = view {
        let wanted = charm_of(view);
        let tried = match &episode.operation {
            Operation::InstallCharm(charm) => Some(charm.sha256.as_str()),
            _ => local.charm.as_ref().map(|charm| charm.sha256.as_str()),
        };
        if view.charm.charm.forced && tried.is_some_and(|sha256| sha256 != wanted.sha256) {
            return run(Operation::InstallCharm(wanted), "forced refresh".into(), Some(episode.clone()));
        }
        if let Some(action) = pending_action(local, view, now, Some(episode)) {
            return action;
        }
    }
    let timer = episode.retry.as_ref().filter(|_| !now.boot.is_empty());
    let due = timer.map(|timer| due_ms(timer, now));
    if due.is_some_and(|due| due <= now.since_boot_ms) {
        if is_stale {
            return wait(None, vec![stale(local, now)]);
        }
        let cause = format!("retry {} of {}", episode.failures, episode.operation);
        return again(cause, Some(episode.clone()));
    }
    let retry = match (due, &episode.retry) {
        (Some(due), _) => Retry::At(wall_ms(due, now)),
        (None, Some(timer)) => Retry::After(timer.delay_ms),
        (None, None) if view.is_some_and(|view| view.model.hook_retries_max == Some(0)) => Retry::Off,
        (None, None) => Retry::Exhausted,
    };
    let actor = match &episode.operation {
        Operation::Hook(_) | Operation::Action { .. } => Actor::Charm,
        Operation::InstallCharm(_) => Actor::Operator,
        Operation::EnterScope { .. }
        | Operation::LeaveScope { .. }
        | Operation::Resync
        | Operation::SetDead => Actor::Controller,
    };
    let (activity, failures) = (Activity::from(&episode.operation), episode.failures);
    let failed = cause(local, Duty::Recover { activity, failures, retry }, actor);
    let mut causes = vec![failed.since(episode.since_ms).last_error(episode.reason.clone())];
    if mark.is_some() {
        causes.push(stale(local, now));
    }
    if let Some(view) =
        view.filter(|view| local.charm.as_ref().is_some_and(|c| c.url != view.charm.charm.url))
    {
        let duty = Duty::EndFailure { charm_url: view.charm.charm.url.clone() };
        causes.push(cause(local, duty, Actor::Operator));
    }
    wait(due, causes)
}

/// A person ended the episode. The record does not go on with it: refused, it begins another one; else the same mark
/// would be found again, and again, as fast as the controller can refuse.
fn without_episode(record: Record) -> Record {
    Record { episode: None, ..record }
}

/// What is done instead of running an operation again: it has no program, or what it was about has gone.
fn record_without_running(
    local: &Local,
    view: Option<&Snapshot>,
    now: &Now,
    operation: &Operation,
) -> Option<Act> {
    let settle = |operation, outcome| Act::RecordOutcome(local.record(operation, outcome, now.wall_ms));
    match operation {
        Operation::Hook(Hook::LeaderElected { .. }) if now.leads.is_none() && is_first_claim_pending(now) => {
            Some(wait(None, vec![unknown_leader_reason(local)]))
        }
        // the lease moved before the hook could run: skipped (spec A.15)
        Operation::Hook(Hook::LeaderElected { .. }) if now.leads.is_none() => {
            let operation = Operation::Hook(Hook::LeaderElected { generation: None });
            Some(settle(operation, Outcome::Skipped))
        }
        Operation::Hook(Hook::Relation { relation, endpoint, event }) => {
            let known = local.relations.get(relation)?;
            let view = view?;
            if view.relations.get(relation).is_some_and(|remote| remote.head.uuid == known.uuid) {
                return None;
            }
            // 1. A hook begins, and the view that it began on is not kept: the disk is full. 2. Its agent dies with it.
            // 3. The next one has an older view, of before there was that relation (cargo sim 73006211).
            if !fresh(now) {
                return Some(wait(None, vec![stale(local, now)]));
            }
            let me = ThisUnit { name: &local.name, alive: is_alive(local, view) };
            match (event, relations::owed(known, None, me)) {
                // nobody joined a relation that is gone: on to what is left of it (H.115)
                (RelationEvent::Joined { .. }, Some(Owed::Hook(event))) => {
                    let (relation, endpoint) = (*relation, endpoint.clone());
                    let chosen = Chosen::hook(Hook::Relation { relation, endpoint, event }, RELATION_GONE);
                    chosen.map(|chosen| chosen.act(local, view, now))
                }
                // counts as done (spec A.8)
                _ => Some(settle(operation.clone(), Outcome::Skipped)),
            }
        }
        Operation::EnterScope { .. }
        | Operation::LeaveScope { .. }
        | Operation::Resync
        | Operation::SetDead => Some(settle(operation.clone(), Outcome::Ok)),
        Operation::InstallCharm(_) | Operation::Action { .. } | Operation::Hook(_) => None,
    }
}

/// A time of this boot's clock by the wall clock.
fn wall_ms(since_boot_ms: u64, now: &Now) -> i64 {
    let left_ms = i64::try_from(since_boot_ms.saturating_sub(now.since_boot_ms)).unwrap_or(i64::MAX);
    now.wall_ms.saturating_add(left_ms)
}

/// When a retry is due, in this boot's clock.
fn due_ms(timer: &Timer, now: &Now) -> u64 {
    let from = if timer.boot == now.boot { timer.started_ms } else { now.agent_start_ms };
    from + timer.delay_ms
}

/// When to try again after `operation` fails now; none when its retries are used up.
pub fn retry_after(
    local: &Local,
    view: Option<&Snapshot>,
    now: &Now,
    operation: &Operation,
) -> Option<Timer> {
    let same = local.episode().filter(|episode| episode.operation.is_same_as(operation));
    let failures = same.map_or(0, |episode| episode.failures) + 1;
    let max = view.map_or(Some(10), |view| view.model.hook_retries_max);
    if max.is_some_and(|max| failures > max) {
        return None;
    }
    let doubled = RETRY_FIRST_MS << (failures - 1).min(16);
    let delay = doubled.min(RETRY_MAX_MS);
    // up to a tenth longer, the same on every run of the same story: units that failed together part
    let jitter = jitter(local.unit, u64::from(failures)) % (delay / 10);
    Some(Timer { boot: now.boot.clone(), started_ms: now.since_boot_ms, delay_ms: delay + jitter })
}

/// A number that looks random and is the same every time.
pub(super) fn jitter(unit: Uuid, salt: u64) -> u64 {
    let digest = Sha256::digest([&unit.0.to_be_bytes()[..], &salt.to_be_bytes()[..]].concat());
    digest[..8].iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// The same operation on what is known now: a retried hook sees, and commits, the newest.
fn refresh(operation: &Operation, local: &Local, view: Option<&Snapshot>, now: &Now) -> Operation {
    let Some(view) = view else { return operation.clone() };
    match operation {
        Operation::InstallCharm(_) => Operation::InstallCharm(charm_of(view)),
        Operation::Hook(Hook::ConfigChanged(_)) => Operation::Hook(Hook::ConfigChanged(config_digest(view))),
        Operation::Hook(Hook::Start { .. }) => Operation::Hook(Hook::Start { boot: now.boot.clone() }),
        Operation::Hook(Hook::LeaderElected { .. }) => {
            Operation::Hook(Hook::LeaderElected { generation: now.leads })
        }
        Operation::Hook(Hook::Relation { relation, endpoint, event }) => {
            let remote = view.relations.get(relation);
            let event = refresh_event(event, remote, local, *relation);
            Operation::Hook(Hook::Relation { relation: *relation, endpoint: endpoint.clone(), event })
        }
        Operation::Hook(
            Hook::Install | Hook::UpgradeCharm | Hook::UpdateStatus | Hook::Stop | Hook::Remove,
        )
        | Operation::EnterScope { .. }
        | Operation::LeaveScope { .. }
        | Operation::Action { .. }
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
            // a unit that left and came back is another membership: this changed is still about the old one
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
    use crate::terms::names::UnitName;
    use crate::unit::local::Event;
    use crate::unit::resolve::next;

    #[test]
    fn a_hook_that_was_found_running_is_taken_over_when_it_is_known_who_leads() {
        let mut local = Local::new(Uuid(2), UnitName::new("web", 0));
        let operation = Operation::Hook(Hook::UpdateStatus);
        let (cause, position, leads, episode) = (String::new(), None, Some(1), None);
        let run = Run { number: 1, operation, attempt: 1, cause, position, leads, episode };
        local.apply(&Event::Started(run.clone()));
        let now = Now {
            boot: "boot".into(),
            since_boot_ms: 60_000,
            agent_start_ms: 60_000,
            wall_ms: 0,
            hook_lock: false,
            orphan_missing: false,
            attached: true,
            link_age_ms: Some(0),
            leads: None,
            claimed: false,
            idle_ms: 0,
            charm_lost: false,
        };
        let Act::Wait(waits) = next(&local, None, &now).act else { panic!("its tools would not lead") };
        assert_eq!(waits.until_ms, Some(62_000), "the first claim is answered by then, or never mind");
        let taken = Act::Reattach(run);
        assert_eq!(next(&local, None, &Now { claimed: true, ..now.clone() }).act, taken);
        assert_eq!(next(&local, None, &Now { since_boot_ms: 62_000, ..now.clone() }).act, taken);
        assert_eq!(next(&local, None, &Now { attached: false, ..now }).act, taken, "nobody will say");
    }
}
