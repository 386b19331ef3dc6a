//! I13, I14, I18 to I23: what must hold of the documents after any commit; the production check decides.

use super::{Check, Commit, End};
use state::model::invariants;

#[derive(Default)]
pub struct Documents;

impl Check for Documents {
    fn name(&self) -> &'static str {
        "documents"
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        if commit.whole {
            found.extend(invariants::violations(commit.reader, commit.model));
        }
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        found.extend(invariants::violations(end.reader, end.model));
    }
}
