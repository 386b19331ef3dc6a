//! The status of a model and its entities, computed from the documents and the presence of the agents.
//!
//! The names and texts of statuses are those that clients of Juju match (spec/clients.md 2.4, 3.4; uniter.md F.5).
//! Nothing is stored: every request computes the status anew. Called by the handlers and by `why`.

use crate::presence::PresenceSnapshot;
use api::*;
use state::charm::{Base, Role};
use state::documents::draft::{Reader, read, read_all};
use state::documents::effective_life;
use state::documents::keys::{
    ApplicationDoc, BagDoc, GLOBAL, Kind, MachineDoc, Model, RelationDoc, ScopeDoc, StatusDoc, TokenHolder,
    UnitDoc, last_id,
};
use state::lifecycle::application;
use state::terms::life::Life;
use state::terms::names::{RelationNumber, UnitName, Uuid};
use state::terms::position::Position;
use state::unit::activity::Activity;
use state::unit::resolve::{Act, Now, next};
use state::unit::snapshot::Snapshot;
use state::views::view;
use std::collections::{BTreeMap, BTreeSet};

/// Workload statuses, worst first (spec/clients.md 3.4).
const WORST_FIRST: [&str; 7] =
    ["error", "blocked", "maintenance", "waiting", "active", "terminated", "unknown"];
/// The base of units whose charm declares none, and of machines, in a form that clients can parse.
const BASE: (&str, &str) = ("ubuntu", "24.04");
/// Juju's message for an agent that is lost.
const LOST_MESSAGE: &str = "agent is not communicating with the controller";

/// Returns the status of the whole model. Panics if the model does not exist.
pub fn model_status(
    reader: &dyn Reader,
    model: Model,
    presence: &PresenceSnapshot,
    position: Position,
    now_ms: i64,
) -> Status {
    let doc = read(reader, &model.model()).expect("the caller has found the model");
    let life = read(reader, &model.model_life()).unwrap_or_default();
    let relations = relations(reader, model);
    let mut applications = BTreeMap::new();
    for (key, app) in read_all::<ApplicationDoc>(reader, &model.all(Kind::Application)) {
        let id = last_id(&key).expect("an application's key ends with its id");
        applications
            .insert(app.name.clone(), application_status(reader, model, presence, (id, &app), &relations));
    }
    let mut machines = BTreeMap::new();
    for (key, machine) in read_all::<MachineDoc>(reader, &model.all(Kind::Machine)) {
        let id = last_id(&key).expect("a machine's key ends with its id");
        machines.insert(machine.name.clone(), machine_status(reader, model, presence, id, machine));
    }
    Status {
        position,
        now_ms,
        model: ModelStatus {
            name: doc.name,
            uuid: model.0,
            life,
            controller: "here".to_owned(),
            cloud: "local".to_owned(),
            region: "local".to_owned(),
            version: api::JUJU_VERSION.to_owned(),
            status: match read(reader, &model.model_destruction()) {
                Some(destruction) => info("destroying", "", Some(destruction.since_ms)),
                None => info("available", "", Some(doc.created_ms)),
            },
        },
        machines,
        applications,
        relations: relations.iter().map(|(id, doc)| relation_status(reader, model, *id, doc)).collect(),
    }
}

fn info(current: &str, message: &str, since_ms: Option<i64>) -> StatusInfo {
    StatusInfo { current: current.to_owned(), message: message.to_owned(), since_ms, data: BTreeMap::new() }
}

fn status_info(doc: StatusDoc) -> StatusInfo {
    StatusInfo { current: doc.status, message: doc.message, since_ms: Some(doc.since_ms), data: doc.data }
}

fn base() -> Base {
    Base { name: BASE.0.to_owned(), channel: BASE.1.to_owned(), architectures: Vec::new() }
}

fn relations(reader: &dyn Reader, model: Model) -> Vec<(Uuid, RelationDoc)> {
    let all = read_all(reader, &model.all(Kind::Relation));
    let mut all: Vec<_> = all.into_iter().filter_map(|(key, doc)| Some((last_id(&key)?, doc))).collect();
    all.sort_by_key(|(_, doc): &(Uuid, RelationDoc)| doc.number);
    all
}

/// Returns the relation with this number.
pub fn relation_of_number(reader: &dyn Reader, model: Model, number: RelationNumber) -> Option<Uuid> {
    relations(reader, model).into_iter().find(|(_, doc)| doc.number == number).map(|(id, _)| id)
}

