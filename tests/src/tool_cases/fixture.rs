//! Converts the fixtures of a case file, with the patches of a case, to hook contexts.

use super::secrets::Secrets;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use state::charm::StorageType;
use state::terms::commands::RelationContext;
use state::terms::hook_name::{HookName, RelationEventName};
use state::terms::life::Life;
use state::terms::names::{RelationEnds, RelationNumber, UnitName, Uuid};
use state::terms::secret::SecretEvent;
use state::terms::status::WorkloadStatus;
use state::terms::storage::{StorageEvent, StorageId};
use state::unit::hook_context::{
    ALL_ENDPOINTS, Address, CloudCredential, CloudSpec, Device, Goal, GoalState, GoalStatus, HookContext,
    HookModel, HookRelation, HookResource, HookStatus, HookStorage, HookTrigger, Network, OmittedBags, Ports,
    RunningAction, Statuses, Writes,
};
use std::collections::{BTreeMap, BTreeSet};

/// `context` of a case: a fixture and a merge patch over it.
#[derive(Deserialize)]
pub struct Source {
    base: String,
    #[serde(default)]
    patch: Value,
}

impl Source {
    pub fn of(base: &str) -> Source {
        Source { base: base.to_owned(), patch: Value::Null }
    }
}

/// The patched fixture. Fixtures are built on each other in the same way.
pub fn resolve(fixtures: &BTreeMap<String, Value>, source: &Source) -> Result<Value, String> {
    let fixture = fixtures.get(&source.base).ok_or(format!("no fixture {}", source.base))?;
    let mut resolved = match fixture.get("base").and_then(Value::as_str) {
        Some(base) => {
            let patch = fixture.get("patch").cloned().unwrap_or_default();
            resolve(fixtures, &Source { base: base.to_owned(), patch })?
        }
        None => fixture.clone(),
    };
    if source.patch.is_object() {
        merge(&mut resolved, &source.patch);
    }
    Ok(resolved)
}

fn merge(target: &mut Value, patch: &Value) {
    let (Value::Object(members), Value::Object(changes)) = (&mut *target, patch) else {
        *target = patch.clone();
        return;
    };
    for (key, change) in changes {
        match members.get_mut(key) {
            // a new member is inserted unchanged, including nulls
            None => {
                members.insert(key.clone(), change.clone());
            }
            Some(_) if change.is_null() => {
                members.remove(key);
            }
            Some(member) => merge(member, change),
        }
    }
}

