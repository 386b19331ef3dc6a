//! The causes for which a unit waits: who must do what before its next operation starts (shown by `pintle why`).
//!
//! Each `_cause` function returns one cause. Which of them apply is decided by the callers: `resolve`,
//! `chosen_operation`, `pending_operations`, `pending_secret_hook`, `pending_storage_hook` and `retry`; `fetch_cause` and those
//! of reboots are for the callers of `next`. The causes of an absent agent are in `agent_causes`.

use super::agent_causes::machine_agent;
use super::decision::{Act, Now, Wait, is_reboot_overdue, last_heartbeat_ms};
use super::local::Local;
use super::relation_view::{BagRequest, RelationView};
use super::snapshot::Snapshot;
use crate::terms::cause::{Actor, Cause, Duty, Entity};
use crate::terms::names::{RelationNumber, UnitName};
use crate::terms::operation::CharmRef;
use std::collections::BTreeSet;

/// Returns the decision to wait, at most until a time in milliseconds since boot.
pub(super) fn wait(until_ms: Option<u64>, causes: Vec<Cause>) -> Act {
    Act::Wait(Wait { until_ms, causes })
}

/// Returns the cause that `actor` has to do something for this unit.
pub(super) fn wait_cause(local: &Local, duty: Duty, actor: Actor) -> Cause {
    Cause::new(Entity::Unit(local.name.clone()), duty, actor)
}

/// Returns the cause for which a hook that delivers omitted settings has not started.
pub fn fetch_cause(unit: &UnitName, request: &BagRequest) -> Cause {
    Cause::of_unit_agent(unit, Duty::FetchSettings { owner: request.owner.clone() })
}

/// Returns the cause of a unit that fetches its charm again before the next run.
pub fn fetch_charm_cause(unit: &UnitName, charm: &CharmRef) -> Cause {
    Cause::of_unit_agent(unit, Duty::FetchCharm { charm_url: charm.url.clone() })
}

/// Returns the cause for which no operation starts before the reboot. `machine` is the name of the unit's machine, if
/// known.
pub fn reboot_cause(unit: &UnitName, machine: Option<&str>) -> Cause {
    Cause::new(Entity::Unit(unit.clone()), Duty::Reboot, machine_agent(machine))
}

/// Returns the [`reboot_cause`] for a reboot that was requested at `requested_ms`, by the wall clock. Once the reboot
/// is overdue, a person has to reboot the machine.
pub fn requested_reboot_cause(
    unit: &UnitName,
    machine: Option<&str>,
    requested_ms: Option<i64>,
    now_ms: i64,
) -> Cause {
    let cause = match is_reboot_overdue(requested_ms, now_ms) {
        false => reboot_cause(unit, machine),
        true => {
            let duty = Duty::RebootByHand { machine: machine.map(str::to_owned) };
            Cause::new(Entity::Unit(unit.clone()), duty, Actor::Operator)
        }
    };
    cause.since(requested_ms)
}

/// Returns the cause for which a unit without a view of its own store generation has not started an operation.
pub(super) fn no_view_cause(local: &Local, view: Option<&Snapshot>, now: &Now) -> Cause {
    match view {
        Some(_) => {
            wait_cause(local, Duty::AgreeOnStoreGeneration, Actor::Operator).since(last_heartbeat_ms(now))
        }
        None => wait_cause(local, Duty::SendView, Actor::Controller),
    }
}

/// Returns the cause for which nothing starts before the reply to the first leadership claim.
pub(super) fn unknown_leader_cause(local: &Local) -> Cause {
    wait_cause(local, Duty::AnswerLeadershipClaim, Actor::Controller)
}

/// Returns the cause for which no relation hook starts on a view that may be stale.
pub(super) fn stale_link_cause(local: &Local, now: &Now) -> Cause {
    wait_cause(local, Duty::Reconnect, Actor::Controller).since(last_heartbeat_ms(now))
}

/// Adds [`stale_link_cause`] once, even if several relations wait for the connection.
pub(super) fn wait_for_link(local: &Local, waits: &mut Vec<Cause>, now: &Now) {
    let cause = stale_link_cause(local, now);
    if !waits.contains(&cause) {
        waits.push(cause);
    }
}

/// Returns the cause for which the subordinate unit of this relation cannot be created yet (spec A.12, I.20; scenario
/// 125).
pub(super) fn subordinate_cause(
    local: &Local,
    view: &Snapshot,
    relation: RelationNumber,
    remote: &RelationView,
) -> Option<Cause> {
    let head = &remote.head;
    let find = |units: &BTreeSet<UnitName>| {
        units.iter().find(|unit| unit.application == head.remote_application).cloned()
    };
    if !head.creates_subordinate {
        return None;
    }
    if let Some(old) = find(&view.unit.departing_subordinates) {
        let duty = Duty::RemoveSubordinate { unit: old.clone(), relation: Some(relation) };
        return Some(wait_cause(local, duty, Actor::Unit(old)));
    }
    if view.unit.machine_full && find(&view.unit.subordinates).is_none() {
        let duty = Duty::FreeUnitSlot { machine: view.unit.machine.clone(), relation };
        return Some(wait_cause(local, duty, Actor::Operator));
    }
    None
}
