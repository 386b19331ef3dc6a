//! Reports that are sent ahead of their record take effect only from the newest agent of the unit (I31, I34).
//!
//! A report about an application takes effect only if its leader sent it.

use super::check::{Check, Commit, kind_of, parts};
use crate::sim::fact::Fact;
use crate::sim::script::APPLICATION_STATUS_PREFIX;
use state::documents::draft::read;
use state::documents::prelude::{Kind, ReportNumber, last_id};
use state::terms::names::{UnitName, Uuid};
use state::terms::status_message::StatusMessage;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct EarlyReports {
    /// The epochs of the messages with a report, by unit, run and report.
    epochs: BTreeMap<(Uuid, u64, u32), BTreeSet<u64>>,
}

impl EarlyReports {
    /// Reports a violation if this report is accepted but was not sent in the newest session.
    fn rejected_epoch(&self, commit: &Commit<'_>, reports: (Uuid, u64, u32)) -> Option<String> {
        let epochs = self.epochs.get(&reports)?;
        let session = read(commit.reader, &commit.model.session(reports.0))?;
        (!epochs.contains(&session.epoch)).then(|| {
            let (unit, run, report) = reports;
            let newest = session.epoch;
            format!("{unit}: report {run}/{report} of epochs {epochs:?} is accepted in epoch {newest}")
        })
    }
}

impl Check for EarlyReports {
    fn name(&self) -> &'static str {
        "early-reports"
    }

    fn observe(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        if let Fact::Reported { unit, epoch, run, reports, .. } = fact {
            for report in reports {
                self.epochs.entry((*unit, *run, report.number)).or_default().insert(*epoch);
            }
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        let recording_units = commit.changes_of(Kind::Replica);
        let recording_units: BTreeSet<Uuid> =
            recording_units.filter_map(|change| last_id(&change.key)).collect();
        for change in commit.changes.entries.iter().filter(|change| change.value.is_some()) {
            match kind_of(&change.key) {
                Kind::UnitStatus => {
                    let Some(unit) = last_id(&change.key).filter(|unit| !recording_units.contains(unit))
                    else {
                        continue;
                    };
                    let Some(status) = read(commit.reader, &commit.model.unit_status(unit)) else { continue };
                    let ReportNumber { run, report } = status.number;
                    found.extend(self.rejected_epoch(commit, (unit, run, report)));
                }
                Kind::Log => {
                    let parts: Vec<&str> = parts(&change.key).rest.split('/').collect();
                    let [unit, run, report] = parts[..] else { continue };
                    let (Ok(unit), Ok(run), Ok(report)) = (unit.parse(), run.parse(), report.parse()) else {
                        continue;
                    };
                    if !recording_units.contains(&unit) {
                        found.extend(self.rejected_epoch(commit, (unit, run, report)));
                    }
                }
                Kind::ApplicationStatus => {
                    let Some(application) = last_id(&change.key) else { continue };
                    let status = read(commit.reader, &commit.model.application_status(application));
                    let StatusMessage::OfCharm(text) = status.unwrap_or_default().message else { continue };
                    let reporter = text
                        .strip_prefix(APPLICATION_STATUS_PREFIX)
                        .and_then(|name| name.parse::<UnitName>().ok());
                    let leader = read(commit.reader, &commit.model.leader(application));
                    let leader = leader.map(|grant| grant.holder_name);
                    if reporter.is_some() && reporter != leader {
                        found.push(format!(
                            "{reporter:?} set the status of the application, but {leader:?} is the leader"
                        ));
                    }
                }
                _ => {}
            }
        }
    }
}
