//! A unit sees the settings of its remote units and its own, but not those of other units of its application,
//! except in their peer relation (I31).

use super::check::{Check, FinalState};
use state::documents::draft::read;
use state::terms::owner::Owner;

#[derive(Default)]
pub struct BagVisibility;

impl Check for BagVisibility {
    fn name(&self) -> &'static str {
        "bag-visibility"
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        for agent in &end.agents {
            for (number, shown) in agent.view.iter().flat_map(|view| &view.relations) {
                let relation = read(end.reader, &end.model.relation(shown.head.uuid));
                if relation.is_none_or(|relation| relation.is_peer()) {
                    continue;
                }
                let units = shown.bags.iter().filter_map(|(owner, _)| match owner {
                    Owner::Unit(unit) => Some(unit),
                    Owner::Application(_) => None,
                });
                let name = &agent.name;
                for unit in units.filter(|unit| *unit != name && unit.application == name.application) {
                    found.push(format!("{name} sees the settings of {unit} in relation {number}"));
                }
            }
        }
    }
}