/// The state of a machine's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineAgent {
    /// The agent has not been started yet: it has no token.
    Pending,
    /// The provider failed, and the agent has not reported since.
    Failed,
    /// The agent reports regularly.
    Present,
    /// The agent has been silent for longer than [`crate::presence::LATE_AFTER_MS`].
    Late,
    /// The agent has been silent for longer than [`crate::presence::LOST_AFTER_MS`].
    Lost,
}

/// Returns the state of a machine's agent.
pub fn machine_agent(
    reader: &dyn Reader,
    model: Model,
    presence: &PresenceSnapshot,
    id: Uuid,
) -> MachineAgent {
    let holder = read(reader, &GLOBAL.token_of(id)).and_then(|hash| read(reader, &GLOBAL.token(&hash)));
    let error = read(reader, &model.machine_provisioning_error(id));
    // The token is stored before the instance starts, and that counts as a heartbeat, so it proves nothing.
    if error.is_some_and(|error| presence.last_heartbeat_ms(id) <= error.last_ms) {
        MachineAgent::Failed
    } else if !matches!(holder, Some(TokenHolder::Machine { .. })) {
        MachineAgent::Pending
    } else if presence.is_lost(id) {
        MachineAgent::Lost
    } else if presence.is_late(id) {
        MachineAgent::Late
    } else {
        MachineAgent::Present
    }
}

fn machine_status(
    reader: &dyn Reader,
    model: Model,
    presence: &PresenceSnapshot,
    id: Uuid,
    doc: MachineDoc,
) -> MachineStatus {
    let life = read(reader, &model.machine_life(id)).unwrap_or(Life::Dead);
    let (created, silent) = (Some(doc.created_ms), Some(presence.last_heartbeat_ms(id)));
    let made = read(reader, &model.machine_instance(id));
    let error = read(reader, &model.machine_provisioning_error(id));
    let failed = error.as_ref().map(|error| error.since_ms);
    let (agent, instance) = match (life, machine_agent(reader, model, presence, id)) {
        (Life::Dead, _) => (info("stopped", "", None), "stopped"),
        (Life::Alive | Life::Dying, MachineAgent::Pending) => (info("pending", "", created), "pending"),
        (Life::Alive | Life::Dying, MachineAgent::Failed) => (info("down", "", failed), "pending"),
        (Life::Alive | Life::Dying, MachineAgent::Lost) => (info("down", LOST_MESSAGE, silent), "running"),
        (Life::Alive | Life::Dying, MachineAgent::Late) => {
            (info("started", "agent is late: it has not reported since", silent), "running")
        }
        (Life::Alive | Life::Dying, MachineAgent::Present) => (info("started", "", created), "running"),
    };
    let text = if instance == "running" { "Running" } else { "" };
    let mut instance = info(instance, text, created);
    if let Some(error) = error {
        instance = info("provisioning error", &error.message, Some(error.since_ms));
    }
    MachineStatus {
        uuid: id,
        life,
        agent,
        instance,
        address: doc.address,
        instance_id: made.and_then(|made| made.id).unwrap_or_else(|| "pending".to_owned()),
        base: base(),
        zone: String::new(),
    }
}

fn application_status(
    reader: &dyn Reader,
    model: Model,
    presence: &PresenceSnapshot,
    (id, doc): (Uuid, &ApplicationDoc),
    all: &[(Uuid, RelationDoc)],
) -> ApplicationStatus {
    let (charm, declared) =
        application::charm_of(&mut { reader }, model, id).expect("an application has a charm (I22)");
    let mut units = BTreeMap::new();
    let mut version = (0, String::new());
    for (key, ()) in read_all(reader, &model.units_of(id)) {
        let unit = last_id(&key).expect("an index ends with an id");
        let doc = read(reader, &model.unit(unit)).expect("an index names what exists (I22)");
        if let Some(said) =
            reader.get(model.workload_version(unit).text()).filter(|said| said.revision > version.0)
        {
            version = (said.revision, serde_json::from_str(&said.value).expect("a version is text"));
        }
        units.insert(doc.name.clone(), unit_status(reader, model, presence, unit, &doc));
    }
    let mut relations = BTreeMap::<String, Vec<RelatedApplication>>::new();
    let mut subordinate_to = BTreeSet::new();
    for (_, relation) in all {
        let Some(own) = relation.end_of(id) else { continue };
        let other = relation.other_end(id);
        relations.entry(own.endpoint.clone()).or_default().push(RelatedApplication {
            application: other.application_name.clone(),
            interface: own.interface.clone(),
            scope: relation.scope,
        });
        if relation.subordinate_link.is_some_and(|subordinate_link| subordinate_link.subordinate == id) {
            subordinate_to.insert(other.application_name.clone());
        }
    }
    let set = read(reader, &model.application_status(id)).filter(|set| set.status != "unset");
    ApplicationStatus {
        uuid: id,
        life: read(reader, &model.application_life(id)).unwrap_or(Life::Dying),
        charm_name: charm.name,
        charm_url: charm.url,
        charm_revision: charm.revision,
        charm_version: declared.version.clone(),
        base: declared.base().cloned().unwrap_or_else(base),
        exposed: false,
        subordinate: doc.subordinate,
        subordinate_to: subordinate_to.into_iter().collect(),
        workload_version: version.1,
        status: set.map_or_else(|| worst(units.values(), doc.created_ms), status_info),
        relations,
        units,
    }
}

