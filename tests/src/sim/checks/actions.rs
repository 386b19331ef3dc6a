//! What a person asked a unit to do is done once, or said to have failed (spec A.16): never twice, never for ever.

use super::{Check, End, Fact};
use state::model::draft::read_all;
use state::names::Uuid;
use state::unit::local::{Event, Local};
use state::unit::operation::Operation;
use std::collections::BTreeSet;

#[derive(Default)]
pub struct Actions(BTreeSet<(Uuid, u64)>);

impl Check for Actions {
    fn name(&self) -> &'static str {
        "actions"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let Fact::Recorded { folder: unit, events, .. } = fact else { return };
        for event in events.iter() {
            let Event::Began(run) = event else { continue };
            if let Operation::Action { id, .. } = run.operation
                && !self.0.insert((*unit, id))
            {
                found.push(format!("{unit}: action {id} is run again"));
            }
        }
    }

    fn begin(&mut self, unit: Uuid, memory: &Local) {
        // what the folder forgot it may do again: nobody else knows that it was begun
        self.0.retain(|(of, id)| *of != unit || memory.last_action.is_some_and(|last| *id <= last));
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        for (key, _) in read_all::<bool>(end.reader, &end.model.all("action-of")) {
            found.push(format!("{key} is not finished"));
        }
    }
}
