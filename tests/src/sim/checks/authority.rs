//! I31, I34 seen from the store: what belongs to a unit changes only in the commit of a record of that unit, what
//! belongs to a leader only in a commit of the unit that leads, made in the grant it leads by, and each message that
//! counts is of the newest epoch.

use super::{Check, Commit, Fact, place};
use state::documents::draft::{Reader, read, read_all};
use state::documents::keys::{Kind, Model, SessionDoc, StatusDoc, last_id};
use state::terms::names::Uuid;
use state::unit::hook::ReportContent;
use state::unit::local::Event;
use state::unit::record::{Record, Said};
use std::collections::{BTreeMap, BTreeSet};

/// Documents of a unit that nobody else writes; who removes it takes them away.
const OWN: [&str; 4] = ["ports", "ports-on", "unit-status", "workload-version"];

#[derive(Default)]
pub struct Authority {
    /// By unit, the newest epoch granted.
    epochs: BTreeMap<Uuid, (u64, Uuid)>,
    /// In messages of which epochs a record reached the controller.
    arrived: BTreeMap<(Uuid, u64), BTreeSet<u64>>,
    /// By unit, the newest record that restates: the bites that come before it change bags too.
    restating: BTreeMap<Uuid, u64>,
    /// By unit, versions of the workload that it said at once, beside its records.
    versions: BTreeSet<(Uuid, String)>,
    /// By unit, the numbers of statuses that it said at once, and that follow from what it said it runs.
    statuses: BTreeSet<(Uuid, (u64, u32))>,
    /// By digest of a record that writes as leader: the generation of the grant it was made in.
    generations: BTreeMap<String, u64>,
}

impl Check for Authority {
    fn name(&self) -> &'static str {
        "authority"
    }

    fn see(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        match fact {
            Fact::RecordReceived { unit, sequence, epoch, restates } => {
                if *restates {
                    self.restating.insert(*unit, *sequence);
                }
                self.arrived.entry((*unit, *sequence)).or_default().insert(*epoch);
            }
            Fact::Reported { unit, run, said, executes, .. } => {
                let is_status = |said: &&Said| matches!(said.what, ReportContent::UnitStatus { .. });
                let calls = said.iter().filter(is_status).map(|said| said.call);
                let calls = calls.chain(executes.then_some(0));
                self.statuses.extend(calls.map(|call| (*unit, (*run, call))));
                let versions = said.iter().filter_map(|said| match &said.what {
                    ReportContent::WorkloadVersion(version) => Some((*unit, version.clone())),
                    _ => None,
                });
                self.versions.extend(versions);
            }
            Fact::Recorded { events, .. } => {
                let records = events.iter().filter_map(|event| match event {
                    Event::Finished(record) => Some(record),
                    _ => None,
                });
                let leads = |record: &&Record| record.writes.bags.values().any(|b| !b.application.is_empty());
                let made = records.filter(leads);
                self.generations
                    .extend(made.filter_map(|record| Some((record.digest(), record.generation?))));
            }
            _ => {}
        }
    }

    fn restored(&mut self, reader: &dyn Reader, model: Model) {
        let sessions = read_all::<SessionDoc>(reader, &model.all(Kind::Session)).into_iter();
        self.epochs = sessions
            .filter_map(|(key, session)| Some((last_id(&key)?, (session.epoch, session.nonce))))
            .collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        let changed = |kind: &'static str| {
            let of = move |key: &&str| place(key).0 == kind;
            commit.changes.entries.iter().map(|change| change.key.as_str()).filter(of)
        };
        let speaking: BTreeSet<Uuid> = changed("replica").filter_map(last_id).collect();
        for key in changed("bag") {
            let (Some(owner), Some(_)) = (last_id(key), commit.reader.get(key)) else { continue };
            let leads = read(commit.reader, &commit.model.leader(owner));
            let relation = place(key).1.split('/').next();
            let made = changed("relation").any(|made| Some(place(made).1) == relation);
            let leads = leads.filter(|grant| speaking.contains(&grant.holder));
            if let Some(grant) = &leads {
                let replica = read(commit.reader, &commit.model.replica(grant.holder));
                let made_in = replica.and_then(|replica| self.generations.get(&replica.digest));
                if made_in.is_some_and(|generation| *generation != grant.generation) {
                    let (holder, now) = (&grant.holder_name, grant.generation);
                    found.push(format!("{key}: {holder} wrote it in grant {made_in:?} and leads by {now}"));
                }
            }
            let leads = leads.is_some();
            let applied = read(commit.reader, &commit.model.replica(owner)).map_or(0, |r| r.sequence);
            let restates = self.restating.get(&owner).is_some_and(|sequence| *sequence > applied);
            if !speaking.contains(&owner) && !leads && !made && !restates {
                found.push(format!("{key} changes and its owner says nothing"));
            }
        }
        for key in OWN.into_iter().flat_map(changed) {
            let (Some(owner), Some(now)) = (last_id(key), commit.reader.get(key)) else { continue };
            let applied = read(commit.reader, &commit.model.replica(owner)).map_or(0, |r| r.sequence);
            let restates = self.restating.get(&owner).is_some_and(|sequence| *sequence > applied);
            let made = read(commit.reader, &commit.model.unit(owner)).is_some()
                && changed("unit").any(|unit| last_id(unit) == Some(owner));
            let said = match place(key).0 {
                "workload-version" => {
                    now.value.parse().is_ok_and(|version| self.versions.contains(&(owner, version)))
                }
                "unit-status" => {
                    let status = now.value.parse::<StatusDoc>();
                    status.is_ok_and(|status| self.statuses.contains(&(owner, status.number)))
                }
                _ => false,
            };
            if !speaking.contains(&owner) && !restates && !said && !made {
                found.push(format!("{key} changes and its owner says nothing"));
            }
        }
        for unit in &speaking {
            let session = read(commit.reader, &commit.model.session(*unit));
            let replica = read(commit.reader, &commit.model.replica(*unit));
            let (Some(session), Some(replica)) = (session, replica) else { continue };
            let arrived = self.arrived.get(&(*unit, replica.sequence));
            if !arrived.is_some_and(|epochs| epochs.contains(&session.epoch)) {
                let (sequence, newest) = (replica.sequence, session.epoch);
                found.push(format!(
                    "{unit}: record {sequence} of epochs {arrived:?} is taken in epoch {newest}"
                ));
            }
        }
        for key in changed("session") {
            let Some(unit) = last_id(key) else { continue };
            let Some(session) = read(commit.reader, &commit.model.session(unit)) else { continue };
            let (before, nonce) =
                self.epochs.insert(unit, (session.epoch, session.nonce)).unwrap_or_default();
            if session.epoch < before || session.epoch == before && session.nonce != nonce {
                found.push(format!("{unit}: epoch {} is granted after {before}", session.epoch));
            }
        }
    }
}
