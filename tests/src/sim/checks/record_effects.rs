//! The commit that applies a record stores what the record writes and nothing else (I8, I9, I11).
//!
//! An action finishes with the outcome in the record, and a unit that failed is shown in error.

use super::check::{Check, Commit};
use crate::sim::fact::Fact;
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{ActionDoc, Kind, Model, ReplicaDoc, ReportNumber, last_id};
use state::terms::names::Uuid;
use state::terms::operation::Operation;
use state::terms::status::{ActionStatus, AgentStatus};
use state::terms::status_message::StatusMessage;
use state::unit::hook_context::{ALL_ENDPOINTS, PortWrites, Ports, ReportContent};
use state::unit::local::Event;
use state::unit::record::{Outcome, Record};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A journaled record: the events that were stored together, and the index of the record.
type JournaledRecord = (Arc<[Event]>, usize);

#[derive(Default)]
pub struct RecordEffects {
    /// The journaled records, by unit and sequence; several if a folder was lost or copied.
    journaled: BTreeMap<(Uuid, u64), Vec<JournaledRecord>>,
    /// The open ports of each unit according to the applied records.
    ports: BTreeMap<Uuid, Ports>,
}

impl RecordEffects {
    fn record(&self, unit: Uuid, replica: &ReplicaDoc) -> Option<&Record> {
        let made = self.journaled.get(&(unit, replica.local.sequence))?;
        let mut records = made.iter().filter_map(|(events, at)| match &events[*at] {
            Event::Finished(record) => Some(record),
            _ => None,
        });
        match made.len() {
            1 => records.next(),
            _ => records.find(|record| record.digest() == replica.local.digest),
        }
    }
}

/// Applies the port writes of a record: first the opened ranges, then the closed ones.
fn apply_ports(ports: &mut Ports, writes: &PortWrites) {
    for (endpoint, ranges) in &writes.open {
        ports.entry(endpoint.clone()).or_default().extend(ranges);
    }
    for (endpoint, ranges) in &writes.close {
        for (at, open) in ports.iter_mut() {
            if endpoint == ALL_ENDPOINTS || endpoint == at {
                open.retain(|range| !ranges.contains(range));
            }
        }
    }
    ports.retain(|_, ranges| !ranges.is_empty());
}

fn is_action(record: &Record) -> bool {
    matches!(record.operation, Operation::Action { .. })
}

/// Whether the writes of the record must be visible.
fn writes_are_visible(record: &Record, replica: &ReplicaDoc) -> bool {
    let ended_well =
        if is_action(record) { record.outcome == Outcome::Ok } else { record.outcome.advances() };
    replica.outcome.refusal.is_none() && ended_well
}

/// Whether the unit is in error after this record. `None`: this depends on earlier records.
fn is_in_error_after(record: &Record, replica: &ReplicaDoc) -> Option<bool> {
    let refused =
        replica.outcome.refusal.is_some() && !matches!(record.operation, Operation::EnterScope { .. });
    match &record.operation {
        Operation::Action { .. } | Operation::Resync => None,
        _ if refused || !record.outcome.advances() => Some(true),
        _ if record.episode.is_none() => Some(false),
        _ => None,
    }
}

