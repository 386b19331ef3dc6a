//! What happens next, as a pure function: `next(local, view, now)`. It is total; the order of hooks is the chain of
//! `or_else` in [`idle`]; the same answer explains itself (`pintle why`).

use super::context;
use super::local::{Episode, Event, FollowUp, Local, Run, Step};
use super::operation::{CharmRef, ConfigDigest, Hook, Operation, Place, RelationEvent};
use super::record::{Outcome, Record, hex};
use super::relations::{self, Owed, ThisUnit};
use super::retry::{after_failure, interrupted, jitter};
use super::snapshot::{BagRequest, RelationView, Snapshot};
use crate::terms::cause::{Actor, Cause, Duty, Entity};
use crate::terms::life::Life;
use crate::terms::names::{RelationNumber, UnitName};
use crate::terms::settings::Bag;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// Relation hooks do not begin on a view older than this: three lost heartbeats and a reconnect (spec B.6.7).
pub const LINK_AGE_MAX_MS: u64 = 30_000;
/// A starting agent waits this long for the comparison of disk and replica: some forty round trips of a slow link.
pub const RECONCILE_WAIT_MS: u64 = 2_000;
/// Records an agent without a link collects before it stops adding to them with update-status: five hours of it at
/// the default interval.
pub const OUTBOX_MAX: usize = 60;

/// The outside facts that are neither memory nor view.
#[derive(Clone, Debug, PartialEq)]
pub struct Now {
    /// This boot of the machine; empty = not known here (the controller explaining a unit), so nothing is due by it.
    pub boot: String,
    pub since_boot_ms: u64,
    /// When this agent started, on the same clock.
    pub agent_start_ms: u64,
    /// Wall clock, for people; decides nothing.
    pub wall_ms: i64,
    /// This agent holds the machine's hook lock.
    pub hook_lock: bool,
    /// The run found begun at start was looked for, and neither its process nor its outcome is there.
    pub orphan_missing: bool,
    /// Disk and replica were compared in this process: a session is open.
    pub attached: bool,
    /// Since the controller last showed where it is; none = not in this process, or not yet as far as it was when
    /// the session was opened.
    pub link_age_ms: Option<u64>,
    /// The generation of the leadership this unit holds for at least 30 s more; none = does not lead, or not known.
    pub leads: Option<u64>,
    /// The controller has answered a claim in this process: `leads` is known.
    pub claimed: bool,
    /// Since the last hook ended (or the agent started).
    pub idle_ms: u64,
    /// The charm that memory knows is not in its folder.
    pub charm_lost: bool,
}

impl Now {
    /// Facts for explaining a unit without running it: locks are free, the link is fresh, what was started has ended,
    /// and the boot is not known, so no timer has expired.
    pub fn hypothetical() -> Now {
        Now {
            boot: String::new(),
            since_boot_ms: 0,
            agent_start_ms: 0,
            wall_ms: 0,
            hook_lock: true,
            orphan_missing: true,
            attached: true,
            link_age_ms: Some(0),
            leads: None,
            claimed: true,
            idle_ms: 0,
            charm_lost: false,
        }
    }
}

/// What to do and, independently, what to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    pub send: Send,
    pub act: Act,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Send {
    Attach,
    /// What this run said and no record holds: before the record of any later run, which would be taken for the last
    /// word.
    UnrecordedReport(u64),
    /// The oldest unsent record.
    Commit(u64),
    Nothing,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// This unit is finished: the agent ends and stays ended.
    Finish,
    /// A run was begun by an agent that is gone: look for its process, then for its outcome.
    Reattach(Run),
    /// Take the machine's hook lock, then ask again.
    AcquireHookLock,
    /// The hook about to begin is about a bag that did not come along: fetch it, then ask again.
    FetchBag(BagRequest),
    /// Write it down, then do it.
    Start(Run),
    /// Nothing to run: write the record down.
    RecordOutcome(Record),
    /// A hook asked for the end of this boot: have the machine rebooted, and begin nothing more.
    Reboot,
    /// Write this down.
    PersistEvent(Event),
    Wait(Wait),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// Look again at this time since boot, whatever happens.
    pub until_ms: Option<u64>,
    /// Empty: nothing is left to do.
    pub causes: Vec<Cause>,
}

