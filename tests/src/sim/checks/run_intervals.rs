//! I4, I12, I51: one hook at a time, under the machine's lock; whatever was begun ends, or is begun again as it was,
//! before anything else; and a record says that something ran only if it did.

use crate::sim::checks::{Check, Fact};
use state::terms::names::Uuid;
use state::unit::local::{Event, INTERRUPTIONS_MAX, Run, Step};
use state::unit::operation::{Hook, Operation, RelationEvent};
use state::unit::record::Outcome;
use state::unit::retry::RELATION_GONE;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct RunIntervals {
    running: BTreeMap<Uuid, u64>,
    begun: BTreeMap<Uuid, Run>,
    /// The last run that has ended.
    ended: BTreeMap<Uuid, u64>,
}

impl RunIntervals {
    fn event(&mut self, unit: Uuid, event: &Event) -> Option<String> {
        match event {
            Event::Started(run) => {
                let open = self.begun.insert(unit, run.clone())?;
                let again = open.operation.is_same_as(&run.operation)
                    && run.attempt == open.attempt + 1
                    && run.attempt <= INTERRUPTIONS_MAX;
                (!again && !gone_with_its_relation(&open, run)).then(|| {
                    format!(
                        "{unit}: run {} of {} was begun and has no end, and {} (attempt {}) begins",
                        open.number, open.operation, run.operation, run.attempt
                    )
                })
            }
            Event::Finished(record) if record.operation != Operation::Resync => {
                let ended = self.ended.insert(unit, record.run);
                if ended.is_some_and(|ended| ended >= record.run) {
                    return Some(format!("{unit}: run {} ends after run {ended:?} has ended", record.run));
                }
                let open = self.begun.remove(&unit);
                let ran = matches!(record.outcome, Outcome::Ok | Outcome::Missing);
                match open {
                    Some(open) if open.number != record.run => {
                        Some(format!("{unit}: run {} ends while run {} is open", record.run, open.number))
                    }
                    None if ran && record.operation.runs_charm() => {
                        let (sequence, operation) = (record.sequence, &record.operation);
                        Some(format!("{unit}: record {sequence} is of a run of {operation} that never began"))
                    }
                    Some(_) | None => None,
                }
            }
            Event::RebootRequested(_) => {
                // it asked to be ended, and begins anew after the boot
                self.begun.get_mut(&unit)?.attempt = 0;
                None
            }
            Event::ReplicaTaken { .. } => {
                self.begun.remove(&unit);
                self.ended.remove(&unit);
                None
            }
            _ => None,
        }
    }
}

/// A joined that was interrupted is not begun again when its relation has gone: nobody joined, on to the departed of
/// others and to broken (H.115).
fn gone_with_its_relation(open: &Run, next: &Run) -> bool {
    use Hook::Relation;
    match (&open.operation, &next.operation) {
        (
            Operation::Hook(Relation { relation: a, event: RelationEvent::Joined { .. }, .. }),
            Operation::Hook(Relation { relation: b, .. }),
        ) => a == b && next.cause == RELATION_GONE,
        _ => false,
    }
}

impl Check for RunIntervals {
    fn name(&self) -> &'static str {
        "intervals"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::HookStarted { folder: unit, run, locked } => {
                if let Some(other) = self.running.insert(*unit, *run) {
                    found.push(format!(
                        "{unit}: the hook of run {run} begins while that of run {other} lives"
                    ));
                }
                if !locked {
                    found.push(format!("{unit}: the hook of run {run} begins without the machine's lock"));
                }
            }
            Fact::HookEnded { folder: unit, run } if self.running.get(unit) == Some(run) => {
                self.running.remove(unit);
            }
            Fact::Recorded { folder: unit, events, .. } => {
                found.extend(events.iter().filter_map(|event| self.event(*unit, event)));
            }
            Fact::JournalStarted { folder, local } => {
                self.begun.remove(folder);
                self.ended.remove(folder);
                if let Step::Started(run) = &local.step {
                    self.begun.insert(*folder, run.clone());
                }
            }
            Fact::Copied { folder, copy } => {
                if let Some(run) = self.begun.get(folder).cloned() {
                    self.begun.insert(*copy, run);
                }
            }
            _ => {}
        }
    }
}