/// Returns the worst workload status of the units, with the message of its unit; of equal statuses the first.
fn worst<'a>(units: impl Iterator<Item = &'a UnitStatus>, created_ms: i64) -> StatusInfo {
    let rank = |status: &StatusInfo| {
        WORST_FIRST.iter().position(|known| *known == status.current).unwrap_or(WORST_FIRST.len())
    };
    let worst = units.map(|unit| &unit.workload).min_by_key(|status| rank(status));
    worst.cloned().unwrap_or_else(|| info("unknown", "", Some(created_ms)))
}

fn unit_status(
    reader: &dyn Reader,
    model: Model,
    presence: &PresenceSnapshot,
    id: Uuid,
    doc: &UnitDoc,
) -> UnitStatus {
    let machine = read(reader, &model.machine(doc.machine));
    let UnitStatuses { workload, agent, activity } = statuses(reader, model, presence, id, doc);
    UnitStatus {
        uuid: id,
        life: effective_life::unit_life_of(&mut { reader }, model, id, doc),
        machine: machine.as_ref().map_or(String::new(), |machine| machine.name.clone()),
        principal: doc.principal.and_then(|id| read(reader, &model.unit(id))).map(|doc| doc.name),
        leader: is_leader(reader, model, id, doc),
        workload,
        agent,
        activity,
        address: machine.map_or(String::new(), |machine| machine.address),
        ports: ports(reader, model, id),
    }
}

fn is_leader(reader: &dyn Reader, model: Model, id: Uuid, doc: &UnitDoc) -> bool {
    read(reader, &model.leader(doc.application)).is_some_and(|grant| grant.holder == id)
}

fn ports(reader: &dyn Reader, model: Model, unit: Uuid) -> Vec<String> {
    let open = read(reader, &model.ports(unit)).unwrap_or_default();
    let mut ports: Vec<String> = open.into_values().flatten().collect();
    let number = |range: &String| range.split(['-', '/']).next().and_then(|first| first.parse::<u32>().ok());
    ports.sort_by_key(|range| (number(range), range.clone()));
    ports.dedup();
    ports
}

/// Returns a unit's workload status; until a hook sets one, what the unit waits for (spec C.4, scenario 178).
fn workload_status(
    reader: &dyn Reader,
    model: Model,
    presence: &PresenceSnapshot,
    id: Uuid,
    doc: &UnitDoc,
) -> StatusInfo {
    let status = read(reader, &model.unit_status(id)).unwrap_or_default();
    let is_initial = status.number == (0, 0);
    let shown = status_info(status);
    if is_initial && reader.get(model.session(id).text()).is_some() {
        StatusInfo { message: "agent initialising".to_owned(), ..shown }
    } else if is_initial && machine_agent(reader, model, presence, doc.machine) == MachineAgent::Present {
        StatusInfo { message: "installing agent".to_owned(), ..shown }
    } else {
        shown
    }
}

/// The statuses of a unit.
pub struct UnitStatuses {
    pub workload: StatusInfo,
    pub agent: StatusInfo,
    /// The run that the agent executes or will start next.
    pub activity: Option<Activity>,
}

impl UnitStatuses {
    fn new(workload: StatusInfo, agent: StatusInfo) -> UnitStatuses {
        UnitStatuses { workload, agent, activity: None }
    }