impl Check for RecordEffects {
    fn name(&self) -> &'static str {
        "record-effects"
    }

    fn observe(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        let Fact::EventsPersisted { unit, events, .. } = fact else { return };
        for (at, event) in events.iter().enumerate() {
            if let Event::Finished(record) = event {
                self.journaled.entry((*unit, record.sequence)).or_default().push((events.clone(), at));
            }
        }
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        let ports = read_all::<Ports>(reader, &model.prefix(Kind::Ports)).into_iter();
        self.ports = ports.filter_map(|(key, ports)| Some((last_id(&key)?, ports))).collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        let (reader, model) = (commit.reader, commit.model);
        let recording_units = commit.changes_of(Kind::Replica);
        for unit in recording_units.filter_map(|change| last_id(&change.key)) {
            let Some(replica) = read(reader, &model.replica(unit)) else { continue };
            let Some(doc) = read(reader, &model.unit(unit)) else { continue };
            let Some(record) = self.record(unit, &replica).cloned() else { continue };
            let (name, sequence) = (&doc.name, record.sequence);
            if writes_are_visible(&record, &replica) {
                for (number, writes) in &record.writes.bags {
                    let known = replica.local.relations.get(number).map(|relation| relation.uuid);
                    let existing = known.filter(|id| read(reader, &model.relation(*id)).is_some());
                    let existing = existing.filter(|id| read(reader, &model.scope_of(unit, *id)).is_some());
                    let Some(relation) = existing else { continue };
                    for (owner, change) in [(unit, &writes.unit), (doc.application, &writes.application)] {
                        let bag = read(reader, &model.bag(relation, owner))
                            .map(|bag| bag.values)
                            .unwrap_or_default();
                        let stands = |(key, value): &(&String, &String)| {
                            bag.get(*key).map_or("", String::as_str) == value.as_str()
                        };
                        if let Some((key, value)) = change.iter().find(|written| !stands(written)) {
                            let what = format!("record {sequence} of {name} sets {key} to {value:?}");
                            found.push(format!("{what} in relation {number}, but the bag is {bag:?}"));
                        }
                    }
                }
                let stored = &replica.local.charm_state;
                if record.writes.state.iter().any(|(key, value)| stored.get(key) != value.as_ref()) {
                    let written = &record.writes.state;
                    found.push(format!(
                        "record {sequence} of {name} writes state {written:?}, but {stored:?} is stored"
                    ));
                }
                let ports = self.ports.entry(unit).or_default();
                match &record.resync_local {
                    Some(published) => *ports = published.ports.clone(),
                    None => apply_ports(ports, &record.writes.ports),
                }
                let existing = read(reader, &model.ports(unit)).unwrap_or_default();
                if existing != *ports {
                    found.push(format!(
                        "{name}: {ports:?} are open after record {sequence}, but {existing:?} are stored"
                    ));
                }
            }
            for report in &record.reports {
                let ReportContent::UnitStatus { message, .. } = &report.what else { continue };
                let number = ReportNumber { run: record.run, report: report.number };
                let shown = read(reader, &model.unit_status(unit)).unwrap_or_default();
                if shown.number < number
                    || (shown.number == number && shown.message != StatusMessage::OfCharm(message.clone()))
                {
                    found.push(format!("{name}: reported {message:?} in {number:?}, but {shown:?} is shown"));
                }
            }
            let shown = read(reader, &model.agent_status(unit)).unwrap_or_default();
            if is_in_error_after(&record, &replica)
                .is_some_and(|is_in_error| is_in_error != (shown.status == AgentStatus::Error))
            {
                let (operation, outcome) = (&record.operation, &record.outcome);
                found.push(format!("{name}: {operation} finished with {outcome:?}, but {shown:?} is shown"));
            }
            if let Operation::Action { id, name: program, .. } = &record.operation {
                let key = model.action(*id);
                let now = commit.changes.entries.iter().any(|change| change.key == key.text());
                let ended = read(reader, &key).filter(|doc| now && doc.unit == unit);
                let ended = ended.filter(|doc| doc.completed_ms == Some(record.at_ms));
                let succeeded = record.outcome == Outcome::Ok
                    && record.writes.action.failed.is_none()
                    && replica.outcome.refusal.is_none();
                // after a restore, another action may have the number: it fails, its record is lost
                let is_own = |doc: &ActionDoc| doc.name == *program;
                let is_expected = |doc: &ActionDoc| match doc.status {
                    ActionStatus::Completed => succeeded && is_own(doc),
                    ActionStatus::Failed | ActionStatus::Aborted => !succeeded || !is_own(doc),
                    _ => false,
                };
                if let Some(doc) = ended.filter(|doc| !is_expected(doc)) {
                    let (outcome, status) = (&record.outcome, &doc.status);
                    found.push(format!(
                        "{name}: action {id} finished with {outcome:?}, but its status is {status}"
                    ));
                }
            }
        }
    }
}
