//! Bags whose values the view omits (design 9), and how a running hook obtains them.
//!
//! A hook tool that reads an omitted bag requests it from the controller. The reply becomes part of the hook's
//! context once, so that every later read in that hook returns the same values (I5). Used by the hook session and by
//! `relation-get`.

use super::hook_context::{HookContext, HookRelation};
use super::relation_view::BagRequest;
use crate::terms::names::{RelationNumber, Uuid};
use crate::terms::owner::Owner;
use crate::terms::settings::{self, Bag};

impl HookContext {
    /// Returns the request for a bag that must be fetched before the hook can read it, or `None` if it can be read.
    pub fn bag_request(&self, number: RelationNumber, owner: &Owner) -> Option<BagRequest> {
        let relation = self.relations.get(&number)?;
        let omitted = &relation.omitted;
        let request =
            || BagRequest { relation: omitted.relation, owner: owner.clone(), position: omitted.position };
        (omitted.bags.contains(owner) || self.is_unread_fellow(relation, owner)).then(request)
    }

    /// Whether this is the bag of another unit of this unit's application in a relation with another one, and was not
    /// fetched yet. No view contains such a bag, because no hook is run for it.
    fn is_unread_fellow(&self, relation: &HookRelation, owner: &Owner) -> bool {
        let Owner::Unit(unit) = owner else { return false };
        let is_fellow = unit.application == self.unit.application && *unit != self.unit && !relation.peer;
        let is_read = relation.unit_bags.contains_key(unit) || relation.omitted.removed.contains(owner);
        is_fellow && !is_read && relation.omitted.relation != Uuid(0)
    }

    /// Stores the reply to a request. `None`: the controller no longer has the bag. A bag that the context already
    /// has keeps its values.
    pub fn insert_bag(&mut self, request: &BagRequest, values: Option<Bag>) {
        let own_application = self.unit.application.clone();
        let numbers: Vec<RelationNumber> = self.relations.keys().copied().collect();
        for number in numbers {
            if self
                .bag_request(number, &request.owner)
                .is_none_or(|wanted| wanted.relation != request.relation)
            {
                continue;
            }
            let Some(relation) = self.relations.get_mut(&number) else { continue };
            relation.omitted.bags.remove(&request.owner);
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