    fn executing(workload: StatusInfo, activity: Activity, since_ms: Option<i64>) -> UnitStatuses {
        let agent = info("executing", &activity.to_string(), since_ms);
        UnitStatuses { workload, agent, activity: Some(activity) }
    }
}

/// Returns the workload and agent status of a unit. An error of the agent is shown as the workload status (F.5). If the
/// agent is lost, both statuses are unknown, except where the last reported one remains true.
pub fn statuses(
    reader: &dyn Reader,
    model: Model,
    presence: &PresenceSnapshot,
    id: Uuid,
    doc: &UnitDoc,
) -> UnitStatuses {
    let workload = workload_status(reader, model, presence, id, doc);
    let agent = read(reader, &model.agent_status(id)).map(status_info).unwrap_or_default();
    // the message of a unit that is lost together with its machine names the machine (F.4)
    let lost_with = || {
        let is_lost = machine_agent(reader, model, presence, doc.machine) == MachineAgent::Lost;
        let machine = is_lost.then(|| read(reader, &model.machine(doc.machine))).flatten()?;
        Some((
            format!("machine {}: {LOST_MESSAGE}", machine.name),
            Some(presence.last_heartbeat_ms(doc.machine)),
        ))
    };
    if reader.get(model.session(id).text()).is_none() {
        let agent = StatusInfo { current: "allocating".to_owned(), ..agent };
        return match lost_with() {
            Some((message, since_ms)) => UnitStatuses::new(
                StatusInfo { message: message.clone(), since_ms, ..workload },
                StatusInfo { message, since_ms, ..agent },
            ),
            None => UnitStatuses::new(workload, agent),
        };
    }
    let failed = agent.current == "error";
    if presence.is_lost(id) {
        let (message, silent, since_ms) = match lost_with() {
            Some((message, since_ms)) => (message.clone(), message, since_ms),
            None => {
                let message = format!("agent lost, see: pintle why {}", doc.name);
                (message, LOST_MESSAGE.to_owned(), Some(presence.last_heartbeat_ms(id)))
            }
        };
        // An error that an operator must resolve and a terminated workload remain true (scenario 185).
        let workload = match workload.current.as_str() {
            _ if failed => agent,
            "terminated" => workload,
            _ => info("unknown", &message, since_ms),
        };
        return UnitStatuses::new(workload, info("lost", &silent, since_ms));
    }
    if let Some(running) = presence.executing(id) {
        return UnitStatuses::executing(workload, running.activity.clone(), Some(running.since_ms));
    }
    let (workload, agent) = match failed {
        true => (agent.clone(), info("", "", agent.since_ms)),
        false => (workload, agent),
    };
    match next_act(reader, model, id) {
        Some(Act::Start(run)) => {
            UnitStatuses::executing(workload, Activity::from(&run.operation), agent.since_ms)
        }
        // attached, but no run has completed yet: the agent downloads the charm
        None => UnitStatuses::new(workload, info("allocating", "", agent.since_ms)),
        Some(Act::Reboot) => UnitStatuses::new(workload, info("rebooting", "", agent.since_ms)),
        Some(Act::Wait(_) | Act::Finish) => UnitStatuses::new(workload, info("idle", "", agent.since_ms)),
        Some(
            Act::Reattach(_)
            | Act::AcquireHookLock
            | Act::FetchBag(_)
            | Act::RecordOutcome(_)
            | Act::PersistEvent(_),
        ) => UnitStatuses::new(workload, info("executing", "", agent.since_ms)),
    }
}

/// Returns what the unit's agent would do next if it had received every change of the model. This is the agent's own
/// decision function, applied to the replica of its state. A unit is idle only if the result is to wait. None if the
/// controller has no replica yet.
pub fn next_act(reader: &dyn Reader, model: Model, id: Uuid) -> Option<Act> {
    let local = read(reader, &model.replica(id))?.local;
    let view = view::full_view(reader, model, id)?;
    let mut delta = view.delta;
    delta.position.store_generation = local.store_generation.unwrap_or_default();
    let snapshot = Snapshot::from_full(delta).expect("the controller computes full views");
    let leader = snapshot.leader.as_ref().filter(|grant| grant.holder == local.name);
    let now = Now { leader_generation: leader.map(|grant| grant.generation), ..Now::hypothetical() };
    Some(next(&local, Some(&snapshot), &now).act)
}

