//! Units, and the relation data that they see.

use serde::{Deserialize, Serialize};
use state::life::Life;
use state::names::{RelationNumber, UnitName, Uuid};
use state::settings::Bag;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddUnits {
    pub application: String,
    pub units: u32,
    pub to: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    pub units: Vec<UnitName>,
    pub revision: u64,
}

/// One side's data as a unit's relation shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberInfo {
    pub in_scope: bool,
    pub data: Bag,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitRelation {
    pub number: RelationNumber,
    pub endpoint: String,
    pub related_endpoint: String,
    /// The remote application's bag; of a peer relation, the own application's.
    pub application_data: Bag,
    pub local_unit: MemberInfo,
    pub related_units: BTreeMap<UnitName, MemberInfo>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitInfo {
    pub name: UnitName,
    pub uuid: Uuid,
    pub machine: String,
    pub life: Life,
    pub leader: bool,
    /// `local:web-0`.
    pub charm_url: String,
    pub address: String,
    #[serde(default)]
    pub ports: Vec<String>,
    #[serde(default)]
    pub workload_version: String,
    pub relations: Vec<UnitRelation>,
}
