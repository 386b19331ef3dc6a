//! Bags whose values the view omits (design 9), and how a running hook obtains them.
//!
//! A hook tool that reads an omitted bag requests it from the controller. The reply becomes part of the hook's
//! context once, so that every later read in that hook returns the same values (I5). Used by the hook session and by
//! `relation-get`.

use super::hook_context::HookContext;
use super::relation_view::BagRequest;
use crate::terms::names::RelationNumber;
use crate::terms::owner::Owner;
use crate::terms::settings::{self, Bag};

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
