//! Decides what a unit agent does next, as a pure function: [`next`]`(local, view, now)`.
//!
//! The function is total: for every state it returns an operation or the reasons why the unit waits, which `pintle
//! why` shows. The order of hooks is the chain of `or_else` in [`idle`]; no other code orders hooks. No relation hook
//! starts on a view that may be stale.
//!
//! The agent calls it in a loop, the controller calls it to explain a unit, and dry runs call it to simulate one.

use super::context;
use super::local::{Episode, Event, FollowUp, Local, Run, Step};
use super::operation::{CharmRef, ConfigDigest, Hook, LocalEndpoint, Operation, RelationEvent};
use super::record::{Outcome, Record, hex};
use super::relations::{self, PendingHook, ThisUnit};
use super::retry::{after_failure, interrupted, jitter};
use super::snapshot::{BagRequest, RelationView, Snapshot};
use crate::terms::cause::{Actor, Cause, Duty, Entity};
use crate::terms::life::Life;
use crate::terms::names::{RelationNumber, UnitName};
use crate::terms::settings::Bag;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// Relation hooks do not start on a view older than this, in milliseconds: three lost heartbeats and a reconnect
/// (spec B.6.7).
pub const LINK_AGE_MAX_MS: u64 = 30_000;
/// How long a starting agent waits for the reconciliation of its disk with the replica, in milliseconds: about forty
/// round trips of a slow link.
pub const RECONCILE_WAIT_MS: u64 = 2_000;
/// An agent without a connection stops running update-status once its outbox has this many records: five hours of
/// update-status at the default interval of 5 minutes.
pub const OUTBOX_MAX: usize = 60;

/// The facts of the agent's environment that are neither stored nor part of the view.
#[derive(Clone, Debug, PartialEq)]
pub struct Now {
    /// The boot id of the machine. Empty: not known (the controller explains a unit), so that no timer has expired.
    pub boot: String,
    /// The time since that boot in milliseconds.
    pub since_boot_ms: u64,
    /// When this agent started, in milliseconds since that boot.
    pub agent_start_ms: u64,
    /// The wall clock in milliseconds since 1970. It is for display only and decides nothing.
    pub wall_ms: i64,
    /// Whether this agent holds the machine's hook lock.
    pub holds_hook_lock: bool,
    /// Whether the agent has searched for the run that had started before it, and found neither its process nor its
    /// outcome.
    pub orphan_missing: bool,
    /// Whether this process has reconciled disk and replica: a session is open.
    pub attached: bool,
    /// The time since the controller last confirmed the position of the view, in milliseconds. `None`: it has not
    /// done so in this process, or the view has not reached the position that the store had when the session was
    /// opened.
    pub link_age_ms: Option<u64>,
    /// The leadership generation that this unit holds for at least another 30 s. `None`: the unit is not the leader,
    /// or that is not known.
    pub leader_generation: Option<u64>,
    /// Whether the controller has replied to a leadership claim of this process, so that `leader_generation` is
    /// known.
    pub is_leader_known: bool,
    /// The time since the last hook ended or the agent started, in milliseconds.
    pub idle_ms: u64,
    /// Whether the charm of the stored state is missing from its folder.
    pub is_charm_missing: bool,
}

impl Now {
    /// Returns facts for explaining a unit without running it: the hook lock is held, the connection is fresh, a
    /// started run has ended, and the boot is not known, so that no timer has expired.
    pub fn hypothetical() -> Now {
        Now {
            boot: String::new(),
            since_boot_ms: 0,
            agent_start_ms: 0,
            wall_ms: 0,
            holds_hook_lock: true,
            orphan_missing: true,
            attached: true,
            link_age_ms: Some(0),
            leader_generation: None,
            is_leader_known: true,
            idle_ms: 0,
            is_charm_missing: false,
        }
    }
}

/// The decision: what to do and, independently, what to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// What to send.
    pub send: Send,
    /// What to do.
    pub act: Act,
}

/// The next message to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Send {
    /// The request for a session.
    Attach,
    /// The reports of this run, which has no record. They precede the record of any later run, because the controller
    /// keeps the status that it receives last.
    UnrecordedReport(u64),
    /// The oldest unsent record, by its sequence number.
    Commit(u64),
    /// Nothing to send.
    Nothing,
}

