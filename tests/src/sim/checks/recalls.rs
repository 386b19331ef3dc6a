//! Design 7: absence is not death. A unit's folder goes only when the store says that it is Dead, or has its tombstone.

use super::{Check, Fact};

#[derive(Default)]
pub struct Recalls;

impl Check for Recalls {
    fn name(&self) -> &'static str {
        "recalls"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        if let Fact::Recalled { unit, evidence: false } = fact {
            found.push(format!("{unit} is taken away, and neither Dead nor a tombstone says so"));
        }
    }
}
