//! A relation as a hook reads it: a part of its context (`hook_context`).

use crate::terms::life::Life;
use crate::terms::names::{RelationEnds, UnitName, Uuid};
use crate::terms::owner::Owner;
use crate::terms::position::Position;
use crate::terms::settings::{Bag, BagChange};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A relation as this hook reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookRelation {
    /// The endpoint of the unit's own charm.
    pub endpoint: String,
    /// The interface of both endpoints.
    pub interface: String,
    /// Whether this is a peer relation.
    pub peer: bool,
    /// The endpoints: only the unit's own in a peer relation, or if the view does not show the relation any more.
    pub ends: RelationEnds,
    /// The application on the other side; in a peer relation the unit's own.
    pub remote_application: String,
    /// The UUID of the model of that application.
    pub remote_model: Uuid,
    /// The life as the hook reads it: the effective life of the view, but at least Dying in the relation's broken hook and
    /// if the view does not show the relation.
    pub life: Life,
    /// Whether the relation is suspended.
    pub suspended: bool,
    /// The remote units that the charm has observed to be in scope. The unit of a joined hook is included; the unit of a
    /// departed hook and this unit are not.
    pub members: BTreeSet<UnitName>,
    /// The settings of units, this unit included.
    pub unit_bags: BTreeMap<UnitName, Bag>,
    /// The settings of applications.
    pub application_bags: BTreeMap<String, Bag>,
    /// The bags whose values are not here yet (design 9).
    #[serde(default, skip_serializing_if = "OmittedBags::is_empty")]
    pub omitted: OmittedBags,
}

impl HookRelation {
    /// Whether relation-ids omits the relation: it is Dead; or it is no peer relation, is Dying or
    /// suspended, and has no members (spec/hook-tools.md 2.1).
    pub fn is_broken(&self) -> bool {
        let is_ending = self.life != Life::Alive || self.suspended;
        self.life == Life::Dead || (!self.peer && is_ending && self.members.is_empty())
    }
}

/// The bags of one relation that are not in a hook's context yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OmittedBags {
    /// The relation's UUID.
    pub relation: Uuid,
    /// The position of the view that the context was built from: bags are requested as they were then.
    pub position: Position,
    /// The owners of the bags that were not fetched yet.
    pub bags: BTreeSet<Owner>,
    /// The owners of bags that the controller no longer has. This means that the relation was removed, because the
    /// settings of a departed unit stay readable (I14).
    pub removed: BTreeSet<Owner>,
    /// The changes of this unit's earlier hooks to its application's bag that the view does not contain yet.
    pub pending_application_writes: BagChange,
}

impl OmittedBags {
    /// Whether the context contains every bag of the relation, and none can be requested.
    pub fn is_empty(&self) -> bool {
        self.bags.is_empty() && self.removed.is_empty() && self.relation == Uuid(0)
    }
}