/// The next action of the agent. After every action except [`Act::Finish`] the agent calls [`next`] again.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// The unit is Dead or removed: the agent ends and does not start again.
    Finish,
    /// An earlier agent process has started this run: search for its process, then for its outcome.
    Reattach(Run),
    /// Acquire the machine's hook lock.
    AcquireHookLock,
    /// Fetch an omitted bag that the next hook delivers.
    FetchBag(BagRequest),
    /// Store the run, then execute it.
    Start(Run),
    /// Store the record of an operation that needs no process.
    RecordOutcome(Record),
    /// A hook has requested a reboot: have the machine rebooted, and start no operation.
    Reboot,
    /// Store this event.
    PersistEvent(Event),
    /// Wait for a change.
    Wait(Wait),
}

/// Why and how long the agent waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// The time in milliseconds since boot at which the agent decides again even if nothing has changed.
    pub until_ms: Option<u64>,
    /// The reasons. Empty: nothing is left to do.
    pub causes: Vec<Cause>,
}

/// Returns a reason why this unit waits for another party.
pub(super) fn wait_reason(local: &Local, duty: Duty, actor: Actor) -> Cause {
    Cause::new(Entity::Unit(local.name.clone()), duty, actor)
}

/// Returns the reason why a hook that delivers omitted settings has not started.
pub fn fetch_reason(unit: &UnitName, request: &BagRequest) -> Cause {
    Cause::of_unit_agent(unit, Duty::FetchSettings { owner: request.owner.clone() })
}

pub(super) fn wait(until_ms: Option<u64>, causes: Vec<Cause>) -> Act {
    Act::Wait(Wait { until_ms, causes })
}

/// Decides what the unit agent does and sends next.
pub fn next(local: &Local, view: Option<&Snapshot>, now: &Now) -> Next {
    Next { send: send(local, now), act: act(local, view, now) }
}

fn send(local: &Local, now: &Now) -> Send {
    if !now.attached {
        return Send::Attach;
    }
    if let Some(unrecorded) = local.unrecorded_reports.first() {
        return Send::UnrecordedReport(unrecorded.run);
    }
    local.outbox.first().map_or(Send::Nothing, |record| Send::Commit(record.sequence))
}

fn act(local: &Local, view: Option<&Snapshot>, now: &Now) -> Act {
    // Dead and removed require positive evidence from the store generation of the stored state (design 7)
    let known = view.filter(|view| {
        local
            .store_generation
            .is_none_or(|store_generation| store_generation == view.position.store_generation)
    });
    let is_gone = known.is_some_and(|view| view.removed || view.unit.life == Life::Dead);
    if local.dead || is_gone {
        return Act::Finish;
    }
    if let Some(until_ms) = reconcile_until_ms(local, now) {
        return wait(Some(until_ms), vec![wait_reason(local, Duty::CompareState, Actor::Controller)]);
    }
    if local.state_lost {
        return wait(None, vec![wait_reason(local, Duty::RestoreState, Actor::Operator)]);
    }
    match &local.step {
        Step::AwaitingAnswer { sequence, .. } => {
            let answer = wait_reason(local, Duty::AnswerRecord { sequence: *sequence }, Actor::Controller);
            wait(None, vec![answer.since(last_heartbeat_ms(now))])
        }
        Step::Started(_) | Step::Failed(_) | Step::Idle if is_reboot_pending(local, now) => Act::Reboot,
        Step::Started(run) => interrupted(local, known, now, run),
        Step::Failed(episode) => after_failure(local, known, now, episode),
        Step::Idle => match known {
            Some(view) => idle(local, view, now),
            None => wait(None, vec![no_view_reason(local, view, now)]),
        },
    }
}

/// Whether a hook has requested a reboot that has not happened. If the boot is not known, the request is pending
/// until the next run starts.
fn is_reboot_pending(local: &Local, now: &Now) -> bool {
    local.reboot.as_ref().is_some_and(|boot| now.boot.is_empty() || *boot == now.boot)
}