fn relation_status(reader: &dyn Reader, model: Model, id: Uuid, doc: &RelationDoc) -> RelationStatus {
    let mut ends: Vec<RelationEnd> = doc
        .sides
        .iter()
        .map(|side| RelationEnd {
            application: side.application_name.clone(),
            endpoint: side.endpoint.clone(),
            role: side.role,
        })
        .collect();
    ends.sort_by_key(|end| end.role != Role::Provider);
    let life = effective_life::relation_life_of(&mut { reader }, model, id, doc);
    let present = read_all::<ScopeDoc>(reader, &model.scopes(id));
    let joined =
        doc.sides.iter().all(|side| present.iter().any(|(_, entry)| entry.application == side.application));
    let created = |status: &str| info(status, "", Some(doc.created_ms));
    let status = match (life, read(reader, &model.relation_suspended(id))) {
        (Life::Dying | Life::Dead, _) => created("broken"),
        (Life::Alive, Some(suspended)) => {
            let status = if present.is_empty() { "suspended" } else { "suspending" };
            info(status, &suspended.message, Some(suspended.since_ms))
        }
        (Life::Alive, None) => created(if joined { "joined" } else { "joining" }),
    };
    RelationStatus {
        uuid: id,
        number: doc.number,
        life,
        interface: doc.sides[0].interface.clone(),
        scope: doc.scope,
        ends,
        status,
    }
}

/// Returns one unit with the data of its relations. Panics if the unit does not exist.
pub fn unit_info(reader: &dyn Reader, model: Model, id: Uuid) -> UnitInfo {
    let doc = read(reader, &model.unit(id)).expect("the caller has found the unit");
    let machine = read(reader, &model.machine(doc.machine));
    let mut relations: Vec<UnitRelation> = read_all::<()>(reader, &model.relations_of(doc.application))
        .into_iter()
        .filter_map(|(key, ())| {
            let relation = last_id(&key)?;
            let held = read(reader, &model.relation(relation))?;
            let own = state::lifecycle::relation::includes_unit(&held, &doc);
            own.then(|| unit_relation(reader, model, (id, &doc), relation, &held))
        })
        .collect();
    relations.sort_by_key(|relation| relation.number);
    // The charm that the unit runs; until it has deployed one, the charm of its application.
    let deployed = read(reader, &model.replica(id)).and_then(|replica| Some(replica.local.charm?.url));
    let wanted = read(reader, &model.application_charm(doc.application)).map(|charm| charm.url);
    UnitInfo {
        name: doc.name.clone(),
        uuid: id,
        machine: machine.as_ref().map_or(String::new(), |machine| machine.name.clone()),
        life: effective_life::unit_life_of(&mut { reader }, model, id, &doc),
        leader: is_leader(reader, model, id, &doc),
        charm_url: deployed.or(wanted).unwrap_or_default(),
        address: machine.map_or(String::new(), |machine| machine.address),
        ports: ports(reader, model, id),
        workload_version: read(reader, &model.workload_version(id)).unwrap_or_default(),
        relations,
    }
}

fn unit_relation(
    reader: &dyn Reader,
    model: Model,
    (unit, doc): (Uuid, &UnitDoc),
    id: Uuid,
    relation: &RelationDoc,
) -> UnitRelation {
    let own = relation.end_of(doc.application).expect("a relation's index is of its sides (I22)");
    let other = relation.other_end(doc.application);
    let bags: BTreeMap<String, BagDoc> = read_all::<BagDoc>(reader, &model.bags(id))
        .into_iter()
        .map(|(_, bag)| (bag.owner.clone(), bag))
        .collect();
    let data = |owner: &str| bags.get(owner).map(|bag| bag.values.clone()).unwrap_or_default();
    let container = state::lifecycle::relation::container(relation.scope, unit, doc);
    let present = read_all::<ScopeDoc>(reader, &model.scopes_in(id, container));
    let related: BTreeMap<UnitName, MemberInfo> = present
        .iter()
        .filter(|(_, entry)| entry.application == other.application && entry.unit != doc.name)
        .map(|(_, entry)| {
            (entry.unit.clone(), MemberInfo { in_scope: true, data: data(&entry.unit.to_string()) })
        })
        .collect();
    UnitRelation {
        number: relation.number,
        endpoint: own.endpoint.clone(),
        related_endpoint: other.endpoint.clone(),
        application_data: data(&other.application_name),
        local_unit: MemberInfo {
            in_scope: present.iter().any(|(key, _)| last_id(key) == Some(unit)),
            data: data(&doc.name.to_string()),
        },
        related_units: related,
    }
}
