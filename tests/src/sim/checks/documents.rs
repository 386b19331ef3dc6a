//! After every commit the documents satisfy the invariants I13, I14 and I18 to I23; the production checker
//! evaluates them.

use super::check::{Check, Commit, FinalState, parts};
use state::documents::invariants;
use state::documents::prelude::Kind;

#[derive(Default)]
pub struct DocumentInvariants;

impl Check for DocumentInvariants {
    fn name(&self) -> &'static str {
        "documents"
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for deleted in commit.changes.entries.iter().filter(|change| change.value.is_none()) {
            let parts = parts(&deleted.key);
            let (Kind::Bag, [relation, ..]) = (parts.kind, &parts.ids()[..]) else { continue };
            if commit.reader.get(commit.model.relation(*relation).text()).is_some() {
                found.push(format!("I14: {} was deleted before its relation", deleted.key));
            }
        }
        // the documents of a removed model are deleted in pieces
        if commit.is_full_check && commit.reader.get(commit.model.model_life().text()).is_some() {
            found.extend(invariants::violations(commit.reader, commit.model));
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        found.extend(invariants::violations(end.reader, end.model));
        for left in end.reader.scan(&end.model.cleanups(), "", usize::MAX) {
            found.push(format!("I14: {} is not finished at rest", left.key));
        }
    }
}