/// Returns the reason why no operation starts before the reboot. `machine` is the name of the unit's machine, if
/// known.
pub fn reboot_reason(unit: &UnitName, machine: Option<&str>) -> Cause {
    let agent = machine.map_or(Actor::OwnMachineAgent, |name| Actor::MachineAgent(name.to_owned()));
    Cause::new(Entity::Unit(unit.clone()), Duty::Reboot, agent)
}

/// Whether the unit is not being removed. A unit that has run stop or remove is, even if a store that was restored
/// from a backup has it Alive again.
pub(super) fn is_alive(local: &Local, view: &Snapshot) -> bool {
    view.unit.life.is_alive() && !local.is_tearing_down()
}

/// Returns until when a starting agent waits for the controller's state before it proceeds without it.
fn reconcile_until_ms(local: &Local, now: &Now) -> Option<u64> {
    let until = now.agent_start_ms + RECONCILE_WAIT_MS;
    // a view that has not caught up yet may lack entities that are newer than it, not removed
    let is_reconciled = now.attached && now.link_age_ms.is_some();
    (!is_reconciled && local.epoch > 0 && now.since_boot_ms < until).then_some(until)
}

fn no_view_reason(local: &Local, view: Option<&Snapshot>, now: &Now) -> Cause {
    match view {
        Some(_) => {
            wait_reason(local, Duty::AgreeOnStoreGeneration, Actor::Operator).since(last_heartbeat_ms(now))
        }
        None => wait_reason(local, Duty::SendView, Actor::Controller),
    }
}

/// Returns when the controller last sent a heartbeat, by the wall clock. `None`: at this moment, or not in this
/// process.
fn last_heartbeat_ms(now: &Now) -> Option<i64> {
    let age_ms = now.link_age_ms.filter(|age_ms| *age_ms > 0)?;
    Some(now.wall_ms - i64::try_from(age_ms).ok()?)
}

/// Decides what an idle unit does next. The chain below is the order of hooks (spec A.2).
fn idle(local: &Local, view: &Snapshot, now: &Now) -> Act {
    let alive = is_alive(local, view);
    let mut waits = Vec::new();
    // The first unit is the leader before its first hook (spec D.4), and leader-elected precedes the first
    // config-changed, even if the agent was restarted in between. Without a connection nothing waits for leadership.
    let first_hooks = local.follow_up == Some(FollowUp::Install) || local.installed && local.config.is_none();
    if first_hooks && alive && is_first_claim_pending(now) {
        return wait(None, vec![unknown_leader_reason(local)]);
    }
    lost_charm(local, view, now, alive)
        .or_else(|| start_after_reboot(local, now))
        .or_else(|| first_charm(local, view, alive))
        .or_else(|| follow_up(local, view, now, alive))
        .map(|chosen| chosen.act(local, view, now))
        .or_else(|| enter_scope(local, view, now, alive, &mut waits))
        .or_else(|| created(local, view, now, alive, &mut waits))
        .or_else(|| leadership(local, now, alive))
        .or_else(|| action(local, view, now))
        .or_else(|| shut_down(local, view, now, alive, &mut waits))
        .or_else(|| upgrade(local, view, alive).map(|chosen| chosen.act(local, view, now)))
        .or_else(|| config_changed(local, view, alive).map(|chosen| chosen.act(local, view, now)))
        .or_else(|| relation_hook(local, view, now, alive, &mut waits))
        .or_else(|| update_status(local, view, now, alive).map(|chosen| chosen.act(local, view, now)))
        .unwrap_or_else(|| wait(update_status_due(local, view, now, alive), waits))
}

/// An operation to start, and the reason as a text.
pub(super) struct ChosenOperation(Operation, String);

impl ChosenOperation {
    pub(super) fn hook(hook: Hook, cause: impl Into<String>) -> Option<ChosenOperation> {
        Some(ChosenOperation(Operation::Hook(hook), cause.into()))
    }

    pub(super) fn act(self, local: &Local, view: &Snapshot, now: &Now) -> Act {
        let run = Run {
            number: 0,
            operation: self.0,
            attempt: 1,
            cause: self.1,
            position: None,
            leader_generation: None,
            episode: None,
        };
        start(local, Some(view), now, run)
    }
}

