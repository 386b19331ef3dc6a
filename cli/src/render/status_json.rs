//! The document of `status` and `machines`, for JSON and YAML, with the keys that clients parse (spec/clients.md 2.4).
//!
//! A key without a value is omitted, because clients reject `null` where they expect an object.

use crate::render::insert_unless_empty;
use crate::render::status_table::{instance_id, subordinates};
use crate::times::Zone;
use api::text::status_message::words;
use api::{ApplicationStatus, MachineStatus, RelatedApplication, Status, StatusInfo, UnitStatus};
use serde_json::{Map, Value, json};
use state::charm::{Base, Scope};
use state::terms::life::Life;
use state::terms::names::UnitName;
use std::fmt::Display;

/// The whole document.
pub fn document(status: &Status, zone: &Zone) -> Value {
    let (model, version) = (&status.model, status.model.version.as_str());
    let applications: Map<String, Value> = status
        .applications
        .iter()
        .map(|(name, app)| (name.clone(), application(status, app, zone)))
        .collect();
    let machines = machines(status, zone);
    json!({
        "model": {
            "name": model.name,
            "type": "iaas",
            "controller": model.controller,
            "cloud": model.cloud,
            "region": model.region,
            "version": version,
            "model-status": info(&model.status, zone),
            "sla": "unsupported",
        },
        "machines": machines,
        "applications": applications,
        "controller": { "timestamp": zone.time_of_day(status.now_ms) },
    })
}

/// The machines, by name.
pub fn machines(status: &Status, zone: &Zone) -> Map<String, Value> {
    let version = &status.model.version;
    status.machines.iter().map(|(name, entry)| (name.clone(), machine(entry, version, zone))).collect()
}

/// A status: `current`, and its message and time if they are known.
fn info<S: Display>(status: &StatusInfo<S>, zone: &Zone) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("current".into(), status.current.to_string().into());
    insert_unless_empty(&mut map, "message", &words(&status.message));
    if let Some(ms) = status.since_ms {
        map.insert("since".into(), zone.since(ms).into());
    }
    map
}

/// The status of an agent, with its version, and with the life of its entity unless that is `alive`.
fn agent<S: Display>(status: &StatusInfo<S>, version: &str, life: Life, zone: &Zone) -> Value {
    let mut map = info(status, zone);
    insert_unless_empty(&mut map, "version", version);
    put_life(&mut map, life);
    map.into()
}

fn put_life(map: &mut Map<String, Value>, life: Life) {
    if !life.is_alive() {
        map.insert("life".into(), life.to_string().into());
    }
}

fn put_base(map: &mut Map<String, Value>, base: &Base) {
    if !base.name.is_empty() {
        map.insert("base".into(), json!({ "name": base.name, "channel": base.channel }));
    }
}

fn application(status: &Status, app: &ApplicationStatus, zone: &Zone) -> Value {
    let mut map = Map::new();
    map.insert("charm".into(), app.charm_name.clone().into());
    map.insert("charm-origin".into(), "local".into());
    map.insert("charm-name".into(), app.charm_name.clone().into());
    map.insert("charm-rev".into(), app.charm_revision.into());
    map.insert("exposed".into(), app.exposed.into());
    map.insert("application-status".into(), info(&app.status, zone).into());
    insert_unless_empty(&mut map, "version", &app.workload_version);
    insert_unless_empty(&mut map, "charm-version", app.charm_version.as_deref().unwrap_or_default());
    put_life(&mut map, app.life);
    put_base(&mut map, &app.base);
    if app.subordinate {
        map.insert("subordinate-to".into(), json!(app.subordinate_to));
    }
    if !app.relations.is_empty() {
        let all = app.relations.iter();
        let related: Map<String, Value> =
            all.map(|(endpoint, list)| (endpoint.clone(), list.iter().map(related).collect())).collect();
        map.insert("relations".into(), related.into());
    }
    let own = app.units.iter().filter(|(_, unit)| unit.principal.is_none());
    let units: Map<String, Value> =
        own.map(|(name, entry)| (name.to_string(), unit(status, name, entry, zone))).collect();
    if !units.is_empty() {
        map.insert("units".into(), units.into());
    }
    map.into()
}

fn related(related: &RelatedApplication) -> Value {
    let scope = match related.scope {
        Scope::Global => "global",
        Scope::Container => "container",
    };
    json!({ "related-application": related.application, "interface": related.interface, "scope": scope })
}

fn unit(status: &Status, name: &UnitName, unit: &UnitStatus, zone: &Zone) -> Value {
    let mut map = common_unit_keys(unit, &status.model.version, zone);
    insert_unless_empty(&mut map, "machine", &unit.machine);
    let below: Map<String, Value> = subordinates(status, name)
        .map(|(name, entry)| (name.to_string(), common_unit_keys(entry, &status.model.version, zone).into()))
        .collect();
    if !below.is_empty() {
        map.insert("subordinates".into(), below.into());
    }
    map.into()
}

/// The keys that principals and subordinates have in common.
fn common_unit_keys(unit: &UnitStatus, version: &str, zone: &Zone) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("workload-status".into(), info(&unit.workload, zone).into());
    map.insert("juju-status".into(), agent(&unit.agent, version, unit.life, zone));
    if unit.leader {
        map.insert("leader".into(), true.into());
    }
    if !unit.ports.is_empty() {
        map.insert("open-ports".into(), json!(unit.ports));
    }
    insert_unless_empty(&mut map, "public-address", &unit.address);
    map
}

fn machine(machine: &MachineStatus, version: &str, zone: &Zone) -> Value {
    let mut map = Map::new();
    map.insert("juju-status".into(), agent(&machine.agent, version, machine.life, zone));
    map.insert("machine-status".into(), info(&machine.instance, zone).into());
    insert_unless_empty(&mut map, "hostname", instance_id(machine));
    insert_unless_empty(&mut map, "instance-id", instance_id(machine));
    insert_unless_empty(&mut map, "dns-name", &machine.address);
    if !machine.address.is_empty() {
        map.insert("ip-addresses".into(), json!([machine.address]));
    }
    put_base(&mut map, &machine.base);
    map.into()
}
