//! While one unit has a promise that it leads, no other unit is granted leadership (design 13, spec D.4).
//!
//! At rest the leader has run leader-elected for its current grant.

use super::check::{Check, Commit, FinalState};
use crate::sim::fact::Fact;
use state::documents::draft::{Reader, read};
use state::documents::prelude::{Kind, LeaderDoc, Model, last_id};
use state::terms::life::Life;
use state::terms::names::Uuid;
use state::terms::operation::{Hook, Operation};
use state::unit::local::{FollowUp, Local};
use state::unit::record::Record;
use std::collections::BTreeMap;

/// How long is-leader promises leadership (spec D.4).
const PROMISE_MS: u64 = 30_000;

#[derive(Default)]
pub struct Leadership {
    now_ms: u64,
    /// The end of the last promise, by unit.
    promised: BTreeMap<Uuid, u64>,
    /// The unit of the last grant, by application.
    holders: BTreeMap<Uuid, Uuid>,
    /// The last grant for which leader-elected has run, by folder.
    elected: BTreeMap<Uuid, u64>,
    /// A restored store may grant leadership to another unit while a promise of the lost store holds (design
    /// 7).
    was_restored: bool,
    /// The newest grant, by application.
    newest: BTreeMap<Uuid, (u64, Uuid)>,
}

impl Check for Leadership {
    fn name(&self) -> &'static str {
        "leadership"
    }

    fn advance_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    fn observe(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        if let Fact::LeadershipPromised { unit } = fact {
            self.promised.insert(*unit, self.now_ms + PROMISE_MS);
        }
    }

    fn record_done(&mut self, folder: Uuid, record: &Record, _found: &mut Vec<String>) {
        if let Operation::Hook(Hook::LeaderElected { generation: Some(generation) }) = &record.operation {
            self.elected.insert(folder, *generation);
        }
    }

    fn journal_started(&mut self, folder: Uuid, stored: &Local) {
        self.elected.remove(&folder);
        let ran = stored.elected_generation.filter(|_| stored.follow_up != Some(FollowUp::LeaderElected));
        self.elected.extend(ran.map(|generation| (folder, generation)));
    }

    fn folder_copied(&mut self, folder: Uuid, copy: Uuid) {
        self.elected.extend(self.elected.get(&folder).copied().map(|generation| (copy, generation)));
    }

    fn store_restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.was_restored = true;
        self.newest.clear();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes_of(Kind::Leader) {
            let (Some(application), Some(value)) = (last_id(&change.key), &change.value) else { continue };
            let grant: LeaderDoc = value.parse().expect("documents are what was written");
            let now = (grant.generation, grant.holder);
            if let Some(newest) = self.newest.insert(application, now).filter(|newest| *newest != now)
                && newest.0 >= now.0
            {
                let name = &grant.holder_name;
                found.push(format!("{name}: grant {} follows grant {}", now.0, newest.0));
            }
            let before = self.holders.insert(application, grant.holder).filter(|held| *held != grant.holder);
            // a unit that is Dead or removed leads nothing
            let before = before.filter(|unit| {
                let life = read(commit.reader, &commit.model.unit_life(*unit));
                life.is_some_and(|life| life != Life::Dead)
            });
            let Some(before) = before.filter(|_| !self.was_restored) else { continue };
            let until_ms = self.promised.get(&before).copied().unwrap_or(0);
            if until_ms > commit.now_ms {
                let (name, early_ms) = (&grant.holder_name, until_ms - commit.now_ms);
                found.push(format!(
                    "{name}: leadership is granted {early_ms} ms before the promise to {before} ends"
                ));
            }
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        for agent in end.agents.iter().filter(|_| end.is_at_rest) {
            let unit = read(end.reader, &end.model.unit(agent.unit));
            let grant = unit.and_then(|unit| read(end.reader, &end.model.leader(unit.application)));
            let Some(grant) = grant.filter(|grant| grant.holder == agent.unit) else { continue };
            let elected = self.elected.get(&agent.folder).copied();
            if elected != Some(grant.generation) {
                let (name, generation) = (&agent.name, grant.generation);
                found.push(format!(
                    "{name}: leads by grant {generation}, but leader-elected ran for {elected:?}"
                ));
            }
        }
    }
}