/// Starts a run. If it executes a program of the charm, the agent acquires the machine's hook lock first and then
/// decides again (design 12).
pub(super) fn start(local: &Local, view: Option<&Snapshot>, now: &Now, run: Run) -> Act {
    if run.operation.runs_charm() && view.is_none() {
        // The context is built from the view. The cached view may be lost while the run that started on it is not.
        return wait(None, vec![no_view_reason(local, None, now)]);
    }
    // fetched before the lock is acquired: the hooks of other units must not wait for this connection
    if let Some(request) = view.and_then(|view| context::bag_to_fetch(local, view, &run.operation)) {
        return Act::FetchBag(request);
    }
    if run.operation.runs_charm() && !now.holds_hook_lock {
        return Act::AcquireHookLock;
    }
    let position = view.map(|view| view.position);
    Act::Start(Run { number: local.run + 1, position, leader_generation: now.leader_generation, ..run })
}

/// Runs start again after a reboot of the machine.
fn start_after_reboot(local: &Local, now: &Now) -> Option<ChosenOperation> {
    let known = !now.boot.is_empty();
    let running = local.started && !local.stopped && local.follow_up.is_none();
    if !(known && running && local.boot.as_ref() != Some(&now.boot)) {
        return None;
    }
    ChosenOperation::hook(Hook::Start { boot: now.boot.clone() }, "the machine was rebooted")
}

/// Unpacks the charm again if its folder was lost. Files that the charm stored there are lost too, so upgrade-charm
/// follows as after an upgrade (spec A.5). This precedes all hooks, because each of them would download the charm
/// without running upgrade-charm.
fn lost_charm(local: &Local, view: &Snapshot, now: &Now, alive: bool) -> Option<ChosenOperation> {
    // a pending upgrade-charm downloads the charm itself
    let due =
        alive && local.installed && now.is_charm_missing && local.follow_up != Some(FollowUp::UpgradeCharm);
    due.then(|| {
        ChosenOperation(Operation::InstallCharm(wanted_charm(view)), "the charm's folder was lost".into())
    })
}

/// Unpacks the unit's first charm.
fn first_charm(local: &Local, view: &Snapshot, alive: bool) -> Option<ChosenOperation> {
    let due = alive && local.charm.is_none();
    due.then(|| {
        ChosenOperation(Operation::InstallCharm(wanted_charm(view)), "the unit has no charm yet".into())
    })
}

/// Runs the hook that the last operation has queued, except install on a unit that is being removed (spec A.7).
fn follow_up(local: &Local, view: &Snapshot, now: &Now, alive: bool) -> Option<ChosenOperation> {
    match local.follow_up? {
        FollowUp::Install if alive => ChosenOperation::hook(Hook::Install, "the charm is deployed"),
        FollowUp::Install => None,
        // leadership was lost before the hook could run: `leadership` removes it from the queue
        FollowUp::LeaderElected if now.leader_generation.is_none() => None,
        FollowUp::LeaderElected => ChosenOperation::hook(
            Hook::LeaderElected { generation: now.leader_generation },
            "this unit became the leader",
        ),
        FollowUp::Start => {
            ChosenOperation::hook(Hook::Start { boot: now.boot.clone() }, "config-changed is done")
        }
        FollowUp::UpgradeCharm => ChosenOperation::hook(Hook::UpgradeCharm, "the charm was replaced"),
        FollowUp::ConfigChanged => {
            ChosenOperation::hook(Hook::ConfigChanged(config_digest(view)), "upgrade-charm is done")
        }
    }
}

/// Whether the view is recent enough for relation hooks (spec B.6.7).
pub(super) fn is_link_fresh(now: &Now) -> bool {
    now.attached && now.link_age_ms.is_some_and(|age| age <= LINK_AGE_MAX_MS)
}

/// Whether this agent process is attached and has no reply to its first leadership claim yet.
pub(super) fn is_first_claim_pending(now: &Now) -> bool {
    !now.is_leader_known && is_link_fresh(now)
}

pub(super) fn unknown_leader_reason(local: &Local) -> Cause {
    wait_reason(local, Duty::AnswerLeadershipClaim, Actor::Controller)
}

