//! Builds the context of a hook from the agent's stored state and its view.
//!
//! The agent builds the context once, when it has decided to run the hook; nothing in it changes while the hook runs
//! (invariant I5). Data of other units is read from the view; data of this unit is read from its stored state, which
//! is ahead of the view.

use super::commands_context;
use super::hook_context::{
    CloudSpec, Goal, GoalState, GoalStatus, HookContext, HookModel, HookRelation, HookResource, HookStatus,
    HookStorage, HookTrigger, OmittedBags, RunningAction, RunningCommands, Statuses, Writes,
};
use super::local::{Local, RelationLocal, Run};
use super::networks::{self, AddressDevice};
use super::required_files::RequiredFiles;
use crate::charm::{Charm, Resource, ResourceType, Scope, options};
use crate::terms::commands::{CommandsRequest, RelationContext};
use crate::terms::life::Life;
use crate::terms::names::{EndpointName, RelationEnds, RelationNumber, UnitName};
use crate::terms::operation::{CharmRef, Hook, LocalEndpoint, Operation, RelationEvent};
use crate::terms::owner::Owner;
use crate::terms::resource::IMAGE_FILE;
use crate::terms::secret::{SecretEvent, SecretId};
use crate::terms::settings::{self, Bag};
use crate::terms::status_message::StatusMessage;
use crate::terms::storage::{AttachedStorage, StorageId};
use crate::terms::unit_documents::StatusDoc;
use crate::unit::relation_view::{BagRequest, RelationView};
use crate::unit::secrets::{HookSecret, SecretView};
use crate::unit::snapshot::Snapshot;
use crate::unit::storage::StorageView;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The middle part of the context id of commands (spec/hook-tools.md 4).
const RUN_COMMANDS: &str = "run-commands";

/// The inputs of a context besides the stored state and the view.
#[derive(Clone, Debug)]
pub struct ContextInput<'a> {
    /// The declaration of the deployed charm, read from its folder.
    pub declared: &'a Charm,
    /// The end of the context id, which makes the id unguessable: 128 random bits in hex.
    pub id_suffix: &'a str,
    /// Whether the unit is the leader for at least another 30 s.
    pub is_leader: bool,
    /// The device of the machine that has the address of the unit; none if no device has it.
    pub device: Option<AddressDevice>,
    /// The script of the commands that a process on the machine has requested, if the run executes them.
    pub commands: Option<&'a str>,
    /// Returns the text of a status message, for status-get.
    pub message_text: fn(&StatusMessage) -> String,
}

/// Returns the charm that must be downloaded before one of its programs can run: the stored state contains a charm, but
/// its folder or one of its `programs` is missing. This happens if they were deleted, or if the unit's folder was lost and
/// its state was restored from the replica.
pub fn charm_to_fetch<'a>(
    local: &'a Local,
    declared: Option<&Charm>,
    files: &RequiredFiles,
) -> Option<&'a CharmRef> {
    local.charm.as_ref().filter(|_| declared.is_none() || files.is_any_lost(local))
}

/// Returns the request for an omitted bag that must be fetched before this operation starts: the bag of a relation
/// hook's remote unit or application (design 9). The hook's record reports the version of this bag as delivered.
pub fn bag_to_fetch(local: &Local, view: &Snapshot, operation: &Operation) -> Option<BagRequest> {
    let Operation::Hook(Hook::Relation { relation, event, .. }) = operation else { return None };
    let owner = match event {
        RelationEvent::Joined { unit, .. }
        | RelationEvent::Changed { unit, .. }
        | RelationEvent::Departed { unit, .. } => Owner::Unit(unit.clone()),
        RelationEvent::ApplicationChanged { application, .. } => Owner::Application(application.clone()),
        RelationEvent::Created | RelationEvent::Broken => return None,
    };
    let known = local.relations.get(relation)?;
    let shown = view.relation(*relation, known.uuid)?;
    let is_omitted = shown.bag(&owner).is_some() && view.values(*relation, &owner).is_none();
    is_omitted.then_some(BagRequest { relation: known.uuid, owner, position: view.position })
}

/// Whether the operation is an action that was cancelled after the agent had decided to run it: the view contains it as
/// being aborted, or no longer contains it and its parameters.
pub fn is_cancelled(view: &Snapshot, operation: &Operation) -> bool {
    matches!(operation, Operation::Action { id, .. } if view.actions.get(id).is_none_or(|action| action.aborting))
}

