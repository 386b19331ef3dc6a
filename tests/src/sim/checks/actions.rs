//! What a person asked a unit to do is done once, or said to have failed (spec A.16): never twice, never for ever.

use super::{Check, End, Fact};
use state::documents::draft::{read, read_all};
use state::documents::keys::{ActionDoc, Kind};
use state::terms::names::Uuid;
use state::unit::local::{Event, Local};
use state::unit::operation::Operation;
use std::collections::BTreeSet;

/// By folder, the actions that were begun and those that have ended.
#[derive(Default)]
pub struct Actions {
    begun: BTreeSet<(Uuid, u64)>,
    ended: BTreeSet<(Uuid, u64)>,
}

impl Check for Actions {
    fn name(&self) -> &'static str {
        "actions"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let Fact::Recorded { folder: unit, events, .. } = fact else { return };
        for event in events.iter() {
            let (operation, known, again) = match event {
                Event::Started(run) => (&run.operation, &mut self.begun, "is run again"),
                Event::Finished(record) => (&record.operation, &mut self.ended, "ends again"),
                _ => continue,
            };
            if let Operation::Action { id, .. } = operation
                && !known.insert((*unit, *id))
            {
                found.push(format!("{unit}: action {id} {again}"));
            }
        }
    }

    fn begin(&mut self, unit: Uuid, memory: &Local) {
        // what the folder forgot it may do again: nobody else knows that it was begun
        let knows =
            |(of, id): &(Uuid, u64)| *of != unit || memory.last_action.is_some_and(|last| *id <= last);
        self.begun.retain(knows);
        self.ended.retain(knows);
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        for (key, _) in read_all::<bool>(end.reader, &end.model.all(Kind::ActionOf)) {
            found.push(format!("{key} is not finished"));
        }
        for (key, doc) in read_all::<ActionDoc>(end.reader, &end.model.all(Kind::Action)) {
            let open = !doc.status.is_final();
            if open && read(end.reader, &end.model.action_of(doc.unit, doc.id)).is_none() {
                found.push(format!("{key} is shown as {}, and nobody will run it", doc.status));
            }
        }
    }
}
