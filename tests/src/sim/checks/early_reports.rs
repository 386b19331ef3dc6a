//! I31, I34 for what is said at once, beside records: the newest agent says it, and of an application its leader does.

use crate::sim::checks::{Check, Commit, Fact, place};
use crate::sim::script::APPLICATION_STATUS_PREFIX;
use state::documents::draft::read;
use state::documents::keys::last_id;
use state::terms::names::{UnitName, Uuid};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct EarlyReports {
    /// By unit, run and call: in messages of which epochs it was said.
    said: BTreeMap<(Uuid, u64, u32), BTreeSet<u64>>,
}

impl EarlyReports {
    /// What was said in this call is taken: is it in the newest session?
    fn takes(&self, commit: &Commit<'_>, said: (Uuid, u64, u32)) -> Option<String> {
        let epochs = self.said.get(&said)?;
        let session = read(commit.reader, &commit.model.session(said.0))?;
        (!epochs.contains(&session.epoch)).then(|| {
            let (unit, run, call) = said;
            let newest = session.epoch;
            format!("{unit}: call {call} of run {run}, said in epochs {epochs:?}, is taken in epoch {newest}")
        })
    }
}

impl Check for EarlyReports {
    fn name(&self) -> &'static str {
        "speakers"
    }

    fn see(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        if let Fact::Reported { unit, epoch, run, said, .. } = fact {
            for said in said {
                self.said.entry((*unit, *run, said.call)).or_default().insert(*epoch);
            }
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        let speaking = commit.changes.entries.iter().filter(|change| place(&change.key).0 == "replica");
        let speaking: BTreeSet<Uuid> = speaking.filter_map(|change| last_id(&change.key)).collect();
        for change in commit.changes.entries.iter().filter(|change| change.value.is_some()) {
            match place(&change.key) {
                ("unit-status", _) => {
                    let Some(unit) = last_id(&change.key).filter(|unit| !speaking.contains(unit)) else {
                        continue;
                    };
                    let Some(status) = read(commit.reader, &commit.model.unit_status(unit)) else { continue };
                    let (run, call) = status.number;
                    found.extend(self.takes(commit, (unit, run, call)));
                }
                ("log", rest) => {
                    let parts: Vec<&str> = rest.split('/').collect();
                    let [unit, run, call] = parts[..] else { continue };
                    let (Ok(unit), Ok(run), Ok(call)) = (unit.parse(), run.parse(), call.parse()) else {
                        continue;
                    };
                    if !speaking.contains(&unit) {
                        found.extend(self.takes(commit, (unit, run, call)));
                    }
                }
                ("application-status", _) => {
                    let Some(application) = last_id(&change.key) else { continue };
                    let status = read(commit.reader, &commit.model.application_status(application));
                    let message = status.unwrap_or_default().message;
                    let speaker = message
                        .strip_prefix(APPLICATION_STATUS_PREFIX)
                        .and_then(|name| name.parse::<UnitName>().ok());
                    let leader = read(commit.reader, &commit.model.leader(application));
                    let leader = leader.map(|grant| grant.holder_name);
                    if speaker.is_some() && speaker != leader {
                        found.push(format!("{speaker:?} speaks for all, and {leader:?} leads"));
                    }
                }
                _ => {}
            }
        }
    }
}
