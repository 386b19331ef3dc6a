//! I31: a unit is shown the settings of its counterparts and its own, not those of other units of its application, but
//! for their peer relation.

use crate::sim::checks::{Check, End};
use state::documents::draft::read;
use state::terms::owner::Owner;

#[derive(Default)]
pub struct BagVisibility;

impl Check for BagVisibility {
    fn name(&self) -> &'static str {
        "strange-bags"
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
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
                    found.push(format!("{name} is shown the settings of {unit} in relation {number}"));
                }
            }
        }
    }
}
