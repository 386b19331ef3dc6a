//! Bags whose values the view omits (design 9), and how a running hook obtains them.
//!
//! A hook tool that reads an omitted bag requests it from the controller. The reply becomes part of the hook's
//! context once, so that every later read in that hook returns the same values (I5). Used by the hook session and by
//! `relation-get`.

use crate::terms::names::{RelationNumber, Uuid};
use crate::terms::owner::Owner;
use crate::terms::position::Position;
use crate::terms::settings::{self, Bag, BagChange};
use crate::unit::hook::HookContext;
use crate::unit::snapshot::BagRequest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

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
    /// Whether no bag of the relation is omitted, fetched or not.
    pub fn is_empty(&self) -> bool {
        self.bags.is_empty() && self.removed.is_empty()
    }
}

impl HookContext {
    /// Returns the request for a bag that must be fetched before the hook can read it, or `None` if it can be read.
    pub fn bag_request(&self, number: RelationNumber, owner: &Owner) -> Option<BagRequest> {
        let omitted = &self.relations.get(&number)?.omitted;
        let request =
            || BagRequest { relation: omitted.relation, owner: owner.clone(), position: omitted.position };
        omitted.bags.contains(owner).then(request)
    }

    /// Stores the reply to a request. `None`: the controller no longer has the bag. A bag that the context already
    /// has keeps its values.
    pub fn insert_bag(&mut self, request: &BagRequest, values: Option<Bag>) {
        let own_application = self.unit.application.clone();
        for relation in self.relations.values_mut().filter(|r| r.omitted.relation == request.relation) {
            if !relation.omitted.bags.remove(&request.owner) {
                continue;
            }
            let Some(mut values) = values.clone() else {
                relation.omitted.removed.insert(request.owner.clone());
                continue;
            };
            match &request.owner {
                Owner::Unit(unit) => drop(relation.unit_bags.insert(unit.clone(), values)),
                Owner::Application(name) => {
                    if *name == own_application {
                        settings::apply(&mut values, &relation.omitted.pending_application_writes);
                    }
                    relation.application_bags.insert(name.clone(), values);
                }
            }
        }
    }
}
