//! Each action runs at most once and finishes, or is reported as failed (spec A.16).
//!
//! A unit must not run an action twice, and at rest no action is pending.

use super::check::{Check, FinalState};
use crate::sim::fact::Fact;
use state::documents::draft::{read, read_all};
use state::documents::keys::{ActionDoc, Kind};
use state::terms::names::Uuid;
use state::unit::local::{Event, Local};
use state::unit::operation::Operation;
use std::collections::BTreeSet;

/// The actions that started and those that finished, by folder.
#[derive(Default)]
pub struct Actions {
    started: BTreeSet<(Uuid, u64)>,
    finished: BTreeSet<(Uuid, u64)>,
}

impl Check for Actions {
    fn name(&self) -> &'static str {
        "actions"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let Fact::Recorded { folder: unit, events, .. } = fact else { return };
        for event in events.iter() {
            let (operation, seen, again) = match event {
                Event::Started(run) => (&run.operation, &mut self.started, "is started again"),
                Event::Finished(record) => (&record.operation, &mut self.finished, "finishes again"),
                _ => continue,
            };
            if let Operation::Action { id, .. } = operation
                && !seen.insert((*unit, *id))
            {
                found.push(format!("{unit}: action {id} {again}"));
            }
        }
    }

    fn journal_started(&mut self, unit: Uuid, memory: &Local) {
        // an action that the folder lost may start again: nothing else recorded its start
        let is_kept =
            |(of, id): &(Uuid, u64)| *of != unit || memory.last_action.is_some_and(|last| *id <= last);
        self.started.retain(is_kept);
        self.finished.retain(is_kept);
    }

    fn at_rest(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        for (key, _) in read_all::<bool>(end.reader, &end.model.all(Kind::ActionOf)) {
            found.push(format!("{key}: the action is still pending at rest"));
        }
        for (key, doc) in read_all::<ActionDoc>(end.reader, &end.model.all(Kind::Action)) {
            let open = !doc.status.is_final();
            if open && read(end.reader, &end.model.action_of(doc.unit, doc.id)).is_none() {
                found.push(format!("{key}: the action is {} but not pending for its unit", doc.status));
            }
        }
    }
}
