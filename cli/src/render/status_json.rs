//! The document of `status` and `machines`, for JSON and YAML, with the keys that clients parse (spec/clients.md 2.4).
//!
//! A key without a value is omitted, because clients reject `null` where they expect an object. The document borrows
//! from the status and is written directly: a model of 10,000 units makes 10 MB, and a tree of values in between would
//! take most of the time of the command. Keys are in alphabetical order, as everywhere in the output.

use crate::render::status_table::{Subordinates, instance_id};
use crate::render::storage;
use crate::times::{SinceTimes, Zone};
use api::text::status_message::describe;
use api::{
    ApplicationStatus, MachineStatus, RelatedApplication, Status, StatusInfo, StorageInfo, UnitStatus,
};
use serde::{Serialize, Serializer};
use serde_json::Value;
use state::charm::{Base, Scope};
use state::terms::constraints::{ConstraintKey, ConstraintValue};
use state::terms::hardware::Hardware;
use state::terms::life::Life;
use state::terms::names::UnitName;
use state::terms::port_range::PortRange;
use state::terms::storage::StorageId;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The only space of every model: Juju's first one.
const SPACE: &str = "alpha";

/// The whole document. `storage` is what `status --storage` shows.
pub fn document<'a>(
    status: &'a Status,
    zone: &Zone,
    storage: &BTreeMap<StorageId, StorageInfo>,
) -> impl Serialize + use<'a> {
    let context = Context::new(status, zone);
    let (model, applications) = (&status.model, status.applications.iter());
    StatusDocument {
        applications: applications.map(|(name, app)| (name.into(), context.application(app))).collect(),
        controller: ControllerDocument { timestamp: zone.time_of_day(status.now_ms) },
        machines: machines(status, zone),
        model: ModelDocument {
            cloud: &model.cloud,
            controller: &model.controller,
            model_status: context.info(&model.status, model.status.current.as_str()),
            name: &model.name,
            region: &model.region,
            sla: "unsupported",
            kind: "iaas",
            version: &model.version,
        },
        storage: (!storage.is_empty()).then(|| storage::documents(storage)),
    }
}

/// The machines, by name.
pub fn machines<'a>(status: &'a Status, zone: &Zone) -> Entries<'a, impl Serialize + use<'a>> {
    let context = Context::new(status, zone);
    status.machines.iter().map(|(name, machine)| (name.into(), context.machine(machine))).collect()
}

/// Documents by name, written as a map.
pub struct Entries<'a, T>(Vec<(Cow<'a, str>, T)>);

impl<'a, T> Entries<'a, T> {
    /// Keeps the entries of these names.
    pub fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|(name, _)| is_kept(name));
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a, T> FromIterator<(Cow<'a, str>, T)> for Entries<'a, T> {
    fn from_iter<I: IntoIterator<Item = (Cow<'a, str>, T)>>(entries: I) -> Entries<'a, T> {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        Entries(entries)
    }
}

impl<T: Serialize> Serialize for Entries<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, document)| (name, document)))
    }
}

#[derive(Serialize)]
struct StatusDocument<'a, M: Serialize> {
    applications: Entries<'a, ApplicationDocument<'a>>,
    controller: ControllerDocument,
    machines: M,
    model: ModelDocument<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<Value>,
}

#[derive(Serialize)]
struct ControllerDocument {
    timestamp: String,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ModelDocument<'a> {
    cloud: &'a str,
    controller: &'a str,
    model_status: InfoDocument<'a>,
    name: &'a str,
    region: &'a str,
    sla: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    version: &'a str,
}

/// A status. Only that of an agent has the version of the agent and the life of the entity.
#[derive(Serialize)]
struct InfoDocument<'a> {
    current: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    life: Option<Life>,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
}

#[derive(Serialize)]
struct BaseDocument<'a> {
    channel: &'a str,
    name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ApplicationDocument<'a> {
    application_status: InfoDocument<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<BaseDocument<'a>>,
    charm: &'a str,
    charm_name: &'a str,
    charm_origin: &'static str,
    charm_rev: u32,
    #[serde(skip_serializing_if = "str::is_empty")]
    charm_version: &'a str,
    endpoint_bindings: Entries<'a, &'static str>,
    exposed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    life: Option<Life>,
    #[serde(skip_serializing_if = "Entries::is_empty")]
    relations: Entries<'a, Vec<RelatedDocument<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subordinate_to: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Entries::is_empty")]
    units: Entries<'a, UnitDocument<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct RelatedDocument<'a> {
    interface: &'a str,
    related_application: &'a str,
    scope: &'static str,
}

/// A principal or a subordinate. The machine of a subordinate is its principal's.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct UnitDocument<'a> {
    juju_status: InfoDocument<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    leader: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    machine: &'a str,
    #[serde(skip_serializing_if = "<[PortRange]>::is_empty")]
    open_ports: &'a [PortRange],
    #[serde(skip_serializing_if = "str::is_empty")]
    public_address: &'a str,
    #[serde(skip_serializing_if = "Entries::is_empty")]
    subordinates: Entries<'a, UnitDocument<'a>>,
    workload_status: InfoDocument<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct MachineDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<BaseDocument<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    constraints: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    hardware: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    dns_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    hostname: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instance_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip_addresses: Option<[&'a str; 1]>,
    juju_status: InfoDocument<'a>,
    machine_status: InfoDocument<'a>,
}