/// The unit waits for somebody else.
pub(super) fn cause(local: &Local, duty: Duty, actor: Actor) -> Cause {
    Cause::new(Entity::Unit(local.name.clone()), duty, actor)
}

/// Why a hook that reads omitted settings has not begun.
pub fn fetching(unit: &UnitName, asked: &BagRequest) -> Cause {
    Cause::of_unit_agent(unit, Duty::FetchSettings { owner: asked.owner.clone() })
}

pub(super) fn wait(until_ms: Option<u64>, causes: Vec<Cause>) -> Act {
    Act::Wait(Wait { until_ms, causes })
}

/// The one decision of the unit agent.
pub fn next(local: &Local, view: Option<&Snapshot>, now: &Now) -> Next {
    Next { send: send(local, now), act: act(local, view, now) }
}

fn send(local: &Local, now: &Now) -> Send {
    if !now.attached {
        return Send::Attach;
    }
    if let Some(unheard) = local.unheard.first() {
        return Send::UnrecordedReport(unheard.run);
    }
    local.outbox.first().map_or(Send::Nothing, |record| Send::Commit(record.sequence))
}

fn act(local: &Local, view: Option<&Snapshot>, now: &Now) -> Act {
    // Dead and removed need positive evidence from the history this memory belongs to (design 7)
    let known = view.filter(|view| {
        local
            .store_generation
            .is_none_or(|store_generation| store_generation == view.position.store_generation)
    });
    let gone = known.is_some_and(|view| view.removed || view.unit.life == Life::Dead);
    if local.dead || gone {
        return Act::Finish;
    }
    if let Some(until_ms) = comparing(local, now) {
        return wait(Some(until_ms), vec![cause(local, Duty::CompareState, Actor::Controller)]);
    }
    if local.lost {
        return wait(None, vec![cause(local, Duty::RestoreState, Actor::Operator)]);
    }
    match &local.step {
        Step::AwaitingAnswer { sequence, .. } => {
            let answer = cause(local, Duty::AnswerRecord { sequence: *sequence }, Actor::Controller);
            wait(None, vec![answer.since(last_heartbeat_ms(now))])
        }
        Step::Started(_) | Step::Failed(_) | Step::Idle if ends(local, now) => Act::Reboot,
        Step::Started(run) => interrupted(local, known, now, run),
        Step::Failed(episode) => after_failure(local, known, now, episode),
        Step::Idle => match known {
            Some(view) => idle(local, view, now),
            None => wait(None, vec![no_view(local, view, now)]),
        },
    }
}

/// A hook asked for the end of this boot. Where the boot is not known, it goes on until something has begun since.
fn ends(local: &Local, now: &Now) -> bool {
    local.reboot.as_ref().is_some_and(|boot| now.boot.is_empty() || *boot == now.boot)
}

/// Why nothing starts any more. `machine`: the unit's, where its name is known.
pub fn rebooting(unit: &UnitName, machine: Option<&str>) -> Cause {
    let agent = machine.map_or(Actor::OwnMachineAgent, |name| Actor::MachineAgent(name.to_owned()));
    Cause::new(Entity::Unit(unit.clone()), Duty::Reboot, agent)
}

/// The unit is not going away. One that ran stop or remove is, though a store restored from an older copy may show it
/// Alive again.
pub(super) fn is_alive(local: &Local, view: &Snapshot) -> bool {
    view.unit.life.is_alive() && !local.is_tearing_down()
}

/// Until when a starting agent gives the controller the time to say what it knows, before it goes on alone.
fn comparing(local: &Local, now: &Now) -> Option<u64> {
    let until = now.agent_start_ms + RECONCILE_WAIT_MS;
    // attached, and the view has not caught up yet: what it does not show may be newer, and is not gone
    let compared = now.attached && now.link_age_ms.is_some();
    (!compared && local.epoch > 0 && now.since_boot_ms < until).then_some(until)
}