/// Whether the process of a running operation must be ended: a user has cancelled the action, and the controller has
/// received that it runs.
pub fn is_aborted(view: &Snapshot, operation: &Operation) -> bool {
    matches!(operation, Operation::Action { id, .. } if view.actions.get(id).is_some_and(|action| action.aborting))
}

/// Why a run has no context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoContext {
    /// The operation executes no program of the charm.
    NoProgram,
    /// The action was cancelled after the agent had decided to run it, and the view no longer contains it.
    ActionCancelled,
    /// The unit is not in the relation.
    NotInRelation,
    /// The agent does not have the script of the commands: the process that requested them has ended.
    ScriptAbsent,
}

/// Builds the context of `run`.
///
/// # Errors
/// If the operation executes no program of the charm, or its program cannot be started any more.
pub fn build(
    local: &Local,
    view: &Snapshot,
    run: &Run,
    input: &ContextInput,
) -> Result<HookContext, NoContext> {
    let trigger = trigger(local, view, &run.operation, input)?;
    let middle = match &trigger {
        HookTrigger::Action(action) => action.name.clone(),
        HookTrigger::Commands(_) => RUN_COMMANDS.to_owned(),
        HookTrigger::Hook(_)
        | HookTrigger::Relation { .. }
        | HookTrigger::Storage { .. }
        | HookTrigger::Secret { .. }
        | HookTrigger::Workload { .. } => trigger.hook_name(),
    };
    let about = trigger.relation_context().cloned();
    // only relations whose scope the unit has entered: a write in another one would be accepted here and dropped
    // later
    let build_relation = |(number, known): (&RelationNumber, _)| {
        (*number, relation(local, view, *number, known, &run.operation))
    };
    let relations: BTreeMap<_, _> = local.relations.iter().map(build_relation).collect();
    debug_assert!(about.is_none_or(|about| relations.contains_key(&about.relation)));
    let settings = options::with_defaults(input.declared, &view.config);
    let config = input.declared.config.keys();
    let config =
        config.map(|name| (name.clone(), settings.get(name).cloned().unwrap_or(Value::Null))).collect();
    let address = Some(view.unit.address.clone()).filter(|address| !address.is_empty());
    Ok(HookContext {
        unit: local.name.clone(),
        principal: view.unit.principal.clone(),
        id: format!("{}-{middle}-{}", local.name, input.id_suffix),
        trigger,
        model: HookModel {
            name: view.model.name.clone(),
            uuid: view.model.uuid,
            kubernetes: false,
            proxies: view.model.proxies.clone(),
            logging: view.model.logging.clone(),
            advanced_ms: view.model.advanced_ms,
            warm_dispatch: view.model.warm_dispatch,
            engine: view.model.engine,
        },
        leader: input.is_leader,
        leader_settings: view.newest_leader_settings().values.clone(),
        relations,
        config,
        charm_state: local.charm_state.clone(),
        statuses: statuses(local, view, input.message_text),
        opened_ports: local.ports.clone(),
        machine_ports: view.machine_ports.clone(),
        networks: networks::by_binding(input.declared, &view.unit.address, input.device.as_ref()),
        private_address: address.clone(),
        public_address: address,
        goal_state: goal_state(view),
        cloud: view.trusted.then(CloudSpec::of_machines),
        secrets: own_secrets(view),
        storage: storage(local, view, &run.operation),
        resources: resources(input.declared, view),
        writes: Writes::default(),
    })
}

/// The resources that the charm on the disk of the unit declares, with the files of the view.
fn resources(declared: &Charm, view: &Snapshot) -> BTreeMap<String, HookResource> {
    let resource = |(name, resource): (&String, &Resource)| {
        let filename = match resource.kind {
            ResourceType::File => resource.filename.clone(),
            ResourceType::OciImage => IMAGE_FILE.to_owned(),
        };
        let attached = view.charm.charm.resources.files.get(name);
        (name.clone(), HookResource { filename, sha256: attached.map(|file| file.sha256.clone()) })
    };
    declared.resources.iter().map(resource).collect()
}

