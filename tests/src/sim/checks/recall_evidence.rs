//! Design 7: absence is not death. A unit's folder goes only when the store says that it is Dead, or has its tombstone
//! or its machine's (one removed by force takes all that is in it along); of a unit that a restored store has never
//! heard of, also when the store had said so before.

use crate::sim::checks::{Check, Commit, Fact, place};
use state::documents::draft::read;
use state::documents::keys::last_id;
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::BTreeSet;

#[derive(Default)]
pub struct Recalls {
    /// Dead, or removed without that: a unit whose agent never attached has a tombstone at once (cargo sim 50423470).
    dead: BTreeSet<Uuid>,
}

impl Check for Recalls {
    fn name(&self) -> &'static str {
        "recalls"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let Fact::Recalled { unit, evidence: false, known } = fact else { return };
        if *known || !self.dead.contains(unit) {
            found.push(format!("{unit} is taken away, and neither Dead nor a tombstone says so"));
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, _found: &mut Vec<String>) {
        for change in commit.changes.entries.iter() {
            let Some(unit) = last_id(&change.key) else { continue };
            let said = match place(&change.key).0 {
                "unit-life" => read(commit.reader, &commit.model.unit_life(unit)) == Some(Life::Dead),
                "tombstone" => read(commit.reader, &commit.model.tombstone(unit)).is_some(),
                _ => false,
            };
            if said {
                self.dead.insert(unit);
            }
        }
    }
}