fn no_view(local: &Local, view: Option<&Snapshot>, now: &Now) -> Cause {
    match view {
        Some(_) => cause(local, Duty::AgreeOnStoreGeneration, Actor::Operator).since(last_heartbeat_ms(now)),
        None => cause(local, Duty::SendView, Actor::Controller),
    }
}

/// When the controller was last heard, by the wall clock. None: this very moment, or not in this process.
fn last_heartbeat_ms(now: &Now) -> Option<i64> {
    let age_ms = now.link_age_ms.filter(|age_ms| *age_ms > 0)?;
    Some(now.wall_ms - i64::try_from(age_ms).ok()?)
}

/// Nothing is open: what is next, in order (spec A.2). This chain *is* the order of hooks.
fn idle(local: &Local, view: &Snapshot, now: &Now) -> Act {
    let alive = is_alive(local, view);
    let mut waits = Vec::new();
    // the first unit leads before its first hook (spec D.4), and leader-elected comes before the first config-changed,
    // also when the agent was started again in between; without a link nothing waits for it
    let first_hooks = local.follow_up == Some(FollowUp::Install) || local.installed && local.config.is_none();
    if first_hooks && alive && is_first_claim_pending(now) {
        return wait(None, vec![unknown_leader_reason(local)]);
    }
    lost_charm(local, view, now, alive)
        .or_else(|| rebooted(local, now))
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
        .or_else(|| related(local, view, now, alive, &mut waits))
        .or_else(|| update_status(local, view, now, alive).map(|chosen| chosen.act(local, view, now)))
        .unwrap_or_else(|| wait(update_status_due(local, view, now, alive), waits))
}

/// An operation to begin, and why.
pub(super) struct Chosen(Operation, String);

impl Chosen {
    pub(super) fn hook(hook: Hook, cause: impl Into<String>) -> Option<Chosen> {
        Some(Chosen(Operation::Hook(hook), cause.into()))
    }

    pub(super) fn act(self, local: &Local, view: &Snapshot, now: &Now) -> Act {
        let run = Run {
            number: 0,
            operation: self.0,
            attempt: 1,
            cause: self.1,
            position: None,
            leads: None,
            episode: None,
        };
        begin(local, Some(view), now, run)
    }
}

/// Begins a run; the machine's hook lock is taken before the final decision (design 12).
pub(super) fn begin(local: &Local, view: Option<&Snapshot>, now: &Now, run: Run) -> Act {
    if run.operation.runs_charm() && view.is_none() {
        // its context is made of the view; the cached one may be lost while the run that began on it is not
        return wait(None, vec![no_view(local, None, now)]);
    }
    // before the lock: nobody else's hooks wait for our link
    if let Some(asked) = view.and_then(|view| context::bag_to_fetch(local, view, &run.operation)) {
        return Act::FetchBag(asked);
    }
    if run.operation.runs_charm() && !now.hook_lock {
        return Act::AcquireHookLock;
    }
    let position = view.map(|view| view.position);
    Act::Start(Run { number: local.run + 1, position, leads: now.leads, ..run })
}

fn rebooted(local: &Local, now: &Now) -> Option<Chosen> {
    let known = !now.boot.is_empty();
    let running = local.started && !local.stopped && local.follow_up.is_none();
    if !(known && running && local.boot.as_ref() != Some(&now.boot)) {
        return None;
    }
    Chosen::hook(Hook::Start { boot: now.boot.clone() }, "the machine was rebooted")
}

/// The charm's folder went, and with it what the charm kept there: it is told as after an upgrade (spec A.5). Before
/// all hooks, each of which would bring the charm back without a word.
fn lost_charm(local: &Local, view: &Snapshot, now: &Now, alive: bool) -> Option<Chosen> {
    // upgrade-charm itself is owed already: it brings the charm back
    let due = alive && local.installed && now.charm_lost && local.follow_up != Some(FollowUp::UpgradeCharm);
    due.then(|| Chosen(Operation::InstallCharm(charm_of(view)), "the charm's folder was lost".into()))
}

fn first_charm(local: &Local, view: &Snapshot, alive: bool) -> Option<Chosen> {
    let due = alive && local.charm.is_none();
    due.then(|| Chosen(Operation::InstallCharm(charm_of(view)), "the unit has no charm yet".into()))
}

