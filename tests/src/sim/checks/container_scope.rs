//! I31: of a container relation a unit is shown only its own principal's container, or its own.

use crate::sim::checks::{Check, End};
use state::charm::Scope;
use state::documents::draft::{Reader, read};
use state::documents::keys::Model;
use state::terms::names::{UnitName, Uuid};
use state::terms::owner::Owner;

#[derive(Default)]
pub struct ContainerScope;

/// The principal a unit belongs to, or the unit itself; none: it is gone.
fn principal(reader: &dyn Reader, model: Model, unit: Uuid) -> Option<Uuid> {
    read(reader, &model.unit(unit)).map(|doc| doc.principal.unwrap_or(unit))
}

impl Check for ContainerScope {
    fn name(&self) -> &'static str {
        "containers"
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        for agent in &end.agents {
            let Some(shown) = &agent.view else { continue };
            let Some(own) = principal(end.reader, end.model, agent.unit) else { continue };
            let strange = |unit: &UnitName| {
                let id = read(end.reader, &end.model.unit_name(unit));
                id.and_then(|id| principal(end.reader, end.model, id)).is_some_and(|other| other != own)
            };
            for view in shown.relations.values().filter(|view| view.head.scope == Scope::Container) {
                let owners = view.bags.iter().filter_map(|(owner, _)| match owner {
                    Owner::Unit(unit) => Some(unit),
                    Owner::Application(_) => None,
                });
                let mut units = view.members.keys().chain(owners);
                found.extend(units.find(|unit| strange(unit)).map(|unit| {
                    format!("{} is shown {unit} of another container in {}", agent.name, view.head.endpoint)
                }));
            }
        }
    }
}
