//! Requests about units and the relation data that they see.

use crate::changes::WriteResponse;
use crate::entity_choice::UnitChoice;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::terms::force::Force;
use state::terms::life::Life;
use state::terms::names::{RelationNumber, UnitName, Uuid};
use state::terms::port_range::PortRange;
use state::terms::position::Committed;
use state::terms::settings::Bag;
use state::terms::storage::StorageId;
use std::collections::BTreeMap;

pub use state::status::charm_revision::{ErrorRevisions, ResolvedRun};

requests! { UnitRequests {
    AddUnits = post "/v1/models/{model}/add-units", Writer => Committed<Vec<UnitName>>;
    ShowUnit = post "/v1/models/{model}/show-unit", Reader => UnitInfo;
    ResolveUnit = post "/v1/models/{model}/resolved", Writer => Committed<Option<ResolvedRun>>;
    RemoveUnit = post "/v1/models/{model}/remove-unit", Writer => WriteResponse;
} }

/// Returns one unit with the data of its relations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowUnit {
    /// The unit.
    pub unit: UnitChoice,
}

/// Resolves the error of a unit: its hook is run again or skipped. `Invalid` if the unit is not in error. The response is
/// none if the unit was removed meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveUnit {
    /// The unit.
    pub unit: UnitChoice,
    /// Whether to run the hook again instead of skipping it.
    pub retry: bool,
}

/// Destroys a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveUnit {
    /// The unit.
    pub unit: UnitName,
    /// Whether it is removed by force.
    #[serde(default)]
    pub force: Force,
    /// Whether its storage is removed with it.
    #[serde(default)]
    pub destroy_storage: bool,
}

/// Adds units to an application, and returns their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddUnits {
    /// The application.
    pub application: String,
    /// The number of units.
    pub units: u32,
    /// The name of the machine for the first unit; none to add a machine for each unit.
    pub to: Option<String>,
    /// Existing storage for the unit, which is added to the machine of this storage. Only for one unit.
    #[serde(default)]
    pub attach_storage: Vec<StorageId>,
}

/// The data of one unit in a relation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberInfo {
    /// Whether the unit is in the scope of the relation.
    pub in_scope: bool,
    /// Its settings bag.
    pub data: Bag,
}

/// A relation of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnitRelation {
    /// The number of the relation.
    pub number: RelationNumber,
    /// The endpoint of the unit's application.
    pub endpoint: String,
    /// The endpoint of the related application.
    pub related_endpoint: String,
    /// The bag of the related application; in a peer relation, that of the unit's own application.
    pub application_data: Bag,
    /// The data of the unit itself.
    pub local_unit: MemberInfo,
    /// The data of the other units.
    pub related_units: BTreeMap<UnitName, MemberInfo>,
}

/// A unit with the data of its relations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnitInfo {
    /// Its name.
    pub name: UnitName,
    /// Its uuid.
    pub uuid: Uuid,
    /// The name of its machine.
    pub machine: String,
    /// Its effective life.
    pub life: Life,
    /// Whether it is the leader of its application.
    pub leader: bool,
    /// The charm URL: `local:web-0`.
    pub charm_url: String,
    /// Its address.
    pub address: String,
    /// Its open ports, in order.
    #[serde(default)]
    pub ports: Vec<PortRange>,
    /// The last value of `application-version-set`; may be empty.
    #[serde(default)]
    pub workload_version: String,
    /// Its relations.
    pub relations: Vec<UnitRelation>,
}