/// What the last operation queued runs at once, except install on a unit that is going away (spec A.7).
fn follow_up(local: &Local, view: &Snapshot, now: &Now, alive: bool) -> Option<Chosen> {
    match local.follow_up? {
        FollowUp::Install if alive => Chosen::hook(Hook::Install, "the charm is deployed"),
        FollowUp::Install => None,
        // lost before it could run: noted in `leadership`, no hook
        FollowUp::LeaderElected if now.leads.is_none() => None,
        FollowUp::LeaderElected => {
            Chosen::hook(Hook::LeaderElected { generation: now.leads }, "this unit became the leader")
        }
        FollowUp::Start => Chosen::hook(Hook::Start { boot: now.boot.clone() }, "config-changed is done"),
        FollowUp::UpgradeCharm => Chosen::hook(Hook::UpgradeCharm, "the charm was replaced"),
        FollowUp::ConfigChanged => {
            Chosen::hook(Hook::ConfigChanged(config_digest(view)), "upgrade-charm is done")
        }
    }
}

pub(super) fn fresh(now: &Now) -> bool {
    now.attached && now.link_age_ms.is_some_and(|age| age <= LINK_AGE_MAX_MS)
}

/// A new agent that is attached and whose first claim has no answer yet.
pub(super) fn is_first_claim_pending(now: &Now) -> bool {
    !now.claimed && fresh(now)
}

pub(super) fn unknown_leader_reason(local: &Local) -> Cause {
    cause(local, Duty::AnswerLeadershipClaim, Actor::Controller)
}

pub(super) fn stale(local: &Local, now: &Now) -> Cause {
    cause(local, Duty::Reconnect, Actor::Controller).since(last_heartbeat_ms(now))
}

/// Told once, however many relations wait.
fn wait_for_link(local: &Local, waits: &mut Vec<Cause>, now: &Now) {
    let stale = stale(local, now);
    if !waits.contains(&stale) {
        waits.push(stale);
    }
}

/// Announce this unit in the first relation it is not in yet; all of them before any relation-created.
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
            waits.push(cause(local, duty, Actor::Operator));
            continue;
        }
        if let Some(waits_for) = subordinate_waits(local, view, (relation, remote)) {
            waits.push(waits_for);
            continue;
        }
        if !fresh(now) {
            wait_for_link(local, waits, now);
            return None;
        }
        let place = Place {
            endpoint: head.endpoint.clone(),
            interface: head.interface.clone(),
            peer: head.peer,
            implicit: head.implicit,
            remote_application: head.remote_application.clone(),
        };
        let settings = addresses(view);
        let operation = Operation::EnterScope { relation, uuid: head.uuid, place, settings };
        return Some(Act::RecordOutcome(local.record(operation, Outcome::Ok, now.wall_ms)));
    }
    None
}

/// Why the subordinate that comes with this relation cannot come yet (spec A.12, I.20; scenario 125).
fn subordinate_waits(
    local: &Local,
    view: &Snapshot,
    (relation, remote): (RelationNumber, &RelationView),
) -> Option<Cause> {
    let head = &remote.head;
    let there = |units: &BTreeSet<UnitName>| {
        units.iter().find(|unit| unit.application == head.remote_application).cloned()
    };
    if !head.brings {
        return None;
    }
    if let Some(old) = there(&view.unit.leaving) {
        let duty = Duty::RemoveSubordinate { unit: old.clone(), relation: Some(relation) };
        return Some(cause(local, duty, Actor::Unit(old)));
    }
    if view.unit.machine_full && there(&view.unit.subordinates).is_none() {
        let duty = Duty::FreeUnitSlot { machine: view.unit.machine.clone(), relation };
        return Some(cause(local, duty, Actor::Operator));
    }
    None
}

/// Initial settings of a unit in a relation (spec A.12; `ingress-address` and `egress-subnets` by E.8#18).
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

/// Relations in the order their hooks run: by number, peers last.
fn in_order(view: &Snapshot) -> impl Iterator<Item = (RelationNumber, &RelationView)> {
    let of = |peer| view.relations.iter().filter(move |(_, r)| r.head.peer == peer).map(|(n, r)| (*n, r));
    of(false).chain(of(true))
}

