//! Design 13, spec D.4: while one unit is promised that it leads, no other is granted that; and at rest whoever leads has
//! run leader-elected for that grant.

use crate::sim::checks::{Check, Commit, End, Fact, place};
use state::documents::draft::{Reader, read};
use state::documents::keys::{GrantDoc, Model, last_id};
use state::terms::life::Life;
use state::terms::names::Uuid;
use state::unit::local::{FollowUp, Local};
use state::unit::operation::{Hook, Operation};
use state::unit::record::Record;
use std::collections::BTreeMap;

/// What is-leader promises.
const PROMISE_MS: u64 = 30_000;

#[derive(Default)]
pub struct Leadership {
    now_ms: u64,
    /// By unit, until when it was promised to lead.
    promised: BTreeMap<Uuid, u64>,
    /// By application, who was last granted it.
    holders: BTreeMap<Uuid, Uuid>,
    /// By folder, the last grant for which leader-elected was run.
    elected: BTreeMap<Uuid, u64>,
    /// A restored store may have granted another what the lost one promised (design 7).
    was_restored: bool,
    /// By application, the newest grant.
    newest: BTreeMap<Uuid, (u64, Uuid)>,
}

impl Check for Leadership {
    fn name(&self) -> &'static str {
        "leading"
    }

    fn time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    fn see(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        if let Fact::LeadershipPromised { unit } = fact {
            self.promised.insert(*unit, self.now_ms + PROMISE_MS);
        }
    }

    fn done(&mut self, folder: Uuid, record: &Record, _found: &mut Vec<String>) {
        if let Operation::Hook(Hook::LeaderElected { generation: Some(generation) }) = &record.operation {
            self.elected.insert(folder, *generation);
        }
    }

    fn begin(&mut self, folder: Uuid, memory: &Local) {
        self.elected.remove(&folder);
        let ran = memory.leader.filter(|_| memory.follow_up != Some(FollowUp::LeaderElected));
        self.elected.extend(ran.map(|generation| (folder, generation)));
    }

    fn copy(&mut self, folder: Uuid, copy: Uuid) {
        self.elected.extend(self.elected.get(&folder).copied().map(|generation| (copy, generation)));
    }

    fn restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.was_restored = true;
        self.newest.clear();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter().filter(|change| place(&change.key).0 == "leader") {
            let (Some(application), Some(value)) = (last_id(&change.key), &change.value) else { continue };
            let grant: GrantDoc = value.parse().expect("documents are what was written");
            let now = (grant.generation, grant.holder);
            if let Some(newest) = self.newest.insert(application, now).filter(|newest| *newest != now)
                && newest.0 >= now.0
            {
                let name = &grant.holder_name;
                found.push(format!("{name} is granted {}, after grant {}", now.0, newest.0));
            }
            let before = self.holders.insert(application, grant.holder).filter(|held| *held != grant.holder);
            // one that has ended, or was ended by force, leads nobody
            let before = before.filter(|unit| {
                let life = read(commit.reader, &commit.model.unit_life(*unit));
                life.is_some_and(|life| life != Life::Dead)
            });
            let Some(before) = before.filter(|_| !self.was_restored) else { continue };
            let until_ms = self.promised.get(&before).copied().unwrap_or(0);
            if until_ms > commit.now_ms {
                let (name, early_ms) = (&grant.holder_name, until_ms - commit.now_ms);
                found.push(format!("{name} is granted what {before} was promised for {early_ms} ms more"));
            }
        }
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        for agent in end.agents.iter().filter(|_| end.rests) {
            let unit = read(end.reader, &end.model.unit(agent.unit));
            let grant = unit.and_then(|unit| read(end.reader, &end.model.leader(unit.application)));
            let Some(grant) = grant.filter(|grant| grant.holder == agent.unit) else { continue };
            let elected = self.elected.get(&agent.folder).copied();
            if elected != Some(grant.generation) {
                let (name, generation) = (&agent.name, grant.generation);
                found.push(format!("{name} leads by grant {generation}, and was elected for {elected:?}"));
            }
        }
    }
}
