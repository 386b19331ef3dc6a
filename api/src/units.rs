//! Units, and the relation data that they see.

use crate::changes::Changed;
use crate::removal::Force;
use crate::request::requests;
use serde::{Deserialize, Serialize};
use state::terms::life::Life;
use state::terms::names::{RelationNumber, UnitName, Uuid};
use state::terms::settings::Bag;
use std::collections::BTreeMap;

requests! { UnitRequests {
    AddUnits = post "/v1/models/{model}/add-units", Writer => AddUnitsResponse;
    ShowUnit = post "/v1/models/{model}/show-unit", Reader => UnitInfo;
    ResolvedRequest = post "/v1/models/{model}/resolved", Writer => Changed;
    RemoveUnit = post "/v1/models/{model}/remove-unit", Writer => Changed;
} }

/// One unit with its relations' data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShowUnit {
    /// `web/0` or `web/leader`.
    pub unit: String,
}

/// Ends a unit's error: its hook is run again or counts as done. `Invalid` when the unit is not in error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedRequest {
    pub unit: String,
    pub retry: bool,
}

/// Destroys a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveUnit {
    pub unit: String,
    #[serde(default)]
    pub force: Force,
}

/// Adds units to an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddUnits {
    pub application: String,
    pub units: u32,
    pub to: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddUnitsResponse {
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