fn created(local: &Local, view: &Snapshot, now: &Now, alive: bool, waits: &mut Vec<Cause>) -> Option<Act> {
    if !alive || !local.installed || local.follow_up.is_some() {
        return None;
    }
    let (relation, remote) = in_order(view).find(|(relation, remote)| {
        let owed = local.relations.get(relation).is_some_and(|local| !local.created);
        owed && remote.head.life.is_alive() && !remote.head.suspended
    })?;
    if !fresh(now) {
        wait_for_link(local, waits, now);
        return None;
    }
    let endpoint = remote.head.endpoint.clone();
    let hook = Hook::Relation { relation, endpoint, event: RelationEvent::Created };
    let chosen = Chosen::hook(hook, format!("relation {relation} appeared"))?;
    Some(chosen.act(local, view, now))
}

/// leader-elected is queued once per generation held, and unqueued when the lease moved before it ran.
fn leadership(local: &Local, now: &Now, alive: bool) -> Option<Act> {
    if local.follow_up == Some(FollowUp::LeaderElected) {
        return now.leads.is_none().then_some(Act::PersistEvent(Event::LeadershipChanged(None)));
    }
    let gained = alive && local.installed && local.follow_up.is_none() && now.leads.is_some();
    (gained && now.leads != local.leader).then_some(Act::PersistEvent(Event::LeadershipChanged(now.leads)))
}

/// The next action; `episode` is the failure it does not touch.
pub(super) fn pending_action(
    local: &Local,
    view: &Snapshot,
    now: &Now,
    episode: Option<&Episode>,
) -> Option<Act> {
    let unsent = |id: &u64| {
        let same =
            |record: &Record| matches!(&record.operation, Operation::Action { id: done, .. } if done == id);
        local.outbox.iter().any(same) || local.last_action.is_some_and(|last| *id <= last)
    };
    let (id, action) = view.actions.iter().find(|(id, _)| !unsent(id))?;
    local.charm.as_ref()?;
    let operation = Operation::Action { id: *id, name: action.name.clone() };
    if action.running {
        // An agent of this unit had begun it, and no memory of that is left: it may have run, so it never is again.
        let reason = "the unit's memory was lost while the action ran".to_owned();
        let record = local.record(operation, Outcome::Failed { reason, retry: None }, now.wall_ms);
        return Some(Act::RecordOutcome(record));
    }
    let cause = "a person asked for it".to_owned();
    let run = Run {
        number: 0,
        operation,
        attempt: 1,
        cause,
        position: None,
        leads: None,
        episode: episode.cloned(),
    };
    Some(begin(local, Some(view), now, run))
}

fn action(local: &Local, view: &Snapshot, now: &Now) -> Option<Act> {
    if !local.installed || local.follow_up.is_some() || local.removed {
        return None;
    }
    pending_action(local, view, now, None)
}

/// The unit is Dying: relations first, then stop, remove, and the end (spec A.7).
fn shut_down(local: &Local, view: &Snapshot, now: &Now, alive: bool, waits: &mut Vec<Cause>) -> Option<Act> {
    if alive {
        return None;
    }
    if local.installed {
        let leaving = related(local, view, now, alive, waits);
        if leaving.is_some() || !waits.is_empty() {
            return Some(leaving.unwrap_or_else(|| wait(None, std::mem::take(waits))));
        }
        let last = if local.started && !local.stopped {
            Chosen::hook(Hook::Stop, "the unit is going away")
        } else if !local.removed {
            Chosen::hook(Hook::Remove, "the unit is going away")
        } else {
            None
        };
        if let Some(chosen) = last {
            return Some(chosen.act(local, view, now));
        }
    }
    if let Some(subordinate) = view.unit.subordinates.first() {
        let duty = Duty::RemoveSubordinate { unit: subordinate.clone(), relation: None };
        return Some(wait(None, vec![cause(local, duty, Actor::Unit(subordinate.clone()))]));
    }
    Some(Act::RecordOutcome(local.record(Operation::SetDead, Outcome::Ok, now.wall_ms)))
}

