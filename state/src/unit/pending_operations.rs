//! Finds the pending operation of an idle unit, one function for each kind of operation.
//!
//! Each compares what the unit has done ([`Local`]) with its view, and returns nothing if no operation of its kind is
//! pending. A reason that holds an operation back is added to `waits`. No relation hook starts on a view that may be
//! stale. `resolve` calls the functions in the order of hooks; `follow_up`, `shut_down` and `relation_hook` decide the
//! order of the hooks among which they choose. Hooks of secrets are in `pending_secret_hook`, those of storage in
//! `pending_storage_hook`.

use super::chosen_operation::{ChosenOperation, start};
use super::decision::{Act, CharmOnDisk, Now, is_link_fresh};
use super::jitter::jitter;
use super::local::{Episode, FollowUp, Local, Run};
use super::pending_relation_hook::{PendingHook, ThisUnit, pending_hook};
use super::pending_storage_hook::detach_all;
use super::record::{Outcome, Record, sha256_hex};
use super::relation_view::RelationView;
use super::snapshot::{ActionView, Snapshot};
use super::wait_causes::{subordinate_cause, wait, wait_cause, wait_for_link};
use crate::terms::cause::{Actor, Cause, Duty};
use crate::terms::commands::EXEC;
use crate::terms::failure_reason::FailureReason;
use crate::terms::names::RelationNumber;
use crate::terms::operation::{CharmRef, ConfigDigest, Hook, LocalEndpoint, Operation, RelationEvent};
use crate::terms::resource::Resources;
use crate::terms::settings::Bag;
use crate::terms::start_reason::StartReason;

/// An agent without a connection stops running update-status once its outbox has this many records: five hours of
/// update-status at the default interval of 5 minutes.
const OUTBOX_MAX: usize = 60;

/// Whether the unit is not being removed. A unit that has run stop or remove is being removed, even if a restored store
/// contains it as Alive again.
pub(super) fn is_alive(local: &Local, view: &Snapshot) -> bool {
    view.unit.life.is_alive() && !local.is_tearing_down()
}

/// Runs start again after a reboot of the machine.
pub(super) fn start_after_reboot(local: &Local, now: &Now) -> Option<ChosenOperation> {
    let known = !now.boot.is_empty();
    let running = local.started && !local.stopped && local.follow_up.is_none();
    if !(known && running && local.boot.as_ref() != Some(&now.boot)) {
        return None;
    }
    ChosenOperation::hook(Hook::Start { boot: now.boot.clone() }, StartReason::Rebooted)
}

/// Unpacks the charm again if its folder was lost. Files that the charm stored there are lost too, so upgrade-charm
/// follows as after an upgrade (spec A.5). This precedes all hooks, because each of them would download the charm
/// without running upgrade-charm.
pub(super) fn lost_charm(local: &Local, view: &Snapshot, now: &Now, alive: bool) -> Option<ChosenOperation> {
    // a pending upgrade-charm downloads the charm itself
    let due =
        alive && local.installed && is_charm_missing(now) && local.follow_up != Some(FollowUp::UpgradeCharm);
    due.then(|| {
        ChosenOperation::new(Operation::InstallCharm(wanted_charm(view)), StartReason::CharmFolderLost)
    })
}

fn is_charm_missing(now: &Now) -> bool {
    now.charm != CharmOnDisk::Complete
}

/// Unpacks the unit's first charm.
pub(super) fn first_charm(local: &Local, view: &Snapshot, alive: bool) -> Option<ChosenOperation> {
    let due = alive && local.charm.is_none();
    due.then(|| ChosenOperation::new(Operation::InstallCharm(wanted_charm(view)), StartReason::NoCharm))
}

/// Runs the hook that the last operation has queued, except install on a unit that is being removed (spec A.7).
pub(super) fn follow_up(local: &Local, view: &Snapshot, now: &Now, alive: bool) -> Option<ChosenOperation> {
    match local.follow_up? {
        FollowUp::Install if alive => ChosenOperation::hook(Hook::Install, StartReason::CharmInstalled),
        FollowUp::Install => None,
        // leadership was lost before the hook could run: `leadership` removes it from the queue
        FollowUp::LeaderElected if now.leader_generation.is_none() => None,
        FollowUp::LeaderElected => ChosenOperation::hook(
            Hook::LeaderElected { generation: now.leader_generation },
            StartReason::LeadershipGained,
        ),
        FollowUp::Start => {
            ChosenOperation::hook(Hook::Start { boot: now.boot.clone() }, StartReason::Configured)
        }
        FollowUp::UpgradeCharm => ChosenOperation::hook(Hook::UpgradeCharm, StartReason::CharmReplaced),
        FollowUp::ConfigChanged => {
            ChosenOperation::hook(Hook::ConfigChanged(config_digest(view)), StartReason::UpgradeDone)
        }
    }
}

