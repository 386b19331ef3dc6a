//! The hooks of one folder run one at a time, each with a hook lock at its start and after its start is stored, and every
//! started run finishes or is repeated before another one starts (I4, I12, I51).
//!
//! A record reports that a hook ran only if it ran.

use super::check::Check;
use crate::sim::fact::Fact;
use state::terms::names::Uuid;
use state::terms::operation::{Hook, Operation, RelationEvent};
use state::terms::start_reason::StartReason;
use state::unit::local::{Event, INTERRUPTIONS_MAX, Run, Step};
use state::unit::record::Outcome;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct RunIntervals {
    running: BTreeMap<Uuid, u64>,
    open_runs: BTreeMap<Uuid, Run>,
    /// The number of the last run whose start is stored, by folder.
    stored_starts: BTreeMap<Uuid, u64>,
    /// The number of the last finished run, by folder.
    finished_runs: BTreeMap<Uuid, u64>,
}

impl RunIntervals {
    fn event(&mut self, unit: Uuid, event: &Event) -> Option<String> {
        match event {
            Event::Started(run) => {
                self.stored_starts.insert(unit, run.number);
                let open = self.open_runs.insert(unit, run.clone())?;
                let again = open.operation.is_same_as(&run.operation)
                    && run.attempt == open.attempt + 1
                    && run.attempt <= INTERRUPTIONS_MAX;
                (!again && !is_relation_removed(&open, run)).then(|| {
                    format!(
                        "{unit}: run {} of {} has not finished, but {} (attempt {}) starts",
                        open.number, open.operation, run.operation, run.attempt
                    )
                })
            }
            Event::Finished(record) if record.operation != Operation::Resync => {
                let last = self.finished_runs.insert(unit, record.run);
                if last.is_some_and(|last| last >= record.run) {
                    return Some(format!(
                        "{unit}: run {} finishes after run {last:?} has finished",
                        record.run
                    ));
                }
                let open = self.open_runs.remove(&unit);
                let ran = matches!(record.outcome, Outcome::Ok | Outcome::Missing);
                match open {
                    Some(open) if open.number != record.run => {
                        Some(format!("{unit}: run {} finishes while run {} is open", record.run, open.number))
                    }
                    None if ran && record.operation.runs_charm() => {
                        let (sequence, operation) = (record.sequence, &record.operation);
                        Some(format!(
                            "{unit}: record {sequence} reports a run of {operation} that never started"
                        ))
                    }
                    Some(_) | None => None,
                }
            }
            Event::RebootRequested(_) => {
                // the hook requested a reboot and starts again after the boot
                self.open_runs.get_mut(&unit)?.attempt = 0;
                None
            }
            Event::ReplicaTaken { .. } => {
                self.open_runs.remove(&unit);
                self.finished_runs.remove(&unit);
                None
            }
            _ => None,
        }
    }
}

/// Whether an interrupted relation-joined is not repeated because its relation is gone: the unit continues with
/// the departed hooks of the other members and with relation-broken (H.115).
fn is_relation_removed(open: &Run, next: &Run) -> bool {
    use Hook::Relation;
    match (&open.operation, &next.operation) {
        (
            Operation::Hook(Relation { relation: a, event: RelationEvent::Joined { .. }, .. }),
            Operation::Hook(Relation { relation: b, .. }),
        ) => a == b && next.reason == StartReason::RelationRemoved,
        _ => false,
    }
}

impl Check for RunIntervals {
    fn name(&self) -> &'static str {
        "run-intervals"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::HookStarted { folder: unit, run, locked } => {
                if let Some(other) = self.running.insert(*unit, *run) {
                    found.push(format!(
                        "{unit}: the hook of run {run} starts while the hook of run {other} is running"
                    ));
                }
                if self.stored_starts.get(unit) != Some(run) {
                    found.push(format!("{unit}: the hook of run {run} starts before its start is stored"));
                }
                if !locked {
                    found.push(format!("{unit}: the hook of run {run} starts without the machine's lock"));
                }
            }
            Fact::HookEnded { folder: unit, run } if self.running.get(unit) == Some(run) => {
                self.running.remove(unit);
            }
            Fact::EventsPersisted { folder: unit, events, .. } => {
                found.extend(events.iter().filter_map(|event| self.event(*unit, event)));
            }
            Fact::JournalStarted { folder, local } => {
                self.open_runs.remove(folder);
                self.finished_runs.remove(folder);
                if let Step::Started(run) = &local.step {
                    self.open_runs.insert(*folder, run.clone());
                }
            }
            Fact::Copied { folder, copy } => {
                if let Some(run) = self.open_runs.get(folder).cloned() {
                    self.open_runs.insert(*copy, run);
                }
            }
            _ => {}
        }
    }
}
