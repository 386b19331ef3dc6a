//! Only the current agent of a unit changes what belongs to the unit, and only the leader what belongs to the
//! application (I31, I34, seen from the store).
//!
//! Documents of a unit change only in the commit of a record of that unit. Settings of an application change only
//! in the commit of a record that its leader made under the current grant. Each message that takes effect has the
//! newest epoch.

use super::check::{Check, Commit, kind_of, parts};
use crate::sim::fact::Fact;
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{Kind, Model, ReportNumber, SessionDoc, StatusDoc, last_id};
use state::terms::names::Uuid;
use state::unit::hook_context::ReportContent;
use state::unit::local::Event;
use state::unit::record::{Record, RunReport};
use std::collections::{BTreeMap, BTreeSet};

/// Kinds of documents that only their unit writes. The removal of the unit deletes them.
const UNIT_OWNED_KINDS: [Kind; 4] = [Kind::Ports, Kind::PortsOn, Kind::UnitStatus, Kind::WorkloadVersion];

#[derive(Default)]
pub struct Authority {
    /// The newest epoch that was granted, by unit.
    epochs: BTreeMap<Uuid, (u64, Uuid)>,
    /// The epochs of the messages in which a record reached the controller, by unit and sequence.
    arrived: BTreeMap<(Uuid, u64), BTreeSet<u64>>,
    /// The newest resync, by unit: the batches before its record change bags as well.
    resyncing: BTreeMap<Uuid, u64>,
    /// Workload versions that a unit reported ahead of its records.
    versions: BTreeSet<(Uuid, String)>,
    /// Numbers of the statuses that a unit reported ahead of its records, or that follow from the run it
    /// reported.
    statuses: BTreeSet<(Uuid, ReportNumber)>,
    /// The generation of the grant under which a record writes application settings, by digest of the record.
    generations: BTreeMap<String, u64>,
}

impl Check for Authority {
    fn name(&self) -> &'static str {
        "authority"
    }

    fn observe(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        match fact {
            Fact::RecordReceived { unit, sequence, epoch, is_resync } => {
                if *is_resync {
                    self.resyncing.insert(*unit, *sequence);
                }
                self.arrived.entry((*unit, *sequence)).or_default().insert(*epoch);
            }
            Fact::Reported { unit, run, reports, executes, .. } => {
                let is_status = |report: &&RunReport| matches!(report.what, ReportContent::UnitStatus { .. });
                let numbers = reports.iter().filter(is_status).map(|report| report.number);
                let numbers = numbers.chain(executes.then_some(0));
                self.statuses.extend(numbers.map(|report| (*unit, ReportNumber { run: *run, report })));
                let versions = reports.iter().filter_map(|report| match &report.what {
                    ReportContent::WorkloadVersion(version) => Some((*unit, version.clone())),
                    _ => None,
                });
                self.versions.extend(versions);
            }
            Fact::EventsPersisted { events, .. } => {
                let records = events.iter().filter_map(|event| match event {
                    Event::Finished(record) => Some(record),
                    _ => None,
                });
                let leads = |record: &&Record| record.writes.bags.values().any(|b| !b.application.is_empty());
                let created = records.filter(leads);
                self.generations
                    .extend(created.filter_map(|record| Some((record.digest(), record.leader_generation?))));
            }
            _ => {}
        }
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        let sessions = read_all::<SessionDoc>(reader, &model.prefix(Kind::Session)).into_iter();
        self.epochs = sessions
            .filter_map(|(key, session)| Some((last_id(&key)?, (session.epoch, session.nonce))))
            .collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        let changed = |kind| commit.changes_of(kind).map(|change| change.key.as_str());
        let recording_units: BTreeSet<Uuid> = changed(Kind::Replica).filter_map(last_id).collect();
        for key in changed(Kind::Bag) {
            let (Some(owner), Some(_)) = (last_id(key), commit.reader.get(key)) else { continue };
            let leads = read(commit.reader, &commit.model.leader(owner));
            let relation = parts(key).ids().first().copied();
            let created = changed(Kind::Relation).any(|created| last_id(created) == relation);
            let leads = leads.filter(|grant| recording_units.contains(&grant.holder));
            if let Some(grant) = &leads {
                let replica = read(commit.reader, &commit.model.replica(grant.holder));
                let made_in = replica.and_then(|replica| self.generations.get(&replica.local.digest));
                if made_in.is_some_and(|generation| *generation != grant.generation) {
                    let (holder, now) = (&grant.holder_name, grant.generation);
                    found.push(format!(
                        "{key}: {holder} wrote it under grant {made_in:?}, but the current grant is {now}"
                    ));
                }
            }
            let leads = leads.is_some();
            let applied = read(commit.reader, &commit.model.replica(owner)).map_or(0, |r| r.local.sequence);
            let resyncs = self.resyncing.get(&owner).is_some_and(|sequence| *sequence > applied);
            if !recording_units.contains(&owner) && !leads && !created && !resyncs {
                found.push(format!("{key} changed without a record or report of its owner"));
            }
        }
        for key in UNIT_OWNED_KINDS.into_iter().flat_map(changed) {
            let (Some(owner), Some(now)) = (last_id(key), commit.reader.get(key)) else { continue };
            let applied = read(commit.reader, &commit.model.replica(owner)).map_or(0, |r| r.local.sequence);
            let resyncs = self.resyncing.get(&owner).is_some_and(|sequence| *sequence > applied);
            let created = read(commit.reader, &commit.model.unit(owner)).is_some()
                && changed(Kind::Unit).any(|unit| last_id(unit) == Some(owner));
            let is_reported = match kind_of(key) {
                Kind::WorkloadVersion => {
                    now.value.parse().is_ok_and(|version| self.versions.contains(&(owner, version)))
                }
                Kind::UnitStatus => {
                    let status = now.value.parse::<StatusDoc>();
                    status.is_ok_and(|status| self.statuses.contains(&(owner, status.number)))
                }
                _ => false,
            };
            if !recording_units.contains(&owner) && !resyncs && !is_reported && !created {
                found.push(format!("{key} changed without a record or report of its owner"));
            }
        }
        for unit in &recording_units {
            let session = read(commit.reader, &commit.model.session(*unit));
            let replica = read(commit.reader, &commit.model.replica(*unit));
            let (Some(session), Some(replica)) = (session, replica) else { continue };
            let arrived = self.arrived.get(&(*unit, replica.local.sequence));
            if !arrived.is_some_and(|epochs| epochs.contains(&session.epoch)) {
                let (sequence, newest) = (replica.local.sequence, session.epoch);
                found.push(format!(
                    "{unit}: record {sequence} of epochs {arrived:?} is accepted in epoch {newest}"
                ));
            }
        }
        for key in changed(Kind::Session) {
            let Some(unit) = last_id(key) else { continue };
            let Some(session) = read(commit.reader, &commit.model.session(unit)) else { continue };
            let (before, nonce) =
                self.epochs.insert(unit, (session.epoch, session.nonce)).unwrap_or_default();
            if session.epoch < before || session.epoch == before && session.nonce != nonce {
                found.push(format!("{unit}: epoch {} is granted after epoch {before}", session.epoch));
            }
        }
    }
}