/// Whether the unit may enter relations: it is not being removed, has run install, and no hook is queued.
fn may_enter_relations(local: &Local, alive: bool) -> bool {
    alive && local.installed && local.follow_up.is_none()
}

/// Enters the scope of the first relation that the unit is not in yet and can enter. It enters all of these before it runs
/// any relation-created.
pub(super) fn enter_scope(
    local: &Local,
    view: &Snapshot,
    now: &Now,
    alive: bool,
    waits: &mut Vec<Cause>,
) -> Option<Act> {
    if !may_enter_relations(local, alive) {
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
            waits.push(wait_cause(local, duty, Actor::Operator));
            continue;
        }
        if let Some(reason) = subordinate_cause(local, view, relation, remote) {
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
pub(super) fn created(
    local: &Local,
    view: &Snapshot,
    now: &Now,
    alive: bool,
    waits: &mut Vec<Cause>,
) -> Option<Act> {
    if !may_enter_relations(local, alive) {
        return None;
    }
    let (relation, remote) = in_order(view).find(|(relation, remote)| {
        let known = local.relations.get(relation).filter(|known| known.uuid == remote.head.uuid);
        let is_pending = known.is_some_and(|known| !known.created);
        is_pending && remote.head.life.is_alive() && !remote.head.suspended
    })?;
    if !is_link_fresh(now) {
        wait_for_link(local, waits, now);
        return None;
    }
    let endpoint = remote.head.endpoint.clone();
    let hook = Hook::Relation { relation, endpoint, event: RelationEvent::Created };
    let chosen = ChosenOperation::hook(hook, StartReason::RelationAppeared { relation })?;
    Some(chosen.act(local, view, now))
}

/// Queues leader-elected once per leadership generation, and removes it from the queue if the unit lost leadership
/// before the hook ran.
pub(super) fn leadership(local: &Local, now: &Now, alive: bool) -> Option<Act> {
    if local.follow_up == Some(FollowUp::LeaderElected) {
        return now.leader_generation.is_none().then_some(Act::ChangeLeadership(None));
    }
    let gained = alive && local.installed && local.follow_up.is_none() && now.leader_generation.is_some();
    (gained && now.leader_generation != local.elected_generation)
        .then_some(Act::ChangeLeadership(now.leader_generation))
}

/// Runs leader-settings-changed on a unit that has not observed the settings that its leader has stored.
///
/// Juju up to 3.6 also runs the hook after install and after each restart of an agent, whether or not the settings
/// changed; here it runs for a change only (spec/uniter.md A.1).
pub(super) fn leader_settings_changed(
    local: &Local,
    view: &Snapshot,
    now: &Now,
    alive: bool,
) -> Option<ChosenOperation> {
    // after a restart the view, not the lease, shows who leads
    let follows = now.leader_generation.is_none()
        && view.leader.as_ref().is_some_and(|grant| grant.holder != local.name);
    let version = view.newest_leader_settings().version;
    if !(alive && local.installed && follows && version != local.leader_settings_version) {
        return None;
    }
    ChosenOperation::hook(Hook::LeaderSettingsChanged { version }, StartReason::LeaderSettingsChanged)
}

/// The oldest action that has not run.
fn oldest_action<'a>(local: &Local, view: &'a Snapshot) -> Option<(u64, &'a ActionView)> {
    let has_run = |id: &u64| {
        let same =
            |record: &Record| matches!(&record.operation, Operation::Action { id: done, .. } if done == id);
        local.outbox.iter().any(same) || local.last_action.is_some_and(|last| *id <= last)
    };
    view.actions.iter().find(|(id, _)| !has_run(id)).map(|(id, action)| (*id, action))
}

/// Runs the next action. `episode` is the open failure, which the action does not affect.
pub(super) fn pending_action(
    local: &Local,
    view: &Snapshot,
    now: &Now,
    episode: Option<&Episode>,
) -> Option<Act> {
    let (id, action) = oldest_action(local, view)?;
    local.charm.as_ref()?;
    let operation = Operation::Action { id, name: action.name.clone() };
    if action.running {
        // An agent of this unit has started the action, and the stored state of that run is lost. The action may have
        // run, so it must not run again.
        let reason = FailureReason::StateLost;
        let record = local.record(operation, Outcome::Failed { reason, retry: None }, now.wall_ms);
        return Some(Act::RecordOutcome(record));
    }
    Some(start_requested(local, view, now, operation, episode))
}

/// Starts an action or commands. `episode` is the open failure, which the run does not affect.
fn start_requested(
    local: &Local,
    view: &Snapshot,
    now: &Now,
    operation: Operation,
    episode: Option<&Episode>,
) -> Act {
    let run = Run { episode: episode.cloned(), ..Run::new(0, operation, StartReason::Requested) };
    start(local, Some(view), now, run)
}

/// Runs commands in any state of the workflow, as soon as the charm is on disk (spec A.2 row 12): those of a process on
/// the machine, and those of a user if no action was enqueued before them.
pub(super) fn commands(local: &Local, view: &Snapshot, now: &Now, episode: Option<&Episode>) -> Option<Act> {
    if local.charm.is_none() || is_charm_missing(now) {
        return None;
    }
    if let Some(request) = &now.commands {
        return Some(start_requested(local, view, now, Operation::Commands(request.clone()), episode));
    }
    oldest_action(local, view).filter(|(_, action)| action.name == EXEC)?;
    pending_action(local, view, now, episode)
}

/// Runs an action between the hooks of a unit that is installed.
pub(super) fn action(local: &Local, view: &Snapshot, now: &Now) -> Option<Act> {
    if !local.installed || local.follow_up.is_some() || local.removed {
        return None;
    }
    pending_action(local, view, now, None)
}

/// Decides the next step of a Dying unit: it leaves its relations, runs stop and remove, and becomes Dead (spec A.7).
pub(super) fn shut_down(
    local: &Local,
    view: &Snapshot,
    now: &Now,
    alive: bool,
    waits: &mut Vec<Cause>,
) -> Option<Act> {
    if alive {
        return None;
    }
    let detach = detach_all(local, view, now, waits);
    if detach.is_some() || !waits.is_empty() {
        return Some(detach.unwrap_or_else(|| wait(None, std::mem::take(waits))));
    }
    if local.installed {
        let leave = relation_hook(local, view, now, alive, waits);
        if leave.is_some() || !waits.is_empty() {
            return Some(leave.unwrap_or_else(|| wait(None, std::mem::take(waits))));
        }
    }
    // 1. A unit is Dying in its cached view, and the store is restored from a backup in which the unit is Alive.
    // 2. The agent starts, and its attach is under way. It states that the unit has not started to end.
    // 3. Stop runs now. The controller refuses its record, because the unit is Alive.
    if !now.attached {
        wait_for_link(local, waits, now);
        return Some(wait(None, std::mem::take(waits)));
    }
    if local.installed {
        let last = if local.started && !local.stopped {
            ChosenOperation::hook(Hook::Stop, StartReason::Removed)
        } else if !local.removed {
            ChosenOperation::hook(Hook::Remove, StartReason::Removed)
        } else {
            None
        };
        if let Some(chosen) = last {
            return Some(chosen.act(local, view, now));
        }
    }
    if let Some(subordinate) = view.unit.subordinates.first() {
        let duty = Duty::RemoveSubordinate { unit: subordinate.clone(), relation: None };
        return Some(wait(None, vec![wait_cause(local, duty, Actor::Unit(subordinate.clone()))]));
    }
    Some(Act::RecordOutcome(local.record(Operation::SetDead, Outcome::Ok, now.wall_ms)))
}

/// Whether the charm of the application is another revision, possibly of the same content.
pub(super) fn is_refreshed(charm: &CharmRef, wanted: &CharmRef) -> bool {
    charm.sha256 != wanted.sha256 || charm.url != wanted.url
}

/// Installs the charm of the application if it or its resources differ, or runs an upgrade-charm that is pending since an
/// error.
pub(super) fn upgrade(local: &Local, view: &Snapshot, alive: bool) -> Option<ChosenOperation> {
    if !alive || !local.installed {
        return None;
    }
    let wanted = wanted_charm(view);
    let reason = match &local.charm {
        Some(charm) if is_refreshed(charm, &wanted) => {
            Some(StartReason::Refreshed { charm_url: wanted.url.clone() })
        }
        Some(charm) if charm.resources != wanted.resources => Some(StartReason::ResourceAttached),
        Some(_) | None => None,
    };
    if let Some(reason) = reason {
        return Some(ChosenOperation::new(Operation::InstallCharm(wanted), reason));
    }
    if local.upgrade_pending {
        return ChosenOperation::hook(Hook::UpgradeCharm, StartReason::UpgradePending);
    }
    None
}

/// Runs config-changed if its inputs changed since it ran last.
pub(super) fn config_changed(local: &Local, view: &Snapshot, alive: bool) -> Option<ChosenOperation> {
    if !alive || !local.installed {
        return None;
    }
    let seen = config_digest(view);
    let reason = match &local.config {
        None => StartReason::FirstConfiguration,
        Some(old) if *old == seen => return None,
        Some(old) if old.settings != seen.settings => StartReason::SettingsChanged,
        Some(old) if old.addresses != seen.addresses => StartReason::AddressesChanged,
        Some(_) => StartReason::TrustChanged,
    };
    ChosenOperation::hook(Hook::ConfigChanged(seen), reason)
}

/// Runs the next relation hook, across all relations in order. A changed that must follow a joined precedes the hooks
/// of other relations.
pub(super) fn relation_hook(
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
    let pending = local.relations.iter().find(|(_, relation)| relation.pending_changed.is_some());
    let peers_last =
        |peer| local.relations.iter().filter(move |(_, relation)| relation.local_endpoint.peer == peer);
    let order = pending.into_iter().chain(peers_last(false)).chain(peers_last(true));
    for (number, relation) in order {
        let shown = view.relation(*number, relation.uuid);
        let Some(pending) = pending_hook(relation, shown, this_unit) else { continue };
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
                let reason = StartReason::RelationChanged { endpoint: endpoint.clone(), relation: *number };
                let hook = Hook::Relation { relation: *number, endpoint, event };
                ChosenOperation::new(Operation::Hook(hook), reason).act(local, view, now)
            }
        });
    }
    None
}

