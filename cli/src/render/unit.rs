//! The document of `show-unit` (spec/clients.md 2.4, 3.5).

use crate::render::insert_unless_empty;
use api::{MemberInfo, UnitInfo, UnitRelation};
use serde_json::{Map, Value, json};

/// Which relations are shown, and which of their data.
#[derive(Clone, Debug, Default)]
pub struct ShowUnitFilter {
    /// Show only relations of this endpoint.
    pub endpoint: Option<String>,
    /// Show only this related unit.
    pub related_unit: Option<String>,
    /// `--app`: show no data of units.
    pub application_only: bool,
}

/// The document below the name of the unit.
pub fn document(unit: &UnitInfo, filter: &ShowUnitFilter) -> Value {
    let relations = unit.relations.iter();
    let wanted =
        relations.filter(|entry| filter.endpoint.as_ref().is_none_or(|endpoint| *endpoint == entry.endpoint));
    let relations: Vec<Value> = wanted.map(|entry| relation(entry, filter)).collect();
    let mut map = Map::new();
    insert_unless_empty(&mut map, "workload-version", &unit.workload_version);
    insert_unless_empty(&mut map, "machine", &unit.machine);
    map.insert("opened-ports".into(), json!(unit.ports));
    insert_unless_empty(&mut map, "public-address", &unit.address);
    map.insert("charm".into(), unit.charm_url.clone().into());
    map.insert("leader".into(), unit.leader.into());
    map.insert("life".into(), unit.life.to_string().into());
    if !relations.is_empty() {
        map.insert("relation-info".into(), relations.into());
    }
    map.into()
}

fn relation(relation: &UnitRelation, filter: &ShowUnitFilter) -> Value {
    let mut map = Map::new();
    map.insert("relation-id".into(), relation.number.into());
    map.insert("endpoint".into(), relation.endpoint.clone().into());
    map.insert("related-endpoint".into(), relation.related_endpoint.clone().into());
    map.insert("application-data".into(), json!(relation.application_data));
    if !filter.application_only {
        map.insert("local-unit".into(), member(&relation.local_unit));
        let units = relation.related_units.iter().map(|(name, unit)| (name.to_string(), member(unit)));
        let wanted = |name: &str| filter.related_unit.as_ref().is_none_or(|unit| unit == name);
        let related: Map<String, Value> = units.filter(|(name, _)| wanted(name)).collect();
        if !related.is_empty() {
            map.insert("related-units".into(), related.into());
        }
    }
    map.into()
}

fn member(member: &MemberInfo) -> Value {
    json!({ "in-scope": member.in_scope, "data": member.data })
}
