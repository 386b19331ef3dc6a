//! One relation in the view of a unit, and the bags of its scope.
//!
//! Bags that do not fit into the inlined settings of a view are omitted (`views::inline_settings`): their values are fetched
//! when a hook needs them.

use crate::charm::Scope;
use crate::terms::life::Life;
use crate::terms::member_version::MemberVersion;
use crate::terms::names::{UnitName, Uuid};
use crate::terms::owner::Owner;
use crate::terms::position::Position;
use crate::terms::settings::Bag;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A relation of the unit's application, without its members and bags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RelationHead {
    /// The relation's UUID.
    pub uuid: Uuid,
    /// The endpoint of the unit's application.
    pub endpoint: String,
    /// The interface of both endpoints.
    pub interface: String,
    /// Whether this is a peer relation.
    pub peer: bool,
    /// Whether the unit's endpoint is implicit (juju-info).
    pub implicit: bool,
    /// Global or container scope.
    pub scope: Scope,
    /// The name of the application on the other side; in a peer relation the unit's own.
    pub remote_application: String,
    /// The UUID of that application.
    pub remote_application_uuid: Uuid,
    /// The endpoint of that application.
    pub remote_endpoint: String,
    /// The effective life: Dying also if one of the applications is Dying.
    pub life: Life,
    /// Whether the relation is suspended.
    pub suspended: bool,
    /// Whether a subordinate unit of the remote application is created when this unit, as its principal, enters the
    /// scope.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub creates_subordinate: bool,
}

/// A relation with its members and bags.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationView {
    /// The relation itself.
    pub head: RelationHead,
    /// The remote units in scope, with the incarnation of their membership.
    pub members: BTreeMap<UnitName, u64>,
    /// The bags, sorted by owner.
    pub bags: Vec<(Owner, BagView)>,
}

impl RelationView {
    /// Returns the bag of a unit or application.
    pub fn bag(&self, owner: &Owner) -> Option<&BagView> {
        let at = self.bags.binary_search_by(|(o, _)| o.cmp(owner)).ok()?;
        Some(&self.bags[at].1)
    }

    /// Returns the version of a member: its incarnation and the counter of its bag.
    pub fn version(&self, unit: &UnitName) -> Option<MemberVersion> {
        let incarnation = *self.members.get(unit)?;
        let counter = self.bag(&Owner::Unit(unit.clone())).map_or(0, |bag| bag.counter);
        Some(MemberVersion { incarnation, counter })
    }
}

/// A bag's version, and its values if the view contains them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BagView {
    /// The counter of the bag, which changes with every change of its values.
    pub counter: u64,
    /// The values. `None`: the view omits them, and the agent fetches them when a hook reads them (design 9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Bag>,
    /// The size of the values as JSON in bytes, also if they are omitted.
    pub bytes: usize,
}

impl BagView {
    /// Creates a view of a bag that contains its values.
    pub fn with_values(counter: u64, values: Bag) -> BagView {
        let bytes = serde_json::to_vec(&values).expect("bags are plain data").len();
        BagView { counter, values: Some(values), bytes }
    }
}

/// Returns the values of one bag as of a position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BagRequest {
    /// The relation's UUID.
    pub relation: Uuid,
    /// The unit or application whose bag is requested.
    pub owner: Owner,
    /// The controller returns the bag as of this position, or the current bag if its log no longer reaches there.
    pub position: Position,
}

/// An omitted bag that was fetched for the hook that is about to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedBag {
    pub(super) relation: Uuid,
    pub(super) owner: Owner,
    pub(super) counter: u64,
    pub(super) values: Bag,
}