/// The secrets of the unit and of its application. Those of the application are included for every unit: only the
/// leader may use them, and the tools of the other units fail with that reason.
fn own_secrets(view: &Snapshot) -> BTreeMap<SecretId, HookSecret> {
    let owned = |(id, shown): (&SecretId, &SecretView)| Some((*id, shown.owned.clone()?.secret));
    view.secrets.iter().filter_map(owned).collect()
}

/// The storage that the unit has attached, and that of its hook.
fn storage(local: &Local, view: &Snapshot, operation: &Operation) -> BTreeMap<StorageId, HookStorage> {
    let of_hook = match operation {
        Operation::Hook(Hook::Storage { id, storage, .. }) => Some((id, storage)),
        _ => None,
    };
    let shown = |(id, known): (&StorageId, &AttachedStorage)| {
        (id.clone(), HookStorage { kind: known.kind, location: location(&view.storage, id, known) })
    };
    local.storage.iter().chain(of_hook).map(shown).collect()
}

/// Where the unit finds an instance now. It may have moved since storage-attached ran, with the data folder of its machine.
/// What the view no longer shows is where it was.
fn location(shown: &BTreeMap<StorageId, StorageView>, id: &StorageId, known: &AttachedStorage) -> String {
    let same = shown.get(id).filter(|shown| shown.instance == known.instance);
    same.and_then(|shown| shown.location.clone()).unwrap_or_else(|| known.location.clone())
}

fn trigger(
    local: &Local,
    view: &Snapshot,
    operation: &Operation,
    input: &ContextInput,
) -> Result<HookTrigger, NoContext> {
    Ok(match operation {
        Operation::Hook(hook @ Hook::Relation { relation, event, .. }) => {
            let local_endpoint =
                &local.relations.get(relation).ok_or(NoContext::NotInRelation)?.local_endpoint;
            let application = match event {
                RelationEvent::ApplicationChanged { application, .. } => application.clone(),
                RelationEvent::Created
                | RelationEvent::Joined { .. }
                | RelationEvent::Changed { .. }
                | RelationEvent::Departed { .. }
                | RelationEvent::Broken => local_endpoint.remote_application.clone(),
            };
            let departing = match event {
                RelationEvent::Departed { departing, .. } => Some(departing.clone()),
                RelationEvent::Created
                | RelationEvent::Joined { .. }
                | RelationEvent::Changed { .. }
                | RelationEvent::ApplicationChanged { .. }
                | RelationEvent::Broken => None,
            };
            let unit = event.remote_unit().cloned();
            let about = RelationContext { relation: *relation, unit, application, departing };
            HookTrigger::Relation { hook: hook.name(), about }
        }
        Operation::Hook(Hook::Secret { secret, label, revision, event, .. }) => {
            let has_revision = matches!(event, SecretEvent::Expired | SecretEvent::Remove);
            let revision = has_revision.then_some(*revision);
            HookTrigger::Secret { event: *event, id: *secret, label: label.clone(), revision }
        }
        Operation::Hook(hook @ Hook::Storage { id, storage, .. }) => {
            let (id, location) = (id.clone(), location(&view.storage, id, storage));
            HookTrigger::Storage { hook: hook.name(), id, location, kind: storage.kind }
        }
        Operation::Hook(hook) => HookTrigger::Hook(hook.name()),
        Operation::Commands(CommandsRequest { about, .. }) => {
            if about.as_ref().is_some_and(|about| !local.relations.contains_key(&about.relation)) {
                return Err(NoContext::NotInRelation);
            }
            let script = input.commands.ok_or(NoContext::ScriptAbsent)?.to_owned();
            HookTrigger::Commands(RunningCommands { about: about.clone(), script, on_machine: false })
        }
        Operation::Action { id, name } => {
            let action = view.actions.get(id).ok_or(NoContext::ActionCancelled)?;
            if let Some(script) = commands_context::of_action(action) {
                let (script, on_machine) = (script.to_owned(), commands_context::is_of_machine(action));
                let running = RunningCommands { about: None, script, on_machine };
                return Ok(HookTrigger::Commands(running));
            }
            let params = action.params.clone().into_iter().collect();
            HookTrigger::Action(RunningAction { name: name.clone(), id: id.to_string(), params })
        }
        Operation::InstallCharm(_)
        | Operation::EnterScope { .. }
        | Operation::LeaveScope { .. }
        | Operation::Resync
        | Operation::SetDead => return Err(NoContext::NoProgram),
    })
}

