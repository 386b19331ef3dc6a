//! I8, I9, I11 in the commit that applies a record: what the record writes is in the store from then on, and stays apart
//! from what it does not write; an action has ended as it says; a unit that has failed is shown so.

use crate::sim::checks::{Check, Commit, Fact, place};
use state::documents::draft::{Reader, read, read_all};
use state::documents::keys::{Kind, Model, ReplicaDoc, last_id};
use state::terms::names::Uuid;
use state::terms::status::ActionStatus;
use state::unit::hook::{ALL_ENDPOINTS, PortWrites, Ports, ReportContent};
use state::unit::local::Event;
use state::unit::operation::Operation;
use state::unit::record::{Outcome, Record};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A record where it was written down: these events, and which of them.
type Made = (Arc<[Event]>, usize);

#[derive(Default)]
pub struct RecordEffects {
    /// By unit and sequence; several where a folder was lost or copied.
    made: BTreeMap<(Uuid, u64), Vec<Made>>,
    /// What is open by the records that were applied.
    ports: BTreeMap<Uuid, Ports>,
}

impl RecordEffects {
    fn record(&self, unit: Uuid, replica: &ReplicaDoc) -> Option<&Record> {
        let made = self.made.get(&(unit, replica.sequence))?;
        let mut records = made.iter().filter_map(|(events, at)| match &events[*at] {
            Event::Finished(record) => Some(record),
            _ => None,
        });
        match made.len() {
            1 => records.next(),
            _ => records.find(|record| record.digest() == replica.digest),
        }
    }
}

/// Opened first, then closed.
fn open(ports: &mut Ports, writes: &PortWrites) {
    for (endpoint, ranges) in &writes.open {
        ports.entry(endpoint.clone()).or_default().extend(ranges.iter().cloned());
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

/// Its writes are to be there.
fn publishes(record: &Record, replica: &ReplicaDoc) -> bool {
    let ended_well =
        if is_action(record) { record.outcome == Outcome::Ok } else { record.outcome.advances() };
    replica.refusal.is_none() && ended_well
}

/// The unit is in error once this was applied; none: it may be for what came before.
fn fails(record: &Record, replica: &ReplicaDoc) -> Option<bool> {
    let refused = replica.refusal.is_some() && !matches!(record.operation, Operation::EnterScope { .. });
    match &record.operation {
        Operation::Action { .. } | Operation::Resync => None,
        _ if refused || !record.outcome.advances() => Some(true),
        _ if record.episode.is_none() => Some(false),
        _ => None,
    }
}

impl Check for RecordEffects {
    fn name(&self) -> &'static str {
        "applied"
    }

    fn see(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        let Fact::Recorded { of, events, .. } = fact else { return };
        for (at, event) in events.iter().enumerate() {
            if let Event::Finished(record) = event {
                self.made.entry((*of, record.sequence)).or_default().push((events.clone(), at));
            }
        }
    }

    fn restored(&mut self, reader: &dyn Reader, model: Model) {
        let ports = read_all::<Ports>(reader, &model.all(Kind::Ports)).into_iter();
        self.ports = ports.filter_map(|(key, ports)| Some((last_id(&key)?, ports))).collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        let (reader, model) = (commit.reader, commit.model);
        let speaking = commit.changes.entries.iter().filter(|change| place(&change.key).0 == "replica");
        for unit in speaking.filter_map(|change| last_id(&change.key)) {
            let Some(replica) = read(reader, &model.replica(unit)) else { continue };
            let Some(doc) = read(reader, &model.unit(unit)) else { continue };
            let Some(record) = self.record(unit, &replica).cloned() else { continue };
            let (name, sequence) = (&doc.name, record.sequence);
            if publishes(&record, &replica) {
                for (number, writes) in &record.writes.bags {
                    let known = replica.local.relations.get(number).map(|relation| relation.uuid);
                    let there = known.filter(|id| read(reader, &model.relation(*id)).is_some());
                    let there = there.filter(|id| read(reader, &model.scope_of(unit, *id)).is_some());
                    let Some(relation) = there else { continue };
                    for (owner, change) in [(unit, &writes.unit), (doc.application, &writes.application)] {
                        let bag = read(reader, &model.bag(relation, owner)).unwrap_or_default().values;
                        let stands = |(key, value): &(&String, &String)| {
                            bag.get(*key).map_or("", String::as_str) == value.as_str()
                        };
                        if let Some((key, value)) = change.iter().find(|written| !stands(written)) {
                            let what = format!("record {sequence} of {name} sets {key} to {value:?}");
                            found.push(format!("{what} in relation {number}, and {bag:?} is there"));
                        }
                    }
                }
                let kept = &replica.local.charm_state;
                if record.writes.state.iter().any(|(key, value)| kept.get(key) != value.as_ref()) {
                    let written = &record.writes.state;
                    found
                        .push(format!("record {sequence} of {name} keeps {written:?}, and {kept:?} is kept"));
                }
                let ports = self.ports.entry(unit).or_default();
                match &record.memory {
                    Some(memory) => *ports = memory.ports.clone(),
                    None => open(ports, &record.writes.ports),
                }
                let there = read(reader, &model.ports(unit)).unwrap_or_default();
                if there != *ports {
                    found.push(format!(
                        "{name} has {ports:?} open after record {sequence}, {there:?} is there"
                    ));
                }
            }
            for said in &record.said {
                let ReportContent::UnitStatus { message, .. } = &said.what else { continue };
                let number = (record.run, said.call);
                let shown = read(reader, &model.unit_status(unit)).unwrap_or_default();
                if shown.number < number || (shown.number == number && shown.message != *message) {
                    found.push(format!("{name} says {message:?} in {number:?}, and {shown:?} is shown"));
                }
            }
            let shown = read(reader, &model.agent_status(unit)).unwrap_or_default();
            if fails(&record, &replica).is_some_and(|fails| fails != (shown.status == "error")) {
                let (operation, outcome) = (&record.operation, &record.outcome);
                found.push(format!("{name}: {operation} ended {outcome:?}, and {shown:?} is shown"));
            }
            if let Operation::Action { id, .. } = &record.operation {
                let key = model.action(*id);
                let now = commit.changes.entries.iter().any(|change| change.key == key.text());
                let ended = read(reader, &key).filter(|doc| now && doc.unit == unit);
                let ended = ended.filter(|doc| doc.completed_ms == Some(record.at_ms));
                let well = record.outcome == Outcome::Ok
                    && record.writes.action.failed.is_none()
                    && replica.refusal.is_none();
                let expected = if well { ActionStatus::Completed } else { ActionStatus::Failed };
                if let Some(doc) = ended.filter(|doc| doc.status != expected) {
                    let (outcome, status) = (&record.outcome, &doc.status);
                    found
                        .push(format!("{name}: action {id} ended {outcome:?}, and is said to have {status}"));
                }
            }
        }
    }
}