pub(super) fn stale_link_reason(local: &Local, now: &Now) -> Cause {
    wait_reason(local, Duty::Reconnect, Actor::Controller).since(last_heartbeat_ms(now))
}

/// Adds the reason of a stale view once, even if several relations wait for it.
fn wait_for_link(local: &Local, waits: &mut Vec<Cause>, now: &Now) {
    let reason = stale_link_reason(local, now);
    if !waits.contains(&reason) {
        waits.push(reason);
    }
}

/// Enters the scope of the first relation that the unit is not in yet. The unit enters all scopes before it runs any
/// relation-created.
fn enter_scope(
    local: &Local,
    view: &Snapshot,
    now: &Now,
    alive: bool,
    waits: &mut Vec<Cause>,
) -> Option<Act> {
    if !alive || !local.installed || local.follow_up.is_some() {
        return None;
    }
    let charm = local.charm.as_ref().expect("an installed unit has a charm");
    let open = |view: &RelationView| view.head.life.is_alive() && !view.head.suspended;
    for (relation, remote) in in_order(view) {
        if local.relations.contains_key(&relation) || !open(remote) {
            continue;
        }
        let head = &remote.head;
        if !head.implicit && !charm.endpoints.contains(&head.endpoint) {
            let (application, endpoint) = (local.name.application.clone(), head.endpoint.clone());
            let duty = Duty::ProvideEndpoint { application, endpoint, relation };
            waits.push(wait_reason(local, duty, Actor::Operator));
            continue;
        }
        if let Some(reason) = subordinate_reason(local, view, relation, remote) {
            waits.push(reason);
            continue;
        }
        if !is_link_fresh(now) {
            wait_for_link(local, waits, now);
            return None;
        }
        let local_endpoint = LocalEndpoint {
            endpoint: head.endpoint.clone(),
            interface: head.interface.clone(),
            peer: head.peer,
            implicit: head.implicit,
            remote_application: head.remote_application.clone(),
        };
        let settings = addresses(view);
        let operation = Operation::EnterScope { relation, uuid: head.uuid, local_endpoint, settings };
        return Some(Act::RecordOutcome(local.record(operation, Outcome::Ok, now.wall_ms)));
    }
    None
}

/// Returns the reason why the subordinate unit of this relation cannot be created yet (spec A.12, I.20; scenario
/// 125).
fn subordinate_reason(
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
        return Some(wait_reason(local, duty, Actor::Unit(old)));
    }
    if view.unit.machine_full && find(&view.unit.subordinates).is_none() {
        let duty = Duty::FreeUnitSlot { machine: view.unit.machine.clone(), relation };
        return Some(wait_reason(local, duty, Actor::Operator));
    }
    None
}

