//! Each action runs at most once and finishes, or is reported as failed (spec A.16).
//!
//! A unit must not run an action twice, at rest no action is pending, and a new action never has a number up to that of
//! the last action of its unit.

use super::check::{Check, Commit, FinalState};
use crate::sim::fact::Fact;
use state::documents::draft::{read, read_all};
use state::documents::prelude::{ActionDoc, KeyParts, Kind};
use state::terms::names::Uuid;
use state::terms::operation::Operation;
use state::terms::status::ActionStatus;
use state::unit::local::{Event, Local};
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
        let Fact::EventsPersisted { folder: unit, events, .. } = fact else { return };
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

    fn journal_started(&mut self, unit: Uuid, stored: &Local) {
        // an action that the folder lost may start again: nothing else recorded its start
        let is_kept =
            |(of, id): &(Uuid, u64)| *of != unit || stored.last_action.is_some_and(|last| *id <= last);
        self.started.retain(is_kept);
        self.finished.retain(is_kept);
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter().filter(|change| change.value.is_some()) {
            let Some(parts) = KeyParts::of(&change.key).filter(|parts| parts.kind == Kind::ActionOf) else {
                continue;
            };
            let (Some(&unit), Some(id)) = (parts.ids().first(), parts.number()) else { continue };
            let is_new = read(commit.reader, &commit.model.action(id))
                .is_some_and(|doc| doc.status == ActionStatus::Pending);
            let passed =
                read(commit.reader, &commit.model.replica(unit)).and_then(|doc| doc.local.last_action);
            if is_new && passed >= Some(id) {
                found.push(format!(
                    "{unit}: the new action {id} does not follow {passed:?}, the last action of the unit"
                ));
            }
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        for (key, _) in read_all::<ActionStatus>(end.reader, &end.model.prefix(Kind::ActionOf)) {
            found.push(format!("{key}: the action is still pending at rest"));
        }
        for (key, doc) in read_all::<ActionDoc>(end.reader, &end.model.prefix(Kind::Action)) {
            let open = !doc.status.is_final();
            if open && read(end.reader, &end.model.action_of(doc.unit, doc.id)).is_none() {
                found.push(format!("{key}: the action is {} but not pending for its unit", doc.status));
            }
        }
    }
}