/// The space of each endpoint and binding of an application, and of those without a name of their own ("").
pub fn bindings(application: &ApplicationStatus) -> impl Iterator<Item = (&str, &'static str)> {
    let names = application.bindings.iter().map(String::as_str);
    [""].into_iter().chain(names).map(|name| (name, SPACE))
}

/// What all parts of the document need.
struct Context<'a> {
    version: &'a str,
    subordinates: Subordinates<'a>,
    times: SinceTimes,
}

impl<'a> Context<'a> {
    fn new(status: &'a Status, zone: &Zone) -> Context<'a> {
        Context {
            version: &status.model.version,
            subordinates: Subordinates::of(status),
            times: SinceTimes::new(zone),
        }
    }

    /// A status: `current`, and its message and time if they are known.
    fn info<S>(&self, status: &StatusInfo<S>, current: &'static str) -> InfoDocument<'a> {
        InfoDocument {
            current,
            life: None,
            message: describe(&status.message),
            since: status.since_ms.map(|ms| self.times.since(ms)),
            version: "",
        }
    }

    /// The status of an agent, with its version, and with the life of its entity unless that is `alive`.
    fn agent<S>(&self, status: &StatusInfo<S>, current: &'static str, life: Life) -> InfoDocument<'a> {
        InfoDocument { life: life_unless_alive(life), version: self.version, ..self.info(status, current) }
    }

    fn application(&self, app: &'a ApplicationStatus) -> ApplicationDocument<'a> {
        let related = app.relations.iter().map(|(endpoint, all)| {
            let all: Vec<RelatedDocument<'a>> = all.iter().map(related).collect();
            (endpoint.into(), all)
        });
        let principals = app.units.iter().filter(|(_, unit)| unit.principal.is_none());
        ApplicationDocument {
            application_status: self.info(&app.status, app.status.current.as_str()),
            base: base(&app.base),
            charm: &app.charm_url,
            charm_name: &app.charm_name,
            charm_origin: "local",
            charm_rev: app.charm_revision,
            charm_version: app.charm_version.as_deref().unwrap_or_default(),
            endpoint_bindings: bindings(app).map(|(name, space)| (name.into(), space)).collect(),
            exposed: app.exposed,
            life: life_unless_alive(app.life),
            relations: related.collect(),
            subordinate_to: app.subordinate.then_some(&app.subordinate_to),
            units: principals.map(|(name, unit)| (name.to_string().into(), self.unit(name, unit))).collect(),
            version: &app.workload_version,
        }
    }

    fn unit(&self, name: &UnitName, unit: &'a UnitStatus) -> UnitDocument<'a> {
        let below = self.subordinates.of_principal(name).iter();
        UnitDocument {
            machine: &unit.machine,
            subordinates: below
                .map(|(name, unit)| (name.to_string().into(), self.subordinate(unit)))
                .collect(),
            ..self.subordinate(unit)
        }
    }

    fn subordinate(&self, unit: &'a UnitStatus) -> UnitDocument<'a> {
        UnitDocument {
            juju_status: self.agent(&unit.agent, unit.agent.current.as_str(), unit.life),
            leader: unit.leader,
            machine: "",
            open_ports: &unit.ports,
            public_address: &unit.address,
            subordinates: Entries(Vec::new()),
            workload_status: self.info(&unit.workload, unit.workload.current.as_str()),
        }
    }

    fn machine(&self, machine: &'a MachineStatus) -> MachineDocument<'a> {
        MachineDocument {
            base: base(&machine.base),
            constraints: constraints(machine),
            hardware: machine.hardware.as_ref().map(Hardware::to_string).unwrap_or_default(),
            dns_name: &machine.address,
            hostname: machine.instance_id.as_deref().unwrap_or_default(),
            instance_id: instance_id(machine),
            ip_addresses: (!machine.address.is_empty()).then_some([&machine.address]),
            juju_status: self.agent(&machine.agent, machine.agent.current.as_str(), machine.life),
            machine_status: self.info(&machine.instance, machine.instance.current.as_str()),
        }
    }
}

/// The constraints of a machine, with the architecture that it has.
fn constraints(machine: &MachineStatus) -> String {
    let mut constraints = machine.constraints.clone();
    if let Some(hardware) = &machine.hardware {
        let own = || ConstraintValue::Word(hardware.arch.clone());
        constraints.0.entry(ConstraintKey::Arch).or_insert_with(own);
    }
    constraints.to_string()
}

/// The life of an entity unless that is `alive`.
fn life_unless_alive(life: Life) -> Option<Life> {
    (!life.is_alive()).then_some(life)
}

fn base(base: &Base) -> Option<BaseDocument<'_>> {
    (!base.name.is_empty()).then_some(BaseDocument { channel: &base.channel, name: &base.name })
}

fn related(related: &RelatedApplication) -> RelatedDocument<'_> {
    let scope = match related.scope {
        Scope::Global => "global",
        Scope::Container => "container",
    };
    RelatedDocument { interface: &related.interface, related_application: &related.application, scope }
}
