//! Which records count as done: at once, unless they hold a write that may be refused; then when it was answered.

use state::terms::names::Uuid;
use state::unit::local::{Event, Local, Step};
use state::unit::record::Record;
use std::collections::BTreeMap;

/// By folder, the record that waits for its answer.
#[derive(Default)]
pub struct Ledger(BTreeMap<Uuid, Record>);

impl Ledger {
    /// The record that is done by this event.
    pub fn take(&mut self, unit: Uuid, event: &Event) -> Option<Record> {
        match event {
            Event::Finished(record) => {
                if record.is_conditional() {
                    self.0.insert(unit, record.clone());
                    return None;
                }
                record.outcome.advances().then(|| record.clone())
            }
            Event::Acknowledged { sequence, refusal, .. } => {
                let waiting = self.0.get(&unit)?.sequence == *sequence;
                let record = waiting.then(|| self.0.remove(&unit)).flatten()?;
                refusal.is_none().then_some(record)
            }
            Event::ReplicaTaken { replica } => {
                let record = self.0.remove(&unit)?;
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

    /// Another journal begins here: nothing waits in it but what its memory says.
    pub fn begin(&mut self, unit: Uuid, memory: &Local) {
        self.0.remove(&unit);
        if let Step::AwaitingAnswer { sequence, .. } = &memory.step {
            let waiting = memory.outbox.iter().find(|record| record.sequence == *sequence);
            self.0.extend(waiting.map(|record| (unit, record.clone())));
        }
    }

    pub fn copy(&mut self, from: Uuid, to: Uuid) {
        if let Some(record) = self.0.get(&from).cloned() {
            self.0.insert(to, record);
        }
    }
}