/// Builds a relation as the hook reads it: the members that the charm has observed, with the hook's own effect on
/// them (spec C.1).
fn relation(
    local: &Local,
    view: &Snapshot,
    number: RelationNumber,
    known: &RelationLocal,
    operation: &Operation,
) -> HookRelation {
    let shown = view.relation(number, known.uuid);
    let mut members: BTreeSet<UnitName> = known.members.keys().cloned().collect();
    let mut broken = false;
    if let Operation::Hook(Hook::Relation { relation, event, .. }) = operation
        && *relation == number
    {
        match event {
            RelationEvent::Joined { unit, .. } => drop(members.insert(unit.clone())),
            RelationEvent::Departed { unit, .. } => drop(members.remove(unit)),
            RelationEvent::Broken => broken = true,
            RelationEvent::Created
            | RelationEvent::Changed { .. }
            | RelationEvent::ApplicationChanged { .. } => {}
        }
    }
    let LocalEndpoint { endpoint, interface, peer, remote_application, .. } = &known.local_endpoint;
    let life = shown.map_or(Life::Dying, |shown| shown.head.life);
    let end = |application: &String, endpoint: &String| {
        let (application, endpoint) = (application.clone(), endpoint.clone());
        EndpointName { application, endpoint }
    };
    let own_end = end(&local.name.application, endpoint);
    let remote_end = shown.map(|shown| end(remote_application, &shown.head.remote_endpoint));
    let ends = RelationEnds::from_iter([own_end].into_iter().chain(remote_end.filter(|_| !*peer)));
    let Bags { units: unit_bags, applications: application_bags, omitted } = bags(local, view, number, shown);
    HookRelation {
        endpoint: endpoint.clone(),
        interface: interface.clone(),
        peer: *peer,
        ends,
        remote_application: remote_application.clone(),
        remote_model: view.model.uuid,
        // relation-ids does not list a relation in its broken hook, even if the relation is still Alive in the view
        life: if broken { life.most_advanced(Life::Dying) } else { life },
        suspended: shown.is_some_and(|shown| shown.head.suspended),
        members,
        unit_bags,
        application_bags,
        omitted,
    }
}

struct Bags {
    units: BTreeMap<UnitName, Bag>,
    applications: BTreeMap<String, Bag>,
    omitted: OmittedBags,
}

/// Collects the bags of a relation: those of others from the view, this unit's own from its stored state, which is
/// ahead of the view.
fn bags(local: &Local, view: &Snapshot, number: RelationNumber, shown: Option<&RelationView>) -> Bags {
    let (mut units, mut applications) = (BTreeMap::new(), BTreeMap::new());
    let mut omitted = OmittedBags::default();
    for (owner, _) in shown.iter().flat_map(|shown| &shown.bags) {
        match (owner, view.values(number, owner)) {
            (Owner::Unit(unit), _) if *unit == local.name => {}
            (Owner::Unit(unit), Some(values)) => drop(units.insert(unit.clone(), values.clone())),
            (Owner::Application(name), Some(values)) => {
                drop(applications.insert(name.clone(), values.clone()))
            }
            (_, None) => drop(omitted.bags.insert(owner.clone())),
        }
    }
    if let Some(shown) = shown {
        (omitted.relation, omitted.position) = (shown.head.uuid, view.position);
    }
    if let Some(known) = local.relations.get(&number) {
        units.insert(local.name.clone(), known.bag.clone());
        if let Some((revision, change)) = &known.pending_application_writes
            && view.position.revision < *revision
        {
            let application = &local.name.application;
            if omitted.bags.contains(&Owner::Application(application.clone())) {
                omitted.pending_application_writes = change.clone();
            } else {
                settings::apply(applications.entry(application.clone()).or_default(), change);
            }
        }
    }
    Bags { units, applications, omitted }
}

fn statuses(local: &Local, view: &Snapshot, message_text: fn(&StatusMessage) -> String) -> Statuses {
    let status = |doc: &StatusDoc| HookStatus {
        status: doc.status,
        message: message_text(&doc.message),
        data: doc.data.clone(),
    };
    let unknown = HookStatus::default;
    let mut units: BTreeMap<_, _> = view
        .statuses
        .iter()
        .filter(|(unit, _)| unit.application == local.name.application)
        .map(|(unit, doc)| (unit.clone(), status(doc)))
        .collect();
    // this unit's own status is newer in its stored state than in the view
    let own = local.status.as_ref().map(|(status, message)| HookStatus {
        status: *status,
        message: message.clone(),
        ..HookStatus::default()
    });
    let unit = own.or_else(|| units.get(&local.name).cloned()).unwrap_or_else(unknown);
    units.insert(local.name.clone(), unit.clone());
    let application = view.application_status.as_ref().map(status).unwrap_or_else(unknown);
    Statuses { unit, application, units }
}