/// Returns the initial settings of a unit in a relation (spec A.12; `ingress-address` and `egress-subnets` by
/// E.8#18).
pub fn addresses(view: &Snapshot) -> Bag {
    let address = &view.unit.address;
    [
        ("private-address", address.clone()),
        ("ingress-address", address.clone()),
        ("egress-subnets", format!("{address}/32")),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// Returns the relations in the order of their hooks: by number, peer relations last.
fn in_order(view: &Snapshot) -> impl Iterator<Item = (RelationNumber, &RelationView)> {
    let with_peer =
        |peer| view.relations.iter().filter(move |(_, r)| r.head.peer == peer).map(|(n, r)| (*n, r));
    with_peer(false).chain(with_peer(true))
}

/// Runs relation-created of the first relation that has not run it.
fn created(local: &Local, view: &Snapshot, now: &Now, alive: bool, waits: &mut Vec<Cause>) -> Option<Act> {
    if !alive || !local.installed || local.follow_up.is_some() {
        return None;
    }
    let (relation, remote) = in_order(view).find(|(relation, remote)| {
        let is_pending = local.relations.get(relation).is_some_and(|local| !local.created);
        is_pending && remote.head.life.is_alive() && !remote.head.suspended
    })?;
    if !is_link_fresh(now) {
        wait_for_link(local, waits, now);
        return None;
    }
    let endpoint = remote.head.endpoint.clone();
    let hook = Hook::Relation { relation, endpoint, event: RelationEvent::Created };
    let chosen = ChosenOperation::hook(hook, format!("relation {relation} appeared"))?;
    Some(chosen.act(local, view, now))
}

/// Queues leader-elected once per leadership generation, and removes it from the queue if the unit lost leadership
/// before the hook ran.
fn leadership(local: &Local, now: &Now, alive: bool) -> Option<Act> {
    if local.follow_up == Some(FollowUp::LeaderElected) {
        return now.leader_generation.is_none().then_some(Act::PersistEvent(Event::LeadershipChanged(None)));
    }
    let gained = alive && local.installed && local.follow_up.is_none() && now.leader_generation.is_some();
    (gained && now.leader_generation != local.elected_generation)
        .then_some(Act::PersistEvent(Event::LeadershipChanged(now.leader_generation)))
}

/// Runs the next action. `episode` is the open failure, which the action does not affect.
pub(super) fn pending_action(
    local: &Local,
    view: &Snapshot,
    now: &Now,
    episode: Option<&Episode>,
) -> Option<Act> {
    let has_run = |id: &u64| {
        let same =
            |record: &Record| matches!(&record.operation, Operation::Action { id: done, .. } if done == id);
        local.outbox.iter().any(same) || local.last_action.is_some_and(|last| *id <= last)
    };
    let (id, action) = view.actions.iter().find(|(id, _)| !has_run(id))?;
    local.charm.as_ref()?;
    let operation = Operation::Action { id: *id, name: action.name.clone() };
    if action.running {
        // An agent of this unit has started the action, and the stored state of that run is lost. The action may have
        // run, so it must not run again.
        let reason = "the unit's stored state was lost while the action ran".to_owned();
        let record = local.record(operation, Outcome::Failed { reason, retry: None }, now.wall_ms);
        return Some(Act::RecordOutcome(record));
    }
    let cause = "requested by an operator".to_owned();
    let run = Run {
        number: 0,
        operation,
        attempt: 1,
        cause,
        position: None,
        leader_generation: None,
        episode: episode.cloned(),
    };
    Some(start(local, Some(view), now, run))
}

fn action(local: &Local, view: &Snapshot, now: &Now) -> Option<Act> {
    if !local.installed || local.follow_up.is_some() || local.removed {
        return None;
    }
    pending_action(local, view, now, None)
}

/// Decides the next step of a Dying unit: it leaves its relations, runs stop and remove, and becomes Dead (spec A.7).
fn shut_down(local: &Local, view: &Snapshot, now: &Now, alive: bool, waits: &mut Vec<Cause>) -> Option<Act> {
    if alive {
        return None;
    }
    if local.installed {
        let leave = relation_hook(local, view, now, alive, waits);
        if leave.is_some() || !waits.is_empty() {
            return Some(leave.unwrap_or_else(|| wait(None, std::mem::take(waits))));
        }
        let last = if local.started && !local.stopped {
            ChosenOperation::hook(Hook::Stop, "the unit is going away")
        } else if !local.removed {
            ChosenOperation::hook(Hook::Remove, "the unit is going away")
        } else {
            None
        };
        if let Some(chosen) = last {
            return Some(chosen.act(local, view, now));
        }
    }
    if let Some(subordinate) = view.unit.subordinates.first() {
        let duty = Duty::RemoveSubordinate { unit: subordinate.clone(), relation: None };
        return Some(wait(None, vec![wait_reason(local, duty, Actor::Unit(subordinate.clone()))]));
    }
    Some(Act::RecordOutcome(local.record(Operation::SetDead, Outcome::Ok, now.wall_ms)))
}

/// Installs the charm of the application if it differs, or runs an upgrade-charm that is pending since an error.
fn upgrade(local: &Local, view: &Snapshot, alive: bool) -> Option<ChosenOperation> {
    if !alive || !local.installed {
        return None;
    }
    let wanted = wanted_charm(view);
    if local.charm.as_ref().is_some_and(|charm| charm.sha256 != wanted.sha256 || charm.url != wanted.url) {
        let cause = format!("the application was refreshed to {}", wanted.url);
        return Some(ChosenOperation(Operation::InstallCharm(wanted), cause));
    }
    if local.upgrade_pending {
        return ChosenOperation::hook(Hook::UpgradeCharm, "it is pending since a forced refresh");
    }
    None
}

/// Runs config-changed if its inputs changed since it ran last.
fn config_changed(local: &Local, view: &Snapshot, alive: bool) -> Option<ChosenOperation> {
    if !alive || !local.installed {
        return None;
    }
    let seen = config_digest(view);
    let cause = match &local.config {
        None => "first configuration",
        Some(old) if *old == seen => return None,
        Some(old) if old.settings != seen.settings => "settings changed",
        Some(_) => "addresses changed",
    };
    ChosenOperation::hook(Hook::ConfigChanged(seen), cause)
}

/// Runs the next relation hook, across all relations in order. A changed that must follow a joined precedes the hooks
/// of other relations.
fn relation_hook(
    local: &Local,
    view: &Snapshot,
    now: &Now,
    alive: bool,
    waits: &mut Vec<Cause>,
) -> Option<Act> {
    if !local.installed {
        return None;
    }
    let this_unit = ThisUnit { name: &local.name, alive };
    let remote = |relation: &RelationNumber, uuid| {
        view.relations.get(relation).filter(|remote| remote.head.uuid == uuid)
    };
    let pending = local.relations.iter().find(|(_, relation)| relation.pending_changed.is_some());
    let peers_last =
        |peer| local.relations.iter().filter(move |(_, relation)| relation.local_endpoint.peer == peer);
    let order = pending.into_iter().chain(peers_last(false)).chain(peers_last(true));
    for (number, relation) in order {
        let shown = remote(number, relation.uuid);
        let Some(pending) = relations::pending_hook(relation, shown, this_unit) else { continue };
        if !is_link_fresh(now) {
            wait_for_link(local, waits, now);
            return None;
        }
        return Some(match pending {
            PendingHook::LeaveScope => {
                let operation = Operation::LeaveScope { relation: *number, uuid: relation.uuid };
                Act::RecordOutcome(local.record(operation, Outcome::Ok, now.wall_ms))
            }
            PendingHook::Hook(event) => {
                let endpoint = relation.local_endpoint.endpoint.clone();
                let cause = format!("relation {endpoint}:{number} changed");
                let hook = Hook::Relation { relation: *number, endpoint, event };
                ChosenOperation(Operation::Hook(hook), cause).act(local, view, now)
            }
        });
    }
    None
}

/// Returns when update-status is due next, in milliseconds since boot: after the model's interval, varied by up to a
/// fifth depending on the unit and its last run, so that units do not run it at the same time.
fn update_status_due(local: &Local, view: &Snapshot, now: &Now, alive: bool) -> Option<u64> {
    let interval = view.model.update_status_ms;
    if !alive || !local.started || interval == 0 || local.outbox.len() >= OUTBOX_MAX {
        return None;
    }
    let spread = (interval * 2 / 5).max(1);
    let delay = interval - interval / 5 + jitter(local.unit, local.run) % spread;
    Some((now.since_boot_ms + delay).saturating_sub(now.idle_ms))
}

/// Runs update-status if it is due.
fn update_status(local: &Local, view: &Snapshot, now: &Now, alive: bool) -> Option<ChosenOperation> {
    let due = update_status_due(local, view, now, alive)?;
    if due > now.since_boot_ms {
        return None;
    }
    ChosenOperation::hook(Hook::UpdateStatus, "the interval has passed")
}

/// Returns the charm of the unit's application, which the unit should run.
pub(super) fn wanted_charm(view: &Snapshot) -> CharmRef {
    let charm = &view.charm.charm;
    CharmRef {
        sha256: charm.sha256.clone(),
        url: charm.url.clone(),
        revision: charm.revision,
        endpoints: view.charm.declared.endpoints.keys().cloned().collect(),
    }
}

/// Returns the hashes of the inputs of config-changed. A value that changed and changed back is not a change (H.18).
pub fn config_digest(view: &Snapshot) -> ConfigDigest {
    let digest = |text: &str| hex(&Sha256::digest(text)[..8]);
    let settings = serde_json::to_string(&view.config).expect("settings are plain data");
    ConfigDigest {
        settings: digest(&format!("{} {settings}", view.charm.charm.url)),
        addresses: digest(&view.unit.address),
    }
}
