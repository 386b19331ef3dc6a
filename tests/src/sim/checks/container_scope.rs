//! In a container-scoped relation a unit sees only the container of its own principal, in the final state (I31).

use super::check::{Check, FinalState};
use state::charm::Scope;
use state::documents::draft::{Reader, read};
use state::documents::prelude::Model;
use state::terms::names::{UnitName, Uuid};
use state::terms::owner::Owner;

#[derive(Default)]
pub struct ContainerScope;

/// The principal of a unit, or the unit itself. `None` if the unit does not exist.
fn principal(reader: &dyn Reader, model: Model, unit: Uuid) -> Option<Uuid> {
    read(reader, &model.unit(unit)).map(|doc| doc.principal.unwrap_or(unit))
}

impl Check for ContainerScope {
    fn name(&self) -> &'static str {
        "container-scope"
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        for agent in &end.agents {
            let Some(shown) = &agent.view else { continue };
            let Some(own) = principal(end.reader, end.model, agent.unit) else { continue };
            let is_foreign = |unit: &UnitName| {
                let id = read(end.reader, &end.model.unit_name(unit));
                id.and_then(|id| principal(end.reader, end.model, id)).is_some_and(|other| other != own)
            };
            for view in shown.relations.values().filter(|view| view.head.scope == Scope::Container) {
                let owners = view.bags.iter().filter_map(|(owner, _)| match owner {
                    Owner::Unit(unit) => Some(unit),
                    Owner::Application(_) => None,
                });
                let mut units = view.members.keys().chain(owners);
                found.extend(units.find(|unit| is_foreign(unit)).map(|unit| {
                    format!(
                        "{} sees {unit}, which is in another container, on endpoint {}",
                        agent.name, view.head.endpoint
                    )
                }));
            }
        }
    }
}