/// Returns when update-status is due next, in milliseconds since boot: after the model's interval, varied by up to a
/// fifth depending on the unit and its last run, so that units do not run it at the same time.
pub(super) fn update_status_due(local: &Local, view: &Snapshot, now: &Now, alive: bool) -> Option<u64> {
    let interval = view.model.update_status_ms;
    if !alive || !local.started || interval == 0 || local.outbox.len() >= OUTBOX_MAX {
        return None;
    }
    let jitter_range = (interval * 2 / 5).max(1);
    let delay = interval - interval / 5 + jitter(local.unit, local.run) % jitter_range;
    Some((now.since_boot_ms + delay).saturating_sub(now.idle_ms))
}

/// Runs update-status if it is due.
pub(super) fn update_status(
    local: &Local,
    view: &Snapshot,
    now: &Now,
    alive: bool,
) -> Option<ChosenOperation> {
    let due = update_status_due(local, view, now, alive)?;
    if due > now.since_boot_ms {
        return None;
    }
    ChosenOperation::hook(Hook::UpdateStatus, StartReason::IntervalPassed)
}

/// Returns the charm of the unit's application, which the unit should run.
pub(super) fn wanted_charm(view: &Snapshot) -> CharmRef {
    let charm = &view.charm.charm;
    CharmRef {
        sha256: charm.sha256.clone(),
        url: charm.url.clone(),
        revision: charm.revision,
        endpoints: view.charm.declared.endpoints.keys().cloned().collect(),
        resources: resources_digest(&charm.resources),
    }
}

/// The digits of the digests in this module: 64 bits tell the few values apart that one unit has seen.
const DIGEST_DIGITS: usize = 16;

/// Returns the digest of an application's resources, empty if it never had any. It contains the version, so that each
/// change of a file counts; and the digests of the files, because a restored store may assign a version again.
pub fn resources_digest(resources: &Resources) -> String {
    if resources.is_empty() {
        return String::new();
    }
    let files = resources.files.iter().map(|(name, file)| format!(" {} {name}", file.sha256));
    let text = format!("{}{}", resources.version, files.collect::<String>());
    sha256_hex(text)[..DIGEST_DIGITS].to_owned()
}

/// Returns the hashes of the inputs of config-changed. A value that changed and changed back is not a change (H.18).
pub fn config_digest(view: &Snapshot) -> ConfigDigest {
    let digest = |text: &str| sha256_hex(text)[..DIGEST_DIGITS].to_owned();
    let settings = serde_json::to_string(&view.config).expect("settings are plain data");
    ConfigDigest {
        settings: digest(&format!("{} {settings}", view.charm.charm.url)),
        addresses: digest(&view.unit.address),
        trusted: view.trusted,
    }
}