fn goal_state(view: &Snapshot) -> GoalState {
    let is_own_dying = view.unit.life != Life::Alive;
    let goal = |unit: &UnitName, doc: &StatusDoc| {
        let is_dying = view.dying_units.contains(unit) || is_own_dying && *unit == view.unit.name;
        let status = if is_dying { GoalStatus::Dying } else { GoalStatus::Workload(doc.status) };
        Goal { status, since: utc(doc.since_ms) }
    };
    let goals_of = |application: &str| {
        let units = view.statuses.iter().filter(move |(unit, _)| unit.application == application);
        units.map(|(unit, doc)| (unit.to_string(), goal(unit, doc))).collect::<BTreeMap<_, _>>()
    };
    let mut relations: BTreeMap<String, BTreeMap<String, Goal>> = BTreeMap::new();
    for relation in view.relations.values().filter(|relation| !relation.head.implicit) {
        let goals = relations.entry(relation.head.endpoint.clone()).or_default();
        let application = &relation.head.remote_application;
        let is_listed = |unit: &String| match relation.head.scope {
            Scope::Global => *unit != view.unit.name.to_string(),
            // in a container relation, only the units of this unit's own group: its subordinates or its principal
            Scope::Container => {
                let group = view.unit.subordinates.iter().chain(&view.unit.principal);
                group.chain(relation.members.keys()).any(|other| *unit == other.to_string())
            }
        };
        goals.extend(goals_of(application).into_iter().filter(|(unit, _)| is_listed(unit)));
        if !relation.head.peer {
            let since = goals.values().map(|goal| goal.since.clone()).min().unwrap_or_else(|| utc(0));
            goals.insert(application.clone(), Goal { status: GoalStatus::Joined, since });
        }
    }
    GoalState { units: goals_of(&view.unit.name.application), relations }
}

/// Formats milliseconds since 1970 as `2006-01-02 15:04:05Z`.
///
/// The calculation shifts the days so that the 400-year cycles of the calendar start on the first of March, which
/// makes the leap day the last day of a year.
pub fn utc(ms: i64) -> String {
    let seconds = ms.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let (cycle, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + cycle * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::{location, utc};
    use crate::charm::StorageType;
    use crate::terms::names::Uuid;
    use crate::terms::storage::{AttachedStorage, StorageId};
    use crate::unit::storage::StorageView;
    use std::collections::BTreeMap;

    /// 1. A unit attaches storage.
    /// 2. The data folder of its machine is moved, or copied with a new identity: its agent provides the storage elsewhere.
    #[test]
    fn a_hook_finds_its_storage_where_its_machine_provides_it_now() {
        let id: StorageId = "data/0".parse().expect("an id");
        let kind = StorageType::Filesystem;
        let known = AttachedStorage { instance: Uuid(1), kind, location: "/old".to_owned() };
        let shown = |instance, location: Option<&str>| {
            let location = location.map(str::to_owned);
            BTreeMap::from([(id.clone(), StorageView { instance, kind, location, detaching: false })])
        };
        assert_eq!(location(&shown(Uuid(1), Some("/new")), &id, &known), "/new");
        assert_eq!(location(&shown(Uuid(1), None), &id, &known), "/old", "it is not provided yet");
        assert_eq!(location(&shown(Uuid(2), Some("/other")), &id, &known), "/old", "another instance");
        assert_eq!(location(&BTreeMap::new(), &id, &known), "/old", "it is gone");
    }

    #[test]
    fn a_time_is_formatted_in_utc() {
        assert_eq!(utc(0), "1970-01-01 00:00:00Z");
        assert_eq!(utc(951_827_696_000), "2000-02-29 12:34:56Z");
        assert_eq!(utc(1_735_689_599_999), "2024-12-31 23:59:59Z");
        assert_eq!(utc(-1_000), "1969-12-31 23:59:59Z");
    }
}
