//! A unit's folder is deleted only on evidence that the unit is Dead: absence is not death (design 7).
//!
//! Evidence is the life Dead, the tombstone of the unit, or the tombstone of its machine, whose forced removal
//! includes its units. If a restored store does not contain the unit, evidence from before the restore counts as
//! well.

use super::check::{Check, Commit, kind_of};
use crate::sim::fact::Fact;
use state::documents::draft::read;
use state::documents::prelude::{Kind, last_id};
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::BTreeSet;

#[derive(Default)]
pub struct RecallEvidence {
    /// Units that were Dead or had a tombstone. A unit whose agent never attached has a tombstone at once and
    /// is never Dead (cargo sim 50423470).
    dead: BTreeSet<Uuid>,
}

impl Check for RecallEvidence {
    fn name(&self) -> &'static str {
        "recall-evidence"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let Fact::Recalled { unit, evidence: false, known } = fact else { return };
        if *known || !self.dead.contains(unit) {
            found.push(format!(
                "{unit}: its folder is deleted, but the unit is neither Dead nor has a tombstone"
            ));
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, _found: &mut Vec<String>) {
        for change in commit.changes.entries.iter() {
            let Some(unit) = last_id(&change.key) else { continue };
            let is_evidence = match kind_of(&change.key) {
                Kind::UnitLife => read(commit.reader, &commit.model.unit_life(unit)) == Some(Life::Dead),
                Kind::Tombstone => read(commit.reader, &commit.model.tombstone(unit)).is_some(),
                _ => false,
            };
            if is_evidence {
                self.dead.insert(unit);
            }
        }
    }
}
