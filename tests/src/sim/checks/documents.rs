//! I13, I14, I18 to I23: what must hold of the documents after any commit; the production check decides.

use super::{Check, Commit, End, place};
use state::documents::invariants;

#[derive(Default)]
pub struct Documents;

impl Check for Documents {
    fn name(&self) -> &'static str {
        "documents"
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for gone in commit.changes.entries.iter().filter(|change| change.value.is_none()) {
            let ("bag", rest) = place(&gone.key) else { continue };
            let relation = rest.split('/').next().and_then(|part| part.parse().ok()).unwrap_or_default();
            if commit.reader.get(commit.model.relation(relation).text()).is_some() {
                found.push(format!("I14: {} is gone and its relation is not", gone.key));
            }
        }
        if commit.whole {
            found.extend(invariants::violations(commit.reader, commit.model));
        }
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        found.extend(invariants::violations(end.reader, end.model));
        for left in end.reader.scan(&end.model.cleanups(), "", usize::MAX) {
            found.push(format!("I14: {} is still there, at rest", left.key));
        }
    }
}
