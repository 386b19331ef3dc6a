//! F.3: nothing leaks. At rest every instance of the model belongs to a machine of it that is not Dead, but those that
//! the harvest mode leaves to people, those that no store knows of, and those that a user keeps: these are there.

use super::strangers::Known;
use super::{Check, Commit, End, Fact, Instanced, place};
use state::life::Life;
use state::model::draft::{Reader, read, read_all};
use state::model::keys::{Model, TombstoneDoc, last_id};
use state::names::Uuid;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct Leaks {
    known: Known,
    /// Instances of the model, by number.
    there: BTreeMap<u64, Uuid>,
    /// Machines that are gone and whose instance a user keeps.
    kept: BTreeSet<Uuid>,
}

impl Check for Leaks {
    fn name(&self) -> &'static str {
        "leaks"
    }

    fn restored(&mut self, reader: &dyn Reader, model: Model) {
        self.known = Known::of(reader, model);
        let gone = read_all::<TombstoneDoc>(reader, &model.all("tombstone")).into_iter();
        self.kept = gone.filter(|(_, gone)| gone.kept).filter_map(|(key, _)| last_id(&key)).collect();
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let Fact::Instance { number, model: crate::sim::user::MODEL, machine, what, .. } = fact else {
            return;
        };
        if *what == Instanced::Taken && self.kept.contains(machine) {
            found.push(format!("instance {number} of machine {machine} is taken away, which its user keeps"));
        }
        match what {
            Instanced::WasThere | Instanced::Made => drop(self.there.insert(*number, *machine)),
            Instanced::Taken | Instanced::Lost => drop(self.there.remove(number)),
            Instanced::Failed(_) => {}
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, _found: &mut Vec<String>) {
        self.known.commit(commit);
        for change in commit.changes.entries.iter().filter(|change| place(&change.key).0 == "tombstone") {
            let gone = change.value.as_ref();
            let gone = gone.map(|text| text.parse::<TombstoneDoc>().expect("documents are what was written"));
            self.kept.extend(last_id(&change.key).filter(|_| gone.is_some_and(|gone| gone.kept)));
        }
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        let destroyed = read(end.reader, &end.model.model_life()).is_none();
        for (number, machine) in self.there.iter().filter(|(_, machine)| !self.kept.contains(machine)) {
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
