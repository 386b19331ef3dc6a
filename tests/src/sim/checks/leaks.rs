//! F.3: nothing leaks. At rest every instance of the model belongs to a machine of it that is not Dead, but those that
//! the harvest mode leaves to people, and those that no store knows of.

use super::strangers::Known;
use super::{Check, Commit, End, Fact, Instanced};
use state::life::Life;
use state::model::draft::{Reader, read};
use state::model::keys::Model;
use state::names::Uuid;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Leaks {
    known: Known,
    /// Instances of the model, by number.
    there: BTreeMap<u64, Uuid>,
}

impl Check for Leaks {
    fn name(&self) -> &'static str {
        "leaks"
    }

    fn restored(&mut self, reader: &dyn Reader, model: Model) {
        self.known = Known::of(reader, model);
    }

    fn see(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        let Fact::Instance { number, model: crate::sim::user::MODEL, machine, what, .. } = fact else {
            return;
        };
        match what {
            Instanced::WasThere | Instanced::Made => drop(self.there.insert(*number, *machine)),
            Instanced::Taken | Instanced::Lost => drop(self.there.remove(number)),
            Instanced::Failed(_) => {}
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, _found: &mut Vec<String>) {
        self.known.commit(commit);
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        let destroyed = read(end.reader, &end.model.model_life()).is_none();
        for (number, machine) in &self.there {
            let life = read(end.reader, &end.model.machine_life(*machine));
            let left = match life {
                Some(Life::Alive | Life::Dying) => continue,
                Some(Life::Dead) => false,
                None if self.known.machines.contains(machine) => !self.known.takes_removed() && !destroyed,
                None => !self.known.takes_unknown() || destroyed,
            };
            if !left {
                found.push(format!("instance {number} of machine {machine} is left, whose life is {life:?}"));
            }
        }
    }
}