#[derive(Deserialize)]
struct Fixture {
    unit: UnitName,
    #[serde(default)]
    hook: String,
    model_type: Option<String>,
    #[serde(default)]
    leader: bool,
    model: FixtureModel,
    #[serde(default)]
    relations: BTreeMap<String, FixtureRelation>,
    relation_id: Option<RelationNumber>,
    remote_unit: Option<String>,
    remote_app: Option<String>,
    departing_unit: Option<UnitName>,
    hook_storage: Option<String>,
    action: Option<FixtureAction>,
    #[serde(default)]
    config: FixtureConfig,
    #[serde(default)]
    charm_state: BTreeMap<String, String>,
    #[serde(default)]
    leader_settings: BTreeMap<String, String>,
    #[serde(default)]
    trust: bool,
    cloud: Option<FixtureCloud>,
    #[serde(default)]
    payload_classes: Vec<FixturePayloadClass>,
    #[serde(default)]
    status: FixtureStatuses,
    #[serde(default)]
    opened_ports: Ports,
    #[serde(default)]
    machine_ports_of_other_units: BTreeMap<UnitName, Value>,
    private_address: Option<String>,
    public_address: Option<String>,
    #[serde(default)]
    networks: BTreeMap<String, FixtureNetwork>,
    #[serde(default)]
    storage: BTreeMap<String, FixtureStorage>,
    #[serde(default)]
    goal_state: FixtureGoals,
    /// The path of the file of each resource, below the folder of resources.
    #[serde(default)]
    resources: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct FixtureModel {
    name: String,
    uuid: Uuid,
}

#[derive(Deserialize)]
struct FixtureRelation {
    endpoint: String,
    #[serde(default)]
    peer: bool,
    key: RelationEnds,
    remote_app: String,
    remote_model_uuid: Uuid,
    #[serde(default)]
    life: Life,
    #[serde(default)]
    suspended: bool,
    #[serde(default)]
    members: BTreeSet<UnitName>,
    #[serde(default)]
    units: BTreeMap<UnitName, BTreeMap<String, String>>,
    #[serde(default)]
    apps: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct FixtureAction {
    name: String,
    id: String,
    params: Option<Map<String, Value>>,
}

#[derive(Default, Deserialize)]
struct FixtureConfig {
    #[serde(default)]
    schema: BTreeMap<String, FixtureOption>,
    #[serde(default)]
    values: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct FixtureOption {
    #[serde(default)]
    default: Value,
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Default, Deserialize)]
struct FixtureStatus {
    status: WorkloadStatus,
    #[serde(default)]
    message: String,
    #[serde(default)]
    data: BTreeMap<String, Value>,
}

#[derive(Default, Deserialize)]
struct FixtureStatuses {
    #[serde(default)]
    unit: FixtureStatus,
    #[serde(default)]
    application: FixtureStatus,
    #[serde(default)]
    units: BTreeMap<UnitName, FixtureStatus>,
}

#[derive(Deserialize)]
struct FixtureNetwork {
    #[serde(default)]
    info: Vec<FixtureDevice>,
    #[serde(default)]
    egress: Vec<String>,
    #[serde(default)]
    ingress: Vec<String>,
}

#[derive(Deserialize)]
struct FixtureDevice {
    mac: String,
    name: String,
    #[serde(default)]
    addrs: Vec<FixtureAddress>,
}

#[derive(Deserialize)]
struct FixtureAddress {
    #[serde(default)]
    hostname: String,
    value: String,
    #[serde(default)]
    cidr: String,
}

#[derive(Deserialize)]
struct FixtureStorage {
    kind: StorageType,
    location: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct FixtureCloud {
    #[serde(rename = "type")]
    kind: String,
    name: String,
    region: String,
    endpoint: String,
    credential: FixtureCredential,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct FixtureCredential {
    auth_type: String,
    attrs: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct FixturePayloadClass {
    name: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Default, Deserialize)]
struct FixtureGoals {
    #[serde(default)]
    units: BTreeMap<String, FixtureGoal>,
    #[serde(default)]
    relations: BTreeMap<String, BTreeMap<String, FixtureGoal>>,
}

#[derive(Deserialize)]
struct FixtureGoal {
    status: String,
    since: String,
}

/// Reads one part of a fixture, naming it if it cannot be read.
pub fn part<T: DeserializeOwned>(value: &Value, name: &str) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| format!("{name}: {error}"))
}

/// The metadata.yaml of the charm, with the payload classes of the fixture.
pub fn metadata(value: &Value) -> Result<String, String> {
    let fixture: Fixture = part(value, "fixture")?;
    let classes = fixture.payload_classes.iter();
    let classes: Map<String, Value> =
        classes.map(|class| (class.name.clone(), json!({ "type": class.kind }))).collect();
    Ok(json!({ "name": fixture.unit.application, "payloads": classes }).to_string())
}

pub fn context(value: &Value) -> Result<HookContext, String> {
    let fixture: Fixture = part(value, "fixture")?;
    let trigger = trigger(&fixture)?;
    let machine_ports = fixture.machine_ports_of_other_units.iter();
    let machine_ports = machine_ports.map(|(unit, value)| Ok((unit.clone(), machine_ports_of(value)?)));
    let relations = fixture
        .relations
        .into_iter()
        .map(|(number, relation)| Ok((number.parse().map_err(|_| number)?, relation.into())))
        .collect::<Result<_, String>>()?;
    Ok(HookContext {
        id: format!("{}-{}-0", fixture.unit, fixture.hook),
        trigger,
        model: HookModel {
            name: fixture.model.name,
            uuid: fixture.model.uuid,
            kubernetes: fixture.model_type.as_deref() == Some("caas"),
            proxies: Default::default(),
            logging: Default::default(),
            advanced_ms: 0,
            warm_dispatch: false,
            engine: Default::default(),
        },
        leader: fixture.leader,
        leader_settings: fixture.leader_settings,
        secrets: Secrets::of(value)?.owned(&relations),
        relations,
        config: effective(fixture.config),
        charm_state: fixture.charm_state,
        statuses: Statuses {
            unit: fixture.status.unit.into(),
            application: fixture.status.application.into(),
            units: fixture.status.units.into_iter().map(|(unit, status)| (unit, status.into())).collect(),
        },
        opened_ports: ports(fixture.opened_ports),
        machine_ports: machine_ports.collect::<Result<_, String>>()?,
        networks: fixture.networks.into_iter().map(|(name, network)| (name, network.into())).collect(),
        private_address: fixture.private_address.filter(|address| !address.is_empty()),
        public_address: fixture.public_address.filter(|address| !address.is_empty()),
        principal: None,
        goal_state: fixture.goal_state.into(),
        cloud: fixture.cloud.filter(|_| fixture.trust).map(Into::into),
        storage: storage(fixture.storage)?,
        resources: fixture.resources.into_iter().map(|(name, path)| (name, resource(&path))).collect(),
        writes: Writes::default(),
        unit: fixture.unit,
    })
}

fn storage(all: BTreeMap<String, FixtureStorage>) -> Result<BTreeMap<StorageId, HookStorage>, String> {
    let storage = all.into_iter().map(|(id, FixtureStorage { kind, location })| {
        let id = id.parse::<StorageId>().map_err(|error| error.to_string())?;
        Ok((id, HookStorage { kind, location }))
    });
    storage.collect()
}

/// A resource with a file, which the case names by its path.
fn resource(path: &str) -> HookResource {
    let filename = path.rsplit('/').next().unwrap_or_default().to_owned();
    HookResource { filename, sha256: Some("0".repeat(64)) }
}

fn trigger(fixture: &Fixture) -> Result<HookTrigger, String> {
    if let Some(action) = &fixture.action {
        let params = action.params.clone().unwrap_or_default();
        return Ok(HookTrigger::Action(RunningAction {
            name: action.name.clone(),
            id: action.id.clone(),
            params,
        }));
    }
    let hook = hook_name(&fixture.hook)?;
    if let Some(relation) = fixture.relation_id {
        let unit = fixture.remote_unit.as_deref().filter(|unit| !unit.is_empty());
        let about = RelationContext {
            relation,
            unit: unit.map(str::parse).transpose().map_err(|error| format!("{error}"))?,
            application: fixture.remote_app.clone().unwrap_or_default(),
            departing: fixture.departing_unit.clone(),
        };
        return Ok(HookTrigger::Relation { hook, about });
    }
    if let Some(id) = &fixture.hook_storage {
        let storage = fixture.storage.get(id).ok_or("hook_storage names no storage")?;
        let (location, kind) = (storage.location.clone(), storage.kind);
        let id = id.parse::<StorageId>().map_err(|error| error.to_string())?;
        return Ok(HookTrigger::Storage { hook, id, location, kind });
    }
    Ok(HookTrigger::Hook(hook))
}

/// The hook with this name.
pub fn hook_name(text: &str) -> Result<HookName, String> {
    const PLAIN: [HookName; 9] = [
        HookName::Install,
        HookName::LeaderElected,
        HookName::LeaderSettingsChanged,
        HookName::ConfigChanged,
        HookName::Start,
        HookName::UpgradeCharm,
        HookName::UpdateStatus,
        HookName::Stop,
        HookName::Remove,
    ];
    const OF_RELATION: [RelationEventName; 5] = [
        RelationEventName::Created,
        RelationEventName::Joined,
        RelationEventName::Changed,
        RelationEventName::Departed,
        RelationEventName::Broken,
    ];
    let of_relation = text.rsplit_once("-relation-").into_iter().flat_map(|(endpoint, _)| {
        OF_RELATION.map(|event| HookName::Relation { endpoint: endpoint.to_owned(), event })
    });
    let of_storage = text.rsplit_once("-storage-").into_iter().flat_map(|(name, _)| {
        StorageEvent::ALL.iter().map(|event| HookName::Storage { name: name.to_owned(), event: *event })
    });
    let of_secret = SecretEvent::ALL.iter().map(|event| HookName::Secret(*event));
    let mut all = PLAIN.into_iter().chain(of_secret).chain(of_relation).chain(of_storage);
    all.find(|hook| hook.to_string() == text).ok_or_else(|| format!("no hook is named {text:?}"))
}

/// Converts the empty endpoint, which means all endpoints in a fixture.
fn ports(ports: Ports) -> Ports {
    let named = |name: String| {
        if name.is_empty() { ALL_ENDPOINTS.to_owned() } else { name }
    };
    ports.into_iter().map(|(name, ranges)| (named(name), ranges)).collect()
}

/// Parses the ports of one unit: by endpoint, or a list for all endpoints.
fn machine_ports_of(value: &Value) -> Result<Ports, String> {
    let by_endpoint = match value {
        Value::Array(_) => BTreeMap::from([(String::new(), part(value, "machine ports")?)]),
        _ => part(value, "machine ports")?,
    };
    Ok(ports(by_endpoint))
}

fn effective(config: FixtureConfig) -> BTreeMap<String, Value> {
    let mut values = config.values;
    let options = config.schema.into_iter().map(|(name, option)| {
        let set = values.remove(&name).filter(|value| !value.is_null());
        let value = set.unwrap_or(option.default);
        let float = option.kind.as_deref() == Some("float");
        match value.as_f64().filter(|_| float) {
            Some(number) => (name, Value::from(number)),
            None => (name, value),
        }
    });
    options.collect()
}

impl From<FixtureRelation> for HookRelation {
    fn from(relation: FixtureRelation) -> HookRelation {
        HookRelation {
            interface: String::new(),
            endpoint: relation.endpoint,
            peer: relation.peer,
            ends: relation.key,
            remote_application: relation.remote_app,
            remote_model: relation.remote_model_uuid,
            life: relation.life,
            suspended: relation.suspended,
            members: relation.members,
            unit_bags: relation.units,
            application_bags: relation.apps,
            omitted: OmittedBags::default(),
        }
    }
}

impl From<FixtureStatus> for HookStatus {
    fn from(status: FixtureStatus) -> HookStatus {
        HookStatus { status: status.status, message: status.message, data: status.data }
    }
}

impl From<FixtureNetwork> for Network {
    fn from(network: FixtureNetwork) -> Network {
        let address = |a: FixtureAddress| Address { hostname: a.hostname, value: a.value, cidr: a.cidr };
        let devices = network.info.into_iter().map(|device| Device {
            mac: device.mac,
            name: device.name,
            addresses: device.addrs.into_iter().map(address).collect(),
        });
        Network { devices: devices.collect(), egress: network.egress, ingress: network.ingress }
    }
}

impl From<FixtureCloud> for CloudSpec {
    fn from(cloud: FixtureCloud) -> CloudSpec {
        let FixtureCredential { auth_type, attrs: attributes } = cloud.credential;
        CloudSpec {
            kind: cloud.kind,
            name: cloud.name,
            region: cloud.region,
            endpoint: cloud.endpoint,
            credential: CloudCredential { auth_type, attributes },
        }
    }
}

impl From<FixtureGoals> for GoalState {
    fn from(goals: FixtureGoals) -> GoalState {
        let status = |word: &str| match word {
            "joined" => GoalStatus::Joined,
            "dying" => GoalStatus::Dying,
            word => GoalStatus::Workload(word.parse().expect("a status")),
        };
        let goal = |goal: FixtureGoal| Goal { status: status(&goal.status), since: goal.since };
        let all =
            |goals: BTreeMap<String, FixtureGoal>| goals.into_iter().map(|(k, g)| (k, goal(g))).collect();
        GoalState {
            units: all(goals.units),
            relations: goals
                .relations
                .into_iter()
                .map(|(endpoint, parties)| (endpoint, all(parties)))
                .collect(),
        }
    }
}
