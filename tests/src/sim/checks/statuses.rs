//! Design 4: what a charm says is told, whatever becomes of the run that said it, and of statuses the last stands: one
//! that comes late, or twice, changes nothing.

use super::{Check, Commit, End, Fact, place};
use state::documents::draft::{Reader, read};
use state::documents::keys::{Model, last_id};
use state::terms::names::Uuid;
use state::unit::hook::ReportContent;
use state::unit::local::{Event, Local};
use state::unit::operation::Operation;
use state::unit::record::{Outcome, Record, Said};
use std::collections::{BTreeMap, BTreeSet};

/// Of the runs of a unit and the calls of a run.
type Number = (u64, u32);

#[derive(Default)]
pub struct Statuses {
    /// Of each folder the last status that is on its disk.
    said: BTreeMap<Uuid, (Number, String)>,
    /// Of each folder the log lines that are on its disk.
    lines: BTreeMap<Uuid, BTreeSet<Number>>,
    /// Of each unit what is shown.
    shown: BTreeMap<Uuid, Number>,
    /// Of each folder the last run of which a tool was answered that said how the workload is, and that.
    heard: BTreeMap<Uuid, (u64, String)>,
}

/// Its process ended by itself.
fn ran(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Ok => true,
        Outcome::Failed { reason, .. } => {
            reason.starts_with("exit status") || reason.starts_with("killed by")
        }
        Outcome::Missing | Outcome::Skipped => false,
    }
}

impl Statuses {
    fn take(&mut self, folder: Uuid, run: u64, said: &[Said]) {
        for Said { call, what, .. } in said {
            match what {
                ReportContent::UnitStatus { message, .. } => {
                    self.said.insert(folder, ((run, *call), message.clone()));
                }
                ReportContent::Log { .. } => drop(self.lines.entry(folder).or_default().insert((run, *call))),
                _ => {}
            }
        }
    }
}

impl Check for Statuses {
    fn name(&self) -> &'static str {
        "statuses"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        if let Fact::HookSetStatus { folder, run, message } = fact {
            self.heard.insert(*folder, (*run, message.clone()));
        }
        let Fact::Recorded { folder, events, .. } = fact else { return };
        for event in events.iter() {
            // a folder that was lost counts its runs anew
            if matches!(event, Event::Started(_)) {
                self.heard.remove(folder);
            }
            if let Event::Finished(record) = event
                && let Some((run, message)) = self.heard.get(folder)
                && *run == record.run
                && record.operation.runs_charm()
                && ran(&record.outcome)
            {
                let tells = |said: &Said| matches!(&said.what, ReportContent::UnitStatus { message: told, .. } if told == message);
                if !record.said.iter().any(tells) {
                    found.push(format!("{folder}: run {run} has said {message:?}, and its record does not"));
                }
            }
            if let Event::UnrecordedReport(unheard) = event {
                self.take(*folder, unheard.run, &unheard.said);
            }
        }
    }

    fn done(&mut self, folder: Uuid, record: &Record, _found: &mut Vec<String>) {
        // what unsent records had in them is not said again, but for the last status
        if record.operation == Operation::Resync {
            self.lines.remove(&folder);
            let memory = record.memory.as_ref().and_then(|memory| memory.status.clone());
            let last = memory.map(|(_, message)| (folder, ((record.run, u32::MAX), message)));
            self.said.extend(last);
        }
        self.take(folder, record.run, &record.said);
    }

    fn begin(&mut self, folder: Uuid, _memory: &Local) {
        self.said.remove(&folder);
        self.lines.remove(&folder);
    }

    /// What was told went with the store; whoever restates says its last word again. Counted anew from what is said next.
    fn restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.said.clear();
        self.lines.clear();
        self.shown.clear();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter().filter(|change| place(&change.key).0 == "unit-status") {
            let Some(unit) = last_id(&change.key) else { continue };
            let shown = read(commit.reader, &commit.model.unit_status(unit)).map(|status| status.number);
            let before = self.shown.insert(unit, shown.unwrap_or_default()).unwrap_or_default();
            if shown.is_some_and(|shown| shown < before) {
                found.push(format!("{unit}: status {shown:?} stands over {before:?}"));
            }
        }
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        for agent in &end.agents {
            for (run, call) in self.lines.get(&agent.folder).into_iter().flatten() {
                if read(end.reader, &end.model.log(agent.unit, *run, *call)).is_none() {
                    found.push(format!("{}: line {call} of run {run} is not in the log", agent.name));
                }
            }
            let Some((number, message)) = self.said.get(&agent.folder) else { continue };
            let shown = read(end.reader, &end.model.unit_status(agent.unit)).unwrap_or_default();
            if shown.number < *number || (shown.number == *number && shown.message != *message) {
                let name = &agent.name;
                found.push(format!("{name} said {message:?} in {number:?}, and {shown:?} is shown"));
            }
        }
    }
}
