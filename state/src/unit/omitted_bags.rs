//! Bags that did not come along with the view (design 9). A tool that wants one says so; what is answered is taken into
//! the hook's context, once: every later read in that hook finds the same.

use crate::terms::names::{RelationNumber, Uuid};
use crate::terms::owner::Owner;
use crate::terms::position::Position;
use crate::terms::settings::{self, Bag, BagChange};
use crate::unit::hook::HookContext;
use crate::unit::snapshot::BagRequest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What of one relation is not in a hook's context yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OmittedBags {
    pub relation: Uuid,
    /// Where the view stood that the context was made of: bags are wanted as they were then.
    pub at: Position,
    pub bags: BTreeSet<Owner>,
    /// Asked for and no longer there: the relation was removed, for a departed unit's settings stay (I14).
    pub gone: BTreeSet<Owner>,
    /// What this unit's hooks wrote into its application's bag and the view does not show yet.
    pub application_written: BagChange,
}

impl OmittedBags {
    /// Nothing has to be fetched, and nothing was.
    pub fn is_empty(&self) -> bool {
        self.bags.is_empty() && self.gone.is_empty()
    }
}

impl HookContext {
    /// The bag is to be fetched before it can be read.
    pub fn wanted(&self, number: RelationNumber, owner: &Owner) -> Option<BagRequest> {
        let withheld = &self.relations.get(&number)?.withheld;
        let asked = || BagRequest { relation: withheld.relation, owner: owner.clone(), at: withheld.at };
        withheld.bags.contains(owner).then(asked)
    }

    /// Takes what was answered; none: the bag is gone. A bag that is known already stays as it was read.
    pub fn take_bag(&mut self, asked: &BagRequest, values: Option<Bag>) {
        let own_application = self.unit.application.clone();
        for relation in self.relations.values_mut().filter(|r| r.withheld.relation == asked.relation) {
            if !relation.withheld.bags.remove(&asked.owner) {
                continue;
            }
            let Some(mut values) = values.clone() else {
                relation.withheld.gone.insert(asked.owner.clone());
                continue;
            };
            match &asked.owner {
                Owner::Unit(unit) => drop(relation.unit_bags.insert(unit.clone(), values)),
                Owner::Application(name) => {
                    if *name == own_application {
                        settings::apply(&mut values, &relation.withheld.application_written);
                    }
                    relation.application_bags.insert(name.clone(), values);
                }
            }
        }
    }
}