fn upgrade(local: &Local, view: &Snapshot, alive: bool) -> Option<Chosen> {
    if !alive || !local.installed {
        return None;
    }
    let wanted = charm_of(view);
    if local.charm.as_ref().is_some_and(|charm| charm.sha256 != wanted.sha256 || charm.url != wanted.url) {
        let cause = format!("the application was refreshed to {}", wanted.url);
        return Some(Chosen(Operation::InstallCharm(wanted), cause));
    }
    if local.upgrade_owed {
        return Chosen::hook(Hook::UpgradeCharm, "a forced refresh left it owed");
    }
    None
}

fn config_changed(local: &Local, view: &Snapshot, alive: bool) -> Option<Chosen> {
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
    Chosen::hook(Hook::ConfigChanged(seen), cause)
}

/// Relation hooks, across relations in order; a changed owed by a joined comes before other relations' news.
fn related(local: &Local, view: &Snapshot, now: &Now, alive: bool, waits: &mut Vec<Cause>) -> Option<Act> {
    if !local.installed {
        return None;
    }
    let me = ThisUnit { name: &local.name, alive };
    let remote = |relation: &RelationNumber, uuid| {
        view.relations.get(relation).filter(|remote| remote.head.uuid == uuid)
    };
    let owing = local.relations.iter().find(|(_, relation)| relation.pending_changed.is_some());
    let peers_last = |peer| local.relations.iter().filter(move |(_, relation)| relation.place.peer == peer);
    let order = owing.into_iter().chain(peers_last(false)).chain(peers_last(true));
    for (number, relation) in order {
        let Some(owed) = relations::owed(relation, remote(number, relation.uuid), me) else { continue };
        if !fresh(now) {
            wait_for_link(local, waits, now);
            return None;
        }
        return Some(match owed {
            Owed::Leave => {
                let operation = Operation::LeaveScope { relation: *number, uuid: relation.uuid };
                Act::RecordOutcome(local.record(operation, Outcome::Ok, now.wall_ms))
            }
            Owed::Hook(event) => {
                let endpoint = relation.place.endpoint.clone();
                let cause = format!("news in relation {endpoint}:{number}");
                let hook = Hook::Relation { relation: *number, endpoint, event };
                Chosen(Operation::Hook(hook), cause).act(local, view, now)
            }
        });
    }
    None
}

/// When update-status is next due: the interval, a fifth more or less, by the unit and its last run.
fn update_status_due(local: &Local, view: &Snapshot, now: &Now, alive: bool) -> Option<u64> {
    let interval = view.model.update_status_ms;
    if !alive || !local.started || interval == 0 || local.outbox.len() >= OUTBOX_MAX {
        return None;
    }
    let spread = (interval * 2 / 5).max(1);
    let delay = interval - interval / 5 + jitter(local.unit, local.run) % spread;
    Some((now.since_boot_ms + delay).saturating_sub(now.idle_ms))
}

fn update_status(local: &Local, view: &Snapshot, now: &Now, alive: bool) -> Option<Chosen> {
    let due = update_status_due(local, view, now, alive)?;
    if due > now.since_boot_ms {
        return None;
    }
    Chosen::hook(Hook::UpdateStatus, "the interval has passed")
}

/// The charm the application wants.
pub(super) fn charm_of(view: &Snapshot) -> CharmRef {
    let charm = &view.charm.charm;
    CharmRef {
        sha256: charm.sha256.clone(),
        url: charm.url.clone(),
        revision: charm.revision,
        endpoints: view.charm.declared.endpoints.keys().cloned().collect(),
    }
}

/// What config-changed is about, hashed: a value that changed and changed back is no change (H.18).
pub fn config_digest(view: &Snapshot) -> ConfigDigest {
    let digest = |text: &str| hex(&Sha256::digest(text)[..8]);
    let settings = serde_json::to_string(&view.config).expect("settings are plain data");
    ConfigDigest {
        settings: digest(&format!("{} {settings}", view.charm.charm.url)),
        addresses: digest(&view.unit.address),
    }
}
