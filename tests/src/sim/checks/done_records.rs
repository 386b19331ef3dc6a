//! Decides when a record counts as done, for the checks that count completed operations.
//!
//! A record whose operation has failed is never done. Another record is done at once, unless it contains a conditional
//! write; then it is done when the controller has accepted it.

use state::terms::names::Uuid;
use state::unit::local::{Event, Local, Step};
use state::unit::record::Record;
use std::collections::BTreeMap;

/// The record that waits for its acknowledgement, by folder.
#[derive(Default)]
pub struct DoneRecords(BTreeMap<Uuid, Record>);

impl DoneRecords {
    /// The record that this event completes, if there is one.
    pub fn complete(&mut self, folder: Uuid, event: &Event) -> Option<Record> {
        match event {
            Event::Finished(record) => {
                if record.is_conditional() {
                    self.0.insert(folder, record.clone());
                    return None;
                }
                record.outcome.advances().then(|| record.clone())
            }
            Event::Acknowledged { sequence, refusal, .. } => {
                let waiting = self.0.get(&folder)?.sequence == *sequence;
                let record = waiting.then(|| self.0.remove(&folder)).flatten()?;
                refusal.is_none().then_some(record)
            }
            Event::ReplicaTaken { replica } => {
                let record = self.0.remove(&folder)?;
                let refused = replica.episode().is_some_and(|e| e.operation.is_same_as(&record.operation));
                (replica.sequence >= record.sequence && !refused).then_some(record)
            }
            Event::Attaching { .. }
            | Event::Attached { .. }
            | Event::Started(_)
            | Event::LeadershipChanged(_)
            | Event::RebootRequested(_)
            | Event::UnrecordedReport(_)
            | Event::ReportAcknowledged { .. } => None,
        }
    }

    /// The journal of a folder starts again: only the record that its state is waiting for is pending.
    pub fn journal_started(&mut self, folder: Uuid, stored: &Local) {
        self.0.remove(&folder);
        if let Step::AwaitingAnswer { sequence, .. } = &stored.step {
            let waiting = stored.outbox.iter().find(|record| record.sequence == *sequence);
            self.0.extend(waiting.map(|record| (folder, record.clone())));
        }
    }

    pub fn folder_copied(&mut self, from: Uuid, to: Uuid) {
        if let Some(record) = self.0.get(&from).cloned() {
            self.0.insert(to, record);
        }
    }
}
