//! The properties of every state, and those of a state at rest.

use super::documents::MODEL;
use super::steps::State;
use state::documents::draft::read_all;
use state::documents::invariants::violations;
use state::documents::prelude::Kind;
use state::terms::life::Life;
use state::unit::local::Local;

impl State {
    /// Checks the properties of every state, and returns the first violation.
    pub(super) fn check(&self) -> Option<String> {
        violations(&self.documents, MODEL).into_iter().next()
    }

    /// Checks the properties of a state in which only a user request is possible.
    pub(super) fn check_at_rest(&self) -> Option<String> {
        for kind in [Kind::UnitLife, Kind::ApplicationLife, Kind::RelationLife, Kind::MachineLife] {
            for (key, life) in read_all::<Life>(&self.documents, &MODEL.prefix(kind)) {
                if life != Life::Alive {
                    return Some(format!("nobody has anything to do, and {key} is {life:?}"));
                }
            }
        }
        for (unit, local) in self.agents.iter().filter_map(|(unit, local)| Some((unit, local.as_ref()?))) {
            let Some(view) = self.view(*unit) else { return Some(format!("{} has no view", local.name)) };
            if view.unit.life != Life::Alive {
                return Some(format!(
                    "nobody has anything to do, and {} is {:?}",
                    local.name, view.unit.life
                ));
            }
            let numbers = |local: &Local| local.relations.keys().copied().collect::<Vec<_>>();
            let shown: Vec<_> = view.relations.keys().copied().collect();
            if numbers(local) != shown {
                return Some(format!("{} knows {:?} and is shown {shown:?}", local.name, numbers(local)));
            }
            for (number, relation) in &local.relations {
                let known: Vec<_> = relation.members.keys().collect();
                let shown: Vec<_> = view.relations[number].members.keys().collect();
                if known != shown {
                    return Some(format!("{} has joined {known:?} of {shown:?}", local.name));
                }
            }
        }
        None
    }
}
